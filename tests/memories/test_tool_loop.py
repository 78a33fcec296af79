"""A model at work with tools: rounds, what it is told, and replies of every broken kind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_model import Scripted, calls, in_turn

from beam_memories.evolving.file_tools import FileTools, Folder
from beam_memories.evolving.json_replies import json_object
from beam_memories.evolving.tool_loop import MOST_CALLS, Worked, run_tools
from beamlib.llm.model import ModelError, Outcome, Prompt

PROMPT = Prompt("file_memory_ingest", {"date": "1 May", "session": "USER: Tea.", "done": ""})
NOTHING = '{"calls": []}'


def work(model: Scripted, made: Folder | None = None, rounds: int = 5, **bounds: int) -> tuple[Worked, Folder]:
    made = made or Folder()
    return run_tools(model, PROMPT, FileTools("memory.md").writing(), made, rounds, **bounds), made


def test_a_model_reads_writes_and_ends_and_sees_what_it_did() -> None:
    model = in_turn(calls(("read", {})), calls(("append", {"text": "tea"}), ("append", {"text": "milk"})), NOTHING)
    worked, made = work(model)
    assert made.texts == {"memory.md": "tea\nmilk\n"}
    assert (worked.rounds, worked.calls, worked.refused) == (3, 3, 0)
    seen = [prompt.variables["done"] for prompt in model.asked]
    assert seen[0] == "" and seen[1] == "read {}\nThe file is empty."
    assert seen[2] == seen[1] + '\nappend {"text": "tea"}\nAdded.\nappend {"text": "milk"}\nAdded.'
    assert {tool.name for tool in model.asked[0].tools} == {"read", "append", "replace", "delete"}


def test_rounds_calls_and_what_is_shown_are_bounded() -> None:
    many = calls(*(("append", {"text": f"word {n}"}) for n in range(MOST_CALLS + 5)))
    worked, made = work(in_turn(many), rounds=2)
    assert made.texts["memory.md"].count("\n") == 2 * MOST_CALLS
    assert (worked.rounds, worked.calls, worked.refused) == (2, 2 * MOST_CALLS, 10)
    model = in_turn(calls(("read", {})))
    made = Folder()
    made.write("memory.md", "many words\n" * 2_000)
    work(model, made, tokens=200)
    assert all(len(prompt.variables["done"].split()) <= 200 for prompt in model.asked) and len(model.asked) == 5


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"tool": "shell", "arguments": {"text": "ls"}}, "no tool 'shell'"),
        ({"tool": ["append"], "arguments": {}}, "no tool"),
        ({"arguments": {"text": "x"}}, "no tool None"),
        ("append", "no tool None"),
        (7, "no tool None"),
        ({"tool": "append", "arguments": ["x"]}, "JSON object of texts"),
        ({"tool": "append", "arguments": "tea"}, "JSON object of texts"),
        ({"tool": "append", "arguments": {"text": {"a": 1}}}, "'text' has to be a text"),
        ({"tool": "append", "arguments": {"text": None}}, "'text' has to be a text"),
        ({"tool": "append", "arguments": {"text": "x" * 60_000}}, "longer than 50,000"),
        ({"tool": "append", "arguments": {}}, "lacks the argument 'text'"),
    ],
)
def test_a_call_that_cannot_be_carried_out_gets_one_sentence_and_counts(call: Any, said: str) -> None:
    model = in_turn(json.dumps({"calls": [call]}), NOTHING)
    worked, made = work(model)
    assert made.texts == {}
    assert (worked.calls, worked.refused) == (1, 1)
    answer = model.asked[1].variables["done"].rpartition("\n")[2]
    assert said in answer and answer.endswith(".")


@pytest.mark.parametrize(
    "reply",
    [
        '{"calls": [{"tool": "append", "arguments": {"text": "tea"}}]}',
        '{"tool": "append", "arguments": {"text": "tea"}}',
        '[{"name": "append", "arguments": {"text": "tea", "file": "../x"}}]',
        'Sure:\n```json\n{"calls": [{"tool": "append", "arguments": {"text": "tea"}}]}\n```\nDone.',
        '{"calls": [{"tool": "append", "arguments": {"text": "tea",}}',
        '{"calls": [{"tool": "append", "arguments": "{\\"text\\": \\"tea\\"}"}]}',
        '{"calls": {"tool": "append", "arguments": {"text": ["tea"]}}}',
    ],
)
def test_forms_that_models_write_are_understood(reply: str) -> None:
    worked, made = work(in_turn(reply, NOTHING))
    assert (made.texts, worked.refused) == ({"memory.md": "tea\n"}, 0)


def test_prose_is_asked_for_again_at_first_and_an_end_afterwards() -> None:
    worked, made = work(in_turn("I will.", calls(("append", {"text": "tea"})), "All is stored."))
    assert made.texts == {"memory.md": "tea\n"}
    assert (worked.rounds, worked.refused) == (3, 1)
    model = in_turn("Nothing to do.")
    assert work(model)[0].rounds == 2 and "not in the form" in model.asked[1].variables["done"]


def test_a_failed_call_is_raised_and_what_was_done_stays() -> None:
    made = Folder()
    with pytest.raises(ModelError, match="gone"):
        work(in_turn(calls(("append", {"text": "tea"})), ModelError("gone", Outcome.UNAVAILABLE)), made)
    assert made.texts == {"memory.md": "tea\n"}


@given(st.text(max_size=200))
def test_no_text_breaks_the_loop(reply: str) -> None:
    assert work(in_turn(reply, NOTHING))[0].rounds <= 3


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(["calls", "tool", "arguments", "text"]), inner, max_size=4)
        ),
        max_leaves=12,
    )
)
def test_no_json_breaks_the_loop(value: Any) -> None:
    work(in_turn(json.dumps(value), NOTHING))


def test_json_is_found_within_bounds() -> None:
    assert json_object("x" * 2_000_000) is None
    assert json_object("[" * 100_000) is None
    assert json_object("no braces at all") is None
    assert json_object('{"a": NaN}') != {"a": float("nan")}
    long = json.dumps({"calls": [{"tool": "append", "arguments": {"text": "word " * 9_000}}]})
    assert json_object(f"Here:\n```json\n{long}\n```\n") == json.loads(long)
