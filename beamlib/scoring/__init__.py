"""Judging answers, scoring judgements, and saying how sure a mean is.

`judge` asks, `protocols` count, `tables` average, `statistics` bound. Only this package and what builds on it may
import gold data.
"""

from __future__ import annotations

from beamlib.scoring.judge import judge_answer
from beamlib.scoring.protocols import PROTOCOLS
from beamlib.scoring.statistics import compare
from beamlib.scoring.tables import score_run, summarise

__all__ = ["PROTOCOLS", "compare", "judge_answer", "score_run", "summarise"]
