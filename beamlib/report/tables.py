"""Tables in the paper's shape: abilities are rows, series are columns, the average is last, the footer says the basis.

A table is built from a frame of `beamlib.report.long_frame`. Its footer names protocol, judge and reader. Runs that
cannot be compared share a table only on request, and a note then says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from beamlib.report.footer import Footer, ensure_comparable, is_offline, model_shown
from beamlib.report.long_frame import (
    AVERAGE_ABILITY,
    COLUMNS,
    ROWS,
    SERIES_FIELDS,
    ability_label,
    check_frame,
    misprint_notes,
    published_long,
    series_label,
    series_of,
    sizes_of,
)
from beamlib.report.table import Table
from beamlib.text import count

ORDERING = (
    "Event ordering, and the average with it: Kendall's tau-b over the aligned events, negative values as 0. The "
    "published tables hold the released code's normalised tau, (tau + 1) / 2 over the lines of an answer: compare them "
    "under the protocol released-code."
)
"""Footer line of a table with event ordering under the protocol `paper`."""
NOTHING = "–"
"""A cell without value: no question, nothing could be scored (the footer counts that), or the source lacks what the
protocol needs (a note above the table names these cells)."""
PARTIAL = "†"
"""Marks a mean from which unscored questions are missing."""
_CSV_PARTS = ("", " low", " high", " n", " conversations")

_Row = Mapping[Any, Any]


def result_table(
    frame: pd.DataFrame,
    title: str,
    footer: Footer,
    manifests: Sequence[Mapping[str, Any]] = (),
    *,
    allow_mixed: bool = False,
    notes: Sequence[str] = (),
    intervals: bool = True,
) -> Table:
    """Build a table from a long frame: a row per size and ability, a column per series.

    Args:
        manifests: Those of all runs in it, for `ensure_comparable`.
        intervals: False displays means alone; the CSV has mean, low, high, n and conversations of every series anyway.

    Raises:
        UserError: If the frame is not in long form or the runs cannot share a table.
    """
    mixed = ensure_comparable(manifests, allow_mixed=allow_mixed)
    sizes, series = sizes_of(check_frame(frame)), series_of(frame)
    rows = {(row["size"], row["ability"], row["series"]): row for row in frame.to_dict("records")}
    present = set(zip(frame["size"], frame["ability"], strict=True))
    places = [(size, ability) for size in sizes for ability in ROWS if (size, ability) in present]
    most = frame.groupby("size")["conversations"].max()
    alone = set(most[most.eq(1).fillna(False).astype(bool)].index)
    if alone and len(sizes) == 1:
        notes = [*notes, "n = 1 conversation, hence no interval in any cell."]
    cells = [
        [f"{size} (n = 1)" if size in alone else size, ability_label(ability)]
        + [_cell(rows.get((size, ability, name)), most[size], intervals=intervals) for name in series]
        for size, ability in places
    ]
    values = [[*place, *(part for name in series for part in _numbers(rows.get((*place, name))))] for place in places]
    header = ["size", "ability", *(f"{name}{part}" for name in series for part in _CSV_PARTS)]
    names, groups = _columns(frame)
    lead = 0 if len(sizes) > 1 else 1  # a single size is not repeated in every row
    ordering = footer.protocol == "paper" and {"event_ordering", AVERAGE_ABILITY} & {ability for _, ability in places}
    return Table(
        title,
        pd.DataFrame([row[lead:] for row in cells], columns=["Size", "Ability", *names][lead:]),
        (*footer.lines(), *([ORDERING] if ordering else [])),
        (*mixed, *notes, *_partial(frame), *not_computable_notes(frame)),
        names=2 - lead,
        groups=("", "", *groups)[lead:] if groups else (),
        strong=[number for number, (_, ability) in enumerate(places) if ability == AVERAGE_ABILITY],
        csv=pd.DataFrame(values, columns=header),
        frame=frame[[*COLUMNS, *(name for name in SERIES_FIELDS if name in frame)]],
        basis=footer,
    )


def _partial(frame: pd.DataFrame) -> list[str]:
    """Write a note on the series whose means leave out unscored questions."""
    if "unscored" not in frame:
        return []
    missing = (
        frame[(frame["ability"] == AVERAGE_ABILITY) & (frame["unscored"] > 0)]
        .groupby("series", sort=False)["unscored"]
        .sum()
    )
    series = ", ".join(f"{series_label(str(name))} {number}" for name, number in missing.items())
    return [f"{PARTIAL} Partial: without the unscored questions ({series})."] if series else []


def not_computable_notes(frame: pd.DataFrame) -> list[str]:
    """Write a note per series on what its source lacks, by size and ability."""
    if "not_computable" not in frame:
        return []
    notes = []
    for name, own in frame[frame["not_computable"] > 0].groupby("series", sort=False):
        by_size = own.groupby("size", sort=False)["ability"].agg(lambda names: ", ".join(map(ability_label, names)))
        places = "; ".join(f"{size} {abilities}" for size, abilities in by_size.items())
        notes.append(f"Not computable from its source under this protocol: {series_label(str(name))}: {places}.")
    return notes


def _columns(frame: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Return the names of the series, and the backbones above them if there are several."""
    first = frame.drop_duplicates("series")
    if "backbone" not in frame:
        return [series_label(name) for name in first["series"]], []
    return [series_label(name) for name in first["method"]], list(first["backbone"])


def _mean(row: _Row) -> str:
    """Format the mean as printed in the paper, or with three decimals; empty if missing."""
    printed = row.get("printed")
    if isinstance(printed, str):
        return printed
    return "" if pd.isna(row["mean"]) else f"{row['mean']:.3f}"


def _cell(row: _Row | None, most: Any = 0, *, intervals: bool = True) -> str:
    """Format a cell; it names its number of conversations if that is below `most`, that of its size."""
    mean, n = ("", None) if row is None else (_mean(row), row["conversations"])
    if row is None or not mean:
        return NOTHING
    shown = with_interval(
        mean,
        row["low"] if intervals else float("nan"),
        row["high"],
        n if pd.isna(most) or most != 1 else None,
        equal=intervals and row.get("equal") is True,
    )
    shown = f"{shown} (n = {int(n)})" if not pd.isna(n) and 1 < n < most and not row.get("equal") else shown
    return f"{shown} {PARTIAL}" if row.get("unscored", 0) > 0 else shown


def with_interval(mean: str, low: float, high: float, conversations: int | None, *, equal: bool = False) -> str:
    """Format "0.412 [0.38, 0.45]", "0.412 (n = 1)" for one conversation, or the mean alone without an interval.

    `equal`: all conversations have this value, which shows no spread: "0.100 (equal in all 5)".
    """
    if not pd.isna(conversations) and conversations == 1:
        return f"{mean} (n = 1)"
    if equal:
        return f"{mean} (equal in all {conversations})"
    return mean if pd.isna(low) or pd.isna(high) else f"{mean} [{low:.2f}, {high:.2f}]"


def ends_text(low: float, high: float, n: int, form: str = ".2f") -> str:
    """Format the interval of a paired difference: "[-0.031, 0.002]", "(equal in all 5)", or nothing for n < 2."""
    if n < 2:
        return ""
    return f"(equal in all {n})" if math.isnan(low) else f"[{low:{form}}, {high:{form}}]"


def _numbers(row: _Row | None) -> list[str]:
    """Format mean (as printed for published values), low, high, n and conversations; empty if missing."""
    if row is None:
        return [""] * len(_CSV_PARTS)
    ends = ["" if pd.isna(row[name]) else f"{row[name]:.3f}" for name in ("low", "high")]
    counts = ["" if pd.isna(row[name]) else str(int(row[name])) for name in ("n", "conversations")]
    return [_mean(row), *ends, *counts]


def shown_averages(frame: pd.DataFrame) -> pd.Series[str]:
    """Format the averages of a long frame of one size, by series."""
    rows = frame[frame["ability"] == AVERAGE_ABILITY].to_dict("records")
    return pd.Series({str(row["series"]): _cell(row) for row in rows}, dtype=str)


def published_footer(reader: str) -> Footer:
    """Build the footer of published values from the backbone `reader`."""
    return Footer(
        protocol="as published",
        judge="not named (the released code uses gpt-4.1-mini)",
        reader=reader,
        data_revision="as published",
        n_conversations=None,
        n_questions=None,
        unscored=None,
        interval="none published",
        treatment="as published",
        token_counter="not reported",
    )


def published_table(table: str, backbone: str | None = None) -> Table:
    """Build a published score table as printed, with its known misprints as notes; arguments as `published_long`."""
    title = f"Table {table.removeprefix('table')} as published" + (f", {backbone}" if backbone else "")
    reader = backbone or ("as named in the columns" if table == "table1" else "Qwen2.5-32B-AWQ")
    return result_table(published_long(table, backbone), title, published_footer(reader), notes=misprint_notes(table))


def side_by_side(published: Table, ours: Table) -> str:
    """Explain why the published table and this run's are separate: readers, judges and conversations differ."""
    assert published.basis and ours.basis
    theirs, own = published.basis, ours.basis
    caption = (
        "The published table above and this run's table below are not one table: the published values come from "
        f"another reader and judge ({theirs.judge}) on all conversations, this run's from {model_shown(own.reader)} as "
        f"reader and {model_shown(own.judge)} as judge on {count(own.n_conversations, 'conversation')}."
    )
    if is_offline(own.reader) or is_offline(own.judge):
        caption += " Compare the order of the columns within each table, not the numbers across them."
    return caption
