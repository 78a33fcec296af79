"""Compute from the readings (`beamlib data readings`): agreement of readers, shares of spoiled questions, kinds."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import get_args

import numpy as np
from pydantic import BaseModel

from beamlib.data.conversations import ABILITIES, SIZES
from beamlib.data.errata import DefectKind, Threshold
from beamlib.data.readings import Assessment, QuestionReading, assess
from beamlib.report.table import markdown_table
from beamlib.scoring.intervals import conversation_values, mean_interval

FINDS: dict[str, Callable[[QuestionReading], bool]] = {
    "spoiled": lambda reading: reading.verdict == "spoiled",
    "spoiled, not several": lambda reading: reading.verdict == "spoiled" and reading.kind != "several",
    "spoiled or doubtful": lambda reading: reading.verdict in ("spoiled", "doubtful"),
}
"""What one reader finds in a question, from the threshold of `errata: drop` to that of `strict`."""


class Agreement(BaseModel):
    """How far two readers agree on what `FINDS` names, over the `questions` that both read."""

    readers: tuple[str, str]
    finding: str
    questions: int
    agree: float
    kappa: float | None


class Share(BaseModel):
    """Questions that reach a threshold (strict: either), and their share with its 95 % interval over conversations."""

    tier: str
    ability: str
    threshold: Threshold
    questions: int
    conversations: int
    spoiled: int
    share: float
    low: float | None
    high: float | None


class ReadingsReport(BaseModel):
    """What `beamlib data readings` prints."""

    readings: int
    questions: int
    agreement: list[Agreement]
    shares: list[Share]
    kinds: dict[str, dict[Threshold, int]]

    def render(self) -> str:
        """Write the three tables in Markdown."""
        agreement = [
            [" and ".join(a.readers), a.finding, str(a.questions), f"{100 * a.agree:.1f}%", _shown(a.kappa, "{:.3f}")]
            for a in self.agreement
        ]
        shares = [
            [
                *(s.tier, s.ability, s.threshold, f"{s.spoiled} of {s.questions}", f"{s.share:.1%}"),
                *(f"{_shown(s.low, '{:.1%}')} to {_shown(s.high, '{:.1%}')}", str(s.conversations)),
            ]
            for s in self.shares
        ]
        kinds = [[kind, *(str(counts[name]) for name in get_args(Threshold))] for kind, counts in self.kinds.items()]
        tables = [
            markdown_table(["readers", "finding", "questions", "agree", "kappa"], agreement, title="Agreement"),
            markdown_table(
                ["tier", "ability", "threshold", "questions", "share", "95 % interval", "conversations"],
                shares,
                title="Spoiled questions (strict: those beyond doubt as well), read whole or drawn by chance",
            ),
            markdown_table(["kind", "beyond doubt", "strict only"], kinds, title="Kinds"),
        ]
        return "\n\n".join(
            [f"{self.readings} readings of {self.questions} questions", *(table.strip() for table in tables)]
        )


def _shown(value: float | None, form: str) -> str:
    return "unknown" if value is None else form.format(value)


def report_readings(readings: Sequence[QuestionReading]) -> ReadingsReport:
    """Compute agreement, shares and kinds; shares are of questions read in a census or drawn by chance."""
    found = assess(readings)
    drawn = [one for one in found if one.counts]
    kinds = Counter((one.kind, one.threshold) for one in found)
    return ReadingsReport(
        readings=len(readings),
        questions=len(found),
        agreement=agreement(readings),
        shares=[
            _share(own, tier, ability, threshold)
            for tier in SIZES
            for ability in ("all", *ABILITIES)
            if (own := [one for one in drawn if one.tier == tier and ability in ("all", one.ability)])
            for threshold in get_args(Threshold)
        ],
        kinds={kind: {name: kinds[kind, name] for name in get_args(Threshold)} for kind in get_args(DefectKind)},
    )


def agreement(readings: Sequence[QuestionReading]) -> list[Agreement]:
    """Compute Cohen's kappa of each two readers, for each of `FINDS`, over what both read in a census or by chance.

    A third reader who sees what two others disagree on says nothing of their agreement. Kappa is None where both find
    all or nothing, since chance alone would agree.
    """
    by_reader: dict[str, dict[str, QuestionReading]] = {}
    for reading in readings:
        if reading.drawn:
            by_reader.setdefault(reading.reader, {})[reading.question] = reading
    results = []
    for (one, first), (two, second) in itertools.combinations(sorted(by_reader.items()), 2):
        both = [(first[name], second[name]) for name in first if name in second]
        for finding, finds in FINDS.items() if both else ():
            pairs = np.array([(finds(a), finds(b)) for a, b in both])
            agree, (p, q) = float((pairs[:, 0] == pairs[:, 1]).mean()), pairs.mean(axis=0)
            chance = float(p * q + (1 - p) * (1 - q))
            kappa = (agree - chance) / (1 - chance) if chance < 1 else None
            results.append(
                Agreement(readers=(one, two), finding=finding, questions=len(both), agree=agree, kappa=kappa)
            )
    return results


def _share(own: Sequence[Assessment], tier: str, ability: str, threshold: Threshold) -> Share:
    hit = [one.threshold == "beyond doubt" or one.threshold == threshold for one in own]
    counts = Counter(one.conversation for one in own)
    sums = Counter(one.conversation for one, is_hit in zip(own, hit, strict=True) if is_hit)
    values = conversation_values(
        np.array([sums[name] for name in counts], dtype=np.float64), np.array(list(counts.values()), dtype=np.float64)
    )
    low, high = (None, None) if len(counts) < 2 else map(float, mean_interval(values))
    return Share(
        tier=tier,
        ability=ability,
        threshold=threshold,
        questions=len(own),
        conversations=len(counts),
        spoiled=sum(hit),
        share=sum(hit) / len(own),
        low=low,
        high=high,
    )
