"""The twelve numbers that the judge goes by. Each can be read by itself; none tells a denial from its opposite."""

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

from beam_offline.judge.parsing import (
    WINDOW,
    ParsedAnswer,
    ParsedNugget,
    figures_of,
    parse_answer,
    parse_nugget,
    products,
)
from beamlib.files import read_json

WEIGHTS: Final = Path(__file__).with_name("judge_weights.json")
"""`trees`: for `valid`, `half` and `full` a list of trees, each in preorder: the number of a feature and its threshold
before what lies at or below it and what lies above it, or -1 and a hundredth of log-odds. `events`: weights and the
least sum."""

FEATURES: Final[Mapping[str, str]] = {
    "stems": "how many content words the nugget has",
    "clauses": "how many clauses the answer has (logarithm)",
    "on_question": "mean cosine of the answer's clauses with the question",
    "missing": "1 if nugget and answer say that information is missing, -1 if only one does, else 0",
    "covered_clause": "share of the nugget's words that stand in one clause",
    "covered_window": "share of the nugget's words that stand in three clauses in a row",
    "covered_new": "share of the nugget's words beyond the question's that stand in the answer",
    "near": "mean cosine of the nugget's words with the nearest word of the answer",
    "near_new": "the same for its words beyond the question's",
    "cosine": "highest cosine of a clause with the nugget",
    "figures_met": "share of the nugget's dates and numbers that stand in the answer; -1 if it has none",
    "figures_rival": "how many of them are missing while a like one with another value stands there",
}
"""The features by name, in the order of their values, and what each says."""

NAMES: Final = tuple(FEATURES)

_MISSING: Final = re.compile(
    r"\bno (?:\w+ ){0,3}(?:information|mention|records?|details?|evidence|indication)\b"
    r"|\b(?:not|never|isn't|wasn't|aren't|weren't) (?:\w+ )?(?:specified|mentioned|provided|stated|listed|included|"
    r"discussed|described|recorded|available|given|documented|disclosed|shared|found|specify|mention|provide|state|"
    r"include|contain|describe|list|say)\b"
    r"|\b(?:doesn't|does not|do not|don't|didn't|did not) (?:\w+ )?(?:specify|mention|provide|state|include|contain|"
    r"describe|list|say|have|know|indicate|give|discuss|see|find|recall|remember)\b"
    r"|\b(?:cannot|can't|could not|couldn't|unable to) (?:\w+ )?(?:find|determine|answer|tell|say|confirm|locate)\b"
    r"|\b(?:not enough|insufficient|lack\w*|missing) (?:\w+ ){0,2}(?:information|details?|context|records?)\b",
    re.IGNORECASE,
)
_MISSING_NUGGET: Final = re.compile(
    r"\bno information\b|\bthere is no (?:\w+ )?(?:mention|record|detail|breakdown)"
    r"|\b(?:not|doesn't) (?:\w+ )?(?:contain|provide|mention|include)\w* (?:any )?information\b",
    re.IGNORECASE,
)


@cache
def trained() -> Mapping[str, Any]:
    """Read what training gave."""
    weights: Mapping[str, Any] = read_json(WEIGHTS)
    return weights


def abstains(text: str) -> bool:
    """Return whether a text says that information is missing."""
    return _MISSING.search(text) is not None


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """An answer to a question, read once for all nuggets."""

    answer: ParsedAnswer
    question: ParsedNugget
    clauses: float
    on_question: float
    abstains: bool


@lru_cache(maxsize=8)
def parse_exchange(question: str, answer: str) -> Exchange:
    """Read `answer` as one to `question`."""
    text, asked = parse_answer(answer), parse_nugget(question)
    count = len(text.sums)
    on_question = float(text.cosines(asked.vector)[:count].mean())
    return Exchange(text, asked, math.log1p(len(text.clauses)), on_question, any(map(abstains, text.clauses)))


def _covered(read: ParsedNugget, exchange: Exchange, weights: NDArray[np.float32]) -> tuple[float, float, float]:
    """Return the shares of a nugget's words in one clause, in three in a row, and of its new words anywhere."""
    text = exchange.answer
    rows = [text.rows.get(stem, -1) for stem in read.stems]
    here = [at for at, row in enumerate(rows) if row >= 0]
    new = [at for at, stem in enumerate(read.stems) if stem not in exchange.question.stems] or range(len(rows))
    anywhere = sum(float(weights[at]) for at in new if rows[at] >= 0) / max(sum(float(weights[at]) for at in new), 1e-9)
    if not here:
        return 0.0, 0.0, 0.0
    held = text.held[[rows[at] for at in here]]
    wide = held.copy()
    for shift in range(1, min(WINDOW, held.shape[1])):
        wide[:, :-shift] |= held[:, shift:]
    own = weights[here]
    return float((own @ held).max()), float((own @ wide).max()), anywhere


def _near(read: ParsedNugget, exchange: Exchange, weights: NDArray[np.float32]) -> tuple[float, float]:
    """Return the mean cosines of a nugget's words, and of its new words, with the nearest word of the answer."""
    text = exchange.answer
    if not len(text.words) or not read.stems:
        return 0.0, 0.0
    nearest = (products(read.words, text.words) / text.lengths).max(axis=1)
    nearest[[stem in text.rows for stem in read.stems]] = 1
    new = np.array([stem not in exchange.question.stems for stem in read.stems])
    of_new = float(weights[new] @ nearest[new] / weights[new].sum()) if new.any() else 0.0
    return float(weights @ nearest), of_new


def _figures(read: ParsedNugget, text: ParsedAnswer) -> tuple[float, float]:
    """Return the share of a nugget's figures that the answer has, and how many have a rival there instead."""
    if not read.figures:
        return -1.0, 0.0
    stated = figures_of(text)
    met = [any(figure.same(other) for other in stated) for figure in read.figures]
    missed = (figure for figure, is_met in zip(read.figures, met, strict=True) if not is_met)
    return sum(met) / len(met), float(sum(any(figure.rivals(other) for other in stated) for figure in missed))


def features(question: str, nugget: str, answer: str) -> tuple[float, ...]:
    """Compute the values of `FEATURES` for one nugget."""
    exchange, read = parse_exchange(question, answer), parse_nugget(nugget)
    wanted = _MISSING_NUGGET.search(read.text) is not None
    missing = float(wanted and exchange.abstains) - float(wanted != exchange.abstains)
    weights = np.array(read.weights, dtype=np.float32)
    weights /= max(float(weights.sum()), 1e-9)
    clause, window, new = _covered(read, exchange, weights)
    near, near_new = _near(read, exchange, weights)
    cosine = float(exchange.answer.cosines(read.vector)[: len(exchange.answer.sums)].max())
    return (
        float(len(read.stems)), exchange.clauses, exchange.on_question, missing, clause, window, new, near, near_new,
        cosine, *_figures(read, exchange.answer),
    )  # fmt: skip
