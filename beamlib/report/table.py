"""The table of every report: rows in blocks, notes and footer, as CSV, Markdown, HTML or text."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from jinja2 import Environment, PackageLoader
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid

from beamlib.data.gold import ABILITIES
from beamlib.files import read_text, to_json, write_text
from beamlib.report.csv_cells import safe_cells
from beamlib.report.footer import SHOWN_LINES, Footer
from beamlib.scoring.intervals import interval_note

_WIDTH = 180
_MARKS = re.compile(
    r"[\\`*|~$]"  # code, emphasis, cells, what is struck out, formulas
    r"|(?<![^\W_])_|_(?![^\W_])"  # inside a word it means nothing
    r"|\](?=[(\[:])"  # a link; a lone bracket, as of an interval, is text
    r"|^[-+](?=[-\s]|$)|^[=#]"  # a list, a heading
)


@dataclass(frozen=True, slots=True)
class Table:
    """A table to display and save: `title` and `notes` above, `footer` below.

    Attributes:
        cells: The texts.
        names: The first columns that name a row; of two in `results` the first names a block of rows.
        groups: A heading over each column; equal neighbours are merged.
        strong: Numbers of the rows in bold.
        csv: The values of the CSV, if they differ from `cells`.
        frame: The plain values, if they differ from `cells`.
        basis: The source of the footer.
    """

    title: str
    cells: pd.DataFrame = field(repr=False)
    footer: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    kind: Literal["results", "costs"] = "results"
    names: int = 2
    groups: tuple[str, ...] = ()
    strong: Sequence[int] = ()
    csv: pd.DataFrame | None = field(default=None, repr=False)
    frame: pd.DataFrame | None = field(default=None, repr=False)
    basis: Footer | None = field(default=None, repr=False)

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns with their groups."""
        columns = zip(self.groups or ("",) * self.cells.shape[1], self.cells, strict=True)
        return tuple(f"{group} / {name}" if group else str(name) for group, name in columns)

    def rows(self) -> list[tuple[str, ...]]:
        """Return the texts of every row."""
        return list(self.cells.itertuples(index=False, name=None))

    def records(self) -> list[dict[str, Any]]:
        """Return the plain values as rows, None where one is missing."""
        values = (self.cells if self.frame is None else self.frame).astype(object)
        rows: list[dict[str, Any]] = values.where(values.notna(), None).to_dict("records")  # type: ignore[assignment]
        return rows

    def to_csv(self) -> str:
        """Write the values as CSV; title, notes and footer follow as lines with "#".

        `pandas.read_csv(..., comment="#")` skips these.
        """
        values = self.cells if self.csv is None else self.csv
        comments = "".join(f"# {line}\n" for line in (self.title, *self.notes, *self.footer))
        return safe_cells(values).to_csv(index=False, lineterminator="\n", float_format="%.6f") + comments

    def to_markdown(self) -> str:
        """Write title, notes, table and footer as Markdown."""
        return markdown_table(
            self.header,
            self.rows(),
            title=self.title,
            notes=self.notes,
            footer=self.footer,
            names=self.names if self.kind == "costs" else None,
            strong=self.strong,
        )

    def to_html(self) -> str:
        """Write a self-contained HTML figure: caption above, footer below, no meaning by colour."""
        # PackageLoader also works in an installed package; titles name users' folders, hence autoescape.
        environment = Environment(
            loader=PackageLoader("beamlib.report", "."), autoescape=True, keep_trailing_newline=True
        )
        heads = 1 if self.kind == "results" and self.names == 2 else 0
        rows = [(row[: self.names], row[self.names :], n in self.strong) for n, row in enumerate(self.rows())]
        blocks = [list(block) for _, block in groupby(rows, lambda row: row[0][:heads])]
        groups = [(name, len(list(own))) for name, own in groupby(self.groups)]
        template = environment.get_template("table.html.j2")
        return template.render(table=self, blocks=blocks, heads=heads, groups=groups, shown=SHOWN_LINES)

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_text(self) -> str:
        """Write a table for the terminal, the footer below."""
        grid = Grid(title=self.title, title_justify="left", box=SIMPLE_HEAD, show_edge=False)
        for number, name in enumerate(self.header):
            grid.add_column(name, justify="left" if number < self.names else "right")
        for row in self.rows():
            grid.add_row(*row)
        text = StringIO()
        Console(file=text, width=_WIDTH, color_system=None, markup=False, emoji=False).print(grid)
        lines = [line.rstrip() for line in text.getvalue().splitlines()]
        return "\n".join([*lines, *self.footer]) + "\n"


def save_table(table: Table, name: str, folder: Path) -> list[Path]:
    """Write `name`.csv, `name`.md and `name`.html into `folder`; returns their paths."""
    texts = {"csv": table.to_csv(), "md": table.to_markdown(), "html": table.to_html()}
    return [write_text(folder / f"{name}.{suffix}", text) for suffix, text in texts.items()]


def join_tables(title: str, files: Sequence[Path]) -> Table:
    """Join tables that were saved as CSV with the same header; equal footer lines appear once."""
    rows: list[list[str]] = []
    footer: list[str] = []
    for file in files:
        lines = read_text(file).splitlines()
        header, *own = csv.reader(line for line in lines if not line.startswith("#"))
        rows += own
        footer += [line[2:] for line in lines if line.startswith("#")][1:]
    return Table(title, pd.DataFrame(rows, columns=header), tuple(dict.fromkeys(footer)))


def markdown_text(text: str) -> str:
    """Escape a text as a line of Markdown: marks and HTML in it are displayed as they are."""
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
    """Write a Markdown table below its title and notes, above its footer; all texts are escaped.

    Args:
        names: The first columns, aligned left; the others right. None leaves the alignment open.
        strong: Numbers of the rows in bold.
    """
    head = [f"**{markdown_text(title)}**"] if title else []
    head += [f"*{markdown_text(note)}*" for note in notes]
    aligned = "---|" * len(header) if names is None else "---|" * names + "---:|" * (len(header) - names)
    lines = [*head, *([""] if head else []), _markdown_row(header), f"|{aligned}"]
    lines += [_markdown_row(row, "**" if number in strong else "") for number, row in enumerate(rows)]
    return "\n".join([*lines, "", "  \n".join(map(markdown_text, footer)), ""])


def _markdown_row(cells: Sequence[str], mark: str = "") -> str:
    return "| " + " | ".join(f"{mark}{markdown_text(cell)}{mark}" for cell in cells) + " |"


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
    print_rows(shown, as_json=False, names=[name for name in names if name not in shared])
    conversations = {
        row["size"]: row[next(name for name in _CONVERSATIONS if name in row)] for row in averages.values()
    }
    print(*(f"Interval, {size}: {interval_note(n)}." for size, n in conversations.items()), sep="\n")


_CONVERSATIONS = ("n_conversations", "conversations")
_OF_ABILITY = ("ability", "low", "high", "n_questions", "n")
_AVERAGES = ("average", "all")


def print_rows(rows: Sequence[Mapping[str, Any]], *, as_json: bool, names: Sequence[str] = ()) -> None:
    """Print rows with the same keys as a JSON list, or as a table with three decimals.

    What is wider than the terminal (80 columns in a pipe) becomes blocks of columns, each of which begins with the
    columns `names`. No cell is shortened.
    """
    if as_json:
        print(to_json(list(rows), indent=2))
        return
    console = Console(markup=False, emoji=False)  # with markup off: [red] in a name is no colour
    width, others = console.width, [name for name in rows[0] if name not in names] if rows else []
    while others or (rows and names):
        shown = len(others)
        while shown > 1 and _width(_grid(rows, (*names, *others[:shown])), console) > width:
            shown -= 1
        grid = _grid(rows, (*names, *others[:shown]))
        console.width = max(width, _width(grid, console))
        console.print(grid)
        others = others[shown:]
        if not others:
            return
        print()


def _grid(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Grid:
    grid = Grid(box=SIMPLE_HEAD, show_edge=False)
    for name in names:
        grid.add_column(name.replace("_", "\n"), justify="left" if isinstance(rows[0][name], str) else "right")
    for row in rows:
        grid.add_row(*(_cell(row[name]) for name in names))
    return grid


def _width(grid: Grid, console: Console) -> int:
    return console.measure(grid, options=console.options.update(max_width=10_000)).maximum


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
