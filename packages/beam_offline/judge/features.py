"""What the judge goes by: some seventy numbers about a nugget and an answer, each of which can be read by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from beam_offline.judge import cues
from beam_offline.judge.reading import Array, Nugget, Text, read_nugget, read_text
from beam_offline.judge.words import KINDS, VAGUE, WORD

OF_NUGGET: Final = (
    "no_information", "conflict", "asking", "avoid", "says_state", "says_mention", "says_contain", "says_other",
    "stems", "size", "vague", "names", "figures", "negated", "you",
)  # fmt: skip
OF_ANSWER: Final = (
    "characters", "clauses", "abstains", "abstains_at", "abstains_share", "names_conflict", "both_sides", "asks_which",
    "resolves", "leads_yes", "leads_no", "denies", "negations", "i_voice", "you_voice", "third_voice", "questions",
    "items", "turns", "order", "numbers", "names_share", "long_clauses", "on_question", "on_question_best", "first_on_question",
    "question_covered", "per_question", "asks_yes_no", "repeated", "said_again",
)  # fmt: skip
OF_BOTH: Final = (
    "covered", "covered_window", "covered_clause", "new_covered", "new_share", "names_covered", "least_covered", "soft", "soft_window",
    "soft_least", "soft_new", "cosine", "cosine_window", "cosine_whole", "over_question", "second", "third", "near",
    "place", "next_to", "figures_met", "figures_in_window", "rivals", "headline_other", "no_figure_met",
    "negated_there", "polarity_off", "polarity_lead", "denied_there", "abstains_there", "avoided_said", "form", "form_any", "you_there",
)  # fmt: skip
NAMES: Final = (*OF_NUGGET, *OF_ANSWER, *OF_BOTH)

_PASSING = ("covered", "cosine")


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """A question and an answer to it, read: the answer's own features, and what features of both rest on."""

    answer: Text
    question: Nugget
    values: tuple[float, ...]
    abstaining: NDArray[np.float32]
    denying: NDArray[np.float32]
    on_question: Array
    kept: tuple[bool, ...]
    shows: dict[int, bool]


def _found(pattern: object, text: str) -> float:
    return float(pattern.search(text) is not None)  # type: ignore[attr-defined]


@lru_cache(maxsize=64)
def read_exchange(question: str, answer: str) -> Exchange:
    """Read `answer` as one to `question`, once for all nuggets."""
    text, asked = read_text(answer), read_nugget(question)
    clauses = text.clauses
    count = max(len(clauses), 1)
    abstaining = np.array([_found(cues.ABSTAINS, clause) for clause in clauses] or [0.0], dtype=np.float32)
    denying = np.array([_found(cues.DENIES, clause) for clause in clauses] or [0.0], dtype=np.float32)
    on_question = text.vectors @ asked.vector
    first = next((i for i, one in enumerate(abstaining.tolist()) if one), -1)
    lead = clauses[0] if clauses else ""
    words = max(len(text.kinds), 1)
    kinds = np.bincount(text.kinds, minlength=len(KINDS)) / words
    body = text.text
    covered = [stem in text.places for stem in asked.stems]
    sizes = text.held.sum(axis=0)
    values = (
        math.log1p(text.length), math.log1p(len(clauses)), float(first >= 0), first / count if first >= 0 else 1.0,
        float(abstaining.mean()), _found(cues.CONFLICT, body), _found(cues.BOTH_SIDES, body),
        _found(cues.ASKS_WHICH, body), _found(cues.RESOLVES, body), float(cues.LEADS_YES.match(lead) is not None),
        float(cues.LEADS_NO.match(lead) is not None), float(denying.mean()), float(text.negated.mean()),
        len(cues.I_VOICE.findall(body)) / words, len(cues.YOU_VOICE.findall(body)) / words,
        len(cues.THIRD_VOICE.findall(body)) / words, body.count("?") / count,
        len(cues.ITEM.findall(body)) / count, len(cues.DATED_TURN.findall(body)) / count, _order(text.kinds),
        len(text.figures) / words, float(kinds[KINDS.index("name")]), float(sizes.mean()), float(on_question[: len(clauses)].mean()) if clauses else 0.0,
        float(on_question[:count].max()), float(on_question[0]),
        float(np.dot(covered, asked.weights)) / float(asked.weights.sum()) if covered else 1.0,
        math.log1p(text.length / (1 + len(question))), float(cues_yes_no(question)),
        1 - len(set(clauses)) / count if clauses else 0.0, len(text.places) / words,
    )  # fmt: skip
    return Exchange(text, asked, values, abstaining, denying, on_question, tuple(covered), {})


def cues_yes_no(question: str) -> bool:
    return question.lower().startswith(("have i", "did i", "do i", "am i", "was i", "has ", "is ", "are ", "had i"))


_ORDER_TABLE: list[Array] = []


def _order(kinds: NDArray[np.int64]) -> float:
    """How usual it is that words of these kinds follow each other; 0 for a text of less than two words."""
    if len(kinds) < 2 or not _ORDER_TABLE:
        return 0.0
    return float(_ORDER_TABLE[0][kinds[:-1], kinds[1:]].mean())


@lru_cache(maxsize=2048)
def of_nugget(nugget: str) -> tuple[float, ...]:
    """The features `OF_NUGGET`."""
    read = read_nugget(nugget)
    short = len(read.stems) <= 8
    vague = sum(stem in VAGUE for stem in read.stems)
    verb = read.verb
    return (
        _found(cues.NO_INFORMATION, read.text), _found(cues.CONFLICT, read.text) * short,
        _found(cues.ASKING_NUGGET, read.text) * short, float(cues.AVOID.match(read.text) is not None),
        float(verb == "state"), float(verb == "mention"), float(verb in ("contain", "include")),
        float(verb not in ("state", "mention", "contain", "include")),
        float(len(read.stems)), float(read.size), vague / max(len(read.stems), 1), float(len(read.names)),
        float(len(read.figures)), float(read.negated), _found(cues.YOU_VOICE, read.text),
    )  # fmt: skip


def _of_figures(read: Nugget, exchange: Exchange, start: int) -> tuple[float, ...]:
    wanted, given = read.figures, exchange.answer.figures
    if not wanted:
        return (-1.0, -1.0, 0.0, 0.0, 0.0)
    met = [any(figure.same(other) for other in given) for figure in wanted]
    near = [any(start <= other.clause < start + 3 and figure.same(other) for other in given) for figure in wanted]
    rivals = sum(any(figure.rivals(other) for other in given) for figure, found in zip(wanted, met, strict=True) if not found)
    lead = [other for other in given if other.clause <= given[0].clause] if given else []
    same = any(figure.same(other) for figure in wanted for other in lead)
    other = not same and any(figure.rivals(one) for figure in wanted for one in lead)
    return (sum(met) / len(met), sum(near) / len(near), float(rivals), float(other), float(not any(met)))


def _form(read: Nugget, exchange: Exchange) -> tuple[float, float]:
    asked = [number for number, (nugget, _) in enumerate(cues.FORMS) if nugget.search(read.text)]
    for number in asked:
        if number not in exchange.shows:
            exchange.shows[number] = cues.FORMS[number][1].search(exchange.answer.text) is not None
    shown = [exchange.shows[number] for number in asked]
    return (sum(shown) / len(shown) if shown else -1.0, float(bool(shown)))


def features(question: str, nugget: str, answer: str) -> tuple[float, ...]:
    """The values of `NAMES` for one nugget."""
    exchange = read_exchange(question, answer)
    read, text = read_nugget(nugget), exchange.answer
    count = max(len(text.clauses), 1)
    cosines = text.vectors @ read.vector
    clauses, windows = cosines[:count], cosines[count : 2 * count]
    rows = [text.places.get(stem, -1) for stem in read.stems]
    here = [at for at, row in enumerate(rows) if row >= 0]
    total = float(read.weights.sum()) or 1.0
    weights = read.weights[here]
    chosen = [rows[at] for at in here]
    in_clause = weights @ text.held[chosen] / total
    in_window = weights @ text.windows[chosen] / total
    best = int(np.argmax(in_window + windows))
    clause = int(np.argmax(in_clause + clauses))
    covered = float(weights.sum()) / total
    new = [stem not in exchange.question.stems for stem in read.stems]
    new_total = sum(w for w, one in zip(read.weights.tolist(), new, strict=True) if one)
    new_here = sum(float(read.weights[at]) for at in here if new[at])
    soft = soft_window = soft_least = soft_new = least = 0.0
    if len(read.stems) and len(text.places):
        nearest = read.words @ text.words.T
        top = nearest.max(axis=1)
        inside = nearest @ np.diag(np.ones(0)) if False else np.where(text.windows[:, best] > 0, nearest, -1.0).max(axis=1)
        soft = float(read.weights @ top) / total
        soft_window = float(read.weights @ np.maximum(inside, 0)) / total
        soft_least = float(top.min())
        soft_new = sum(w * t for w, t, one in zip(read.weights.tolist(), top.tolist(), new, strict=True) if one) / new_total if new_total else soft
    ranked = np.sort(clauses)[-3:]
    attention = np.exp(12 * (clauses - clauses.max()) + 4 * (in_clause - in_clause.max()))
    attention = attention / attention.sum()
    negated_there = float(attention @ text.negated)
    lead = exchange.values[9] - exchange.values[10]
    pairs = sum(pair in text.next_to for pair in read.order) / len(read.order) if read.order else -1.0
    avoid = cues.AVOID.match(read.text)
    named = [at for at, stem in enumerate(read.stems) if stem in read.names]
    return (
        *of_nugget(nugget), *exchange.values,
        covered, float(in_window.max()), float(in_clause.max()), new_here / new_total if new_total else covered, new_total / total,
        sum(rows[at] >= 0 for at in named) / len(named) if named else -1.0,
        len(here) / len(rows) if rows else -1.0,
        soft, soft_window, soft_least, soft_new, float(clauses.max()), float(windows.max()), float(cosines[-1]),
        float(clauses.max()) - float(read.vector @ exchange.question.vector),
        float(ranked[0]), float(ranked[len(ranked) // 2]), float((clauses > 0.5).sum()) / count, clause / count, pairs,
        *_of_figures(read, exchange, best),
        negated_there, abs(float(read.negated) - negated_there),
        lead * (1 - 2 * read.negated), float(attention @ exchange.denying), float(attention @ exchange.abstaining),
        float(in_window.max()) if avoid else -1.0, *_form(read, exchange), float(read.vector @ exchange.question.vector),
    )  # fmt: skip


def matrix(rows: Sequence[tuple[str, str, str]]) -> NDArray[np.float64]:
    """Features of several (question, nugget, answer), shape (rows, features)."""
    return np.array([features(*row) for row in rows], dtype=np.float64)


__all__ = ["NAMES", "WORD", "features", "matrix"]
