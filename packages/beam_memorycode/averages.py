"""From scored answers to the four numbers of Table 4: three orders of averaging, by name.

`dialogue-mean` (the paper's Table 4): an answer is the mean over its rules, a session the mean over its answers, a
dialogue the mean over its sessions, and the number the mean over dialogues. `position-mean` (the released script): the
mean over dialogues for each position of a session, then over positions; late positions, which few dialogues have,
weigh as much as early ones. `rule-mean`: every applicable rule of every answer alike, so long dialogues weigh most.

Means are exact fractions until the end, so that no order of adding can move a printed digit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Literal, get_args

from beam_memorycode.dialogues import Dialogue
from beam_memorycode.rule_scoring import RELEASED, ScoredAnswer, ScoredSetup, Variant
from beam_memorycode.rules import RuleVerdict

Order = Literal["dialogue-mean", "position-mean", "rule-mean"]
ORDERS: tuple[Order, ...] = get_args(Order)

Column = Literal["instruction", "session", "short_history", "long_history"]
COLUMNS: tuple[Column, ...] = get_args(Column)
"""The columns of Table 4."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A cell of Table 4. `mean` and `stderr` are in percent, None where there is nothing to average (or to compare).

    `n` is the number of dialogues with a score; `answers` are those asked for, of which `unscored` were never given and
    `not_parsed` are not Python.
    """

    mean: float | None
    stderr: float | None
    n: int
    answers: int
    unscored: int
    not_parsed: int


def column_of(answer: ScoredAnswer, dialogues: Mapping[int, Dialogue]) -> Column:
    """The column of Table 4 that an answer counts in."""
    if answer.setup != "history":
        return answer.setup
    return "short_history" if dialogues[answer.dialogue_id].short else "long_history"


def summarise(
    scored: Iterable[ScoredAnswer],
    dialogues: Iterable[Dialogue],
    order: Order = "dialogue-mean",
    variant: Variant = RELEASED,
) -> dict[Column, Summary]:
    """The columns of Table 4 from `scored` answers, whose verdicts must come from `variant.reading`.

    The standard error is the sample standard deviation over `sqrt(n)`: of dialogues in `dialogue-mean`, of positions in
    `position-mean`; in `rule-mean` that of a ratio of sums over dialogues.
    """
    known = {dialogue.id: dialogue for dialogue in dialogues}
    columns: dict[Column, list[ScoredAnswer]] = {column: [] for column in COLUMNS}
    for answer in scored:
        columns[column_of(answer, known)].append(answer)
    return {column: _summary(answers, order, variant) for column, answers in columns.items()}


def dialogue_scores(
    scored: Iterable[ScoredAnswer], setup: ScoredSetup, variant: Variant = RELEASED
) -> dict[int, Fraction]:
    """The score of every dialogue in a setup, by id: the mean over its sessions, each the mean over its answers.

    Sessions and dialogues in which no rule applies to any answer have none.
    """
    sessions = session_scores((answer for answer in scored if answer.setup == setup), variant)
    by_dialogue: dict[int, list[Fraction]] = defaultdict(list)
    for (number, _), score in sessions.items():
        by_dialogue[number].append(score)
    return {number: mean(scores) for number, scores in sorted(by_dialogue.items())}


def session_scores(scored: Iterable[ScoredAnswer], variant: Variant = RELEASED) -> dict[tuple[int, int], Fraction]:
    """The score of every session that has one, by dialogue id and place; `scored` are answers of one setup."""
    answers: dict[tuple[int, int], list[Fraction]] = defaultdict(list)
    for answer in scored:
        score = answer.score_by(variant)
        if score is not None:
            answers[answer.dialogue_id, answer.session].append(score)
    return {place: mean(scores) for place, scores in sorted(answers.items())}


def mean(values: Sequence[Fraction]) -> Fraction:
    """The exact mean of at least one value."""
    return sum(values, Fraction()) / len(values)


def standard_error(values: Sequence[Fraction]) -> float | None:
    """Sample standard deviation (n - 1) over sqrt(n); None for fewer than two values."""
    if len(values) < 2:
        return None
    middle = mean(values)
    variance = sum(((value - middle) ** 2 for value in values), Fraction()) / (len(values) - 1)
    return sqrt(variance / len(values))


def _summary(answers: Sequence[ScoredAnswer], order: Order, variant: Variant) -> Summary:
    sessions = session_scores(answers, variant)
    grouped: dict[int, list[Fraction]] = defaultdict(list)
    for (number, position), score in sessions.items():
        grouped[position if order == "position-mean" else number].append(score)
    values = [mean(scores) for scores in grouped.values()]
    found: tuple[Fraction | None, float | None] = (None, None)
    if order == "rule-mean":
        found = _pooled(answers, variant)
    elif values:
        found = (mean(values), standard_error(values))
    return Summary(
        mean=None if found[0] is None else float(found[0] * 100),
        stderr=None if found[1] is None else found[1] * 100,
        n=len({number for number, _ in sessions}),
        answers=len(answers),
        unscored=sum(answer.unscored for answer in answers),
        not_parsed=sum(bool(answer.failure) for answer in answers),
    )


def _pooled(answers: Sequence[ScoredAnswer], variant: Variant) -> tuple[Fraction | None, float | None]:
    """The share of applicable rules that hold over all answers, and its standard error with dialogues as clusters."""
    sums: dict[int, list[Fraction]] = defaultdict(lambda: [Fraction(), Fraction()])
    for answer in answers:
        score = answer.score_by(variant)
        if score is None:
            continue
        weight = len(answer.verdicts)
        if variant.absent is None:
            weight -= answer.verdicts.count(RuleVerdict.ABSENT)
        if variant.all_at_once:
            weight = 1
        sums[answer.dialogue_id][0] += score * weight
        sums[answer.dialogue_id][1] += weight
    total = sum((weight for _, weight in sums.values()), Fraction())
    if not total:
        return None, None
    ratio = sum((held for held, _ in sums.values()), Fraction()) / total
    if len(sums) < 2:
        return ratio, None
    squares = sum(((held - ratio * weight) ** 2 for held, weight in sums.values()), Fraction())
    return ratio, sqrt(squares * len(sums) / (len(sums) - 1)) / float(total)
