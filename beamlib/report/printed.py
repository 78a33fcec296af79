"""Rows on standard output: arms by abilities, and tables that fit the terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import unescape
from itertools import groupby
from textwrap import fill
from typing import Any

import pandas as pd
from rich.console import Console

from beamlib.data.gold import ABILITIES
from beamlib.files import to_json
from beamlib.report.csv_cells import safe_cells
from beamlib.scoring.intervals import interval_note
from beamlib.text import text_blocks


def print_by_ability(
    rows: Sequence[Mapping[str, Any]],
    value: str,
    names: Sequence[str],
    *,
    long: bool = False,
    as_csv: bool = False,
    as_json: bool = False,
) -> None:
    """Print rows per ability as one row for each arm, the abilities in columns; what all rows share stands above.

    Arms that `names` don't tell apart have their `part` beside them.

    Args:
        rows: A row per arm and ability, with `low`, `high`, `size` and the number of conversations; the average's
            ability is `average` or `all`.
        value: The column that is shown by ability.
        names: The columns that tell rows of different arms apart.
        long: Keep the row per ability, with its interval and counts.
    """
    if as_json or as_csv:
        print(
            to_json(list(rows), indent=2) if as_json else safe_cells(pd.DataFrame(rows)).to_csv(index=False),
            end="\n" * as_json,
        )
        return
    keys = [tuple(row[name] for name in names) for row in rows if row["ability"] == _AVERAGES[0]]
    if len(set(keys)) < len(keys) and "part" in rows[0]:
        names = (*names, "part")
    rows = [{name: value for name, value in row.items() if name != "part" or name in names} for row in rows]
    others = [name for name in rows[0] if name not in {*names, *_OF_ABILITY, value}]
    averages = {tuple(row[name] for name in names): row for row in rows if row["ability"] in _AVERAGES}
    if long:
        shown = [dict(row) for row in rows]
    else:
        abilities = [name for name in (*_AVERAGES, *ABILITIES) if any(row["ability"] == name for row in rows)]
        wide = {key: dict(zip(names, key, strict=True)) for key in averages}
        for key, average in averages.items():
            values = {row["ability"]: row[value] for row in rows if tuple(row[name] for name in names) == key}
            wide[key] |= {name: values.get(name) for name in abilities if name in _AVERAGES}
            wide[key] |= {name: average[name] for name in ("low", "high")}
            wide[key] |= {name: values.get(name) for name in abilities if name not in _AVERAGES}
            wide[key] |= {name: average[name] for name in others}
        shown = list(wide.values())
    shared = [name for name in (*names, *others) if len({row[name] for row in shown}) == 1 and len(shown) > 1]
    for name in shared:
        (shared_value,) = {row.pop(name) for row in shown}
        if shared_value not in (None, ""):
            print(f"{name.replace('_', ' ')}: {shared_value}")
    counts = dict.fromkeys((row["size"], _conversations(row)) for row in averages.values())
    uneven = len(counts) > len({size for size, _ in counts})
    if not long and not uneven:  # the lines on intervals count the conversations of each size
        shown = [{name: row[name] for name in row if name not in _CONVERSATIONS} for row in shown]
    print_rows(shown, as_json=False, names=[name for name in names if name not in shared])
    lines = [f"Interval, {size}: {interval_note(n)}." for size, n in counts]
    if any(row["low"] is None and _conversations(row) > 1 for row in averages.values()):
        lines += ["No interval: the value is equal in all conversations, or a bound of the data."]
    print(*(fill(line, 80) for line in lines), sep="\n")


_CONVERSATIONS = ("n_conversations", "conversations")
_OF_ABILITY = ("ability", "low", "high", "equal", "n_questions", "n")
_AVERAGES = ("average", "all")


def _conversations(row: Mapping[str, Any]) -> int:
    return int(next(row[name] for name in _CONVERSATIONS if name in row))


def print_rows(rows: Sequence[Mapping[str, Any]], *, as_json: bool, names: Sequence[str] = ()) -> None:
    """Print rows with the same keys as a JSON list, or as a table with three decimals.

    What is wider than the terminal (80 columns in a pipe) becomes blocks of columns, each of which begins with the
    columns `names`. No cell is shortened.
    """
    if as_json:
        print(to_json(list(rows), indent=2))
        return
    if not rows:
        return
    columns = [*names, *(name for name in rows[0] if name not in names)]
    header, left = [name.replace("_", "\n") for name in columns], [isinstance(rows[0][name], str) for name in columns]
    cells = [[_cell(row[name]) for name in columns] for row in rows]
    print(text_blocks(header, cells, left, len(names), Console().width))


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def print_report(text: str) -> None:
    """Print a report that fits the terminal (80 columns in a pipe): Markdown tables as blocks, long lines broken.

    No word and no cell is shortened; what goes on below is indented.
    """
    width = Console().width
    for is_table, lines in groupby(text.splitlines(), key=lambda line: line.startswith("|")):
        part = list(lines)
        print(_blocks(part, width) if is_table else "\n".join(_broken(line, width) for line in part))


def _blocks(lines: Sequence[str], width: int) -> str:
    """Write a Markdown table as text; each block begins with the columns that tell its rows apart."""
    header, _, *rows = (_markdown_cells(line) for line in lines)
    names = next((n for n in range(1, len(header)) if len({tuple(row[:n]) for row in rows}) == len(rows)), 1)
    left = [not all(re.match(r"[-$\d.–]", row[column]) for row in rows) for column in range(len(header))]
    heads = [fill(name, 14, break_long_words=False) for name in header]
    return text_blocks(heads, rows, left, names, width)


def _markdown_cells(line: str) -> list[str]:
    cells = re.split(r"(?<!\\)\|", line.strip())[1:-1]
    return [unescape(re.sub(r"\\([^\w\s])", r"\1", cell.strip())) for cell in cells]


def _broken(line: str, width: int) -> str:
    line = re.sub(r"^\*\*(.*)\*\*$", r"\1", line)
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    whole = fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return whole if len(line) > width else line
