"""`f1-weighted`: order and coverage of event ordering multiplied.

- Formula: mean of the nugget scores with half credit; event ordering (tau-b + 1) / 2 x F1 over aligned items.
- Prompts: as `paper`.
- Source: the released code computes this product (`final_score`) and does not report it.
- Known deviation: the released product rests on lines, this one on parsed items.
"""

from __future__ import annotations

import math

from beamlib.scoring.protocols.base import UNDEFINED_TAU, Protocol, QuestionScore, item_order, rubric_mean
from beamlib.scoring.records import Judgement


def score_question(judgement: Judgement) -> QuestionScore:
    """Value in [0, 1]; 0 where no event was matched, even if tau is undefined."""
    if judgement.ability != "event_ordering":
        return rubric_mean(judgement)
    order = item_order(judgement)
    if isinstance(order, QuestionScore):
        return order
    if order.f1 == 0:
        return QuestionScore(0.0, detail=order.detail)
    if math.isnan(order.final):
        return QuestionScore(None, UNDEFINED_TAU, order.detail)
    return QuestionScore(order.final, detail=order.detail)


PROTOCOL = Protocol("f1-weighted", "rubric mean with half credit; event ordering: (tau-b + 1) / 2 x F1", score_question)
