"""How good the detectors are by the readings, and what they let one expect of tiers that nobody read whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import get_args

import numpy as np
from pydantic import BaseModel

from beam_claims.defects import AuditReport, audit_folder
from beam_field.readings import wilson
from beam_field.sources import questions_by_probe
from beamlib.data.conversations import SIZES
from beamlib.data.errata import Detector
from beamlib.data.readings import assess, load_readings
from beamlib.report.table import markdown_table
from beamlib.scoring.intervals import SEED

RESAMPLES = 2000
NEEDS_CHATS = ("figure_not_cited", "date_not_said")
NEEDS_RUNS = "universal_failure"


class DetectorQuality(BaseModel):
    """Precision and recall of a detector on the questions of a tier that were read in a census or drawn by chance.

    `spoiled` counts the questions that are spoiled beyond doubt, `hits` those of them that it points at. Shares have
    95 % Wilson intervals; None where there is nothing to divide by.
    """

    tier: str
    detector: str
    pointed_at: int
    hits: int
    spoiled: int
    precision: tuple[float, float, float] | None
    recall: tuple[float, float, float] | None


class Estimate(BaseModel):
    """The share of spoiled questions to expect among the `questions` of a tier whose chats nobody read whole.

    `pointed_at` of them are those at which a detector points. The interval resamples the conversations that were read.
    """

    tier: str
    questions: int
    pointed_at: int
    share: float
    low: float
    high: float


class Screening(BaseModel):
    """What `beamlib data detectors` prints; `basis` are the conversations that estimates rest on."""

    basis: int
    quality: list[DetectorQuality]
    estimates: list[Estimate]

    def render(self) -> str:
        """Write both tables in Markdown."""

        def cell(share: tuple[float, float, float] | None) -> str:
            return "–" if share is None else f"{share[0]:.2f} [{share[1]:.2f}, {share[2]:.2f}]"

        quality = [
            [own.tier, own.detector, str(own.pointed_at), str(own.hits), cell(own.precision), cell(own.recall)]
            for own in self.quality
        ]
        estimates = [
            [own.tier, str(own.questions), str(own.pointed_at), f"{own.share:.1%} [{own.low:.1%}, {own.high:.1%}]"]
            for own in self.estimates
        ]
        tables = (
            markdown_table(
                ["tier", "detector", "points at", "of them spoiled", "precision", "recall"],
                quality,
                title="Detectors against the readings (spoiled beyond doubt), 95 % Wilson intervals",
            ),
            markdown_table(
                ["tier", "questions not read", "pointed at", "spoiled, expected"],
                estimates,
                title=f"Expected where nobody read, from the {self.basis} conversations of tiers that were read whole",
            ),
        )
        return "\n\n".join(table.strip() for table in tables)


def screen(folders: Sequence[Path]) -> Screening:
    """Run the detectors over `folders`, compare them with the readings, and estimate the rest of each tier.

    Estimates rest on tiers that were read whole (a few chats that were picked say nothing of the others) and on the
    detectors that need neither chats nor published runs, as these are the same for every tier. A question counts by
    what is known of it without reading: whether one of them points at it, and whether it is an event ordering.
    """
    reports = [audit_folder(folder) for folder in folders]
    pointed: dict[str, set[str]] = {name: _pointed_at(reports, name) for name in get_args(Detector)}
    read = {own.question: own.threshold == "beyond doubt" for own in assess(load_readings()) if own.counts}
    questions = questions_by_probe()
    quality = []
    for tier in SIZES:
        own = {name: spoiled for name, spoiled in read.items() if name.startswith(f"{tier}-")}
        if own:
            everything = set().union(*pointed.values())
            quality += [_quality(own, tier, name, found) for name, found in (*pointed.items(), ("any", everything))]
    plain = set().union(*(found for name, found in pointed.items() if name not in (*NEEDS_CHATS, NEEDS_RUNS)))
    whole = {tier for tier in SIZES if all(name in read for name in questions if name.startswith(f"{tier}-"))}
    basis = {name: spoiled for name, spoiled in read.items() if name.partition("-")[0] in whole}
    strata = {name: (name in plain, own.ability == "event_ordering") for name, own in questions.items()}
    estimates = [
        _estimate(basis, strata, tier, [name for name in questions if name.startswith(f"{tier}-") and name not in read])
        for tier in SIZES
        if tier not in whole
    ]
    return Screening(basis=len({name.rpartition("-")[0] for name in basis}), quality=quality, estimates=estimates)


def _pointed_at(reports: Sequence[AuditReport], detector: str) -> set[str]:
    findings = (finding for report in reports for finding in report.findings if finding.detector == detector)
    return {name for finding in findings for name in finding.question_ids}


def _quality(read: Mapping[str, bool], tier: str, detector: str, found: Collection[str]) -> DetectorQuality:
    own = [spoiled for name, spoiled in read.items() if name in found]
    spoiled = sum(read.values())
    return DetectorQuality(
        tier=tier,
        detector=detector,
        pointed_at=len(own),
        hits=sum(own),
        spoiled=spoiled,
        precision=wilson(sum(own), len(own)),
        recall=wilson(sum(own), spoiled),
    )


def _estimate(
    basis: Mapping[str, bool], strata: Mapping[str, tuple[bool, bool]], tier: str, rest: Sequence[str]
) -> Estimate:
    """Weight the strata's shares of the read conversations by the strata's sizes among `rest`."""
    kinds = sorted({strata[name] for name in basis})
    conversations = sorted({name.rpartition("-")[0] for name in basis})
    sums = np.zeros((2, len(conversations), len(kinds)))  # spoiled questions, questions
    for name, spoiled in basis.items():
        place = conversations.index(name.rpartition("-")[0]), kinds.index(strata[name])
        sums[0][place] += spoiled
        sums[1][place] += 1
    weights = np.array([sum(strata[name] == kind for name in rest) for kind in kinds]) / len(rest)
    draws = np.random.default_rng(SEED).integers(len(conversations), size=(RESAMPLES, len(conversations)))
    spoiled, counts = (sums[part][draws].sum(axis=1) for part in (0, 1))
    overall = spoiled.sum(axis=1, keepdims=True) / counts.sum(axis=1, keepdims=True)
    shares = np.where(counts > 0, spoiled / np.maximum(counts, 1), overall) @ weights
    low, high = np.quantile(shares, [0.025, 0.975])
    share = (sums[0].sum(axis=0) / sums[1].sum(axis=0)) @ weights
    pointed = sum(strata[name][0] for name in rest)
    return Estimate(
        tier=tier, questions=len(rest), pointed_at=pointed, share=float(share), low=float(low), high=float(high)
    )
