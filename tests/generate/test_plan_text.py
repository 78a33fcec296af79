"""Reading plans and narratives: our own text back, and no surprise from any other text."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_generate.plan_text import (
    Narrative,
    bullet_lines,
    find_days,
    number_bullets,
    read_batches,
    read_narratives,
    read_subplans,
    read_timeline,
    render_narratives,
    render_plan,
    show_day,
)
from beam_generate.replies import read_objects
from beam_generate.shapes import SubPlan, Timeline
from beamlib.errors import UserError

HERE = Path("plan.txt")
DAYS = st.dates(min_value=date(1900, 1, 1), max_value=date(2099, 12, 31))
LETTERS = st.text("aeiou bcdfg XYZ 0123456789 $%()'’;,/=→ éüß•-", min_size=1).map(lambda text: " ".join(text.split()))
TEXTS = LETTERS.filter(lambda text: bool(re.search(r"[a-zA-Z]", text)))
LABELS = TEXTS.filter(lambda text: "anchor" not in text.casefold())


@st.composite
def plans(draw: st.DrawFn) -> tuple[SubPlan, ...]:
    found = []
    for number in range(1, draw(st.integers(1, 6)) + 1):
        day = draw(DAYS)
        bullets = draw(st.lists(st.tuples(LABELS, TEXTS), max_size=6))
        found.append(SubPlan(number, day, number_bullets([("Time Anchor", show_day(day)), *bullets])))
    return tuple(found)


@given(plans(), st.booleans())
def test_a_rendered_plan_is_read_back(plan: tuple[SubPlan, ...], numbered: bool) -> None:
    lines = [f"BATCH {part.number} PLAN\n{bullet_lines(part.bullets)}" for part in plan]
    assert read_subplans("\n\n".join(lines) if numbered else render_plan(plan), HERE) == plan


AREAS = st.lists(st.text("abcdefg", min_size=1), min_size=1)


@given(st.lists(st.tuples(TEXTS, TEXTS | st.just(""), AREAS), max_size=5))
def test_rendered_narratives_are_read_back(parts: list[tuple[str, str, list[str]]]) -> None:
    narratives = [Narrative(label, described, tuple(areas)) for label, described, areas in parts]
    assert read_narratives(render_narratives(narratives)) == narratives


MARKUP = st.lists(
    st.sampled_from(
        ["BATCH 1 PLAN", "**BATCH 2 PLAN**", "\n", "•", "- ", "**", ":**", "Time Anchor", "March 40, 2024",
         "0000-00-00", "99999999999", "1.", "LABEL CATEGORY:", "Focus Areas:", "[", "{",
         '"title":', "]", "\x1c", "\u2028", "```"]
    )
    | st.text(max_size=5)
).map("".join)  # fmt: skip


@settings(max_examples=300)
@given(MARKUP | st.text())
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    read_narratives(text)
    find_days(text)
    read_timeline(text)
    read_objects(text)
    for batch in read_batches(text):
        assert batch.bullets
        assert all(label and told for label, told in batch.bullets)
    try:
        assert read_subplans(text, HERE)
    except UserError as error:
        assert "\n" not in str(error)


REPLY = """Here is the plan you asked for:

**BATCH 1 PLAN**

- **Temporal Anchor:** On 2024-07-01, I'm starting to keep bees.
• **Tools:Smoker:** I paid $40 for a smoker.

### BATCH 2 PLAN
1. **Time Anchor**: July 9, 2024, 08:45 AM CET
* **Money**: The hive cost $210.
• **Logical Contradiction:** I have never bought a smoker.

This ends
BATCH 2 PLAN
"""


def test_markdown_and_prose_around_a_plan_are_accepted() -> None:
    first, second = read_subplans(REPLY, HERE)
    assert (first.anchor, second.anchor) == (date(2024, 7, 1), date(2024, 7, 9))
    assert [bullet.text for bullet in first.bullets[1:]] == ["I paid $40 for a smoker."]
    assert [bullet.label for bullet in second.bullets] == ["Time Anchor", "Money", "Logical Contradiction"]
    assert [bullet.special for bullet in second.bullets] == [None, None, "contradiction"]


@given(DAYS)
def test_a_shown_day_is_read_back(day: date) -> None:
    assert find_days(f"({show_day(day)})") == find_days(day.isoformat()) == [day]


def test_spans_are_read_as_two_days_in_order() -> None:
    assert read_timeline("2024-05-01 to 2024-06-12") == Timeline(date(2024, 5, 1), date(2024, 6, 12))
    assert read_timeline("June 12, 2024 to May 1, 2024") is None
    assert read_timeline("spring") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [("no plan", r"plan\.txt: no line"), ("BATCH 1 PLAN\n• **Tools:** A hive.", r"plan\.txt: batch 1 has no")],
)
def test_a_plan_file_without_a_plan_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_subplans(text, HERE)
