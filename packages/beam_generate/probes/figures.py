"""Which numbers follow from the evidence without standing in it: differences of dates, counts, sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from fractions import Fraction
from itertools import combinations

from beam_generate.probes.wording import Day

MOST_SUMMANDS = 6


def spans(evidence: Sequence[Day]) -> set[Fraction]:
    """Every length of time between two of the days: days, whole weeks, whole calendar months and years.

    A day without a year is taken in each year that another one names, or both without.
    """
    years = sorted({day.year for day in evidence if day.year is not None}) or [2023]  # any year without February 29
    dated = [
        (place, moment)
        for place, day in enumerate(evidence)
        for year in ([day.year] if day.year is not None else years)
        if (moment := _date(year, day)) is not None
    ]
    found: set[Fraction] = set()
    for (place, first), (other, second) in combinations(dated, 2):
        if place == other:
            continue
        early, late = min(first, second), max(first, second)
        length = (late - early).days
        months = 12 * (late.year - early.year) + late.month - early.month - (late.day < early.day)
        found |= {
            Fraction(length),
            Fraction(length // 7),
            Fraction(length % 7),
            Fraction(months),
            Fraction(months // 12),
        }
    return found


def _date(year: int, day: Day) -> date | None:
    try:
        return date(year, day.month, day.day)
    except ValueError:
        return None


def totals(summands: Iterable[Fraction]) -> set[Fraction]:
    """Sums of two and more of at most six numbers, the mean of all, and the difference of any two; {} for more."""
    values = list(summands)
    if len(values) > MOST_SUMMANDS:
        return set()
    found = {sum(some, Fraction()) for size in range(2, len(values) + 1) for some in combinations(values, size)}
    found |= {abs(one - other) for one, other in combinations(values, 2)}
    if len(values) > 1:
        found.add(sum(values, Fraction()) / len(values))
    return found
