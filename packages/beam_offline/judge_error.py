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
def stated() -> str:
    """Say in one sentence that scores of this judge are estimates, and with what error."""
    rows = [row for row in csv.DictReader(read_text(JUDGE_ERROR).splitlines()) if row["kappa"] and row["bias_low"]]
    errors = "; ".join(
        f"{row['run']}, {row['conversations']} conversations: kappa {float(row['kappa']):.2f}, average off by "
        f"{float(row['bias']):+.3f} [{float(row['bias_low']):+.3f}, {float(row['bias_high']):+.3f}]"
        for row in rows
    )
    return (
        f"Judged offline, so each score is an estimate; its error on published answers of language models, against "
        f"GPT-5: {errors}. For other answers `beamlib judge-card` measures it."
    )
