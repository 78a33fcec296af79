"""Extract from a text what the checks compare: content words, numbers, days, names and quotations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date
from fractions import Fraction
from functools import cache
from itertools import combinations

import Stemmer

from beam_generate.read_facts import Day, find_dates, find_numbers

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_STEMMER = Stemmer.Stemmer("english")
_WORD = re.compile(r"\w+")
_COMMONEST = """
a about after again all also am an and any are as at be because been before being both but by can could couldn d did
didn do does doesn doing don done down during each few for from further get go got had has have having he her here
hers him his how i if in into is isn it its just like ll m me mention mentioned more most my no nor not of off on once
only or other our out over own please re s said same say she should so some such t tell than that the their them then
there these they this those through to too under until up us use used using ve very was wasn we were what when where
which while who whom whose why will with won would wouldn you your yours
"""
_STOP = frozenset(_COMMONEST.split())
_NAME = re.compile(r"(?<![.!?:] )(?<!^)(?<![\w'’])[A-Z][\w-]+")
_QUOTED = re.compile(r"[“\"]([^“”\"]{2,80})[”\"]|(?<!\w)[‘']([^‘’']{2,80})[’'](?!\w)")
_NO_NAMES = frozenset({"Based", "Could", "I", "LLM", "Which", "You", "Your"}) | set(MONTHS)


@cache
def phrase_stem(word: str) -> str:
    """Return the stem of a lower-case word (Snowball English)."""
    return str(_STEMMER.stemWord(word))


def raw_words(text: str) -> list[str]:
    """Return the lower-case words of a text in order, with stop words, not stemmed; an apostrophe separates words."""
    return _WORD.findall(text.lower())


def content(text: str) -> frozenset[str]:
    """Return the stems of a text's words without stop words."""
    return frozenset(phrase_stem(word) for word in raw_words(text) if word not in _STOP)


def share(part: frozenset[str], whole: frozenset[str]) -> float:
    """Return the share (0 to 1) of `part` that is in `whole`; 0 for an empty `part`."""
    return len(part & whole) / len(part) if part else 0.0


def days(text: str) -> list[Day]:
    """Return the calendar days that a text names, in order, without impossible ones (February 31)."""
    return [dated.day for dated in find_dates(text)]


def numbers(text: str) -> list[Fraction]:
    """Return the numbers of a text in order, in digits or as words; those of days are none."""
    return [Fraction(str(number.value)) for number in find_numbers(text)]


def names(text: str) -> list[str]:
    """Return capitalized words that do not begin a sentence, in order, without months."""
    return [name for name in _NAME.findall(text) if name not in _NO_NAMES]


def quotations(text: str) -> list[str]:
    """Return what a text puts in quotation marks, in order."""
    return [double or single for double, single in _QUOTED.findall(text)]


MOST_SUMMANDS = 6


def spans(evidence: Sequence[Day]) -> set[Fraction]:
    """Return every length of time between two of the days: days, whole weeks, whole calendar months and years.

    A day without a year is taken in each year that another day names.
    """
    years = sorted({day.year for day in evidence if day.year}) or [2023]  # any year without February 29
    dated = [
        (place, moment)
        for place, day in enumerate(evidence)
        for year in years
        if (moment := _date(year, day)) is not None and day.year in (0, year)
    ]
    lengths: set[Fraction] = set()
    for (place, first), (other, second) in combinations(dated, 2):
        if place == other:
            continue
        early, late = min(first, second), max(first, second)
        length = (late - early).days
        months = 12 * (late.year - early.year) + late.month - early.month - (late.day < early.day)
        lengths |= {Fraction(value) for value in (length, length // 7, length % 7, months, months // 12)}
    return lengths


def _date(year: int, day: Day) -> date | None:
    try:
        return day.on(year)
    except ValueError:
        return None


def totals(summands: Iterable[Fraction]) -> set[Fraction]:
    """Return the sums of two or more of the numbers, their mean and their differences; nothing for more than six."""
    values = list(summands)
    if len(values) > MOST_SUMMANDS:
        return set()
    results = {sum(some, Fraction()) for size in range(2, len(values) + 1) for some in combinations(values, size)}
    results |= {abs(one - other) for one, other in combinations(values, 2)}
    if len(values) > 1:
        results.add(sum(values, Fraction()) / len(values))
    return results
