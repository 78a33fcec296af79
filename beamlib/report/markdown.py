"""Text as it is shown: in Markdown, and rows as text or JSON on standard output."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any

from rich.console import Console
from rich.table import Table

from beamlib.files import to_json

_MARKS = re.compile(
    r"[\\`*|~$]"  # code, emphasis, cells, what is struck out, formulas
    r"|(?<![^\W_])_|_(?![^\W_])"  # inside a word it means nothing
    r"|\](?=[(\[:])"  # a link; a lone bracket, as of an interval, is text
    r"|^[-+](?=[-\s]|$)|^[=#]"  # a list, a heading
)


def markdown_text(text: str) -> str:
    """`text` as one line of Markdown that shows exactly it: neither marks nor HTML in it mean anything."""
    line = escape(" ".join(text.split()), quote=False)
    return re.sub(r"^(\d{1,9})(?=[.)](\s|$))", r"\1\\", _MARKS.sub(r"\\\g<0>", line))


def markdown_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    notes: Sequence[str] = (),
    footer: Sequence[str] = (),
    names: int | None = None,
    strong: Collection[int] = (),
) -> str:
    """A Markdown table below its title and notes, above its footer; nothing in the texts is taken for Markdown.

    The first `names` columns are set to the left and the others to the right; None leaves that open. The rows whose
    numbers are in `strong` are set in bold.
    """
    head = [f"**{markdown_text(title)}**"] if title else []
    head += [f"*{markdown_text(note)}*" for note in notes]
    aligned = "---|" * len(header) if names is None else "---|" * names + "---:|" * (len(header) - names)
    lines = [*head, *([""] if head else []), _markdown_row(header), f"|{aligned}"]
    lines += [_markdown_row(row, "**" if number in strong else "") for number, row in enumerate(rows)]
    return "\n".join([*lines, "", "  \n".join(map(markdown_text, footer)), ""])


def _markdown_row(cells: Sequence[str], mark: str = "") -> str:
    return "| " + " | ".join(f"{mark}{markdown_text(cell)}{mark}" for cell in cells) + " |"


def print_rows(rows: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print `rows` (all with the same keys) as a JSON list, or as a table with three decimals."""
    if as_json:
        print(to_json(list(rows), indent=2))
        return
    table = Table()  # its console takes every text as it is: [red] in a name is no colour
    for name in rows[0] if rows else ():
        table.add_column(name)
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    console = Console(markup=False, emoji=False)
    # Cells are never shortened to "0.…": where the terminal is too narrow it breaks the lines, a pipe keeps them.
    console.width = max(console.width, console.measure(table, options=console.options.update(max_width=10_000)).maximum)
    console.print(table)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def counted(value: int | None, noun: str, plural: str | None = None) -> str:
    """A number with its noun, or that it is not reported."""
    if value is None:
        return f"{plural or noun + 's'} not reported"
    return f"{value:,} {noun if value == 1 else plural or noun + 's'}"
