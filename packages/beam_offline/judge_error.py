"""How far scores by the offline judge can be off: what footers say of them, from `measured/judge_error.csv`.

`benchmarks/judge.py --error` makes the table: the judge against GPT-5 on published answers, by models that were fitted
without the conversation that is judged.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from beam_offline.judge.features import WEIGHTS, features
from beamlib.errors import UserError
from beamlib.files import read_text, sha256

JUDGE_ERROR = Path(__file__).parent / "measured" / "judge_error.csv"
MEASURED_JUDGE = JUDGE_ERROR.with_name("judge.sha256")
"""The `judge_identity` of the judge whose error was measured."""

_EXCHANGES = (
    ("How many hives do I keep?", "LLM response should state: fourteen hives", "You keep 14 hives near the orchard."),
    ("When is the concert?", "LLM response should mention: 9 May 2024", "It was moved; it is on 2024-05-10 at 7 pm."),
    (
        "Which train do I take?",
        "LLM response should state: the 7:12 to Lund",
        "On Mondays I take an early train.",
    ),
    ("Did I sell the van?", "There is no information about a van", "There is no mention of a van in our chats."),
)


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


def judge_identity() -> str:
    """Hash what training gave and what the features say of a few exchanges: another judge has another one."""
    rows = [[round(value, 4) for value in features(*exchange)] for exchange in _EXCHANGES]
    return sha256(f"{read_text(WEIGHTS)}{rows}")


def check_measured_judge() -> None:
    """Raise `UserError` where what is stated of the judge was measured with another one."""
    if read_text(MEASURED_JUDGE).strip() != judge_identity():
        raise UserError(
            f"{MEASURED_JUDGE}: the offline judge has changed since its error was measured; measure it anew with "
            "`python benchmarks/judge.py` and its options --out, --error and --verdicts."
        )
