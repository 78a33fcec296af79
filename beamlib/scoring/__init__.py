"""Judging answers, scoring judgements, and saying how sure a mean is.

`judge` asks, `protocols` count, `tables` average, `statistics` bound, `spread` compares repeats. Only this
package and what builds on it may import gold data.
"""

from __future__ import annotations

from beamlib.scoring.intervals import compare
from beamlib.scoring.judge import ToJudge, judge_answer, judge_answers
from beamlib.scoring.protocols import PROTOCOLS
from beamlib.scoring.scores import score_run, summarise, unscored_reasons
from beamlib.scoring.spread import judge_spread

__all__ = [
    "PROTOCOLS",
    "ToJudge",
    "compare",
    "judge_answer",
    "judge_answers",
    "judge_spread",
    "score_run",
    "summarise",
    "unscored_reasons",
]
