"""Texts as the judge reads them, once each: an answer by its clauses, a nugget by its words and figures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from beam_offline.judge.words import NEGATION, VAGUE, WORD, kind_of, lexicon
from beam_offline.read_facts import Day, find_dates, find_numbers

Array = NDArray[np.float32]

MOST_CHARACTERS: Final = 40_000
"""How much of a text is read. The longest of 1,440 published answers has 14,000 characters."""

_CLAUSE = re.compile(
    r"(?<=[.!?])[\"')\]*]*\s+(?=[\"'(\[*#`-]*[A-Z0-9])|[;\n]+|:\s|,\s+(?=but\b|while\b|although\b|however\b|whereas\b)"
    r"|\s[–—]\s|\s-\s|\bbut\b"
)
_MARK = re.compile(r"^[ \t]*(?:[-*•–]|\d+[.)])[ \t]+", re.MULTILINE)
_STEM = re.compile(
    r"^\s*(?:the )?(?:LLM )?(?:response|answer) should\s+(?:(?:also )?(?P<verb>state|mention|contain|include|list|note|say|"
    r"indicate|provide|explain|describe|acknowledge)s?\b\s*(?:that\b)?\s*:?\s*)?",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=[\w,] )[A-Z]\w+")  # capitalised, and not because a sentence begins
_WINDOW = 3


class Figure(NamedTuple):
    """A date or number: what it is of (a currency, "%", "date", "number"), its value, the words after it, its clause."""

    kind: str
    value: float | Day
    unit: frozenset[str]
    clause: int

    def same(self, other: Figure) -> bool:
        """Whether both are one figure; a number without a kind fits every kind."""
        if isinstance(self.value, Day) or isinstance(other.value, Day):
            return isinstance(self.value, Day) and isinstance(other.value, Day) and self.value.same(other.value)
        return self.value == other.value and (self.kind == other.kind or "number" in (self.kind, other.kind))

    def rivals(self, other: Figure) -> bool:
        """Whether the other says something else of what seems the same: like kind, and a word after it in common."""
        alike = self.kind == other.kind and (not self.unit or not other.unit or bool(self.unit & other.unit))
        return alike and not self.same(other)


def unit_rows(vectors: Array) -> Array:
    """The rows with length 1; rows of zeros stay."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return vectors / np.maximum(lengths, 1e-9)[:, None]


def figures(text: str, starts: list[int]) -> tuple[Figure, ...]:
    """The figures of `text` in order, whose clauses begin at `starts`."""
    known = lexicon()
    found: list[tuple[int, str, float | Day, frozenset[str]]] = []
    for dated in find_dates(text):
        found.append((dated.start, "date", dated.day, frozenset()))
    for number in find_numbers(text):
        after = WORD.findall(text, number.end, number.end + 40)[:3]
        rows = known.numbers(after)
        unit = frozenset(known.stems[n] for n, content in zip(rows.tolist(), known.content(rows), strict=True) if content)
        found.append((number.start, number.kind or "number", number.value, unit))
    found.sort(key=lambda one: one[0])
    places = np.searchsorted(starts, [one[0] for one in found], side="right") - 1
    return tuple(Figure(kind, value, unit, int(at)) for (_, kind, value, unit), at in zip(found, places, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """A text by its clauses.

    `places`: the content stems, and the row of each in `held`. `held`: 1 where a stem stands in a clause, float32 of
    shape (stems, clauses); `windows` likewise for three clauses from each one on. `words`: unit vectors of the stems.
    `vectors`: unit vectors of the clauses, then of the windows, then of the whole. `order`: content stems in order;
    `next_to`: pairs of those that follow each other within a clause. `negated`: clauses with a negation.
    """

    text: str
    clauses: tuple[str, ...]
    length: int
    places: dict[str, int]
    held: Array
    windows: Array
    words: Array
    vectors: Array
    next_to: frozenset[tuple[str, str]]
    negated: Array
    kinds: NDArray[np.int64]
    figures: tuple[Figure, ...]


def _clauses(text: str) -> tuple[list[str], list[int]]:
    parts, starts, at = [], [], 0
    for found in _CLAUSE.finditer(text):
        if found.start() > at:
            parts.append(text[at : found.start()])
            starts.append(at)
        at = found.end()
    parts.append(text[at:])
    starts.append(at)
    return parts, starts


def _three(rows: Array) -> Array:
    """The largest of each column and the two after it."""
    wide = rows.copy()
    for shift in range(1, _WINDOW):
        if rows.shape[1] > shift:
            np.maximum(wide[:, :-shift], rows[:, shift:], out=wide[:, :-shift])
    return wide


@lru_cache(maxsize=32)
def read_text(text: str) -> Text:
    """Read an answer (or a snippet of one); numbers of list items are no part of it."""
    whole = _MARK.sub("", text[:MOST_CHARACTERS])
    parts, starts = _clauses(whole)
    tokens = [found for part in parts if (found := WORD.findall(part))]
    bounds = [start for part, start in zip(parts, starts, strict=True) if WORD.search(part)]
    kept = tuple(part.strip() for part in parts if WORD.search(part))
    known = lexicon()
    flat = [word for found in tokens for word in found]
    numbers = known.numbers(flat)
    sizes = np.array([len(found) for found in tokens], dtype=np.int64)
    count, width = len(tokens), known.vectors(numbers[:0]).shape[1]
    clause_of = np.repeat(np.arange(count), sizes)
    kinds, content = known.kinds(numbers), known.content(numbers)
    own, inside = numbers[content], clause_of[content]
    places: dict[str, int] = {}
    stems = [known.stems[number] for number in own.tolist()]
    rows = np.array([places.setdefault(stem, len(places)) for stem in stems], dtype=np.int64)
    held = np.zeros((len(places), max(count, 1)), dtype=np.float32)
    held[rows, inside] = 1
    all_vectors = known.vectors(numbers)
    sums = np.add.reduceat(all_vectors, np.cumsum(sizes) - sizes) if count else np.zeros((1, width), np.float32)
    padded = np.concatenate([sums, np.zeros((_WINDOW - 1, width), np.float32)])
    three = padded[: len(sums)] + padded[1 : len(sums) + 1] + padded[2 : len(sums) + 2]
    words = np.zeros((len(places), width), dtype=np.float32)
    words[rows] = all_vectors[content]
    negated = np.zeros(max(count, 1), dtype=np.float32)
    negated[clause_of[kinds == NEGATION]] = 1
    pairs = frozenset(
        (first, second) for first, second, a, b in zip(stems, stems[1:], inside.tolist(), inside[1:].tolist()) if a == b
    )
    return Text(
        whole,
        kept,
        len(text),
        places,
        held,
        _three(held),
        unit_rows(words),
        unit_rows(np.concatenate([sums, three, sums.sum(axis=0, keepdims=True)])),
        pairs,
        negated,
        kinds,
        figures(whole, bounds) if bounds else (),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Nugget:
    """A nugget without the words that begin each: its content stems with what each weighs, vectors, figures."""

    text: str
    verb: str
    stems: tuple[str, ...]
    weights: Array
    words: Array
    vector: Array
    names: frozenset[str]
    negated: bool
    figures: tuple[Figure, ...]
    order: tuple[tuple[str, str], ...]
    size: int


def without_dates(text: str) -> str:
    """`text` with its days blanked, so that month names are no words."""
    for dated in reversed(find_dates(text)):
        text = f"{text[: dated.start]} {text[dated.end :]}"
    return text


@lru_cache(maxsize=2048)
def read_nugget(nugget: str) -> Nugget:
    """Read a nugget: what it says after "LLM response should state:"."""
    nugget = nugget[:MOST_CHARACTERS]
    begun = _STEM.match(nugget)
    wanted = (nugget[begun.end() :] if begun else nugget).strip() or nugget.strip()
    known = lexicon()
    all_words = WORD.findall(without_dates(wanted))
    numbers = known.numbers(all_words)
    vectors = known.vectors(numbers)
    sizes = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    names = frozenset(_NAME.findall(wanted))
    chosen: dict[str, tuple[int, float]] = {}
    order: list[str] = []
    for at, (word, content) in enumerate(zip(all_words, known.content(numbers).tolist(), strict=True)):
        own = known.stems[int(numbers[at])]
        if content and not word[0].isdigit():
            order.append(own)
            weight = 0.4 if own in VAGUE else 1.5 if word in names else 1.0
            chosen.setdefault(own, (at, weight * (0.5 + float(sizes[at]))))
    rows = np.array([at for at, _ in chosen.values()], dtype=np.int64)
    total = vectors.sum(axis=0) if len(vectors) else np.zeros(known.vectors(numbers).shape[1], np.float32)
    return Nugget(
        wanted,
        ((begun["verb"] or "") if begun else "").lower(),
        tuple(chosen),
        np.array([weight for _, weight in chosen.values()], dtype=np.float32),
        unit_rows(vectors[rows]),
        unit_rows(total[None])[0],
        frozenset(known.stems[int(n)] for n, word in zip(numbers, all_words, strict=True) if word in names),
        any(kind_of(word) == NEGATION for word in all_words),
        figures(wanted, [0]),
        tuple(zip(order, order[1:], strict=False)),
        len(all_words),
    )
