"""Reading plans and narratives: every released spelling, our own text back, and no surprise from any other text."""

from __future__ import annotations

import json
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
    with_day,
)
from beam_generate.reply_json import objects
from beam_generate.shapes import SubPlan, Timeline
from beamlib.errors import UserError

HERE = Path("plan.txt")
DAYS = st.dates(min_value=date(1900, 1, 1), max_value=date(2199, 12, 31))
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
    objects(text)
    for batch in read_batches(text):
        assert batch.bullets
        assert all(label and told for label, told in batch.bullets)
    try:
        assert read_subplans(text, HERE)
    except UserError as error:
        assert "\n" not in str(error)


RELEASED = """Here is the plan you asked for:

**BATCH 1 PLAN**

- • **Temporal Anchor:Personal Introduction:** On 2024-07-01, I'm starting to keep bees, after two years of reading.
- **Tools:Smoker:** I paid $40 for a smoker
  and $12 for gloves.

---
### BATCH 2 PLAN
• • **Time Anchor:** July 9, 2024, 08:45 AM CET
• **Tools:Hive:** The hive has 10 frames.
* **Money**: The hive cost $210.
• Feeding: Sugar syrup, 2 litres.
Assistant: **BATCH 2 PLAN (Continued)**
3. **Logical Contradiction:** I have never bought a smoker.

This ends
BATCH 2 PLAN
"""


def test_the_released_spellings_are_read() -> None:
    first, second = read_subplans(RELEASED, HERE)
    assert (first.anchor, second.anchor) == (date(2024, 7, 1), date(2024, 7, 9))
    assert first.bullets[0].label == "Temporal Anchor:Personal Introduction"
    assert first.bullets[1].text == "I paid $40 for a smoker and $12 for gloves."
    assert [bullet.label for bullet in second.bullets] == [
        "Time Anchor", "Tools:Hive", "Money", "Feeding", "Logical Contradiction",
    ]  # fmt: skip
    assert [bullet.special for bullet in second.bullets] == [None] * 4 + ["contradiction"]


def test_batches_that_all_bear_one_number_are_told_apart_by_their_anchors() -> None:
    text = "BATCH 1 PLAN\n• **Time Anchor:** May 1, 2024\nBATCH 1 PLAN\n• **Time Anchor:** May 2, 2024"
    assert len(read_batches(text)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "2024-03-05",
        "March 5, 2024",
        "on March 5th 2024",
        "March-05-2024",
        "5 March 2024",
        "Mar. 5, 2024",
        "MARCH 5,2024",
    ],
)
def test_days_are_read_in_every_spelling(text: str) -> None:
    assert find_days(text) == ([] if text == "MARCH 5,2024" else [date(2024, 3, 5)])


@given(DAYS)
def test_a_shown_day_is_read_back(day: date) -> None:
    assert find_days(f"({show_day(day)})") == find_days(day.isoformat()) == [day]


def test_spans_are_read_as_days_or_months() -> None:
    assert read_timeline("2024-05-01 to 2024-06-12") == Timeline(date(2024, 5, 1), date(2024, 6, 12))
    assert read_timeline("February 2024 - December 2024") == Timeline(date(2024, 2, 1), date(2024, 12, 31))
    assert read_timeline("June 12, 2024 to May 1, 2024") is None
    assert read_timeline("spring") is None


def test_an_anchor_keeps_what_it_tells() -> None:
    day = date(2024, 8, 2)
    assert with_day("July 9, 2024, 08:45 AM CET", day) == "August 2, 2024"
    assert with_day("On 2024-07-01, I'm starting to keep bees.", day) == "On August 2, 2024, I'm starting to keep bees."
    assert with_day("", day) == "August 2, 2024"
    assert with_day("some day in late summer", day) == "August 2, 2024: some day in late summer"


@pytest.mark.parametrize(
    ("text", "message"),
    [("no plan", r"plan\.txt: no line"), ("BATCH 4 PLAN\n• **Tools:** A hive.", r"plan\.txt: batch 4 has no")],
)
def test_a_plan_file_without_a_plan_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_subplans(text, HERE)


def test_every_released_plan_is_read(beam_data: Path) -> None:
    read = 0
    for file in sorted(beam_data.glob("*/*/plan_new.txt")) + sorted(beam_data.glob("10M/*/plan-*/plan_new.txt")):
        plan = read_subplans(file.read_text(encoding="utf-8"), file)
        size = file.relative_to(beam_data).parts[0]
        messages = json.loads((file.parent / "user_messages.json").read_text(encoding="utf-8"))
        assert [part.number for part in plan] == [batch["batch"] for batch in messages], file
        least, most = {"100K": (23, 30), "500K": (28, 40), "1M": (27, 36), "10M": (32, 34)}[size]
        for part, batch in zip(plan, messages, strict=True):
            assert least <= len(part.bullets) <= most, (file, part.number)
            assert [bullet.special for bullet in part.bullets[-3:]] == ["update", "instruction", "contradiction"]
            assert not any(bullet.special for bullet in part.bullets[:-3])
            assert find_days(str(batch["time_anchor"])) in ([part.anchor], []), (file, part.number)
        assert read_subplans(render_plan(plan), file) == plan
        read += 1
    assert read


def test_released_narratives_are_read(beam_data: Path) -> None:
    files = sorted(beam_data.glob("*/*/labels.txt")) + sorted(beam_data.glob("10M/*/plan-*/labels.txt"))
    assert files
    for file in files:
        narratives = read_narratives(file.read_text(encoding="utf-8"))
        assert 11 <= len(narratives) <= 20, file
        assert all(len(one.areas) >= 3 for one in narratives), file
        assert read_narratives(render_narratives(narratives)) == narratives
