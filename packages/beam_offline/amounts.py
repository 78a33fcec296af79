"""Amounts: numbers with the unit they are given in, and what kind of unit a wording calls for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from beam_offline.read_facts import find_numbers, stem, stems

MONEY, PERCENT, TIME, COUNT = "money", "%", "time", "count"

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_TIMES = {stem(name): Fraction(seconds) for name, seconds in _SECONDS.items()}
_TIMES |= {"ms": Fraction(1, 1000), "s": Fraction(1), "min": Fraction(60), "h": Fraction(3600)}
_LONG_TIMES = {stem("month"): 1, stem("year"): 12}
_LENGTHS_OF_TIME = frozenset(_TIMES) | frozenset(_LONG_TIMES)

_MEASURES = {
    MONEY: "price cost fee rent deposit budget salary spend pay paid expense bill fare charge premium wage debt loan "
    "donation refund cheap expensive",
    PERCENT: "percentage percent interest share accuracy rate ceiling",
    TIME: "length duration long effort time last latency late fast quick slow",
    COUNT: "number size many count",
}
_CALLS_FOR = {stem(word): kind for kind, words in _MEASURES.items() for word in words.split()}
_SAYS_NO_MORE_TEXT = """
number length duration amount size total price cost percentage long effort spend value count sum more less fewer greater
"""
_SAYS_NO_MORE = frozenset(stem(word) for word in _SAYS_NO_MORE_TEXT.split())
"""Words that say only what kind of amount is meant: the amount's own unit answers to them."""

_WORD = re.compile(r"[^\W\d_]+")
_DESCRIBES = re.compile(
    r"\b(?:hour|dai|week|month|year)ly\b|\b[\w.]+-(?:second|minute|hour|day|week|month|year)\b", re.IGNORECASE
)
_UNIT_WORDS = re.compile(r"[\s-]{0,2}([^\W\d_]+)(?:[ -]([^\W\d_]+))?")


@dataclass(frozen=True, slots=True)
class Amount:
    """A number with its unit: a currency sign, "%" or the stem of the word counted; `word` is that word as written.

    `counted` are the stems of the words after the number: "25 easy problems" counts problems. `at` is the offset.
    """

    value: Fraction
    unit: str
    word: str
    counted: frozenset[str]
    at: int

    def fits(self, called_for: str | None, words: Iterable[str]) -> float:
        """1 where the unit is the one that a wording names, 0.5 where it is of the kind that is called for, else 0."""
        if called_for == self.unit or not self.counted.isdisjoint(words):
            return 1.0
        return 0.5 * (self.kind == (TIME if called_for in _LENGTHS_OF_TIME else called_for))

    @property
    def kind(self) -> str:
        """MONEY, PERCENT or TIME; COUNT for all other units."""
        if self.unit in "$€£¥₹":
            return MONEY
        return PERCENT if self.unit == PERCENT else TIME if self.unit in _LENGTHS_OF_TIME else COUNT

    def shown(self, value: Fraction | None = None) -> str:
        """The amount, or `value` in its unit, as one writes it: "$1,250", "8%", "1 week"."""
        number = self.value if value is None else value
        written = _written(number)
        if self.kind == MONEY:
            return f"{self.unit}{_written(number, cents=True)}"
        if self.unit == PERCENT:
            return f"{written}%"
        word = self.word.removesuffix("s") if number == 1 and self.word.endswith("s") else self.word
        if number != 1 and self.unit in _LENGTHS_OF_TIME and stem(word) == word.lower() and len(word) > 3:
            word += "s"
        return f"{written} {word}"


def _written(number: Fraction, *, cents: bool = False) -> str:
    if number.denominator == 1:
        return f"{number.numerator:,}"
    text = f"{float(number):,.6f}".rstrip("0")
    whole, _, decimals = text.partition(".")
    return f"{whole}.{decimals.ljust(2, '0')}" if cents else text


@lru_cache(maxsize=16_384)
def find_amounts(text: str) -> tuple[Amount, ...]:
    """The numbers of `text` that have a unit, in order."""
    found = []
    for number in find_numbers(text):
        value = Fraction(str(number.value))
        if number.kind:
            found.append(Amount(value, number.kind, "", frozenset(), number.start))
        elif match := _UNIT_WORDS.match(text, number.end):
            counted = [word for word in match.groups() if word and (word.lower() in _TIMES or stems(word))]
            if counted:
                words = frozenset(stem(word) for word in counted)
                unit = next((stem(word) for word in counted if stem(word) in _LENGTHS_OF_TIME), stem(counted[0]))
                word = next(word for word in counted if stem(word) == unit)
                found.append(Amount(value, unit, word, words, number.start))
    return tuple(found)


def calls_for(text: str) -> str | None:
    """What a wording calls for: a unit of time it names ("weeks"), a kind of amount ("fee"), or None where it is open.

    The first word that calls for something decides, save that "number of weeks" calls for weeks and that "yearly" and
    "ten-year" only describe.
    """
    found = [
        word if word in _LENGTHS_OF_TIME else _CALLS_FOR[word]
        for word in map(stem, _WORD.findall(_DESCRIBES.sub(" ", text)))
        if word in _LENGTHS_OF_TIME or word in _CALLS_FOR
    ]
    if found and found[0] == COUNT and found[1:] and found[1] in _LENGTHS_OF_TIME:
        return found[1]
    return found[0] if found else None


def content(words: Iterable[str]) -> tuple[str, ...]:
    """`words` without those that only say what kind of amount is meant, unless there are no others."""
    words = tuple(dict.fromkeys(words))
    return tuple(word for word in words if word not in _SAYS_NO_MORE and word not in _LENGTHS_OF_TIME) or words


def in_one_unit(amounts: tuple[Amount, ...]) -> tuple[Amount, ...] | None:
    """The amounts in the unit that fits them all; None where there is none. Of hours and minutes it is minutes."""
    first = amounts[0]
    if all(other.unit == first.unit for other in amounts):
        return amounts
    for scale in (_TIMES, {name: Fraction(count) for name, count in _LONG_TIMES.items()}):
        if all(amount.unit in scale for amount in amounts):
            least = min(amounts, key=lambda amount: scale[amount.unit])
            factor = scale[least.unit]
            return tuple(
                Amount(a.value * scale[a.unit] / factor, least.unit, least.word, a.counted, a.at) for a in amounts
            )
    common = frozenset.intersection(*(amount.counted for amount in amounts))
    if common and all(amount.kind == COUNT for amount in amounts):
        return tuple(Amount(a.value, min(common), first.word, a.counted, a.at) for a in amounts)
    return None
