"""`binary`: a question is right or it is not.

- Formula: 1 if every nugget is fully satisfied, else 0, for all ten abilities.
- Prompts: listing 20 with the question filled in.
- Source: pass rates as other long-term memory benchmarks report them; the paper has no such number.
- Known deviation: harder for long rubrics; order as in `nugget-mean`.
"""

from __future__ import annotations

from beamlib.scoring.protocols.base import Protocol, QuestionScore, nugget_scores
from beamlib.scoring.records import Judgement


def score_question(judgement: Judgement) -> QuestionScore:
    """Value 0 or 1."""
    scores = nugget_scores(judgement)
    return scores if isinstance(scores, QuestionScore) else QuestionScore(float(all(score == 1.0 for score in scores)))


PROTOCOL = Protocol("binary", "share of questions with every nugget fully satisfied", score_question)
