"""The offline judge: does an answer satisfy a nugget (paper, Listing 20)? A small trained model decides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from beam_offline.judge.features import NAMES, features
from beam_offline.judge.model import estimate, score
from beam_offline.judge.reading import MOST_OF_NUGGET

_SAID = tuple(map(NAMES.index, ("soft", "figures_met")))


@dataclass(frozen=True, slots=True)
class NuggetScore:
    """A score (0, 0.5 or 1) and why."""

    score: float
    reason: str


def judge(question: str, nugget: str, answer: str) -> NuggetScore:
    """Score `answer` to `question` against one nugget: 1 satisfied, 0.5 partly, 0 not. `question` may be empty.

    An answer is read once for all nuggets that are asked about in a row. Of very long texts the beginning is read.
    """
    if not answer.strip():
        return NuggetScore(0, "the answer is empty")
    row = features(question[:MOST_OF_NUGGET], nugget[:MOST_OF_NUGGET], answer)
    reached, why = score(estimate(row), row)
    words, figures = (row[at] for at in _SAID)
    numbers = f" and {figures:.0%} of its figures" if figures >= 0 else ""
    return NuggetScore(reached, f"{why}; {words:.0%} of its words{numbers} are met")


def judge_nugget(variables: Mapping[str, str]) -> str:
    """Reply to the prompt `judge_nugget`: a JSON object with `score` and `reason`."""
    verdict = judge(variables["question"], variables["nugget"], variables["answer"])
    return json.dumps({"score": float(verdict.score), "reason": verdict.reason}, ensure_ascii=False)
