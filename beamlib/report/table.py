"""The one table of every report: rows in blocks, what stands above and below them, and the forms in which it leaves."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from jinja2 import Environment, PackageLoader
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid

from beamlib.files import read_text, write_text
from beamlib.report.footer import Footer
from beamlib.report.markdown import markdown_table

_WIDTH = 180


@dataclass(frozen=True, slots=True)
class Table:
    """A table ready to be shown and saved: `title` and `notes` above, `footer` below.

    `cells` are the texts. Its first `names` columns say what a row is; of the two of `results` the first names a block
    of rows. `groups` are headings over the columns, one for each, equal ones together. Rows in `strong` are set in
    bold. `csv` is what the CSV holds and `frame` the plain values, where these are others; `basis` is what the
    footer was made of.
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
        """The names of the columns, each with its group."""
        columns = zip(self.groups or ("",) * self.cells.shape[1], self.cells, strict=True)
        return tuple(f"{group} / {name}" if group else str(name) for group, name in columns)

    def rows(self) -> list[tuple[str, ...]]:
        """The texts of every row."""
        return list(self.cells.itertuples(index=False, name=None))

    def records(self) -> list[dict[str, Any]]:
        """The plain values as rows, None where one is missing."""
        values = (self.cells if self.frame is None else self.frame).astype(object)
        rows: list[dict[str, Any]] = values.where(values.notna(), None).to_dict("records")  # type: ignore[assignment]
        return rows

    def to_csv(self) -> str:
        """The values as CSV; title, notes and footer follow as lines that begin with "#".

        `pandas.read_csv(..., comment="#")` leaves them out.
        """
        values = self.cells if self.csv is None else self.csv
        comments = "".join(f"# {line}\n" for line in (self.title, *self.notes, *self.footer))
        return values.to_csv(index=False, lineterminator="\n", float_format="%.6f") + comments

    def to_markdown(self) -> str:
        """Title, notes, table and footer as Markdown."""
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
        """A self-contained HTML figure: caption above, footer below; nothing is told by colour."""
        # PackageLoader finds the template in an installed package too; autoescape because titles name user folders.
        environment = Environment(
            loader=PackageLoader("beamlib.report", "."), autoescape=True, keep_trailing_newline=True
        )
        heads = 1 if self.kind == "results" and self.names == 2 else 0
        rows = [(row[: self.names], row[self.names :], n in self.strong) for n, row in enumerate(self.rows())]
        blocks = [list(block) for _, block in groupby(rows, lambda row: row[0][:heads])]
        groups = [(name, len(list(own))) for name, own in groupby(self.groups)]
        template = environment.get_template("table.html.j2")
        return template.render(table=self, blocks=blocks, heads=heads, groups=groups)

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_text(self) -> str:
        """A table for the terminal, the footer below."""
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


def joined(title: str, files: Sequence[Path]) -> Table:
    """One table of several that were saved as CSV with the same header; each line of their footers stands once."""
    rows: list[list[str]] = []
    footer: list[str] = []
    for file in files:
        lines = read_text(file).splitlines()
        header, *own = csv.reader(line for line in lines if not line.startswith("#"))
        rows += own
        footer += [line[2:] for line in lines if line.startswith("#")][1:]
    return Table(title, pd.DataFrame(rows, columns=header), tuple(dict.fromkeys(footer)))
