"""Texts as the judge reads them, once each: an answer by its clauses, a nugget by its words and figures."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from beam_offline.judge.words import NEGATION, VAGUE, WORD, lexicon
from beam_offline.read_facts import Day, find_dates, find_numbers

Array = NDArray[np.float32]

MOST_CHARACTERS: Final = 40_000
"""How much of a text is read. The longest of 1,400 published answers has 14,773 characters."""

WINDOW: Final = 3
"""Clauses that are looked at together."""

# Every alternative begins with a plain character, which lets the search skip ahead.
_END = re.compile(
    r"[.!?][\"')\]*]*\s+(?=[\"'(\[*#`-]*[A-Z0-9])|[;\n]+|:\s|,\s+(?=(?:while|although|however|whereas)\b)| [–—-] | but "
)
_MARK = re.compile(r"^[ \t]*(?:[-*•–]|\d{1,3}[.)])[ \t]+", re.MULTILINE)
_STEM = re.compile(
    r"^\s*(?:the )?(?:LLM )?(?:response|answer) should\s+(?:(?:also )?(?P<verb>state|mention|contain|include|list|note|say|"
    r"indicate|provide|explain|describe|acknowledge)s?\b\s*(?:that\b)?\s*:?\s*)?",
    re.IGNORECASE,
)
_PART = re.compile(r"[,;]|\band\b|\bor\b|\bincluding\b|\bsuch as\b|\bwith\b")


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
        alike = self.kind == other.kind and (not self.unit or not other.unit or not self.unit.isdisjoint(other.unit))
        return alike and not self.same(other)


def unit_rows(vectors: Array) -> Array:
    """The rows with length 1; rows of zeros stay."""
    return vectors / np.sqrt(np.maximum(np.einsum("ij,ij->i", vectors, vectors), 1e-12))[:, None]


def figures(text: str, starts: Sequence[int]) -> tuple[Figure, ...]:
    """The figures of `text` in order, whose clauses begin at `starts`."""
    known = lexicon()
    found: list[tuple[int, str, float | Day, frozenset[str]]] = [
        (dated.start, "date", dated.day, frozenset()) for dated in find_dates(text)
    ]
    for number in find_numbers(text):
        after = WORD.findall(text, number.end, number.end + 30)[:3]
        unit = frozenset(known.stems[n] for n in map(known.__getitem__, after)) - {""}
        found.append((number.start, number.kind or "number", number.value, unit))
    found.sort(key=lambda one: one[0])
    return tuple(Figure(kind, value, unit, bisect_right(starts, at) - 1) for at, kind, value, unit in found)


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """An answer by its clauses.

    `body` is what was read, `length` the characters that there are. `rows`: the content stems, and the row of each in
    `held` and `words`. `held`: 1 where a stem stands in a clause, and beside that in the three clauses from each one
    on, shape (stems, 2 × clauses). `words`: unit vectors of the stems. `vectors`: unit vectors of the clauses, of the
    windows, and of the whole, shape (2 × clauses + 1, 256). `next_to`: content stems that follow each other in a
    clause. `negated`: 1 for clauses with a negation; `under`: and for those after it in
    the sentence. `kinds`: the kind of every word.
    """

    body: str
    length: int
    marks: int
    clauses: tuple[str, ...]
    rows: dict[str, int]
    held: Array
    words: Array
    vectors: Array
    next_to: frozenset[tuple[str, str]]
    negated: Array
    under: Array
    kinds: NDArray[np.int64]
    figures: tuple[Figure, ...]


class _Clause(NamedTuple):
    text: str
    start: int
    words: list[str]
    opens: bool
    """Whether a sentence begins with it, or what stands against the clause before."""


def _clauses(text: str) -> list[_Clause]:
    """The clauses that have words."""
    found: list[_Clause] = []
    at, opens = 0, True
    for end, after in [*(one.span() for one in _END.finditer(text)), (len(text), len(text))]:
        if words := WORD.findall(text, at, end):
            found.append(_Clause(text[at:end].strip(), at, words, opens))
            opens = False
        opens = opens or text[end:after] == " but " or any(mark in text[end:after] for mark in ".!?\n")
        at = after
    return found


def _with_windows(held: Array) -> Array:
    """Beside what each clause holds, what it and the two after it hold."""
    wide = held.copy()
    for shift in range(1, min(WINDOW, held.shape[1])):
        np.maximum(wide[:, :-shift], held[:, shift:], out=wide[:, :-shift])
    return np.concatenate([held, wide], axis=1)


def _vectors(own: Array, begins: NDArray[np.int64]) -> Array:
    sums = np.add.reduceat(own, begins) if len(begins) else np.zeros((1, own.shape[1]), dtype=np.float32)
    padded = np.concatenate([sums, np.zeros((WINDOW - 1, own.shape[1]), dtype=np.float32)])
    three = sum(padded[shift : len(sums) + shift] for shift in range(WINDOW))
    return unit_rows(np.concatenate([sums, three, sums.sum(axis=0, keepdims=True)]))


@lru_cache(maxsize=32)
def read_text(text: str) -> Text:
    """Read an answer (or a snippet of one); the marks of list items are no part of it."""
    body, marks = _MARK.subn("", text[:MOST_CHARACTERS])
    clauses = _clauses(body)
    known, count = lexicon(), max(len(clauses), 1)
    numbers = known.numbers([word for clause in clauses for word in clause.words])
    sizes = [len(clause.words) for clause in clauses]
    kinds = known.kinds[numbers] if numbers else np.zeros(0, dtype=np.int64)
    clause_of = np.repeat(np.arange(len(sizes)), sizes)
    stems = [known.stems[number] for number in numbers]
    rows: dict[str, int] = {}
    places = [(rows.setdefault(one, len(rows)), at) for at, one in enumerate(stems) if one]
    which = np.array(places, dtype=np.int64).reshape(-1, 2)
    own = known.vectors[numbers] if numbers else np.zeros((0, known.vectors.shape[1]), dtype=np.float32)
    held = np.zeros((len(rows), count), dtype=np.float32)
    held[which[:, 0], clause_of[which[:, 1]]] = 1
    first = np.unique(which[:, 0], return_index=True)[1]
    negated = np.zeros(count, dtype=np.float32)
    negated[clause_of[kinds == NEGATION]] = 1
    denied, under = False, negated.copy()
    for at, clause in enumerate(clauses):
        denied = bool(negated[at]) or (denied and not clause.opens)
        under[at] = denied
    content = [stem for stem in stems if stem]
    begins = np.concatenate([[0], np.cumsum(sizes[:-1])]).astype(np.int64) if sizes else np.zeros(0, dtype=np.int64)
    return Text(
        body, len(text), marks, tuple(clause.text for clause in clauses), rows, _with_windows(held), unit_rows(own[which[first, 1]]),
        _vectors(own, begins), frozenset(zip(content, content[1:], strict=False)), negated, under, kinds,
        figures(body, [clause.start for clause in clauses]) if clauses else (),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Nugget:
    """A nugget without the words that begin each, which name its `verb`.

    `stems` are its content stems, with what each weighs (rare words and names more, vague ones less), the part of the
    nugget that each stands in, their unit vectors, and whether they are names. `vector` is the whole's.
    """

    text: str
    verb: str
    stems: tuple[str, ...]
    weights: tuple[float, ...]
    parts: tuple[int, ...]
    names: tuple[bool, ...]
    words: Array
    vector: Array
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
    words: list[str] = []
    part_of: list[int] = []
    for part, text in enumerate(_PART.split(without_dates(wanted))):
        found = WORD.findall(text)
        words += found
        part_of += [part] * len(found)
    numbers = known.numbers(words)
    vectors = known.vectors[numbers] if numbers else np.zeros((1, known.vectors.shape[1]), dtype=np.float32)
    sizes = np.sqrt(np.einsum("ij,ij->i", vectors, vectors)).tolist()
    chosen: dict[str, int] = {}
    order: list[str] = []
    for at, number in enumerate(numbers):
        if (own := known.stems[number]) and not own[0].isdigit():
            order.append(own)
            chosen.setdefault(own, at)
    names = {own: at > 0 and words[at][0].isupper() for own, at in chosen.items()}
    weigh = {own: 0.4 if own in VAGUE else 1.5 if names[own] else 1.0 for own in chosen}
    total = vectors.sum(axis=0)
    return Nugget(
        wanted,
        ((begun["verb"] or "") if begun else "").lower(),
        tuple(chosen),
        tuple(weigh[own] * (0.5 + sizes[at]) for own, at in chosen.items()),
        tuple(part_of[at] for at in chosen.values()),
        tuple(names.values()),
        unit_rows(vectors[list(chosen.values())]),
        unit_rows(total[None])[0],
        bool((known.kinds[numbers] == NEGATION).any()) if numbers else False,
        figures(wanted, [0]),
        tuple(zip(order, order[1:], strict=False)),
        len(words),
    )
