"""`paper`: what the paper describes.

- Formula: mean of the nugget scores 0, 0.5, 1 with half credit; event ordering max(0, tau-b) over aligned items.
- Prompts: listing 20 with the question filled in, listing 21.
- Source: paper section 2.4 ("averaged across nuggets"; "Kendall tau-b ... over the aligned sequences").
- Where the paper is silent: how an answer is cut into events (items parser), how missing events are ranked (as
  released, see `event_ordering`), what a negative tau means on a scale that starts at 0. No normalisation is mentioned,
  so (tau + 1) / 2 is not applied: it would give .14 to .29 to an answer that names no event. A negative tau counts as 0
  because below 0 it mostly measures how many wrong items were listed (one unmatched item gives -.58 against five
  nuggets, five give -.71, ten -.66), and the paper averages it with nine abilities that end at 0. An answer without any
  matched event is 0. tau, tau_norm, F1 and their product stand in the detail.
- Known deviation: nuggets that ask for the correct order are ignored as events. The published cells of event ordering
  cannot be this number: they all lie inside the no-match range of the normalised tau.
"""

from __future__ import annotations

import math

from beamlib.scoring.protocols.base import UNDEFINED_TAU, Protocol, QuestionScore, item_order, rubric_mean
from beamlib.scoring.records import Judgement


def score_question(judgement: Judgement) -> QuestionScore:
    """Value in [0, 1]; the detail of event ordering holds every quantity of `OrderScores`."""
    if judgement.ability != "event_ordering":
        return rubric_mean(judgement)
    order = item_order(judgement)
    if isinstance(order, QuestionScore):
        return order
    if order.f1 == 0:
        return QuestionScore(0.0, detail=order.detail)
    if math.isnan(order.tau):
        return QuestionScore(None, UNDEFINED_TAU, order.detail)
    return QuestionScore(max(0.0, order.tau), detail=order.detail)


PROTOCOL = Protocol("paper", "rubric mean with half credit; event ordering: tau-b, negative as 0", score_question)
