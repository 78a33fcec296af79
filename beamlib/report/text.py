"""Rows as text or JSON on standard output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from beamlib.files import to_json


def print_rows(rows: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print `rows` (all with the same keys) as a JSON list, or as a table with three decimals."""
    if as_json:
        print(to_json(list(rows), indent=2))
        return
    table = Table()
    for name in rows[0] if rows else ():
        table.add_column(name)
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    console = Console()
    # Cells are never shortened to "0.…": where the terminal is too narrow it breaks the lines, a pipe keeps them.
    console.width = max(console.width, console.measure(table, options=console.options.update(max_width=10_000)).maximum)
    console.print(table)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
