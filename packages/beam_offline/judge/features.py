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
from beam_offline.judge.parsing import (
    MOST_CHARACTERS,
    WINDOW,
    Array,
    ParsedAnswer,
    ParsedNugget,
    figures_of,
    ordinals,
    parse_answer,
    parse_nugget,
    products,
)
from beam_offline.lexicon import FIRST_PERSON, KINDS, NAME, NEGATION, NUMBER, VAGUE, YOU
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


OF_NUGGET: Final = (
    "no_information", "conflict", "asking", "avoid", "says_state", "says_mention", "says_contain",
    "stems", "size", "vague", "names", "figures", "negated", "you",
)  # fmt: skip
OF_ANSWER: Final = (
    "characters", "clauses", "abstains", "abstains_share", "names_conflict", "both_sides", "asks_which", "resolves",
    "leads", "denies", "hedges", "negations", "i_voice", "you_voice", "questions", "items", "order", "numbers",
    "names_share", "long_clauses", "on_question", "on_question_best", "first_on_question", "question_covered",
    "per_question", "asks_yes_no", "said_again",
)  # fmt: skip
OF_BOTH: Final = (
    "covered", "covered_window", "covered_clause", "new_covered", "new_share", "names_covered", "least_covered",
    "often", "soft", "soft_window", "soft_least", "soft_new", "part_least", "parts", "cosine", "cosine_window",
    "cosine_whole", "nugget_on_question", "second", "third", "near", "place", "next_to", "figures_met",
    "figures_in_window", "rivals", "headline_other", "no_figure_met", "ordinal_other", "negated_there",
    "negated_before", "polarity_off", "polarity_lead", "denied_there", "hedged_there", "abstains_there", "avoided_said",
    "form", "done",
)  # fmt: skip
NAMES: Final = (*OF_NUGGET, *OF_ANSWER, *OF_BOTH)
"""The features, in the order of their values."""

BARE: Final = 3
"""Content words of a sentence that says little by itself."""

_NONE: Final = -1.0
"""Where there is nothing to measure: no name in the nugget, say."""


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """An answer to a question, read: the features `OF_ANSWER`, and by clause whether it is denied, hedged, abstains."""

    answer: ParsedAnswer
    question: ParsedNugget
    values: tuple[float, ...]
    denied: Array
    hedged: Array
    abstaining: Array
    shows: dict[int, bool]


def _where(pattern: re.Pattern[str], text: ParsedAnswer, stems: frozenset[str]) -> Array:
    """1 for each clause that `pattern` is found in; looked for where there is a negation or one of `stems`."""
    found = np.zeros(len(text.negated), dtype=np.float32)
    rows = [text.rows[stem] for stem in stems if stem in text.rows]
    worth = text.held[rows].any(axis=0) | (text.negated > 0) if rows else text.negated > 0
    for at in np.flatnonzero(worth).tolist():
        if pattern.search(text.clauses[at]):
            found[at] = 1
    return found


def _reached(found: Array, text: ParsedAnswer) -> Array:
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
    lowered, lead = text.body.lower(), text.clauses[0] if text.clauses else ""
    denying = _where(cues.DENIES, text, cues.DENIES_WITHOUT_NEGATION)
    abstaining = _where(cues.ABSTAINS, text, cues.ABSTAINS_WITHOUT_NEGATION)
    hedging = np.zeros(count, dtype=np.float32)
    if _any(cues.HEDGES, lowered):
        hedging[: len(text.clauses)] = [_any(cues.HEDGES, clause.lower()) for clause in text.clauses]
    kinds = (np.bincount(text.kinds, minlength=len(KINDS)) / words).tolist()
    on_question = text.cosines(asked.vector)[:count]
    known = sum(weight for stem, weight in zip(asked.stems, asked.weights, strict=True) if stem in text.rows)
    leads = -1.0 if cues.LEADS_NO.match(lead) else float(cues.LEADS_YES.match(lead) is not None)
    abstains = float(abstaining.sum())
    values = (
        math.log1p(text.length), math.log1p(len(text.clauses)), float(abstains > 0), abstains / count,
        float(_any(cues.CONFLICTING, lowered)), float(_any(cues.BOTH_SIDES, lowered)),
        float(any(wording.search(lowered) for wording in cues.ASKS_WHICH)),
        float(_any(cues.RESOLVES, lowered)), leads, float(denying.sum()) / count,
        float(hedging.sum()) / count, kinds[NEGATION], kinds[FIRST_PERSON], kinds[YOU],
        lowered.count("?") / count, text.marks / count,
        float(order_table()[text.kinds[:-1], text.kinds[1:]].mean()) if len(text.kinds) > 1 else 0.0,
        kinds[NUMBER], kinds[NAME], words / count, float(on_question.mean()), float(on_question.max()),
        float(on_question[0]), known / (sum(asked.weights) or 1.0), text.length / (50 + len(question)),
        float(question.lower().startswith(cues.YES_NO)), len(text.rows) / words,
    )  # fmt: skip
    return Exchange(text, asked, values, _reached(denying, text), _reached(hedging, text), abstaining, {})


@lru_cache(maxsize=4096)
def of_nugget(nugget: str) -> tuple[float, ...]:
    """Compute the features `OF_NUGGET`."""
    read = parse_nugget(nugget)
    short, text, stems = len(read.stems) <= 8, read.text, read.stems
    return (
        float(cues.NO_INFORMATION.search(text) is not None),
        float(short and _any(cues.CONFLICTING, text.lower())),
        float(short and cues.ASKING_NUGGET.search(text) is not None),
        float(cues.AVOID.match(text) is not None),
        float(read.verb == "state"), float(read.verb == "mention"), float(read.verb in ("contain", "include")),
        float(len(stems)), float(read.size), sum(stem in VAGUE for stem in stems) / max(len(stems), 1),
        float(sum(read.names)), float(len(read.figures)), float(read.negated), float("you" in text.lower()),
    )  # fmt: skip


def _figures(read: ParsedNugget, text: ParsedAnswer, start: int) -> tuple[float, ...]:
    """The share of the nugget's figures that are met, and in the window; those with rivals; another one in the lead."""
    wanted = read.figures
    if not wanted:
        return (_NONE, _NONE, 0.0, 0.0, 0.0)
    given = figures_of(text)
    met = near = rivals = 0
    for figure in wanted:
        same = [other for other in given if figure.same(other)]
        met += bool(same)
        near += any(start <= other.clause < start + WINDOW for other in same)
        rivals += not same and any(figure.rivals(other) for other in given)
    lead = [other for other in given if other.clause == given[0].clause]
    leads = any(figure.same(other) for figure in wanted for other in lead)
    other = not leads and any(figure.rivals(one) for figure in wanted for one in lead)
    return (met / len(wanted), near / len(wanted), float(rivals), float(other), float(not met))


def _ordinal_other(read: ParsedNugget, text: ParsedAnswer) -> float:
    """The share of the nugget's ordinals in whose place the answer has only others: "the third week", not the first."""
    if not read.ordinals:
        return 0.0
    given = ordinals(text.body)
    counted = {what for _, what in given}
    return sum(one not in given and one[1] in counted for one in read.ordinals) / len(read.ordinals)


def _form(read: ParsedNugget, exchange: Exchange, answer: str) -> float:
    """The share of the forms asked for that the answer shows."""
    shown = exchange.shows
    lowered = read.text.lower()
    asked = {number for number, word in cues.FORM_WORDS if word in lowered}
    for number in asked:
        if number not in shown:
            shown[number] = cues.FORMS[number][1].search(answer) is not None
    return sum(shown[number] for number in asked) / len(asked) if asked else _NONE


def _avoided(read: ParsedNugget, exchange: Exchange) -> float:
    """How much of what a nugget rules out one clause of the answer says without turning it down."""
    text, wanted = exchange.answer, [at for at, stem in enumerate(read.stems) if stem not in VAGUE]
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


def _done(of: tuple[float, ...], values: tuple[float, ...]) -> float:
    """Whether the answer does the one thing that a nugget asks for: to abstain, to name a conflict, to ask."""
    for asked, does in (("no_information", "abstains"), ("conflict", "names_conflict"), ("asking", "asks_which")):
        if of[OF_NUGGET.index(asked)]:
            return values[OF_ANSWER.index(does)]
    return _NONE


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


def _held(text: ParsedAnswer, rows: list[int], weights: list[float]) -> Array:
    """How much of the weights stands in each clause, then in each window."""
    found = text.held[rows]
    wide = found.copy()
    for shift in range(1, min(WINDOW, found.shape[1])):
        wide[:, :-shift] |= found[:, shift:]
    held: Array = np.array(weights, dtype=np.float32) @ np.concatenate([found, wide], axis=1)
    return held


def _of_words(read: ParsedNugget, exchange: Exchange, cosines: Array) -> tuple[tuple[float, ...], int, int, Array]:
    """The features from `covered` to `parts`; the best clause and window; how much of the nugget each clause covers."""
    text, weights = exchange.answer, read.weights
    rows = [text.rows.get(stem, -1) for stem in read.stems]
    total, count = sum(weights) or 1.0, len(text.negated)
    here = [at for at, row in enumerate(rows) if row >= 0]
    held = _held(text, [rows[at] for at in here], [weights[at] / total for at in here])
    best = held + cosines[:-1]
    clause, window = int(best[:count].argmax()), int(best[count:].argmax())
    anywhere, inside = _soft(read, text, rows, window)
    new = [at for at, stem in enumerate(read.stems) if stem not in exchange.question.stems]
    new_total = sum(weights[at] for at in new)
    covered = sum(weights[at] for at in here) / total
    named = [at for at, name in enumerate(read.names) if name]
    parts: dict[int, list[float]] = {}
    for part, near in zip(read.parts, inside, strict=True):
        parts.setdefault(part, []).append(near)
    of_parts = [sum(found) / len(found) for found in parts.values()] or [0.0]
    most = held[:count].max()
    values = (
        covered, float(held[count:].max()), float(most),
        sum(weights[at] for at in new if rows[at] >= 0) / new_total if new_total else covered, new_total / total,
        sum(rows[at] >= 0 for at in named) / len(named) if named else _NONE, len(here) / len(rows) if rows else _NONE,
        float((held[:count] > 0.4).sum()) / count,
        sum(weight * near for weight, near in zip(weights, anywhere, strict=True)) / total,
        sum(weight * near for weight, near in zip(weights, inside, strict=True)) / total,
        min(anywhere, default=0.0),
        sum(weights[at] * anywhere[at] for at in new) / new_total if new_total else 0.0,
        min(of_parts), float(len(of_parts)),
    )  # fmt: skip
    return values, clause, window, held[:count]


def features(question: str, nugget: str, answer: str) -> tuple[float, ...]:
    """Compute the values of `NAMES` for one nugget."""
    exchange, read = parse_exchange(question, answer), parse_nugget(nugget)
    text, count = exchange.answer, len(exchange.answer.negated)
    cosines = text.cosines(read.vector)
    of_words, clause, window, held = _of_words(read, exchange, cosines)
    clauses = cosines[:count]
    ranked = sorted(clauses.tolist())[-3:]
    attention = np.exp(12 * clauses + 4 * held)
    attention /= attention.sum()
    negated = float(attention @ text.negated)
    leads = exchange.values[OF_ANSWER.index("leads")]
    return (
        *of_nugget(nugget), *exchange.values, *of_words, ranked[-1], float(cosines[count:-1].max()), float(cosines[-1]),
        float(read.vector @ exchange.question.vector), ranked[-2] if len(ranked) > 1 else _NONE,
        ranked[0] if len(ranked) > 2 else _NONE, float((clauses > 0.5).sum()) / count, clause / count,
        sum(pair in text.in_order for pair in read.order) / len(read.order) if read.order else _NONE,
        *_figures(read, text, window), _ordinal_other(read, text), negated, float(attention @ text.under),
        abs(read.negated - negated), leads * (1 - 2 * read.negated),
        float(attention @ exchange.denied), float(attention @ exchange.hedged), float(attention @ exchange.abstaining),
        _avoided(read, exchange) if of_nugget(nugget)[3] else _NONE, _form(read, exchange, answer[:MOST_CHARACTERS]),
        _done(of_nugget(nugget), exchange.values),
    )  # fmt: skip
