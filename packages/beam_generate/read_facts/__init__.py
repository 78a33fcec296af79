"""Numbers, dates and words in comparable form: all the normalisation that the offline stand-in does."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

import Stemmer

from beamlib.files import read_text

_REMEMBERED = 16_384
"""Statements whose figures are kept: the same ones are searched for every question about a conversation."""

_STEMMER = Stemmer.Stemmer("english")

_WORD = re.compile(r"[A-Za-z][A-Za-z']*|\d[\d,]*(?:\.\d+)*")

WORD_LISTS: Mapping[str, Any] = tomllib.loads(read_text(Path(__file__).with_name("words.toml")))


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Return the lower-case English (Snowball) stem of a word. A number loses its thousands commas."""
    if word[0].isdigit():
        return word.replace(",", "").rstrip(".")
    bare = word.lower().removesuffix("'s").strip("'")
    return str(_STEMMER.stemWord(bare))


_STOP = WORD_LISTS["stop"].split()
STOP_STEMS = frozenset(map(stem, _STOP)) | frozenset(_STOP)
"""Stems that carry no content by themselves."""


def stems(text: str) -> list[str]:
    """Return the content stems of `text` in order, with repeats, without stop words."""
    return [s for word in _WORD.findall(text) if (s := stem(word)) and s not in STOP_STEMS]


_MONTHS_TEXT = "january february march april may june july august september october november december"
_UNITS_TEXT = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen
"""
_UNITS, _TENS = _UNITS_TEXT.split(), ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
NUMBER_WORDS = {word: value for value, word in enumerate(_UNITS)}
for _value, _ten in enumerate(_TENS, start=2):
    NUMBER_WORDS |= {_ten: 10 * _value, **{f"{_ten}-{_UNITS[unit]}": 10 * _value + unit for unit in range(1, 10)}}
"""English number words from zero to ninety-nine."""

_MONTHS = {
    name[:length]: number for number, name in enumerate(_MONTHS_TEXT.split(), start=1) for length in (3, len(name))
} | {"sept": 9}
_MONTH = r"(?P<{0}>" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")"
_DATE = re.compile(
    r"\b(?P<iso_y>\d{4})-(?P<iso_m>\d{1,2})-(?P<iso_d>\d{1,2})\b"
    r"|\b" + _MONTH.format("m1") + r"\b\.?[ -](?P<d1>\d{1,2})(?:st|nd|rd|th)?\b(?!:\d|%|\.\d)"
    r"(?:,? ?-?(?P<y1>(?:19|20)\d\d)\b)?"
    r"|\b(?P<d2>\d{1,2})(?:st|nd|rd|th)?(?: of)? " + _MONTH.format("m2") + r"\b\.?(?:,? (?P<y2>(?:19|20)\d\d)\b)?"
    r"|\b(?P<us_m>\d{1,2})/(?P<us_d>\d{1,2})/(?P<us_y>(?:19|20)\d\d)\b",
    re.IGNORECASE,
)


def _holds(text: str, words: tuple[str, ...]) -> bool:
    """Whether one of `words` is somewhere in `text`: on most texts far quicker than the search it may save."""
    low = text.lower()
    for word in words:  # noqa: SIM110  (a generator takes twice as long)
        if word in low:
            return True
    return False


_DIGITS_JOINED = re.compile(r"\d[-/]\d")
_MONTH_STARTS = tuple(name for name in _MONTHS if len(name) == 3)


@dataclass(frozen=True, slots=True, order=True)
class Day:
    """A calendar day as written; `year` is 0 where the text gives none."""

    month: int
    day: int
    year: int = 0

    def same(self, other: Day) -> bool:
        """Return whether both can be the same day. A missing year fits every year."""
        return (self.month, self.day) == (other.month, other.day) and (
            self.year == other.year or not self.year or not other.year
        )

    def on(self, year: int) -> date:
        """Return the date in `year` unless it has a year of its own. 29 February of a common year is a ValueError."""
        return date(self.year or year, self.month, self.day)


@dataclass(frozen=True, slots=True)
class Dated:
    """A day and where in the text it stands."""

    day: Day
    start: int
    end: int


@lru_cache(maxsize=_REMEMBERED)
def find_dates(text: str) -> tuple[Dated, ...]:
    """Find calendar days in `text`, in order: "March 29", "Mar 29th, 2024", "29 March 2024", "2024-03-29"."""
    found: list[Dated] = []
    if not _holds(text, _MONTH_STARTS) and not _DIGITS_JOINED.search(text):
        return ()
    for match in _DATE.finditer(text):
        group = match.groupdict()
        month = group["m1"] or group["m2"]
        number = _MONTHS[month.lower()] if month else int(group["iso_m"] or group["us_m"])
        day = int(group["d1"] or group["d2"] or group["iso_d"] or group["us_d"])
        year = int(group["y1"] or group["y2"] or group["iso_y"] or group["us_y"] or 0)
        try:
            date(year or 2000, number, day)  # 2000 is a leap year: without a year, 29 February is possible
        except ValueError:
            continue
        found.append(Dated(Day(number, day, year), match.start(), match.end()))
    return tuple(found)


def without_dates(text: str) -> str:
    """Blank the calendar days of `text`, so that month names do not count as words."""
    for dated in reversed(find_dates(text)):
        text = f"{text[: dated.start]} {text[dated.end :]}"
    return text


_SCALE = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6, "bn": 1e9, "b": 1e9, "billion": 1e9}
_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
_CURRENCIES = "$€£¥₹"
_OF_NUMBER = re.compile(
    r"(?:(?P<scale>k|m|bn|b)\b(?!\w)| (?P<word>thousand|million|billion)\b)?(?P<percent> ?%| percent\b)?", re.IGNORECASE
)
_WORDS_LOOKED_FOR = (*_UNITS[2:], *_TENS)
# Tens with or without a unit, then the rest: an alternative for each of the hundred words takes ten times as long.
_NUMBER_WORD = re.compile(
    rf"\b((?:{'|'.join(_TENS)})(?:-(?:{'|'.join(_UNITS[1:10])}))?|{'|'.join(_UNITS)})\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Number:
    """A number with its kind: a currency sign, "%" or "" (plain). `start` and `end` are offsets in the text."""

    value: float
    kind: str
    start: int
    end: int


@lru_cache(maxsize=_REMEMBERED)
def find_numbers(text: str) -> tuple[Number, ...]:
    """Find numbers in `text`, in order, except those inside dates; number words count from "two" up."""
    taken = [(dated.start, dated.end) for dated in find_dates(text)]
    found: list[Number] = []
    for match in _NUMBER.finditer(text):
        at = match.start()
        if any(start <= at < end for start, end in taken):
            continue
        start = at - (text[at - 1 : at] == " ")
        currency = text[start - 1] if start and text[start - 1] in _CURRENCIES else ""
        after = _OF_NUMBER.match(text, match.end())
        assert after is not None  # it matches the empty text
        scale = (after["scale"] or after["word"] or "").lower()
        if scale in ("m", "b") and not currency:
            scale = ""  # metres, bytes
        value = round(float(match[0].replace(",", "")) * _SCALE.get(scale, 1.0), 6)
        found.append(Number(value, currency or ("%" if after["percent"] else ""), start - len(currency), after.end()))
    for match in _NUMBER_WORD.finditer(text) if _holds(text, _WORDS_LOOKED_FOR) else ():
        value = NUMBER_WORDS[match[1].lower()]
        if value > 1:  # "one" and "zero" are mostly not counts
            found.append(Number(float(value), "", match.start(), match.end()))
    return tuple(sorted(found, key=lambda number: number.start))


_COUNT_ASKED = re.compile(
    r"\b(\d{1,2}|" + "|".join(sorted(NUMBER_WORDS, key=len, reverse=True)) + r")\s+(?:\w+\s+)?"
    r"(?:items?|aspects?|things?|events?|topics?|points?|steps?|stages?)\b",
    re.IGNORECASE,
)


def count_asked(text: str) -> int | None:
    """Return the n of "five items" or "10 aspects" in a question; None where it names no number."""
    match = _COUNT_ASKED.search(text)
    if match is None:
        return None
    word = match[1].lower()
    return int(word) if word.isdigit() else NUMBER_WORDS[word]
