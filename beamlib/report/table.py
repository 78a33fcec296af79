"""The table of every report: rows in blocks, notes and footer, as CSV, Markdown, HTML or text."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any, Literal

import pandas as pd
from jinja2 import Environment, PackageLoader
from rich.console import Console

from beamlib.files import read_text, write_text
from beamlib.report.csv_cells import safe_cells, safe_line
from beamlib.report.footer import SHOWN_LINES, Footer
from beamlib.text import text_blocks

_HEADING = 13  # columns of a heading, whose words go on below

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
        comments = "".join(f"# {safe_line(line)}\n" for line in (self.title, *self.notes, *self.footer))
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

    def to_text(self, width: int = 0) -> str:
        """Write title, notes, table and footer for a terminal of `width` columns (default: this one, 80 in a pipe)."""
        width = width or Console().width
        left = [number < self.names for number in range(len(self.header))]
        header = [fill(name, _HEADING, break_long_words=False) for name in self.header]
        room = width // (self.names + 1)  # of a name, which goes on below
        rows = [[*(fill(name, room) for name in row[: self.names]), *row[self.names :]] for row in self.rows()]
        table = text_blocks(header, rows, left, self.names, width)
        above, below = ([fill(line, width) for line in lines] for lines in ((self.title, *self.notes), self.footer))
        return "\n".join([*above, table, *below]) + "\n"


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
    line = escape(" ".join(str(text).split()), quote=False)
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
