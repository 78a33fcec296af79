"""Main questions: what becomes of replies in every shape that models give them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_generate.plan_text import bullet_lines
from beam_generate.questions import CONTEXT, TRIMMED, divide, make_questions
from beam_generate.replies import reply_questions
from beam_generate.seeds import render_topic
from beam_generate.shapes import MainQuestion, Repairs, Style
from beamlib.errors import UserError
from beamlib.llm.model import ModelError, Outcome, Prompt
from beamlib.llm.prompts import prompt_file
from beamlib.text import count_tokens
from talking_model import TalkingModel, make_plan, make_story

PLAN, STORY = make_plan(), make_story()


def ask(model: TalkingModel, repairs: Repairs | None = None, **more: object) -> list[list[MainQuestion]]:
    return asyncio.run(make_questions(model, STORY, PLAN, repairs or Repairs(), **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reply", "style"),
    [
        ("Here are the questions:\n\n1. Buy wax? ->-> 4\n2) Sell it? ->-> N/A\n\nLet me know!", "general"),
        ("```\n- Buy wax? ->->4\r\n* Sell it? ->-> n/a\n```", "general"),
        ("Buy wax? ->-> 4.\n-----\nA message without a link\n-----\nSell it?\n->-> N/A\n-----\n", "coding"),
    ],
)
def test_questions_are_the_pieces_with_a_link(reply: str, style: Style) -> None:
    assert reply_questions(reply, style) == [MainQuestion("Buy wax?", 4), MainQuestion("Sell it?", None)]


def test_code_is_kept_whole() -> None:
    code = "It fails:\n```yaml\na: 1\n---\nb: 2\n```\nWhy?"
    found = reply_questions(f"{code} ->-> 4\n-----\nSell it? ->-> 5", "coding")
    assert found == [MainQuestion(code, 4), MainQuestion("Sell it?", 5)]


@given(st.text(max_size=200), st.sampled_from(["general", "coding", "math"]))
def test_any_reply_is_read_without_an_arrow_left(reply: str, style: Style) -> None:
    for question in reply_questions(f"{reply} ->-> 3", style):
        assert question.text and "->->" not in question.text and "\x00" not in question.text


# Asking


def test_groups_are_contiguous_nearly_equal_and_never_empty() -> None:
    bullets = PLAN.subplans[0].bullets
    assert [len(part) for part in divide(bullets, 3)] == [3, 3, 2]
    assert [one for part in divide(bullets, 3) for one in part] == list(bullets)
    assert [len(part) for part in divide(bullets[:2], 5)] == [1, 1]
    for count in range(1, 9):
        sizes = [len(part) for part in divide(bullets, count)]
        assert len(sizes) == count and sum(sizes) == 8 and max(sizes) - min(sizes) <= 1


def test_a_plan_is_asked_about_group_by_group_and_the_instruction_is_said_word_for_word() -> None:
    model, repairs = TalkingModel(), Repairs()
    first, second = ask(model, repairs)
    assert model.calls == {"questions_general": 6} and not repairs.entries
    assert [one.bullet for one in first] == [1, 2, 4, 5, 6, 7, 8]
    assert [one.text for one in first if one.bullet == 7] == ["plan 0 instruction in stage 1"]
    assert len(second) == 7 and not any("->->" in one.text for one in first + second)


def test_a_prompt_shows_the_groups_and_sub_plans_before_it() -> None:
    seen: list[Prompt] = []

    def say(prompt: Prompt, text: str) -> str:
        seen.append(prompt)
        return text

    ask(TalkingModel(say))
    last = seen[4].variables
    assert last["bullets"].splitlines()[0].startswith("4. **Hives:** plan 0 hive 2")
    assert "hive 2 weighs 3" in last["earlier_groups"] and "hive 2 weighs 4" not in last["earlier_groups"]
    assert "hive 1 weighs 5" in last["earlier_batches"] and "hive 2" not in last["earlier_batches"]
    assert "Honey 0" in seen[0].messages[-1]["content"]


@pytest.mark.parametrize("style", ["general", "coding", "math"])
def test_each_style_is_asked_for_by_its_own_prompt(style: Style) -> None:
    seen: list[Prompt] = []

    def say(prompt: Prompt, text: str) -> str:
        seen.append(prompt)
        return text

    asyncio.run(make_questions(TalkingModel(say), replace(STORY, style=style), PLAN, Repairs()))
    assert {prompt.id for prompt in seen} == {f"questions_{style}"}
    assert {prompt.variables["topic"] for prompt in seen} == {render_topic(PLAN.seed)}
    groups = [divide([one for one in part.bullets if one.special is None], 2) for part in PLAN.subplans]
    shown = [prompt.variables["bullets"] for prompt in seen]
    assert [shown[0], shown[1], shown[3], shown[4]] == [bullet_lines(group) for part in groups for group in part]
    assert [prompt.variables["count"] for prompt in seen] == ["2"] * 6


@pytest.mark.parametrize(
    ("prompt_id", "kinds"),
    [
        ("questions_coding", ("code has a fault", "should be improved", "a description of what is to be built")),
        (
            "questions_math",
            ("first two\n  to four steps shown", "checked and\n  corrected", "next one", "problem alone"),
        ),
    ],
)
def test_a_style_asks_for_the_kinds_of_message_that_appendix_b3_names(prompt_id: str, kinds: tuple[str, ...]) -> None:
    assert all(kind in prompt_file(prompt_id).template for kind in kinds)


def test_long_plans_are_cut_before_questions_are_asked() -> None:
    shown: list[str] = []

    def say(prompt: Prompt, text: str) -> str:
        if "sub-plan 6" in prompt.about:
            shown.append(prompt.variables["earlier_batches"])
        return text

    asyncio.run(make_questions(TalkingModel(say), STORY, make_plan(subplans=6, bullets=400), Repairs()))
    assert shown and all("hive 5 " in text and "hive 1 " not in text for text in shown)
    assert max(map(count_tokens, shown)) <= max(TRIMMED["general"]) < CONTEXT


@pytest.mark.parametrize(
    ("reply", "calls", "note"),
    [
        ("Only one question, friend? ->-> 1", 2, "1 questions for 2"),
        ("First one? ->-> 1\nSecond thing, no link", 2, "1 questions for 2"),
        ("A b c? ->-> 1\nD e f? ->-> 2\nG h i? ->-> 3", 1, "3 questions for 2"),
        ("First one? ->-> 1\nSecond thing then? ->-> 5", 1, "outside its group"),
        ("First one? ->-> 1\nSecond thing then? ->-> 99", 1, "outside its group"),
        ("First one here? ->-> 1\nfirst one  HERE? ->-> 2", 1, "said before"),
        ("one two three four so? ->-> 1\none two three four now? ->-> 2", 1, "over 70 %"),
        ("First one? ->-> 1\n<covered_notes> of mine? ->-> 2", 2, "1 questions for 2"),
    ],
)
def test_what_is_wrong_is_asked_again_or_repaired_and_noted(reply: str, calls: int, note: str) -> None:
    asked = 0

    def say(prompt: Prompt, text: str) -> str:
        nonlocal asked
        if "sub-plan 1, group 1" in prompt.about:
            asked += 1
            return reply
        return text

    repairs = Repairs()
    first, _ = ask(TalkingModel(say), repairs)
    assert asked == calls
    assert [one for one in repairs.entries if note in one[2]], repairs.entries
    assert all(one.bullet is None or 1 <= one.bullet <= 8 for one in first)


def test_a_refused_group_is_left_out_and_a_silent_endpoint_stops_the_run() -> None:
    def refuse(outcome: Outcome, prompt: Prompt, text: str) -> str:
        if "sub-plan 1, group 1" in prompt.about:
            raise ModelError("no", outcome)
        return text

    repairs = Repairs()
    first, _ = ask(TalkingModel(lambda prompt, text: refuse(Outcome.REFUSED, prompt, text)), repairs)
    assert [one.bullet for one in first] == [4, 5, 6, 7, 8] and len(repairs.entries) == 3
    model = TalkingModel(lambda prompt, text: refuse(Outcome.UNAVAILABLE, prompt, text))
    with pytest.raises(ModelError):
        ask(model)
    assert model.calls == {"questions_general": 6}  # what was in flight has arrived


def test_a_sub_plan_without_any_question_is_one_sentence() -> None:
    def say(prompt: Prompt, text: str) -> str:
        raise ModelError("no", Outcome.FILTERED)

    parts = tuple(replace(one, bullets=one.bullets[:5]) for one in PLAN.subplans)
    plan = replace(PLAN, subplans=parts)  # with a special bullet there would be the instruction at least
    with pytest.raises(UserError, match=r"the model of the role asker wrote no usable question") as caught:
        asyncio.run(make_questions(TalkingModel(say), STORY, plan, Repairs()))
    assert "\n" not in str(caught.value)


def test_questions_of_earlier_plans_are_not_asked_again() -> None:
    asked: set[str] = set()
    first = ask(TalkingModel(), earlier_texts=asked)
    assert len(asked) == sum(map(len, first))
    repairs = Repairs()
    with pytest.raises(UserError):
        ask(TalkingModel(), repairs, earlier_texts=asked)
