"""Extract from a text what the checks compare: content words, numbers, days, names and quotations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import NamedTuple

import Stemmer

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
_MONTHS = tuple(map(str.lower, MONTHS))
_MONTH = (
    "(?P<{}>" + "|".join(rf"{name[:3]}(?:{name[3:]})?" for name in _MONTHS).replace("sep(?:", "sep(?:t|") + r")\b\.?"
)
_DAY = re.compile(
    r"\b(?P<y1>\d{4})-(?P<m1>\d{2})-(?P<d1>\d{2})\b"
    rf"|\b{_MONTH.format('m2')} (?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)(?:,? (?P<y2>\d{{4}})\b)?"
    rf"|\b(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH.format('m3')}\b(?:,? (?P<y3>\d{{4}})\b)?",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.,])(?:[$€£]\s?)?(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(k\b)?")
_SPELLED_WORDS = """
two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
twenty
"""
_SPELLED = {word: Fraction(value) for value, word in enumerate(_SPELLED_WORDS.split(), start=2)}
_SPELLED_NUMBER = re.compile(rf"\b({'|'.join(_SPELLED)})\b", re.IGNORECASE)
_NAME = re.compile(r"(?<![.!?:] )(?<!^)(?<![\w'’])[A-Z][\w-]+")
_QUOTED = re.compile(r"[“\"]([^“”\"]{2,80})[”\"]|(?<!\w)[‘']([^‘’']{2,80})[’'](?!\w)")
_NO_NAMES = frozenset({"Based", "Could", "I", "LLM", "Which", "You", "Your"}) | {m.capitalize() for m in _MONTHS}


class CalendarDay(NamedTuple):
    """A calendar day; `year` is None if the text names none."""

    year: int | None
    month: int
    day: int

    def agrees(self, other: CalendarDay) -> bool:
        """Tell whether both may be the same day: a missing year agrees with any."""
        years = self.year is None or other.year is None or self.year == other.year
        return years and (self.month, self.day) == (other.month, other.day)


@cache
def stem(word: str) -> str:
    """Return the stem of a lower-case word (Snowball English)."""
    return str(_STEMMER.stemWord(word))


def raw_words(text: str) -> list[str]:
    """Return the lower-case words of a text in order, with stop words, not stemmed; an apostrophe separates words."""
    return _WORD.findall(text.lower())


def content(text: str) -> frozenset[str]:
    """Return the stems of a text's words without stop words."""
    return frozenset(stem(word) for word in raw_words(text) if word not in _STOP)


def share(part: frozenset[str], whole: frozenset[str]) -> float:
    """Return the share (0 to 1) of `part` that is in `whole`; 0 for an empty `part`."""
    return len(part & whole) / len(part) if part else 0.0


def days(text: str) -> list[CalendarDay]:
    """Return the calendar days that a text names, in order, without impossible ones (February 31)."""
    named = []
    for match in _DAY.finditer(text):
        kind = "1" if match["y1"] else "2" if match["m2"] else "3"
        year, month, day = match[f"y{kind}"], match[f"m{kind}"], int(match[f"d{kind}"])
        number = int(month) if month.isdigit() else 1 + [m[:3] for m in _MONTHS].index(month[:3].lower())
        try:
            date(int(year) if year else 2024, number, day)  # a leap year: February 29 may be meant
        except ValueError:
            continue
        named.append(CalendarDay(int(year) if year else None, number, day))
    return named


def numbers(text: str) -> list[Fraction]:
    """Return the numbers of a text in order, in digits or as words from two to twenty; days and `ES2021` are none."""
    rest = _DAY.sub(" ", text)
    values = [
        (match.start(), Fraction(match[1].replace(",", "")) * (1000 if match[2] else 1))
        for match in _NUMBER.finditer(rest)
    ]
    values += [(match.start(), _SPELLED[match[1].lower()]) for match in _SPELLED_NUMBER.finditer(rest)]
    return [value for _, value in sorted(values)]


def names(text: str) -> list[str]:
    """Return capitalized words that do not begin a sentence, in order, without months."""
    return [name for name in _NAME.findall(text) if name not in _NO_NAMES]


def quotations(text: str) -> list[str]:
    """Return what a text puts in quotation marks, in order."""
    return [double or single for double, single in _QUOTED.findall(text)]


MOST_SUMMANDS = 6


def spans(evidence: Sequence[CalendarDay]) -> set[Fraction]:
    """Return every length of time between two of the days: days, whole weeks, whole calendar months and years.

    A day without a year is taken in each year that another day names.
    """
    years = sorted({day.year for day in evidence if day.year is not None}) or [2023]  # any year without February 29
    dated = [
        (place, moment)
        for place, day in enumerate(evidence)
        for year in ([day.year] if day.year is not None else years)
        if (moment := _date(year, day)) is not None
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


def _date(year: int, day: CalendarDay) -> date | None:
    try:
        return date(year, day.month, day.day)
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
