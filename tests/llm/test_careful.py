"""Careful: what becomes of replies that were cut off or empty, over the wire and by property."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_offline import ANSWERED
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt, run
from beamlib.llm.prompts import prompt_file
from beamlib.llm.retrying import POLICIES, Found, RetryingModel, ask, complete_lines
from scripted_server import Answer, ScriptedServer, completion

Said = tuple[str, str]
FINE: Said = ("- a\n- b", "stop")
EMPTY: Said = (" \n", "stop")
CUT: Said = ("- a\n- b\n- half a li", "length")
CUT_SHORT: Said = ("half a li", "length")


def asked(prompt_id: str, *replies: Said) -> tuple[Completion | ModelError, list[str]]:
    """The end of one call whose tries are answered by `replies` in turn, and the texts that were sent."""
    left = list(replies)
    sent: list[str] = []

    def reply(body: dict[str, Any]) -> Answer:
        sent.append(body["messages"][-1]["content"])
        return Answer(completion(body, *left.pop(0)))

    variables = dict.fromkeys(prompt_file(prompt_id).variables, "12")
    with ScriptedServer(reply) as server:
        model = RetryingModel(
            EndpointModel("reader", Endpoint(model="m", base_url=server.base_url, context_window=4096))
        )
        assert model.name == "m"
        try:
            end: Completion | ModelError = run(model.complete(Prompt(prompt_id, variables)))
        except ModelError as error:
            end = error
    assert not left, "fewer calls than expected"
    return end, sent


def test_every_prompt_of_the_evaluation_has_a_policy() -> None:
    assert set(POLICIES) >= ANSWERED


def test_what_generation_reads_by_its_own_rules_is_not_thrown_away(repo_root: Any) -> None:
    prompts = {path.stem for path in (repo_root / "prompts").glob("*.md")}
    assert {name for name in prompts if name.startswith(("questions_", "detect_"))} <= set(POLICIES) <= prompts


@pytest.mark.parametrize("prompt_id", sorted(POLICIES))
def test_a_good_reply_passes_untouched_and_is_asked_once(prompt_id: str) -> None:
    end, sent = asked(prompt_id, FINE)
    assert isinstance(end, Completion) and end.text == FINE[0] and len(sent) == 1


@pytest.mark.parametrize(
    ("prompt_id", "replies", "text"),
    [
        ("answer", [CUT, FINE], FINE[0]),
        ("answer_full", [EMPTY, FINE], FINE[0]),
        ("answer_full_released", [CUT, FINE], FINE[0]),
        ("scratchpad_compress", [CUT, FINE], FINE[0]),
        ("scratchpad_compress", [CUT, CUT], "- a\n- b"),
        ("scratchpad_compress", [EMPTY, CUT], "- a\n- b"),
        ("episodic_keys", [CUT, FINE], FINE[0]),
        ("episodic_keys", [CUT, CUT], "- a\n- b"),
        ("scratchpad_notes", [CUT_SHORT, CUT], "- a\n- b"),
        ("scratchpad_notes", [EMPTY, EMPTY], ""),
        ("episodic_keys", [EMPTY, EMPTY], ""),
        ("scratchpad_filter", [("yes, beca", "length")], "yes, beca"),
        ("scratchpad_filter", [("ye", "length"), ("yes", "stop")], "yes"),
        ("align_events", [("Y", "length"), ("YES", "stop")], "YES"),
        ("align_events", [EMPTY, ("no", "stop")], "no"),
        ("judge_nugget", [('{"score": 1, "rea', "length")], '{"score": 1, "rea'),
        ("align_batch", [CUT], CUT[0]),
        ("memorycode_history", [CUT], CUT[0]),
    ],
)
def test_what_can_be_used_is_used(prompt_id: str, replies: list[Said], text: str) -> None:
    end, _ = asked(prompt_id, *replies)
    assert isinstance(end, Completion), end
    assert end.text == text


@pytest.mark.parametrize(
    ("prompt_id", "replies", "outcome"),
    [
        ("answer", [CUT, CUT], Outcome.TRUNCATED),
        ("answer", [CUT, EMPTY], Outcome.EMPTY),
        ("answer_full", [EMPTY, EMPTY], Outcome.EMPTY),
        ("scratchpad_compress", [EMPTY, EMPTY], Outcome.EMPTY),
        ("scratchpad_compress", [CUT_SHORT, CUT_SHORT], Outcome.TRUNCATED),
        ("episodic_keys", [CUT_SHORT, CUT_SHORT], Outcome.TRUNCATED),
        ("scratchpad_filter", [EMPTY, EMPTY], Outcome.EMPTY),
        ("judge_nugget", [EMPTY, EMPTY], Outcome.EMPTY),
        ("judge_nugget", [("", "length"), ("", "length")], Outcome.TRUNCATED),
        ("align_batch", [EMPTY, EMPTY], Outcome.EMPTY),
    ],
)
def test_what_cannot_be_used_has_a_named_outcome(prompt_id: str, replies: list[Said], outcome: Outcome) -> None:
    end, _ = asked(prompt_id, *replies)
    assert isinstance(end, ModelError) and end.outcome is outcome and not end.transient


@pytest.mark.parametrize(("first", "word"), [(CUT, "shorter"), (EMPTY, "empty")])
def test_the_second_request_says_what_was_wrong_with_the_first(first: Said, word: str) -> None:
    _, sent = asked("answer", first, FINE)
    assert sent[1].startswith(sent[0]) and word in sent[1][len(sent[0]) :]


def test_thoughts_are_taken_off_and_endless_ones_count_as_cut_off() -> None:
    end, _ = asked("answer", ("<think>\nhm, </answer>\n</think>\n\nIn May.", "stop"))
    assert isinstance(end, Completion) and end.text == "In May."
    end, sent = asked("answer", ("<think>well", "stop"), ("<think>well\nwell", "length"))
    assert isinstance(end, ModelError) and end.outcome is Outcome.TRUNCATED
    end, sent = asked("scratchpad_filter", ("<think>yes or no", "length"), ("yes", "stop"))
    assert isinstance(end, Completion) and end.text == "yes" and "shorter" in sent[1]
    end, _ = asked("answer", ("<think>all said</think>", "stop"), ("<think></think> ", "stop"))
    assert isinstance(end, ModelError) and end.outcome is Outcome.EMPTY


class _Says:
    """The smallest model: for properties that need thousands of calls, where a server would only be slow."""

    name = "says"

    def __init__(self, reply: Callable[[Prompt], Completion]) -> None:
        self.complete_now = reply

    async def complete(self, prompt: Prompt) -> Completion:
        return self.complete_now(prompt)


def test_asking_again_ends_with_the_first_reply_without_a_complaint() -> None:
    sent: list[tuple[int, str]] = []

    def reply(prompt: Prompt) -> Completion:
        sent.append((prompt.attempt, prompt.complaint))
        return Completion(str(len(sent)))

    def read(wrong: dict[str, str]) -> Callable[[Completion, int], Found[str]]:
        return lambda reply, attempt: (f"{reply.text} at {attempt}", wrong.get(reply.text))

    assert run(ask(_Says(reply), Prompt("answer", {}), read({}))) == "1 at 0"
    assert run(ask(_Says(reply), Prompt("answer", {}), read({"2": "No.", "3": ""}), tries=3)) == "4 at 2"
    assert run(ask(_Says(reply), Prompt("answer", {}), read({"5": "No.", "6": "Never."}))) == "6 at 1"
    assert sent == [(0, ""), (0, ""), (1, "No."), (1, "No."), (0, ""), (1, "No.")]


def test_a_call_that_failed_is_read_too_unless_the_error_may_pass() -> None:
    def reply(outcome: Outcome) -> Callable[[Prompt], Completion]:
        def refuse(prompt: Prompt) -> Completion:
            raise ModelError("no", outcome)

        return refuse

    def failed(error: ModelError, attempt: int) -> Found[str]:
        return f"{error} at {attempt}", "Again."

    def read(reply: Completion, attempt: int) -> Found[str]:
        return reply.text, None

    refused, unavailable = _Says(reply(Outcome.REFUSED)), _Says(reply(Outcome.UNAVAILABLE))
    assert run(ask(refused, Prompt("answer", {}), read, failed=failed)) == "no at 1"
    for model, handler in ((refused, None), (unavailable, failed)):
        with pytest.raises(ModelError):
            run(ask(model, Prompt("answer", {}), read, failed=handler))


@given(
    lines=st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))), cut=st.integers(0, 60)
)
def test_complete_lines_are_whole_lines_of_the_uncut_text(lines: list[str], cut: int) -> None:
    whole = "".join(f"{line}\n" for line in lines)
    kept = complete_lines(whole[:cut])
    assert whole.startswith(kept)
    assert kept == "" or whole[:cut].count("\n") > kept.count("\n")
    if cut >= len(whole):
        assert kept == whole.rstrip()


@given(thought=st.text(), answer=st.text(), closed=st.booleans())
def test_no_thought_reaches_the_answer(thought: str, answer: str, closed: bool) -> None:
    thought = thought.replace("<", "(")
    text = f"<think>{thought}{'</think>' if closed else ''}{answer if closed else ''}"
    model = RetryingModel(_Says(lambda prompt: Completion(text)))
    try:
        found = run(model.complete(Prompt("answer", {})))
    except ModelError as error:
        assert error.outcome is (Outcome.EMPTY if closed else Outcome.TRUNCATED)
        assert not closed or not answer.strip()
    else:
        assert closed and found.text == answer.lstrip()


@given(text=st.text().filter(lambda text: text.strip() and not text.lstrip().startswith("<think>")))
def test_a_finished_reply_without_thoughts_is_never_changed(text: str) -> None:
    for prompt_id in POLICIES:
        assert run(RetryingModel(_Says(lambda prompt: Completion(text))).complete(Prompt(prompt_id, {}))).text == text
