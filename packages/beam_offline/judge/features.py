"""What the judge goes by: numbers about a nugget and an answer, each of which can be read by itself."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import beam_offline.judge.cues as cues
from beam_offline.judge.denial import BARE, denies, reach
from beam_offline.judge.names import names_of, share_given_to_others
from beam_offline.judge.parsing import (
    WINDOW,
    ParsedAnswer,
    ParsedNugget,
    Vectors,
    figures_of,
    parse_answer,
    parse_nugget,
    products,
)
from beam_offline.lexicon import FIRST_PERSON, NEGATION, VAGUE, WORD_KINDS, YOU
from beamlib.files import read_json

WEIGHTS: Final = Path(__file__).with_name("judge_weights.json")
"""`trees`: for `valid`, `half` and `full` a list of trees, each in preorder: the number of a feature and its threshold
before what lies at or below it and what lies above it, or -1 and a hundredth of log-odds. `order`: how much more often
words of one kind follow those of another in answers than in shuffled ones. `events`: weights and the least sum."""


@cache
def trained() -> Mapping[str, Any]:
    """Read what training gave."""
    found: Mapping[str, Any] = read_json(WEIGHTS)
    return found


OF_NUGGET: Final = ("conflict", "asking", "says_contain", "stems", "size", "names", "negated")
OF_ANSWER: Final = (
    "clauses", "abstains", "negations", "i_voice", "you_voice", "questions", "items", "order", "long_clauses",
    "on_question", "first_on_question", "per_question",
)  # fmt: skip
OF_BOTH: Final = (
    "covered_window", "covered_clause", "new_covered", "new_share", "names_rival", "other_subject",
    "soft", "soft_window", "soft_least", "soft_new", "parts", "second", "near", "figures_met", "figures_in_window",
    "rivals", "no_figure_met", "polarity_off", "turned_there", "avoided_said", "done",
)  # fmt: skip
NAMES: Final = (*OF_NUGGET, *OF_ANSWER, *OF_BOTH)
"""The features, in the order of their values."""

MATCHED: Final = 0.6
"""How much of a nugget, its names apart, a clause has to hold for other names there to tell against it."""

_NONE: Final = -1.0
"""Where there is nothing to measure: no name in the nugget, say."""


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """An answer to a question, read once for all nuggets.

    Attributes:
        values: The features `OF_ANSWER`.
        turned: For each clause whether it is denied or doubted (0 or 1).
        taken_back: Whether the answer as a whole is (0 or 1).
        abstains, names_conflict, asks_which: Whether it does these things (0 or 1).
    """

    answer: ParsedAnswer
    question: ParsedNugget
    values: tuple[float, ...]
    turned: Vectors
    taken_back: float
    abstains: float
    names_conflict: float
    asks_which: float


def _where(pattern: re.Pattern[str], text: ParsedAnswer, stems: frozenset[str]) -> Vectors:
    """1 for each clause that `pattern` is found in; looked for where there is a negation or one of `stems`."""
    found = np.zeros(len(text.negated), dtype=np.float32)
    rows = [text.rows[stem] for stem in stems if stem in text.rows]
    worth = text.held[rows].any(axis=0) | (text.negated > 0) if rows else text.negated > 0
    for at in np.flatnonzero(worth).tolist():
        if pattern.search(text.clauses[at]):
            found[at] = 1
    return found


def _reached(found: Vectors, text: ParsedAnswer) -> Vectors:
    """1 for each clause of a sentence that one of the clauses `found` is in.

    A sentence of few words ("That is not true.") speaks of the one before it, too.
    """
    if not found.any():
        return found
    content = np.bincount(text.sentences, weights=text.held.sum(axis=0))
    reached = np.bincount(text.sentences, weights=found) > 0
    reached[:-1] |= (reached & (content <= BARE))[1:]
    return reached[text.sentences].astype(np.float32)


def _any(wordings: tuple[str, ...], lowered: str) -> bool:
    for wording in wordings:  # noqa: SIM110  (a generator takes twice as long)
        if wording in lowered:
            return True
    return False


@cache
def order_table() -> NDArray[np.float64]:
    """How much more often words of one kind follow those of another in answers than in shuffled ones (logarithm)."""
    return np.array(trained()["order"], dtype=np.float64)


@lru_cache(maxsize=8)
def parse_exchange(question: str, answer: str) -> Exchange:
    """Read `answer` as one to `question`, once for all nuggets."""
    text, asked = parse_answer(answer), parse_nugget(question)
    count, words = len(text.negated), max(len(text.kinds), 1)
    lowered = text.body.lower()
    denied, taken_back = reach(text)
    hedging = np.zeros(count, dtype=np.float32)
    if _any(cues.HEDGES, lowered):
        bare = text.held.sum(axis=0) <= BARE
        hedging[: len(text.clauses)] = [
            _any(cues.HEDGES, clause.lower()) and (short or clause.lower().startswith(cues.HEDGES))
            for clause, short in zip(text.clauses, bare, strict=False)
        ]
    abstains = float(_where(cues.ABSTAINS, text, cues.ABSTAINS_WITHOUT_NEGATION).any())
    kinds = (np.bincount(text.kinds, minlength=len(WORD_KINDS)) / words).tolist()
    on_question = text.cosines(asked.vector)[:count]
    values = (
        math.log1p(len(text.clauses)), abstains, kinds[NEGATION], kinds[FIRST_PERSON], kinds[YOU],
        lowered.count("?") / count, text.marks / count,
        float(order_table()[text.kinds[:-1], text.kinds[1:]].mean()) if len(text.kinds) > 1 else 0.0,
        words / count, float(on_question.mean()), float(on_question[0]), text.length / (50 + len(question)),
    )  # fmt: skip
    return Exchange(
        text,
        asked,
        values,
        np.maximum(denied, _reached(hedging, text)),
        taken_back,
        abstains,
        float(_any(cues.CONFLICTING, lowered)),
        float(any(wording.search(lowered) for wording in cues.ASKS_WHICH)),
    )


@lru_cache(maxsize=4096)
def of_nugget(nugget: str) -> tuple[float, ...]:
    """Compute the features `OF_NUGGET`."""
    read = parse_nugget(nugget)
    short, text = len(read.stems) <= 8, read.text
    return (
        float(short and _any(cues.CONFLICTING, text.lower())), float(short and bool(cues.ASKING_NUGGET.search(text))),
        float(read.verb in ("contain", "include")), float(len(read.stems)), float(read.size), float(sum(read.names)),
        float(read.negated),
    )  # fmt: skip


def _figures(read: ParsedNugget, text: ParsedAnswer, start: int) -> tuple[float, ...]:
    """The share of the nugget's figures that are met, and in the window; those with rivals; whether none is met."""
    wanted = read.figures
    if not wanted:
        return (_NONE, _NONE, 0.0, 0.0)
    given = figures_of(text)
    met = near = rivals = 0
    for figure in wanted:
        same = [other for other in given if figure.same(other)]
        met += bool(same)
        near += any(start <= other.clause < start + WINDOW for other in same)
        rivals += not same and any(figure.rivals(other) for other in given)
    return (met / len(wanted), near / len(wanted), float(rivals), float(not met))


def _names(read: ParsedNugget, exchange: Exchange, rows: list[int]) -> tuple[float, float]:
    """Compare names where the rest of the nugget stands best.

    Returns:
        The share of the nugget's names in whose place others stand; the share of the question's names that the answer
        lacks while it has others.
    """
    text = exchange.answer
    known = {*read.stems, *exchange.question.stems}
    given = names_of(text)
    asked = {stem for stem, name in zip(exchange.question.stems, exchange.question.names, strict=True) if name}
    missing = sum(stem not in text.rows for stem in asked) / len(asked) if asked else 0.0
    subject = missing * any(names - known for names in given)
    wanted = [at for at, name in enumerate(read.names) if name]
    if not wanted:
        return 0.0, subject
    rest = [
        (row, weight)
        for at, (row, weight) in enumerate(zip(rows, read.weights, strict=True))
        if at not in wanted and row >= 0
    ]
    if rest:
        weights = np.array([weight for _, weight in rest], dtype=np.float32)
        stands = weights @ text.held[[row for row, _ in rest]]
        place = int(stands.argmax())
        whole = sum(weight for at, weight in enumerate(read.weights) if at not in wanted)
        matched = float(stands[place]) / whole
    else:
        matched = 1.0
        place = int(text.held[[rows[at] for at in wanted if rows[at] >= 0]].sum(axis=0).argmax()) if text.rows else 0
    here = sum(rows[at] >= 0 and bool(text.held[rows[at], place]) for at in wanted) / len(wanted)
    others = bool(given[place] - (known if here else set(read.stems))) if given else False
    return float(others and matched >= MATCHED) * (1 - here), subject


def _avoided(read: ParsedNugget, text: ParsedAnswer) -> float:
    """How much of what a nugget rules out one clause of the answer says without turning it down."""
    wanted = [at for at, stem in enumerate(read.stems) if stem not in VAGUE]
    if not cues.AVOID.match(read.text):
        return _NONE
    rows = [text.rows[read.stems[at]] for at in wanted if read.stems[at] in text.rows]
    if not rows:
        return 0.0
    best = 0.0
    said = text.held[rows].sum(axis=0) / len(wanted)
    for at in np.flatnonzero(said >= 0.5).tolist():
        clause = cues.PREFERRED.sub(lambda found: found["kept"], text.clauses[at])
        if clause == text.clauses[at] and not cues.TURNED_DOWN.search(clause):
            best = max(best, float(said[at]))
    return best


def _done(read: ParsedNugget, nugget: tuple[float, ...], exchange: Exchange) -> float:
    """Whether the answer does the one thing that a nugget asks for: to abstain, to name a conflict, to ask."""
    if cues.NO_INFORMATION.search(read.text):
        return exchange.abstains
    if nugget[OF_NUGGET.index("conflict")]:
        return exchange.names_conflict
    return exchange.asks_which if nugget[OF_NUGGET.index("asking")] else _NONE


def _soft(read: ParsedNugget, text: ParsedAnswer, rows: list[int], window: int) -> tuple[list[float], list[float]]:
    """For each stem of the nugget the cosine of the nearest word in the answer, and in the window; 1 for itself."""
    if not len(text.words):
        return [0.0] * len(rows), [0.0] * len(rows)
    anywhere, inside = [1.0] * len(rows), [1.0] * len(rows)
    column: NDArray[np.bool_] = np.logical_or.reduce(text.held[:, window : window + WINDOW], axis=1)
    away = [at for at, row in enumerate(rows) if row < 0 or not column[row]]
    if away:
        cosines = products(read.words[away], text.words) / text.lengths
        nearest = cosines.max(axis=1).tolist()
        there = np.maximum.reduce(cosines[:, column], axis=1, initial=0.0).tolist()
        for at, best, near in zip(away, nearest, there, strict=True):
            inside[at] = near
            if rows[at] < 0:
                anywhere[at] = best
    return anywhere, inside


def _held(text: ParsedAnswer, rows: list[int], weights: list[float]) -> Vectors:
    """How much of the weights stands in each clause, then in each window."""
    found = text.held[rows]
    wide = found.copy()
    for shift in range(1, min(WINDOW, found.shape[1])):
        wide[:, :-shift] |= found[:, shift:]
    held: Vectors = np.array(weights, dtype=np.float32) @ np.concatenate([found, wide], axis=1)
    return held


def _of_words(read: ParsedNugget, exchange: Exchange, cosines: Vectors) -> tuple[tuple[float, ...], int, Vectors]:
    """The features from `covered_window` to `parts`; the best window; how much of the nugget each clause covers."""
    text, weights = exchange.answer, read.weights
    rows = [text.rows.get(stem, -1) for stem in read.stems]
    total, count = sum(weights) or 1.0, len(text.negated)
    here = [at for at, row in enumerate(rows) if row >= 0]
    held = _held(text, [rows[at] for at in here], [weights[at] / total for at in here])
    window = int((held + cosines[:-1])[count:].argmax())
    anywhere, inside = _soft(read, text, rows, window)
    new = [at for at, stem in enumerate(read.stems) if stem not in exchange.question.stems]
    new_total = sum(weights[at] for at in new)
    covered = sum(weights[at] for at in here) / total
    in_place, other_subject = _names(read, exchange, rows)
    values = (
        float(held[count:].max()), float(held[:count].max()),
        sum(weights[at] for at in new if rows[at] >= 0) / new_total if new_total else covered, new_total / total,
        max(in_place, share_given_to_others(read, text)), other_subject,
        sum(weight * near for weight, near in zip(weights, anywhere, strict=True)) / total,
        sum(weight * near for weight, near in zip(weights, inside, strict=True)) / total,
        min(anywhere, default=0.0),
        sum(weights[at] * anywhere[at] for at in new) / new_total if new_total else 0.0,
        float(len(set(read.parts)) or 1),
    )  # fmt: skip
    return values, window, held[:count]


def features(question: str, nugget: str, answer: str) -> tuple[float, ...]:
    """Compute the values of `NAMES` for one nugget."""
    exchange, read = parse_exchange(question, answer), parse_nugget(nugget)
    text, count = exchange.answer, len(exchange.answer.negated)
    cosines = text.cosines(read.vector)
    of_words, window, held = _of_words(read, exchange, cosines)
    clauses = cosines[:count]
    attention = np.exp(12 * clauses + 4 * held)
    attention /= attention.sum()
    negated = float(attention @ text.negated)
    turned = max(float(attention @ exchange.turned), exchange.taken_back)
    if (read.negated and negated < 0.5 and not exchange.taken_back) or denies(read.text):
        turned = 0.0
    ranked = np.sort(clauses)
    return (
        *of_nugget(nugget), *exchange.values, *of_words,
        float(ranked[-2]) if count > 1 else _NONE, float((clauses > 0.5).sum()) / count,
        *_figures(read, text, window), abs(read.negated - negated), turned,
        _avoided(read, text), _done(read, of_nugget(nugget), exchange),
    )  # fmt: skip
