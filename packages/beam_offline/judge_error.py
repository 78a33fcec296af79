"""How far scores by the offline judge can be off: what footers say of them, from `measured/judge_error.csv`.

`benchmarks/judge.py --error` makes the table: the judge against GPT-5 on published answers, by models that were fitted
without the conversation that is judged.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from beamlib.files import read_text

JUDGE_ERROR = Path(__file__).parent / "measured" / "judge_error.csv"


@cache
def error_rows() -> tuple[dict[str, str], ...]:
    """Return the measured error, a row per published run."""
    return tuple(csv.DictReader(read_text(JUDGE_ERROR).splitlines()))


@cache
def stated_error() -> str:
    """Say in one sentence with what error this judge scores, and for what it is fit."""
    rows = error_rows()
    (both,) = (row for row in rows if row["run"] == "1m-both")
    worst = min((row for row in rows if not row["kappa"]), key=lambda row: float(row["bias"]))
    return (
        f"Judged offline, so each score is an estimate. Against GPT-5 on answers of {both['system']} at {both['tier']} "
        f"({both['conversations']} conversations): kappa {float(both['kappa']):.2f}, average off by "
        f"{float(both['bias']):+.3f} [{float(both['bias_low']):+.3f}, {float(both['bias_high']):+.3f}]; worst on a "
        f"system and judge not trained on ({worst['system']}, {worst['tier']}, {worst['conversations']} conversation): "
        f"{float(worst['bias']):+.3f}. It counts what of a nugget stands in an answer and can't tell a denial. Fit for "
        "averages of similar systems, best on facts; not for small differences, other kinds of systems, or answers "
        "written to deceive it. `beamlib judge-card` measures it on other answers."
    )
