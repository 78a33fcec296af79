"""Texts as the judge reads them, once each: an answer by its clauses, a nugget by its words and figures."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from beam_generate.read_facts import Day, find_dates, find_numbers, stem, without_dates
from beam_offline.lexicon import VAGUE, WORD, lexicon, sum_vectors

Vectors = NDArray[np.float32]

MOST_OF_ANSWER: Final = 40_000
"""How much of a text is read. The longest of 1,400 published answers has 14,773 characters."""

MOST_OF_NUGGET: Final = 2_000
"""How much of a nugget, a question or an event is read."""

WINDOW: Final = 3
"""Clauses that are looked at together."""

_END = re.compile(r"[.!?][\"')\]*]*\s+(?=[\"'(\[*#`-]*[A-Z0-9])|[;\n]+|:\s")
_ALSO_ENDS = (
    " but ",
    " – ",
    " — ",
    " - ",
    ", while ",
    ", although ",
    ", however",
    ", whereas ",
    " because ",
    ", since ",
    ", so ",
)
_MARK = re.compile(r"^[ \t]*(?:[-*•–]|\d{1,3}[.)])[ \t]+", re.MULTILINE)
_STEM = re.compile(
    r"^\s*(?:the )?(?:LLM )?(?:response|answer) should\s+(?:(?:also )?(?:state|mention|contain|include|list|note|"
    r"say|indicate|provide|explain|describe|acknowledge)s?\b\s*(?:that\b)?\s*:?\s*)?",
    re.IGNORECASE,
)


_ROWS = 64
"""Rows that are multiplied with a vector at once. Of more, OpenBLAS makes threads, which wait longer than they work."""


def products(left: Vectors, right: Vectors) -> Vectors:
    """Compute `left @ right.T`, both with 128 columns, in parts so small that BLAS starts no threads."""
    step = _ROWS if len(left) == 1 else max(2000 // max(len(left), 1), 2)
    if len(right) <= step:
        return left @ right.T
    found = np.empty((len(left), len(right)), dtype=np.float32)
    for start in range(0, len(right), step):
        found[:, start : start + step] = left @ right[start : start + step].T
    return found


class Figure(NamedTuple):
    """A date or number: its kind (a currency, "%", "date", "number"), its value, the words after it, its clause."""

    kind: str
    value: float | Day
    unit: frozenset[str]
    clause: int

    def same(self, other: Figure) -> bool:
        """Return whether both are the same figure. A number without a kind fits every kind."""
        if isinstance(self.value, Day) or isinstance(other.value, Day):
            return isinstance(self.value, Day) and isinstance(other.value, Day) and self.value.same(other.value)
        if "ordinal" in (self.kind, other.kind):
            return self[:3] == other[:3]
        return self.value == other.value and (self.kind == other.kind or "number" in (self.kind, other.kind))

    def rivals(self, other: Figure) -> bool:
        """Return whether the other contradicts it: another value of a like kind, or another kind of the same value."""
        alike = (self.kind == other.kind or self.value == other.value) and (
            not self.unit or not other.unit or not self.unit.isdisjoint(other.unit)
        )
        return alike and not self.same(other)


_FIRST_TO_TENTH: Final = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
)  # fmt: skip
_ORDINAL = re.compile(
    rf"\b(?:(?P<word>{'|'.join(_FIRST_TO_TENTH)})|(?P<number>\d{{1,3}})(?:st|nd|rd|th)) (?P<what>[a-z]{{2,40}})",
    re.IGNORECASE,
)


def figures_in(clauses: Iterable[tuple[int, str]]) -> tuple[Figure, ...]:
    """Return the figures of numbered clauses, in order."""
    known = lexicon()
    found: list[Figure] = []
    for clause, text in clauses:
        here = [(dated.start, Figure("date", dated.day, frozenset(), clause)) for dated in find_dates(text)]
        for number in find_numbers(text):
            after = WORD.findall(text, number.end, number.end + 30)[:3]
            unit = frozenset(known.stems[known[word]] for word in after) - {""}
            here.append((number.start, Figure(number.kind or "number", number.value, unit, clause)))
        for ordinal in _ORDINAL.finditer(text):
            value = _FIRST_TO_TENTH.index(ordinal["word"].lower()) + 1 if ordinal["word"] else int(ordinal["number"])
            unit = frozenset([stem(ordinal["what"])])
            here.append((ordinal.start(), Figure("ordinal", value, unit, clause)))
        here.sort(key=itemgetter(0))
        found += [figure for _, figure in here]
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class ParsedAnswer:
    """An answer by its clauses.

    `rows`: the content stems, and the row of each in `held` (whether it stands in a clause, shape (stems, clauses)) and
    in `words` (vectors, with their `lengths`). `sums`: vectors of the clauses, with their `sums_lengths`. `numbered`:
    clauses with numbers or ordinals.
    """

    clauses: tuple[str, ...]
    rows: dict[str, int]
    held: NDArray[np.bool_]
    words: Vectors
    lengths: Vectors
    sums: Vectors
    sums_lengths: Vectors
    numbered: tuple[int, ...]

    def cosines(self, vector: Vectors) -> Vectors:
        """Return a unit vector's cosines with every clause."""
        cosines: Vectors = products(vector[None], self.sums)[0] / self.sums_lengths
        return cosines


@lru_cache(maxsize=8)
def figures_of(text: ParsedAnswer) -> tuple[Figure, ...]:
    """Return the figures of an answer."""
    return figures_in((at, text.clauses[at]) for at in text.numbered)


def _clauses(text: str) -> list[tuple[str, list[str]]]:
    """Split a text into its clauses that have words, each with these."""
    for wording in _ALSO_ENDS:
        text = text.replace(wording, "\n")
    clauses: list[tuple[str, list[str]]] = []
    at = 0
    for end, after in [*map(re.Match.span, _END.finditer(text)), (len(text), len(text))]:
        if words := WORD.findall(text, at, end):
            clauses.append((text[at:end].strip(), words))
        at = after
    return clauses


@lru_cache(maxsize=8)
def parse_answer(text: str) -> ParsedAnswer:
    """Read an answer (or a snippet of one); the marks of list items are no part of it."""
    clauses = _clauses(_MARK.sub("", text[:MOST_OF_ANSWER]))
    known, count = lexicon(), max(len(clauses), 1)
    words = list(chain.from_iterable(words for _, words in clauses))
    numbers = np.array(known.numbers(words), dtype=np.int64)
    clause_of = np.repeat(np.arange(len(clauses)), [len(words) for _, words in clauses])
    numbered = {*clause_of[known.numeric[numbers]].tolist()}
    numbered |= {at for at, (clause, _) in enumerate(clauses) if _ORDINAL.search(clause)}
    content = known.content[numbers]
    numbers, inside = numbers[content], clause_of[content]
    rows: dict[str, int] = {}
    which = [rows.setdefault(known.stems[number], len(rows)) for number in numbers.tolist()]
    held = np.zeros((len(rows), count), dtype=bool)
    held[which, inside] = True
    first = np.zeros(len(rows), dtype=np.int64)
    first[which[::-1]] = np.arange(len(which) - 1, -1, -1)
    own = known.vectors[numbers]
    sums = sum_vectors(own, np.bincount(inside, minlength=count))
    lengths = np.sqrt(np.maximum(np.einsum("ij,ij->i", sums, sums), 1e-12))
    texts = tuple(clause for clause, _ in clauses)
    return ParsedAnswer(
        texts, rows, held, own[first], known.lengths[numbers[first]], sums, lengths, tuple(sorted(numbered))
    )


@dataclass(frozen=True, slots=True, eq=False)
class ParsedNugget:
    """A nugget without the words that begin each.

    `stems` are its content stems, with what each weighs (rare words more, vague ones less) and their unit vectors.
    `vector` is the whole's.
    """

    text: str
    stems: tuple[str, ...]
    weights: tuple[float, ...]
    words: Vectors
    vector: Vectors
    figures: tuple[Figure, ...]


@lru_cache(maxsize=4096)
def parse_nugget(nugget: str) -> ParsedNugget:
    """Read a nugget: what it says after "LLM response should state:"."""
    nugget = nugget[:MOST_OF_NUGGET]
    begun = _STEM.match(nugget)
    wanted = (nugget[begun.end() :] if begun else nugget).strip() or nugget.strip()
    known = lexicon()
    numbers = known.numbers(WORD.findall(without_dates(wanted)))
    vectors = known.vectors[numbers] if numbers else np.zeros((1, known.vectors.shape[1]), dtype=np.float32)
    sizes = known.lengths[numbers].tolist() if numbers else []
    chosen: dict[str, int] = {}
    for at, number in enumerate(numbers):
        if (own := known.stems[number]) and not own[0].isdigit():
            chosen.setdefault(own, at)
    total = vectors[[at for at, number in enumerate(numbers) if known.stems[number]]].sum(axis=0)
    rows = list(chosen.values())
    return ParsedNugget(
        wanted,
        tuple(chosen),
        tuple((0.4 if own in VAGUE else 1.0) * (0.5 + sizes[at]) for own, at in chosen.items()),
        vectors[rows] / np.array([sizes[at] for at in rows], dtype=np.float32)[:, None],
        total / max(float(np.sqrt(total @ total)), 1e-6),
        figures_in([(0, wanted)]),
    )
