"""Every rule on every answer, and the four numbers of Table 4 by three orders of averaging.

The paper's text counts an answer as correct only if it follows all instructions at once; its Table 4 agrees only with
the mean share, which is what is computed here (`RELEASED`). The other readings are `SCORING_VARIANTS`, for comparison.

`dialogue-mean` (the paper's Table 4): an answer is the mean over its rules, a session the mean over its answers, a
dialogue the mean over its sessions, and the number the mean over dialogues. `position-mean` (the released script): the
mean over dialogues for each position of a session, then over positions; late positions, which few dialogues have,
weigh as much as early ones. `rule-mean`: every applicable rule of every answer alike, so long dialogues weigh most.
Means are exact fractions until the end, so that no order of adding can move a printed digit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import sqrt
from typing import Literal, get_args

from beam_memorycode.dialogue_files import LoadedDialogue
from beam_memorycode.dialogues import Dialogue
from beam_memorycode.outputs import Outputs
from beam_memorycode.rules import (
    AS_RELEASED,
    Groups,
    Rule,
    RuleVerdict,
    ScoringRule,
    Unparsable,
    extract_code,
    objects,
    parse,
    python_blocks,
    rule_verdict,
)

ScoredSetup = Literal["instruction", "session", "history"]


@dataclass(frozen=True, slots=True)
class ScoringVariant:
    """A way of scoring. `absent` is what an absent object counts, None for not at all; `all_at_once` counts an answer
    only if no rule fails; `skip_unparsed` leaves answers out that do not parse.
    """

    name: str
    reading: ScoringRule = AS_RELEASED
    absent: int | None = None
    all_at_once: bool = False
    skip_unparsed: bool = False


RELEASED = ScoringVariant("released")
SCORING_VARIANTS: Mapping[str, ScoringVariant] = {
    variant.name: variant
    for variant in (
        RELEASED,
        ScoringVariant("all rules at once", all_at_once=True),
        ScoringVariant("every name, not the first", ScoringRule(every_name=True)),
        ScoringVariant("absent counts 0", absent=0),
        ScoringVariant("absent counts 1", absent=1),
        ScoringVariant("unparsed left out", skip_unparsed=True),
        ScoringVariant("empty arguments or attributes are absent", ScoringRule(empty_is_absent=True)),
        ScoringVariant("attributes anywhere in __init__", ScoringRule(loose_attributes=True)),
        ScoringVariant("from-imports count", ScoringRule(import_from=True)),
        ScoringVariant("a # in a string is no comment", ScoringRule(real_comments=True)),
        ScoringVariant("all python fences joined", ScoringRule(joined=True)),
    )
}
"""Ways of scoring by name."""


@dataclass(frozen=True, slots=True)
class ScoredAnswer:
    """One answer under its rules. `place` counts the answers of a session (instruction, session) or dialogue (history).

    `failure` says why the code does not parse ("" where it does); then every verdict is `fail`. `unscored` says that
    there was no answer at all; then there are no verdicts.
    """

    setup: ScoredSetup
    dialogue_id: int
    session: int
    place: int
    rules: tuple[Rule, ...]
    verdicts: tuple[RuleVerdict, ...]
    failure: str = ""
    unscored: bool = False

    def score_by(self, variant: ScoringVariant) -> Fraction | None:
        """Return the share of applicable rules that hold, counted as in `variant`, whose `reading` gave the verdicts.

        None where no rule applies.
        """
        if self.unscored or (self.failure and variant.skip_unparsed):
            return None
        passed, failed = self.verdicts.count(RuleVerdict.PASS), self.verdicts.count(RuleVerdict.FAIL)
        absent = len(self.verdicts) - passed - failed
        if variant.absent is not None:
            passed, failed = passed + absent * variant.absent, failed + absent * (1 - variant.absent)
        if passed + failed == 0:
            return None
        return Fraction(failed == 0) if variant.all_at_once else Fraction(passed, passed + failed)


_MOST_KEPT = 40_000_000
"""Characters of answers whose groups are kept, more than a published model wrote; groups can take ten times as much."""


@dataclass
class _Kept:
    """Groups by answer, the last used last, and the characters of those answers."""

    groups: dict[str, Groups | str] = field(default_factory=dict)
    characters: int = 0


@dataclass
class Scorer:
    """Score answers by one reading.

    Groups are cached, as instruction answers repeat often: those last used, up to `_MOST_KEPT` characters of answers.
    """

    reading: ScoringRule = AS_RELEASED
    _kept: _Kept = field(default_factory=_Kept)

    def verdicts(self, answer: str, rules: Sequence[Rule]) -> tuple[tuple[RuleVerdict, ...], str]:
        """Return the verdict of every rule on an answer, and why its code does not parse ("" where it does)."""
        kept = self._kept
        groups = kept.groups.pop(answer, None)
        if groups is None:
            groups = self._groups(answer)
            kept.characters += len(answer)
        kept.groups[answer] = groups  # now the last
        while kept.characters > _MOST_KEPT:
            oldest = next(iter(kept.groups))
            del kept.groups[oldest]
            kept.characters -= len(oldest)
        if isinstance(groups, str):
            return (RuleVerdict.FAIL,) * len(rules), groups
        return tuple(rule_verdict(rule, groups, self.reading) for rule in rules), ""

    def _groups(self, answer: str) -> Groups | str:
        """Return the groups in an answer's code, or why it does not parse."""
        blocks = python_blocks(answer) if self.reading.joined else []
        code = "\n".join(blocks) if blocks else extract_code(answer)
        try:
            tree = parse(code)
        except Unparsable as error:
            return str(error)
        return objects(tree, code, self.reading)


def score_outputs(
    items: Iterable[LoadedDialogue],
    outputs: Mapping[int, Outputs],
    scorer: Scorer | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[ScoredAnswer]:
    """Score every answer of `outputs`, in the order of dialogues, setups and sessions.

    Args:
        items: The dialogues; those without outputs are skipped.
        outputs: Outputs by dialogue id.
        scorer: By default that of the released reading.
        progress: Called with 1 after each dialogue.
    """
    scorer = scorer or Scorer()
    scored: list[ScoredAnswer] = []
    for item in items:
        number, rules = item.dialogue.id, item.rules
        own = outputs.get(number, Outputs(number))
        rows: list[tuple[ScoredSetup, int, int, str | None, tuple[Rule, ...]]] = [
            ("instruction", session, place, answer, rules.sessions[session][place : place + 1])
            for session, answers in enumerate(own.instruction or ())
            for place, answer in enumerate(answers)
        ]
        rows += [
            ("session", session, place, answer, rules.sessions[session])
            for session, answers in enumerate(own.session or ())
            for place, answer in enumerate(answers)
        ]
        last = len(rules.sessions) - 1
        rows += [("history", last, place, answer, rules.history) for place, answer in enumerate(own.history or ())]
        for setup, session, place, answer, own_rules in rows:
            verdicts, failure = scorer.verdicts(answer, own_rules) if answer is not None else ((), "")
            scored.append(ScoredAnswer(setup, number, session, place, own_rules, verdicts, failure, answer is None))
        if progress:
            progress(1)
    return scored


AveragingOrder = Literal["dialogue-mean", "position-mean", "rule-mean"]
ORDERS: tuple[AveragingOrder, ...] = get_args(AveragingOrder)

Column = Literal["instruction", "session", "short_history", "long_history"]
RULE_COLUMNS: tuple[Column, ...] = get_args(Column)
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


def summarise_columns(
    scored: Iterable[ScoredAnswer],
    dialogues: Iterable[Dialogue],
    order: AveragingOrder = "dialogue-mean",
    variant: ScoringVariant = RELEASED,
) -> dict[Column, Summary]:
    """Return the columns of Table 4 from `scored` answers, whose verdicts must come from `variant.reading`.

    The standard error is the sample standard deviation over `sqrt(n)`: of dialogues in `dialogue-mean`, of positions in
    `position-mean`; in `rule-mean` that of a ratio of sums over dialogues.
    """
    known = {dialogue.id: dialogue for dialogue in dialogues}
    columns: dict[Column, list[ScoredAnswer]] = {column: [] for column in RULE_COLUMNS}
    for answer in scored:
        history: Column = "short_history" if known[answer.dialogue_id].short else "long_history"
        columns[history if answer.setup == "history" else answer.setup].append(answer)
    return {column: _summary(answers, order, variant) for column, answers in columns.items()}


def dialogue_scores(
    scored: Iterable[ScoredAnswer], setup: ScoredSetup, variant: ScoringVariant = RELEASED
) -> dict[int, Fraction]:
    """Return the score of every dialogue in a setup by id: the mean over its sessions, each the mean over its answers.

    Sessions and dialogues in which no rule applies to any answer have none.
    """
    sessions = session_scores((answer for answer in scored if answer.setup == setup), variant)
    by_dialogue: dict[int, list[Fraction]] = defaultdict(list)
    for (number, _), score in sessions.items():
        by_dialogue[number].append(score)
    return {number: mean(scores) for number, scores in sorted(by_dialogue.items())}


def session_scores(
    scored: Iterable[ScoredAnswer], variant: ScoringVariant = RELEASED
) -> dict[tuple[int, int], Fraction]:
    """Return the score of every session that has one, by dialogue id and place; `scored` are answers of one setup."""
    answers: dict[tuple[int, int], list[Fraction]] = defaultdict(list)
    for answer in scored:
        score = answer.score_by(variant)
        if score is not None:
            answers[answer.dialogue_id, answer.session].append(score)
    return {place: mean(scores) for place, scores in sorted(answers.items())}


def mean(values: Sequence[Fraction]) -> Fraction:
    """Return the exact mean of at least one value."""
    return sum(values, Fraction()) / len(values)


def standard_error(values: Sequence[Fraction]) -> float | None:
    """Return the sample standard deviation (n - 1) over sqrt(n); None for fewer than two values."""
    if len(values) < 2:
        return None
    middle = mean(values)
    variance = sum(((value - middle) ** 2 for value in values), Fraction()) / (len(values) - 1)
    return sqrt(variance / len(values))


def _summary(answers: Sequence[ScoredAnswer], order: AveragingOrder, variant: ScoringVariant) -> Summary:
    sessions = session_scores(answers, variant)
    grouped: dict[int, list[Fraction]] = defaultdict(list)
    for (number, position), score in sessions.items():
        grouped[position if order == "position-mean" else number].append(score)
    values = [mean(scores) for scores in grouped.values()]
    if order == "rule-mean":
        average, error = _pooled(answers, variant)
    else:
        average, error = mean(values) if values else None, standard_error(values)
    return Summary(
        mean=None if average is None else float(average * 100),
        stderr=None if error is None else error * 100,
        n=len({number for number, _ in sessions}),
        answers=len(answers),
        unscored=sum(answer.unscored for answer in answers),
        not_parsed=sum(bool(answer.failure) for answer in answers),
    )


def _pooled(answers: Sequence[ScoredAnswer], variant: ScoringVariant) -> tuple[Fraction | None, float | None]:
    """Return the share of applicable rules that hold over all answers, and its standard error over dialogues."""
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
    ratio = sum((passed for passed, _ in sums.values()), Fraction()) / total
    if len(sums) < 2:
        return ratio, None
    squares = sum(((passed - ratio * weight) ** 2 for passed, weight in sums.values()), Fraction())
    return ratio, sqrt(squares * len(sums) / (len(sums) - 1)) / float(total)
