"""Dates, numbers and stems in comparable form."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_generate.read_facts import (
    Day,
    count_asked,
    find_dates,
    find_numbers,
    stem,
    stems,
    without_dates,
)

DATES = st.dates(date(1900, 1, 1), date(2099, 12, 31))


@given(DATES)
def test_every_spelling_of_a_date_is_the_same_day(day: date) -> None:
    end = "th" if 10 < day.day % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    for written in (
        day.isoformat(), f"{day:%B} {day.day}, {day.year}", f"{day:%b} {day.day} {day.year}",
        f"{day:%b} {day.day}{end}, {day.year}", f"{day.day} {day:%B} {day.year}", f"{day.month}/{day.day}/{day.year}",
    ):  # fmt: skip
        (dated,) = find_dates(f"The move is on {written}, I think.")
        assert dated.day == Day(day.month, day.day, day.year)


@given(DATES)
def test_a_date_without_a_year_fits_every_year_and_only_its_own_day(day: date) -> None:
    (bare,) = find_dates(f"due {day:%B} {day.day}")
    assert bare.day == Day(day.month, day.day)
    assert bare.day.same(Day(day.month, day.day, day.year))
    assert not bare.day.same(Day(day.month, day.day % 28 + 1, day.year)) or day.day % 28 + 1 == day.day
    if (day.month, day.day) != (2, 29):
        assert bare.day.on(2023) == date(2023, day.month, day.day)


@pytest.mark.parametrize(
    "text", ["February 30", "2024-13-01", "13/45/2024", "March madness", "may 5% of them", "2023-02-29"]
)
def test_what_is_no_day_is_not_found(text: str) -> None:
    assert find_dates(text) == ()


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("$1,250.50 a week", 1250.5, "$"), ("€3k", 3000, "€"), ("$2m", 2_000_000, "$"), ("50m deep", 50, ""),
        ("2.5 million readers", 2_500_000, ""), ("a share of 12.5%", 12.5, "%"), ("7 percent", 7, "%"),
        ("250ms", 250, ""), ("twenty-three goats", 23, ""), ("about 1,250,000 seeds", 1_250_000, ""),
        ("no one took 14 crates by March 3, 2024", 14, ""),
    ],
)  # fmt: skip
def test_numbers_with_their_kind(text: str, value: float, kind: str) -> None:
    assert [(n.value, n.kind) for n in find_numbers(text)] == [(value, kind)]


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    find_dates(text)
    find_numbers(text)
    assert all(stems(text))


def test_inflections_share_a_stem_and_stop_words_have_none() -> None:
    assert stem("planning") == stem("plans") == stem("Planned")
    assert stem("Maya's") == stem("maya")
    assert stems("What did I say about the gardens?") == ["garden"]
    assert "march" in stems("The march took hours")
    assert "march" not in stems(without_dates("We left on March 3"))


def test_how_many_items_a_question_asks_for() -> None:
    counts = {"ONLY and ONLY five items.": 5, "(mention 10 items in order)": 10, "List my trips in order": None}
    assert {text: count_asked(text) for text in counts} == counts
