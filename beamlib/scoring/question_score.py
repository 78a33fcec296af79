"""What a scoring protocol is, and the two ways of scoring a question that several protocols share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from beamlib.scoring.event_ordering import OrderScores, is_order_nugget, order_scores
from beamlib.scoring.records import Alignment, Judgement

NOT_COMPUTABLE = "not computable from this source"
"""How the reason begins where what was published lacks something that a protocol needs: nothing failed there."""


@dataclass(frozen=True, slots=True)
class QuestionScore:
    """What one question is worth: a `value`, or None and the reason in `unscored`.

    `detail` holds other quantities of the same question by name. `aborts_conversation` says that the scorer this
    protocol reproduces would have stopped here and left the rest of the conversation without scores.
    """

    value: float | None
    unscored: str | None = None
    detail: Mapping[str, float] = field(default_factory=dict)
    aborts_conversation: bool = False


@dataclass(frozen=True, slots=True)
class Protocol:
    """A named way of turning judgements into scores. `caption` is one line for tables and axes."""

    name: str
    caption: str
    score_question: Callable[[Judgement], QuestionScore]


def nugget_scores(judgement: Judgement) -> list[float] | QuestionScore:
    """The scores of all nuggets, or an unscored question if there is none or one of them has no score.

    Of a published judgement without verdicts they are its counts, in any order.
    """
    if reported := judgement.reported.nugget_scores if judgement.reported else ():
        return list(reported)
    if not judgement.verdicts:
        return lacking(judgement, "verdicts")
    scores = [verdict.score for verdict in judgement.verdicts if verdict.score is not None]
    missing = [verdict.reason for verdict in judgement.verdicts if verdict.score is None]
    if missing and missing[0].startswith(NOT_COMPUTABLE):
        return QuestionScore(None, missing[0])
    if missing:
        return QuestionScore(None, f"{len(missing)} of {len(judgement.verdicts)} nuggets unscored: {missing[0]}")
    return scores


def rubric_mean(judgement: Judgement) -> QuestionScore:
    """Mean of the nugget scores, half credit kept (paper section 2.4); of counts as of nuggets."""
    scores = nugget_scores(judgement)
    return scores if isinstance(scores, QuestionScore) else QuestionScore(sum(scores) / len(scores))


def find_alignment(judgement: Judgement, parser: str) -> Alignment | QuestionScore:
    """The alignment that `parser` made, or an unscored question where there is none."""
    for alignment in judgement.alignments:
        if alignment.parser == parser:
            return alignment
    return lacking(judgement, f"{parser!r} alignment")


def lacking(judgement: Judgement, what: str) -> QuestionScore:
    """A question without a score because `what` is missing: it failed, or the source that it is from never had it."""
    absent = f"the judgement holds no {what}" if judgement.reported is None else f"{NOT_COMPUTABLE}: it holds no {what}"
    return QuestionScore(None, judgement.unscored or absent)


def not_computable(score: QuestionScore) -> bool:
    """Whether the source lacks what the protocol needs, so that no other try could give it."""
    return (score.unscored or "").startswith(NOT_COMPUTABLE)


def item_order(judgement: Judgement) -> OrderScores | QuestionScore:
    """Order scores over parsed items; nuggets that ask for the order itself are no events and are left out."""
    alignment = find_alignment(judgement, "items")
    if isinstance(alignment, QuestionScore):
        return alignment
    events = [index for index, verdict in enumerate(judgement.verdicts) if not is_order_nugget(verdict.nugget)]
    place = {nugget: event for event, nugget in enumerate(events)}
    return order_scores(len(events), [None if match is None else place.get(match) for match in alignment.matches])


UNDEFINED_TAU = "Kendall's tau-b is undefined: fewer than two different events"
