"""What the run of README's own memory ends with, as a fact that prose states."""

from __future__ import annotations

import csv

from beamlib.places import ROOT
from beamlib.report.facts import fact

FIRST_MEMORY = ROOT / "benchmarks" / "first_memory.csv"


@fact(
    "first_memory.table",
    unit="table",
    source="benchmarks/first_memory.csv",
    command="./run_all.sh --data beamlib/data/example --memory mine.py:Newest",
)
def first_memory() -> str:
    """What the run of README's memory ends with, in a code fence."""
    with FIRST_MEMORY.open(encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [" " + "   ".join(map(str.ljust, row, widths)) for row in (header, *rows)]
    lines.insert(1, "─" * len(lines[0]))
    return "\n".join(["```", *lines, "```"])
