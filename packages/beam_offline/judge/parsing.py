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
from beam_offline.lexicon import NEGATION, NUMBER, VAGUE, WORD, lexicon, sum_vectors

Vectors = NDArray[np.float32]

MOST_OF_ANSWER: Final = 40_000
"""How much of a text is read. The longest of 1,400 published answers has 14,773 characters."""

MOST_OF_NUGGET: Final = 2_000
"""How much of a nugget, a question or an event is read."""

WINDOW: Final = 3
"""Clauses that are looked at together."""

_END = re.compile(r"[.!?][\"')\]*]*\s+(?=[\"'(\[*#`-]*[A-Z0-9])|[;\n]+|:\s")
_OPENING = frozenset(".!?\n")
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
    r"^\s*(?:the )?(?:LLM )?(?:response|answer) should\s+(?:(?:also )?(?P<verb>state|mention|contain|include|list|note|"
    r"say|indicate|provide|explain|describe|acknowledge)s?\b\s*(?:that\b)?\s*:?\s*)?",
    re.IGNORECASE,
)
_PART = re.compile(r"[,;]|\band\b|\bor\b|\bincluding\b|\bsuch as\b|\bwith\b")


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
        """Return whether the other contradicts it: like kind, a shared word after it, another value."""
        alike = self.kind == other.kind and (not self.unit or not other.unit or not self.unit.isdisjoint(other.unit))
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

    `body` is what was read, `length` the characters that there are, `marks` how many list items. `rows`: the content
    stems, and the row of each in `held` (whether it stands in a clause, shape (stems, clauses)) and in `words`
    (vectors, with their `lengths`). `sums`: vectors of the clauses; `sums_lengths`: their lengths, those of the windows
    from each one on, and of the whole. `negated`: 1 for clauses with a negation. `sentences`:
    the number of the sentence that each clause is in. `kinds`: the kind of every word. `numbered`:
    clauses with numbers or ordinals.
    """

    body: str
    length: int
    marks: int
    clauses: tuple[str, ...]
    rows: dict[str, int]
    held: NDArray[np.bool_]
    words: Vectors
    lengths: Vectors
    sums: Vectors
    sums_lengths: Vectors
    negated: Vectors
    sentences: NDArray[np.int64]
    kinds: NDArray[np.int64]
    numbered: tuple[int, ...]

    def cosines(self, vector: Vectors) -> Vectors:
        """Return a unit vector's cosines with every clause, every window and the whole, shape (2 × clauses + 1)."""
        count = len(self.sums)
        found = np.zeros(2 * count + 1, dtype=np.float32)
        for start in range(0, count, _ROWS):
            np.dot(self.sums[start : start + _ROWS], vector, out=found[start : min(start + _ROWS, count)])
        for shift in range(min(WINDOW, count)):
            found[count : 2 * count - shift] += found[shift:count]
        found[-1] = found[:count].sum()
        found /= self.sums_lengths
        return found


@lru_cache(maxsize=8)
def figures_of(text: ParsedAnswer) -> tuple[Figure, ...]:
    """Return the figures of an answer."""
    return figures_in((at, text.clauses[at]) for at in text.numbered)


class _Clause(NamedTuple):
    text: str
    words: list[str]
    opens: bool
    """Whether a sentence begins with it, or what stands against the clause before."""


def _clauses(text: str) -> list[_Clause]:
    """The clauses that have words."""
    for wording in _ALSO_ENDS:
        text = text.replace(wording, "\n")
    found: list[_Clause] = []
    at, opens = 0, True
    words_of = WORD.findall
    for end, after in [*map(re.Match.span, _END.finditer(text)), (len(text), len(text))]:
        if words := words_of(text, at, end):
            found.append(_Clause(text[at:end].strip(), words, opens))
            opens = False
        opens = opens or not _OPENING.isdisjoint(text[end:after])
        at = after
    return found


def _lengths(sums: Vectors) -> Vectors:
    """The lengths of clauses, windows and the whole. Windows are not added up: products of neighbours tell as much."""
    count = len(sums)
    squares = np.zeros(2 * count + 1, dtype=np.float32)
    own = squares[:count] = np.einsum("ij,ij->i", sums, sums)
    products = [
        2 * np.einsum("ij,ij->i", sums[: count - shift], sums[shift:]) for shift in range(1, min(WINDOW, count))
    ]
    windows = squares[count:-1]
    for shift in range(min(WINDOW, count)):
        windows[: count - shift] += own[shift:]
    for step, found in enumerate(products, start=1):
        for shift in range(WINDOW - step):
            windows[: max(len(found) - shift, 0)] += found[shift:]
    whole = sums.sum(axis=0)
    squares[-1] = whole @ whole
    return np.sqrt(np.maximum(squares, 1e-12))


@lru_cache(maxsize=8)
def parse_answer(text: str) -> ParsedAnswer:
    """Read an answer (or a snippet of one); the marks of list items are no part of it."""
    body, marks = _MARK.subn("", text[:MOST_OF_ANSWER])
    clauses = _clauses(body)
    known, count = lexicon(), max(len(clauses), 1)
    words = list(chain.from_iterable(clause.words for clause in clauses))
    numbers = np.array(known.numbers(words), dtype=np.int64)
    kinds, content = known.kinds[numbers], known.content[numbers]
    clause_of = np.repeat(np.arange(len(clauses)), [len(clause.words) for clause in clauses])
    numbers, inside = numbers[content], clause_of[content]
    stems = [known.stems[number] for number in numbers.tolist()]
    rows: dict[str, int] = {}
    which = [rows.setdefault(one, len(rows)) for one in stems]
    own = known.vectors[numbers]
    held = np.zeros((len(rows), count), dtype=bool)
    held[which, inside] = True
    first = np.zeros(len(rows), dtype=np.int64)
    first[which[::-1]] = np.arange(len(which) - 1, -1, -1)
    ordinals = [at for at, clause in enumerate(clauses) if _ORDINAL.search(clause.text)]
    negated = np.zeros(count, dtype=np.float32)
    negated[clause_of[kinds == NEGATION]] = 1
    sums = sum_vectors(own, np.bincount(inside, minlength=count))
    return ParsedAnswer(
        body, len(text), marks, tuple(clause.text for clause in clauses), rows, held, own[first],
        known.lengths[numbers[first]], sums, _lengths(sums), negated,
        np.cumsum([clause.opens for clause in clauses] or [True]), kinds,
        tuple(sorted({*clause_of[kinds == NUMBER].tolist(), *ordinals})),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class ParsedNugget:
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
    words: Vectors
    vector: Vectors
    negated: bool
    figures: tuple[Figure, ...]
    size: int


@lru_cache(maxsize=4096)
def parse_nugget(nugget: str) -> ParsedNugget:
    """Read a nugget: what it says after "LLM response should state:"."""
    nugget = nugget[:MOST_OF_NUGGET]
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
    sizes = known.lengths[numbers].tolist() if numbers else []
    chosen: dict[str, int] = {}
    for at, number in enumerate(numbers):
        if (own := known.stems[number]) and not own[0].isdigit():
            chosen.setdefault(own, at)
    names = {own: words[at][0].isupper() and (at > 0 or words[at].endswith(("'s", "’s"))) for own, at in chosen.items()}
    weigh = {own: 0.4 if own in VAGUE else 1.5 if names[own] else 1.0 for own in chosen}
    total = vectors[[at for at, number in enumerate(numbers) if known.stems[number]]].sum(axis=0)
    return ParsedNugget(
        wanted,
        ((begun["verb"] or "") if begun else "").lower(),
        tuple(chosen),
        tuple(weigh[own] * (0.5 + sizes[at]) for own, at in chosen.items()),
        tuple(part_of[at] for at in chosen.values()),
        tuple(names.values()),
        vectors[(rows := list(chosen.values()))] / np.array([sizes[at] for at in rows], dtype=np.float32)[:, None],
        total / max(float(np.sqrt(total @ total)), 1e-6),
        bool((known.kinds[numbers] == NEGATION).any()) if numbers else False,
        figures_in([(0, wanted)]),
        len(words),
    )
