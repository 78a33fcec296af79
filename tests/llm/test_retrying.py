"""What becomes of replies that were cut off, are empty or contain thoughts, over the wire and by property."""

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
from beamlib.llm.retrying import (
    POLICIES,
    ReadReply,
    RetryingModel,
    ask,
    complete_lines,
    is_truncated,
    read_decision,
)
from beamlib.llm.thoughts import CleanReply, clean_reply
from scripted_server import Answer, ScriptedServer, completion

Reply = tuple[str, str]
FINE: Reply = ("- a\n- b", "stop")
EMPTY: Reply = (" \n", "stop")
CUT: Reply = ("- a\n- b\n- half a li", "length")
CUT_SHORT: Reply = ("half a li", "length")


def send(prompt_id: str, *replies: Reply) -> tuple[Completion | ModelError, list[str]]:
    """The result of one call whose tries are answered by `replies` in turn, and the texts that were sent."""
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
        try:
            result: Completion | ModelError = run(model.complete(Prompt(prompt_id, variables)))
        except ModelError as error:
            result = error
    assert not left, "fewer calls than expected"
    return result, sent


def test_every_prompt_of_the_evaluation_has_a_policy(repo_root: Any) -> None:
    prompts = {path.stem for path in (repo_root / "prompts").glob("*.md")}
    generation = {name for name in prompts if name.startswith(("questions_", "detect_"))}
    assert ANSWERED | generation <= set(POLICIES) <= prompts


@pytest.mark.parametrize(
    ("prompt_id", "replies", "text"),
    [
        ("answer", [FINE], FINE[0]),
        ("answer", [CUT, FINE], FINE[0]),
        ("answer_full", [EMPTY, FINE], FINE[0]),
        ("scratchpad_compress", [EMPTY, CUT], "- a\n- b"),
        ("episodic_keys", [CUT, CUT], "- a\n- b"),
        ("scratchpad_notes", [CUT_SHORT, CUT], "- a\n- b"),
        ("scratchpad_notes", [EMPTY, EMPTY], ""),
        ("scratchpad_filter", [("yes, beca", "length")], "yes, beca"),
        ("scratchpad_filter", [("ye", "length"), ("yes", "stop")], "yes"),
        ("align_events", [EMPTY, ("no", "stop")], "no"),
        ("judge_nugget", [('{"score": 1, "rea', "length")], '{"score": 1, "rea'),
        ("memorycode_history", [("x = 1", "MAX_TOKENS")], "x = 1"),
        ("answer", [("In May.", "end_turn")], "In May."),
    ],
)
def test_what_can_be_used_is_used(prompt_id: str, replies: list[Reply], text: str) -> None:
    result, _ = send(prompt_id, *replies)
    assert isinstance(result, Completion), result
    assert result.text == text


@pytest.mark.parametrize(
    ("prompt_id", "replies", "outcome"),
    [
        ("answer", [CUT, CUT], Outcome.TRUNCATED),
        ("answer", [("In Ma", "model_length"), ("In M", "max_tokens")], Outcome.TRUNCATED),
        ("answer", [CUT, EMPTY], Outcome.EMPTY),
        ("scratchpad_compress", [CUT_SHORT, CUT_SHORT], Outcome.TRUNCATED),
        ("scratchpad_filter", [EMPTY, EMPTY], Outcome.EMPTY),
        ("judge_nugget", [("", "length"), ("", "length")], Outcome.TRUNCATED),
        ("align_batch", [EMPTY, EMPTY], Outcome.EMPTY),
        ("answer", [("In M", "max_tokens_reached"), ("In M", "TokenLimit")], Outcome.TRUNCATED),
        ("answer", [("In May.", "SAFETY")], Outcome.FILTERED),
        ("answer", [("In May.", "RECITATION")], Outcome.FILTERED),
        ("answer", [("<|channel|>final<|message|>It <|start|> was in May.", "stop")], Outcome.UNREADABLE),
        ("answer", [("<think>well", "stop"), ("Sure. [THINK]well\nwell", "length")], Outcome.TRUNCATED),
        ("answer", [("<|channel|>analysis<|message|>In May", "length")] * 2, Outcome.TRUNCATED),
        ("answer", [("<think>well", "stop")] * 2, Outcome.UNREADABLE),
        ("episodic_keys", [("<|channel>thought\nwell", "stop")] * 2, Outcome.UNREADABLE),
        ("judge_nugget", [("thought\nIt is met, so 1.0.", "stop")] * 2, Outcome.UNREADABLE),
        ("answer", [("Come to the point at once and use few words.", "stop")] * 2, Outcome.UNREADABLE),
        ("scratchpad_notes", [("- [messages 8-9] The hall costs 340 euros.", "stop")] * 2, Outcome.UNREADABLE),
        ("answer", [("<think>all said</think>", "stop"), ("<think></think> ", "stop")], Outcome.EMPTY),
    ],
)
def test_what_cannot_be_used_has_a_named_outcome(prompt_id: str, replies: list[Reply], outcome: Outcome) -> None:
    result, _ = send(prompt_id, *replies)
    assert isinstance(result, ModelError) and result.outcome is outcome and not result.transient


@pytest.mark.parametrize(("first", "word"), [(CUT, "shorter"), (EMPTY, "empty")])
def test_the_second_request_says_what_was_wrong_with_the_first(first: Reply, word: str) -> None:
    _, sent = send("answer", first, FINE)
    assert sent[1].startswith(sent[0]) and word in sent[1][len(sent[0]) :]


THOUGHTS = [
    "<think>\nhm, </answer>\n</think>\n\n{}",
    "Could be June, no.\n</think>\n\n{}",
    "<|channel|>analysis<|message|>Could be June.<|end|><|start|>assistant<|channel|>final<|message|>{}",
    "<|channel|>analysis<|message|>June?<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>",
    "analysisWe need the date. Could be June.assistantfinal{}",
    "[THINK]Could be June.[/THINK]{}",
    "<thinking>Could be June.</thinking>{}",
    "<reasoning>Could be June.</reasoning>\n{}",
    "<thought>\nJune?\n</thought>\n\n{}",
    "<|begin_of_thought|>June?<|end_of_thought|><|begin_of_solution|>{}<|end_of_solution|>",
    "<think>Could be June.</think>\n<think>again</think>{}",
    "<THINK>Could be June.</THINK>\n{}",
]


@pytest.mark.parametrize("form", THOUGHTS)
def test_thoughts_are_removed(form: str) -> None:
    result, _ = send("answer", (form.format("It was in May."), "stop"))
    assert isinstance(result, Completion) and result.text == "It was in May."
    result, _ = send("memorycode_history", (form.format("```python\nx = 2\n```"), "stop"))
    assert isinstance(result, Completion) and result.text == "```python\nx = 2\n```"


def test_text_before_a_thought_stays_and_one_that_does_not_end_is_asked_again() -> None:
    assert clean_reply("Sure.\n<think>June?</think>\nIt was in May.") == CleanReply("Sure.\nIt was in May.")
    result, sent = send("scratchpad_filter", ("<think>yes or no", "length"), ("yes", "stop"))
    assert isinstance(result, Completion) and result.text == "yes" and "shorter" in sent[1]


def test_a_model_that_writes_on_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        result, _sent = send(
            "answer", ("It was in May.<|eot_id|><|start_header_id|>user<|end_header_id|>When?", "stop")
        )
        assert isinstance(result, Completion) and result.text == "It was in May."
    assert capsys.readouterr().err.count("m writes on after the token that ends its turn") == 1


def test_marks_that_were_learnt_are_removed() -> None:
    model = RetryingModel(_Says(lambda prompt: Completion("hmm: June? :hmm It was in May.")), [("hmm:", ":hmm")])
    assert run(model.complete(Prompt("answer", {"question": "?", "context": ""}))).text == "It was in May."


class _Says:
    """The smallest model, for properties that need thousands of calls."""

    name = "says"

    def __init__(self, reply: Callable[[Prompt], Completion]) -> None:
        self.reply = reply

    async def complete(self, prompt: Prompt) -> Completion:
        return self.reply(prompt)


def test_asking_again_ends_with_the_first_reply_without_a_complaint() -> None:
    sent: list[tuple[int, str]] = []

    def reply(prompt: Prompt) -> Completion:
        sent.append((prompt.attempt, prompt.complaint))
        return Completion(str(len(sent)))

    def read(wrong: dict[str, str]) -> Callable[[Completion, int], ReadReply[str]]:
        return lambda reply, attempt: (f"{reply.text} at {attempt}", wrong.get(reply.text))

    assert run(ask(_Says(reply), Prompt("answer", {}), read({}))) == "1 at 0"
    assert run(ask(_Says(reply), Prompt("answer", {}), read({"2": "No.", "3": ""}), tries=3)) == "4 at 2"
    assert run(ask(_Says(reply), Prompt("answer", {}), read({"5": "No.", "6": "Never."}))) == "6 at 1"
    assert sent == [(0, ""), (0, ""), (1, "No."), (1, "No."), (0, ""), (1, "No.")]


def test_a_call_that_failed_is_read_too_unless_the_error_is_transient() -> None:
    def raising(outcome: Outcome) -> _Says:
        def reply(prompt: Prompt) -> Completion:
            raise ModelError("no", outcome)

        return _Says(reply)

    def failed(error: ModelError, attempt: int) -> ReadReply[str]:
        return f"{error} at {attempt}", "Again."

    def read(reply: Completion, attempt: int) -> ReadReply[str]:
        return reply.text, None

    assert run(ask(raising(Outcome.REFUSED), Prompt("answer", {}), read, failed=failed)) == "no at 1"
    for outcome, handler in ((Outcome.REFUSED, None), (Outcome.UNAVAILABLE, failed)):
        with pytest.raises(ModelError):
            run(ask(raising(outcome), Prompt("answer", {}), read, failed=handler))


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


TEXT = st.text().map(lambda text: text.replace("<", "(").replace("[", "(").replace("analysis", ""))


@given(thought=TEXT, answer=TEXT, form=st.sampled_from(THOUGHTS))
def test_no_thought_reaches_the_answer_and_other_text_is_not_changed(thought: str, answer: str, form: str) -> None:
    assert clean_reply(answer) == CleanReply(answer)
    text = form.replace("June", thought).replace("{}", answer)
    assert clean_reply(text).text.strip() == answer.strip()
    assert clean_reply(f"<think>{thought}") == CleanReply("", unfinished=True)


# Decisions


@pytest.mark.parametrize(
    ("reply", "decision"),
    [
        ("NO", False), ("**Yes**, they do", True), ("_Yes_", True), ("Answer: yes", True), ("```text\nno\n```", False),
        ('{"answer": "yes"}', True), ("Hmm, yes or no?\n\nNO", False), ("They tell of one event: yes.", True),
        ("No. The first one happened yesterday.", False), ("No, I would not say yes here.", False),
        ("Final answer: **No**: they differ", False), ("eyes... no", False), ("No they are not", False),
        ("yesterday", None), ("", None), ("Yes and no.", None), ("yes/no", None), ("I would not say yes", None),
        ("No doubt they are the same", None), ("Yes, both tell it. On reflection, no", None), ("Nobody knows", None),
    ],
)  # fmt: skip
def test_the_first_or_the_last_word_decides(reply: str, decision: bool | None) -> None:
    assert read_decision(reply) is decision


@given(st.sampled_from(["yes", "no"]), st.sampled_from(["yes", "no"]), st.text("abyesno nt.,\n", max_size=40))
def test_words_at_the_ends_decide_if_they_agree(first: str, last: str, between: str) -> None:
    assert read_decision(f"{first.upper()}. {between}.\n{last}") is (None if first != last else first == "yes")
    assert read_decision(f"{first}.\n{between}", cut=True) is (first == "yes")
    assert read_decision(f"x {between} y") is None


@pytest.mark.parametrize("reason", ["eos_token_id", "end_of_turn_token", "EOT_TOKEN", "stop_tokens", "stop", "end"])
def test_a_token_that_ends_a_reply_cuts_none_off(reason: str) -> None:
    assert not is_truncated(reason)


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "stopped_limit", "out_of_tokens", "length", "end_of_window"])
def test_a_limit_cuts_a_reply_off(reason: str) -> None:
    assert is_truncated(reason)
