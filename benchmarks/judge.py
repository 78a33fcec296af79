"""How far the offline judge agrees with GPT-5, what made-up answers earn, how fast it is: see `--help`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import judge_measures as measures
from beamlib.errors import UserError
from beamlib.files import write_text


def _table(title: str, rows: Sequence[measures.Agreement] | Sequence[measures.Made]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE)
    for name in asdict(rows[0]):
        table.add_column(name.replace("_", " "))
    for row in rows:
        cells = asdict(row).values()
        table.add_row(*(f"{one:.3f}" if isinstance(one, float) else "–" if one is None else str(one) for one in cells))
    return table


def main(
    data: Annotated[Path, typer.Option(help="A folder with field/, verdicts/ and beam/.")],
    out: Annotated[Path | None, typer.Option(help="Write the table of made-up answers here, as CSV.")] = None,
    error: Annotated[Path | None, typer.Option(help="Write the table of agreement here, as CSV.")] = None,
    verdicts: Annotated[Path | None, typer.Option(help="Write the verdicts of the first table here, as CSV.")] = None,
) -> None:
    """Print three tables: agreement out of fold, made-up answers, speed."""
    console = Console(width=150)
    rows, ours = measures.held_out_scores(data)
    if verdicts is not None:
        write_text(verdicts, measures.packed(rows, ours))
    found = measures.agreements(data, rows, ours)
    console.print(_table("Agreement with GPT-5, by models that did not see the conversation", found))
    made = list(measures.made_answers(data))
    console.print(_table("Made-up answers on 100K 1 to 10 (nugget mean over ten abilities)", made))
    new, known, additions = measures.speed(data)
    console.print(
        f"Nuggets a second of processor time: {new:,.0f} while words are new, {known:,.0f} after "
        f"(ten million additions in Python: {additions:.2f} s)"
    )
    for path, rows in ((out, made), (error, found)):
        if path is not None:
            write_text(path, measures.as_csv(rows))  # type: ignore[arg-type]


if __name__ == "__main__":
    try:
        typer.run(main)
    except UserError as problem:
        print(problem, file=sys.stderr)
        sys.exit(2)
