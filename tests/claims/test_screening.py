"""Detectors against the readings, and the estimate for what nobody read."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_claims.defects import audit_folder
from beam_claims.screening import _estimate, screen
from beam_field.defective import universal_failures
from beamlib.data.readings import assess, load_readings


def test_precision_and_recall_are_those_of_the_findings(shared: Path) -> None:
    folder = shared / "data/beam_questions"
    result = screen([folder])
    spoiled = {own.question for own in assess(load_readings()) if own.threshold == "beyond doubt"}
    read = {own.question for own in assess(load_readings())}
    findings = audit_folder(folder).findings
    for own in result.quality:
        pointed = {n for f in findings for n in f.question_ids if own.detector in ("any", f.detector)} & read
        pointed = {name for name in pointed if name.startswith(f"{own.tier}-")}
        assert (own.pointed_at, own.hits) == (len(pointed), len(pointed & spoiled)), own.detector
        assert own.spoiled == len([name for name in spoiled if name.startswith(f"{own.tier}-")])
        assert own.precision is None or own.precision[1] <= own.precision[0] <= own.precision[2]
    assert {own.tier: own.questions for own in result.estimates} == {"500K": 700, "1M": 640, "10M": 200}
    share = len([name for name in spoiled if name.startswith("100K-")]) / 400
    for own in result.estimates:  # the tiers are alike in what a detector sees, so far from the share of 100K none is
        assert own.low < own.share < own.high and own.share == pytest.approx(share, abs=0.02)
    assert "| 100K | any |" in result.render() and result.basis == 20


def test_an_estimate_by_hand() -> None:
    """Half of what a detector points at is spoiled and a tenth of the rest; of the new 10 questions it points at 4."""
    basis = {f"100K-{c}-q{n:02d}": n in (0, 5) for c in (1, 2) for n in range(12)}
    strata = {name: (name[-2:] in ("00", "01"), False) for name in basis}
    rest = [f"1M-1-q{n:02d}" for n in range(10)]
    strata |= {name: (name[-2:] < "04", False) for name in rest}
    own = _estimate(basis, strata, "1M", rest)
    assert own.share == pytest.approx(0.4 * 0.5 + 0.6 * 0.1) and own.pointed_at == 4
    assert own.low == pytest.approx(own.high)  # both conversations are alike


def test_universal_failures_are_failed_by_every_whole_run() -> None:
    failed = universal_failures()
    assert failed.groupby("tier").size().to_dict() == {"1M": 43, "10M": 40}
    assert (failed["best"] <= 1 / 3 + 1e-9).all() and set(failed["state"]) <= {"spoiled", "doubted", "right", "suspect"}
    read = {own.question: own.threshold for own in assess(load_readings())}
    for name, row in failed.iterrows():
        if name in read:
            assert row["state"] == {"beyond doubt": "spoiled", "strict": "doubted", None: "right"}[read[str(name)]]
