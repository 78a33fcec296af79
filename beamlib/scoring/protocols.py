"""Scoring protocols: the same judgements, counted in different ways.

- `paper` (section 2.4): mean of the nugget scores 0, 0.5, 1 with half credit; event ordering max(0, tau-b) over aligned
  items. Where the paper is silent: how an answer is cut into events (items parser), how missing events are ranked (as
  released, see `event_ordering`), what a negative tau means on a scale that starts at 0. No normalisation is mentioned,
  so (tau + 1) / 2 is not applied: it would give .14 to .29 to an answer that names no event. A negative tau counts as 0
  because below 0 it mostly measures how many wrong items were listed (one unmatched item gives -.58 against five
  nuggets, five give -.71, ten -.66), and the paper averages it with nine abilities that end at 0. An answer without any
  matched event is 0. Nuggets that ask for the correct order are ignored as events. The published cells of event
  ordering cannot be this number: they all lie inside the no-match range of the normalised tau.
- `released-code`: the authors' released scorer, bug for bug; see `beamlib.scoring.released_code`.
- `f1-weighted`: as `paper`, but event ordering (tau-b + 1) / 2 x F1 over aligned items. The released code computes this
  product (`final_score`), over lines, and does not report it.
- `nugget-mean`: all ten abilities alike, the mean of the nugget scores; the released code stores it for event ordering
  and does not report it. The order of events counts only where a nugget asks for it (1 of the 200 published rubrics).
- `binary`: 1 if every nugget is fully satisfied, else 0: pass rates as other long-term memory benchmarks report them;
  the paper has no such number. Harder for long rubrics; order as in `nugget-mean`.

Prompts of all: listing 20 with the question filled in, and listing 21.

Two more are for what others published (`REPORTED`), and only there computable:

- `as-published`: the question's score as its source has it, whatever it means there.
- `majority-vote`: 1 if most of the judges' votes say that the answer is correct. They saw no rubric.

A published judgement may hold less than verdicts per nugget and alignments: a protocol that needs what is missing says
"not computable from this source" (`question_score.NOT_COMPUTABLE`) and fills nothing in.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from beamlib.errors import UserError
from beamlib.scoring.event_ordering import OrderScores
from beamlib.scoring.question_score import (
    NOT_COMPUTABLE,
    UNDEFINED_TAU,
    Protocol,
    QuestionScore,
    item_order,
    lacking,
    nugget_scores,
    rubric_mean,
)
from beamlib.scoring.records import Judgement
from beamlib.scoring.released_code import RELEASED_CODE


def _ordered(judgement: Judgement, value: Callable[[OrderScores], float]) -> QuestionScore:
    """The rubric mean; of event ordering `value` of its order scores, 0 where no event was matched."""
    if judgement.ability != "event_ordering":
        return rubric_mean(judgement)
    order = item_order(judgement)
    if isinstance(order, QuestionScore):
        return order
    worth = 0.0 if order.f1 == 0 else value(order)
    if math.isnan(worth):
        return QuestionScore(None, UNDEFINED_TAU, order.detail)
    return QuestionScore(worth, detail=order.detail)


def _paper(judgement: Judgement) -> QuestionScore:
    return _ordered(judgement, lambda order: order.tau if math.isnan(order.tau) else max(0.0, order.tau))


def _f1_weighted(judgement: Judgement) -> QuestionScore:
    return _ordered(judgement, lambda order: order.final)


def _binary(judgement: Judgement) -> QuestionScore:
    scores = nugget_scores(judgement)
    return scores if isinstance(scores, QuestionScore) else QuestionScore(float(all(score == 1.0 for score in scores)))


def _reported(judgement: Judgement, what: str) -> QuestionScore:
    found = lacking(judgement, what)
    return found if judgement.reported or judgement.unscored else QuestionScore(None, f"{NOT_COMPUTABLE}: no {what}")


def _as_published(judgement: Judgement) -> QuestionScore:
    score = judgement.reported.score if judgement.reported else None
    return _reported(judgement, "score of the question") if score is None else QuestionScore(score)


def _majority_vote(judgement: Judgement) -> QuestionScore:
    votes = judgement.reported.votes if judgement.reported else ()
    return QuestionScore(float(2 * sum(votes) > len(votes))) if votes else _reported(judgement, "votes")


PROTOCOLS: dict[str, Protocol] = {
    one.name: one
    for one in (
        Protocol("paper", "rubric mean with half credit; event ordering: tau-b, negative as 0", _paper),
        RELEASED_CODE,
        Protocol("f1-weighted", "rubric mean with half credit; event ordering: (tau-b + 1) / 2 x F1", _f1_weighted),
        Protocol("nugget-mean", "rubric mean with half credit, event ordering too", rubric_mean),
        Protocol("binary", "share of questions with every nugget fully satisfied", _binary),
    )
}
REPORTED: dict[str, Protocol] = {
    one.name: one
    for one in (
        Protocol("as-published", "the question's score as its source has it", _as_published),
        Protocol("majority-vote", "share of questions that most votes call correct", _majority_vote),
    )
}
"""For what others published; `PROTOCOLS` are those of this project's own verdicts."""


def find_protocol(name: str) -> Protocol:
    """The protocol called `name`; `UserError` with the known names otherwise."""
    known = PROTOCOLS | REPORTED
    try:
        return known[name]
    except KeyError:
        raise UserError(f"protocol: {name!r} is not one of {', '.join(known)}; choose one of these.") from None
