"""The published tables against the scores that whole verdicts can give (section 5 of the reference).

Abstention (one item per question but at 1M) and contradiction resolution (four items) have rubrics of one size, so a
cell is a count over a known number of verdicts. The reference has 16 such cells of tier and ability, for which it needs
all rubrics; these 7 need none. Printed values are cut to three decimals, not rounded.
"""

from __future__ import annotations

import csv
from pathlib import Path

import beamlib

TABLES = ("table1_main_results", "table8_ablation", "table9_retrieval_budget")
VERDICTS = {
    ("100K", "Abstention"): 40,
    ("500K", "Abstention"): 70,
    ("10M", "Abstention"): 20,
    ("100K", "Contradiction Resolution"): 160,
    ("500K", "Contradiction Resolution"): 280,
    ("1M", "Contradiction Resolution"): 280,
    ("10M", "Contradiction Resolution"): 80,
}


def printed() -> list[tuple[int, int]]:
    """Every published value of those cells in thousandths, with the number of verdicts behind it."""
    found = []
    for table in TABLES:
        path = Path(beamlib.__file__).parent / "data/published" / f"{table}.csv"
        with path.open(encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                if (verdicts := VERDICTS.get((row["length"], row["ability"]))) is not None:
                    found.append((round(float(row["printed"]) * 1000), verdicts))
    return found


def cut(verdicts: int) -> set[int]:
    """Means of `verdicts` whole scores, in thousandths, cut."""
    return {1000 * count // verdicts for count in range(verdicts + 1)}


def test_every_value_lies_on_the_grid_of_whole_scores() -> None:
    values = printed()
    assert len(values) == 7 * 21
    assert [one for one in values if one[0] not in cut(one[1])] == []
