"""Compute from the readings (`beamlib data readings`): agreement of readers, shares of spoiled questions, kinds."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import get_args

import numpy as np
from pydantic import BaseModel
from scipy.stats import binomtest

from beamlib.data.conversations import ABILITIES, SIZES
from beamlib.data.errata import DefectKind, Threshold
from beamlib.data.readings import Assessment, PlantedReading, QuestionReading, assess
from beamlib.report.table import markdown_table
from beamlib.scoring.intervals import conversation_values, mean_interval

FINDS: dict[str, Callable[[QuestionReading], bool]] = {
    "spoiled": lambda reading: reading.verdict == "spoiled",
    "spoiled, not several": lambda reading: reading.verdict == "spoiled" and reading.kind != "several",
    "spoiled or doubtful": lambda reading: reading.verdict in ("spoiled", "doubtful"),
}
"""What one reader finds in a question, from the threshold of `errata: drop` to that of `strict`."""


TOGETHER = "all readers"


class Agreement(BaseModel):
    """How far two readers agree on what `FINDS` names, over the `questions` that both read."""

    readers: tuple[str, str]
    finding: str
    questions: int
    agree: float
    kappa: float | None


class Share(BaseModel):
    """Questions that reach a threshold (strict: either), and their share with its 95 % interval over conversations.

    `corrected` is the share after the errors of one reader (`corrected_share`), and the least and most that the
    intervals of sensitivity and specificity allow. Two readers who must agree err less often than that.
    """

    tier: str
    ability: str
    threshold: Threshold
    questions: int
    conversations: int
    spoiled: int
    share: float
    low: float | None
    high: float | None
    corrected: tuple[float, float, float] | None = None


class ReaderScore(BaseModel):
    """How one reader, or all together, did on one kind: planted ones that were seen, controls of which it was not said.

    `sensitivity` and `specificity` have 95 % Wilson intervals; `named` are the planted ones of which the reader also
    named the kind. A reader who calls a question doubtful has not called it spoiled.
    """

    reader: str
    kind: str
    planted: int
    seen: int
    named: int
    controls: int
    cleared: int
    sensitivity: tuple[float, float, float] | None
    specificity: tuple[float, float, float] | None


class ReadingsReport(BaseModel):
    """What `beamlib data readings` prints."""

    readings: int
    questions: int
    agreement: list[Agreement]
    shares: list[Share]
    kinds: dict[str, dict[Threshold, int]]
    readers: list[ReaderScore] = []

    def render(self) -> str:
        """Write the three tables in Markdown."""
        agreement = [
            [" and ".join(a.readers), a.finding, str(a.questions), f"{100 * a.agree:.1f}%", _shown(a.kappa, "{:.3f}")]
            for a in self.agreement
        ]
        shares = [
            [
                *(s.tier, s.ability, s.threshold, f"{s.spoiled} of {s.questions}", f"{s.share:.1%}"),
                "none" if s.low is None or s.high is None else f"{s.low:.1%} to {s.high:.1%}",
                _corrected(s.corrected),
                str(s.conversations),
            ]
            for s in self.shares
        ]
        kinds = [[kind, *(str(counts[name]) for name in get_args(Threshold))] for kind, counts in self.kinds.items()]
        tables = [
            markdown_table(["readers", "finding", "questions", "agree", "kappa"], agreement, title="Agreement"),
            markdown_table(
                [
                    "tier",
                    "ability",
                    "threshold",
                    "questions",
                    "share",
                    "95 % interval",
                    "corrected",
                    "conversations",
                ],
                shares,
                title="Spoiled questions (strict: those beyond doubt as well), read whole or drawn by chance",
            ),
            markdown_table(["kind", "beyond doubt", "strict only"], kinds, title="Kinds"),
            *([render_scores(self.readers)] if self.readers else []),
        ]
        return "\n\n".join(
            [f"{self.readings} readings of {self.questions} questions", *(table.strip() for table in tables)]
        )


def _corrected(shares: tuple[float, float, float] | None) -> str:
    return "unknown" if shares is None else f"{shares[0]:.1%} ({shares[1]:.1%} to {shares[2]:.1%})"


def _shown(value: float | None, form: str) -> str:
    return "unknown" if value is None else form.format(value)


def report_readings(readings: Sequence[QuestionReading], planted: Sequence[PlantedReading] = ()) -> ReadingsReport:
    """Compute agreement, shares and kinds; shares are of questions read in a census or drawn by chance.

    With readings of `planted` defects also how good readers are, and each share corrected by it.
    """
    readers = measure_readers(planted)
    together = next((own for own in readers if (own.reader, own.kind) == (TOGETHER, "all")), None)
    found = assess(readings)
    drawn = [one for one in found if one.counts]
    kinds = Counter((one.kind, one.threshold) for one in found)
    return ReadingsReport(
        readings=len(readings),
        questions=len(found),
        agreement=agreement(readings),
        shares=[
            _share(own, tier, ability, threshold, together)
            for tier in SIZES
            for ability in ("all", *ABILITIES)
            if (own := [one for one in drawn if one.tier == tier and ability in ("all", one.ability)])
            for threshold in get_args(Threshold)
        ],
        kinds={kind: {name: kinds[kind, name] for name in get_args(Threshold)} for kind in get_args(DefectKind)},
        readers=readers,
    )


def measure_readers(planted: Sequence[PlantedReading]) -> list[ReaderScore]:
    """Compute sensitivity and specificity of each reader, all kinds together and by kind, then of all readers.

    Wrong citations are seen where a reader says `citation` or `spoiled`, all else where a reader says `spoiled`.
    """
    names = list(dict.fromkeys(reading.reader for reading in planted))
    groups = {name: [reading for reading in planted if reading.reader == name] for name in names}
    if len(names) > 1:
        groups[TOGETHER] = list(planted)
    scores = []
    for name, readings in groups.items():
        controls = [reading for reading in readings if reading.role == "control"]
        for kind in ("all", *sorted({reading.kind for reading in readings if reading.kind})):
            own = [reading for reading in readings if reading.role == "planted" and kind in ("all", reading.kind)]
            seen = [one for one in own if _is_found(one, citations=one.kind == "citation")]
            said = [
                one for one in controls if kind in ("all", one.named) and _is_found(one, citations=kind == "citation")
            ]
            counts = {"planted": len(own), "seen": len(seen), "named": sum(one.named == one.kind for one in seen)}
            cleared = len(controls) - len(said)
            rates = {"sensitivity": wilson(len(seen), len(own)), "specificity": wilson(cleared, len(controls))}
            scores.append(
                ReaderScore(reader=name, kind=kind, controls=len(controls), cleared=cleared, **counts, **rates)  # type: ignore[arg-type]
            )
    return scores


def _is_found(reading: PlantedReading, citations: bool) -> bool:
    return reading.verdict == "spoiled" or (citations and reading.verdict == "citation")


def wilson(hits: int, count: int) -> tuple[float, float, float] | None:
    """Return a share with its 95 % Wilson interval; None of nothing."""
    if not count:
        return None
    interval = binomtest(hits, count).proportion_ci(method="wilson")
    return hits / count, float(interval.low), float(interval.high)


def corrected_share(share: float, sensitivity: float, specificity: float) -> float | None:
    """Return the share that readers of this sensitivity and specificity see as `share` (Rogan and Gladen, 1978).

    None where they see no better than chance.
    """
    better = sensitivity + specificity - 1
    return min(1.0, max(0.0, (share + specificity - 1) / better)) if better > 0 else None


def render_scores(scores: Sequence[ReaderScore]) -> str:
    """Write the scores as a Markdown table."""

    def cell(share: tuple[float, float, float] | None) -> str:
        return "none" if share is None else f"{share[0]:.2f} [{share[1]:.2f}, {share[2]:.2f}]"

    rows = [
        [
            *(own.reader, own.kind, f"{own.seen} of {own.planted}", cell(own.sensitivity), str(own.named)),
            *(f"{own.cleared} of {own.controls}", cell(own.specificity)),
        ]
        for own in scores
    ]
    header = ["reader", "kind", "seen", "sensitivity", "kind named", "controls cleared", "specificity"]
    return markdown_table(header, rows, title="Planted defects, seen and named; 95 % Wilson intervals").strip()


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


def _share(
    own: Sequence[Assessment], tier: str, ability: str, threshold: Threshold, readers: ReaderScore | None
) -> Share:
    hit = [one.threshold == "beyond doubt" or one.threshold == threshold for one in own]
    counts = Counter(one.conversation for one in own)
    sums = Counter(one.conversation for one, is_hit in zip(own, hit, strict=True) if is_hit)
    values = conversation_values(
        np.array([sums[name] for name in counts], dtype=np.float64), np.array(list(counts.values()), dtype=np.float64)
    )
    ends = mean_interval(values)
    low, high = (None, None) if np.isnan(ends).any() else map(float, ends)
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
        corrected=_corrected_by(readers, sum(hit) / len(own)),
    )


def _corrected_by(readers: ReaderScore | None, share: float) -> tuple[float, float, float] | None:
    if readers is None or readers.sensitivity is None or readers.specificity is None:
        return None
    (sensitivity, *some), (specificity, *others) = readers.sensitivity, readers.specificity
    ends = [corrected_share(share, one, other) for one in some for other in others]
    point = corrected_share(share, sensitivity, specificity)
    known = [end for end in ends if end is not None]
    return None if point is None or len(known) < len(ends) else (point, min(known), max(known))
