"""Main questions: what becomes of replies in every shape that models give them."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_generate.question_replies import read_questions
from beam_generate.questions import _Likeness, divide, make_questions
from beam_generate.shapes import MainQuestion, Repairs, Style
from beamlib.errors import UserError
from beamlib.llm.model import ModelError, Outcome, Prompt
from talking_model import TalkingModel, make_plan, make_story

PLAN, STORY = make_plan(), make_story()


def ask(model: TalkingModel, repairs: Repairs | None = None, **more: object) -> list[list[MainQuestion]]:
    return asyncio.run(make_questions(model, STORY, PLAN, repairs or Repairs(), **more))  # type: ignore[arg-type]


def read(reply: str, style: Style = "general", count: int = 2) -> list[tuple[str, tuple[int, ...], bool]]:
    found = read_questions(reply, style, 3, range(1, 34), count)
    return [(one.text, one.bullets, one.linked) for one in found]


# Reading


@pytest.mark.parametrize(
    ("link", "bullets"),
    [
        ("->-> 7", (7,)), ("->->7", (7,)), ("->-> 3,7", (7,)), ("->-> 3, 7", (7,)), ("->-> N/A", ()), ("->-> n/a", ()),
        ("->-> NA", ()), ("->-> none", ()), ("->-> 3,N/A", ()), ("->-> 3,", ()), ("->-> 7)", (7,)), ("->-> [7]", (7,)),
        ("->-> bullet 7", (7,)), ("->-> 7, 12", (7, 12)), ("->-> 7) Hives: wax", (7,)), ("->-> 7, and others", (7,)),
        ("->-> N/A (no note)", ()), ("->-> **7**", (7,)), ("-> 7", (7,)), ("->> 7", (7,)), ("→ 7", (7,)),
        ("->-> #7", (7,)), ("->-> 3,7)", (7,)), ("->-> 6.2", (6,)),
    ],
)  # fmt: skip
def test_every_spelling_of_a_link_is_read_and_taken_off(link: str, bullets: tuple[int, ...]) -> None:
    assert read(f"Should I buy wax? {link}") == [("Should I buy wax?", bullets, True)]


@pytest.mark.parametrize(
    "reply",
    [
        "Here are the questions:\n\n1. Buy wax? ->-> 4\n2) Sell it? ->-> 5\n\nLet me know if you need more!",
        '- "Buy wax?" ->-> 4\n* "Sell it?" ->-> 5',
        "```\nBuy wax? ->-> 4\nSell it? ->-> 5\n```",
        "Question 1: Buy wax? ->-> 4\r\n**Question 2:** Sell it? ->-> 5\r\n",
        "# Questions\nBuy wax? ->-> 4\n---\nSell it? ->-> 5",
        "“Buy wax? ->-> 4”\n“Sell it? ->-> 5”",
    ],
)
def test_what_stands_around_general_questions_is_taken_off(reply: str) -> None:
    assert read(reply) == [("Buy wax?", (4,), True), ("Sell it?", (5,), True)]


CODE = "It fails:\n```yaml\na: 1\n---\nb: 2\n```\nWhy?"


@pytest.mark.parametrize(
    "reply",
    [
        f"{CODE} ->-> 4\n-----\nSell it? ->-> 5",
        f"Here you go:\n-----\n{CODE}\n->-> 4\n-----\nSell it?\n->-> 5\n-----\n",
        f"{CODE} ->-> 4\nSell it? ->-> 5",
        f"1. {CODE} ->-> 4\n---\n2. Sell it? ->-> 5",
    ],
)
def test_code_is_kept_whole_and_separators_in_it_are_code(reply: str) -> None:
    assert read(reply, "coding") == [(CODE, (4,), True), ("Sell it?", (5,), True)]


def test_a_fence_that_is_never_closed_does_not_swallow_the_rest() -> None:
    found = read("See\n```python\nrun() ->-> 4\n-----\nSell it? ->-> 5", "coding")
    assert [bullets for _, bullets, _ in found] == [(4,), (5,)]


def test_code_behind_the_link_is_what_the_user_said() -> None:
    assert read("Why? ->-> 4\n```\nrun()\n```", "coding", 1) == [("Why?\n```\nrun()\n```", (4,), True)]


def test_text_without_a_link_counts_only_where_questions_are_missing() -> None:
    reply = "Buy wax? ->-> 4\nA stray line of talk\nSell it? ->-> 5"
    assert len(read(reply, count=2)) == 2
    assert read(reply, count=3)[1] == ("A stray line of talk", (), False)


@given(st.text(max_size=200), st.sampled_from(["general", "coding", "math"]))
def test_any_reply_is_read_without_an_arrow_left(reply: str, style: Style) -> None:
    for text, _, _ in read(reply, style):
        assert text and "->->" not in text and "\x00" not in text


# Asking


def test_groups_are_contiguous_nearly_equal_and_never_empty() -> None:
    bullets = PLAN.subplans[0].bullets
    assert [len(part) for part in divide(bullets, 3)] == [3, 3, 2]
    assert [one for part in divide(bullets, 3) for one in part] == list(bullets)
    assert [len(part) for part in divide(bullets[:2], 5)] == [1, 1]


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


@pytest.mark.parametrize(
    ("reply", "calls", "note"),
    [
        ("Only one question, friend? ->-> 1", 3, "1 questions for 2"),
        ("First one? ->-> 1\nSecond thing, no link", 2, "no bullet link"),
        ("A b c? ->-> 1\nD e f? ->-> 2\nG h i? ->-> 3", 1, "3 questions for 2"),
        ("First one? ->-> 1\nSecond thing then? ->-> 5", 1, "outside its group"),
        ("First one? ->-> 1\nSecond thing then? ->-> 99", 1, "outside its group"),
        ("First one here? ->-> 1\nfirst one  HERE? ->-> 2", 1, "said before"),
        ("one two three four so? ->-> 1\none two three four now? ->-> 2", 1, "over 70 %"),
        ("First one? ->-> 1\nOther thing? ->-> 2) Hives", 1, "spelled like"),
        ("First one? ->-> 1\n<covered_notes> of mine? ->-> 2", 3, "repeats its prompt"),
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
    assert [one.bullet for one in first] == [4, 5, 6, 7, 8] and len(repairs.entries) == 4
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
    said: set[str] = set()
    first = ask(TalkingModel(), said=said)
    assert len(said) == sum(map(len, first))
    repairs = Repairs()
    with pytest.raises(UserError):
        ask(TalkingModel(), repairs, said=said)


def test_the_filter_of_likeness_measures_shared_words_over_the_longer_text() -> None:
    words = [f"w{n}" for n in range(60)]
    rng = random.Random("likeness")
    texts = [" ".join(rng.choice(words[:12]) for _ in range(rng.randrange(3, 9))) for _ in range(300)]
    likeness = _Likeness()
    before: list[str] = []
    for text in texts:
        expected = any(
            len(set(text.split()) & set(other.split())) / max(len(text.split()), len(other.split())) > 0.7
            for other in before
        )
        assert likeness.repeats(likeness.measure(text)) == expected
        likeness.add(likeness.measure(text))
        before.append(text)
