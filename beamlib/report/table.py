"""Tables of named blocks of rows, and how every table of a report is written: as HTML, Markdown and CSV."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Protocol

from jinja2 import Environment, PackageLoader

from beamlib.files import read_text, write_text
from beamlib.report.text import markdown_table

Block = tuple[str, tuple[tuple[str, tuple[str, ...]], ...]]
"""A name (a model, a size), and its rows: what the row is, and its cells."""


class Table(Protocol):
    """What can be saved and printed: a table that knows itself as CSV, Markdown and HTML, and as a row per value."""

    def to_csv(self) -> str: ...
    def to_markdown(self) -> str: ...
    def to_html(self) -> str: ...
    def records(self) -> list[dict[str, Any]]: ...


def save_table(table: Table, name: str, folder: Path) -> list[Path]:
    """Write `name`.csv, `name`.md and `name`.html into `folder`; returns their paths."""
    texts = {"csv": table.to_csv(), "md": table.to_markdown(), "html": table.to_html()}
    return [write_text(folder / f"{name}.{suffix}", text) for suffix, text in texts.items()]


def html_table(
    title: str,
    header: Sequence[str],
    blocks: Sequence[Sequence[Mapping[str, Any]]],
    footer: Sequence[str],
    notes: Sequence[str] = (),
    groups: Sequence[tuple[str, int]] = (),
) -> str:
    """A self-contained HTML figure: caption above, footer below; nothing is told by colour.

    `groups` are headings over the header, each with the number of columns below it.
    """
    # PackageLoader finds the template in an installed package too; autoescape because titles name user folders.
    environment = Environment(loader=PackageLoader("beamlib.report", "."), autoescape=True, keep_trailing_newline=True)
    return environment.get_template("table.html.j2").render(
        title=title, notes=notes, groups=groups, header=header, blocks=blocks, footer=footer
    )


@dataclass(frozen=True, slots=True)
class BlockTable:
    """A table of blocks of rows, ready to be shown and saved: caption above, what it rests on below."""

    title: str
    header: tuple[str, ...]
    blocks: tuple[Block, ...]
    footer: tuple[str, ...]

    def to_html(self) -> str:
        """A self-contained HTML figure."""
        blocks = [
            [
                {"size": name, "ability": label, "average": False, "cells": cells, "span": 0 if place else len(rows)}
                for place, (label, cells) in enumerate(rows)
            ]
            for name, rows in self.blocks
        ]
        return html_table(self.title, self.header, blocks, self.footer)

    def _repr_html_(self) -> str:
        return self.to_html()

    def rows(self) -> list[tuple[str, ...]]:
        """All rows, each with the name of its block first."""
        return [(name, label, *cells) for name, rows in self.blocks for label, cells in rows]

    def records(self) -> list[dict[str, Any]]:
        """The rows by the names of the header."""
        return [dict(zip(self.header, row, strict=True)) for row in self.rows()]

    def to_markdown(self) -> str:
        """Title, table and footer as Markdown."""
        return markdown_table(self.header, self.rows(), title=self.title, footer=self.footer)

    def to_csv(self) -> str:
        """The rows as CSV; title and footer follow as lines that begin with "#"."""
        buffer = StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerows([self.header, *self.rows()])
        return buffer.getvalue() + "".join(f"# {line}\n" for line in (self.title, *self.footer))


def joined(title: str, files: Sequence[Path]) -> BlockTable:
    """One table of the blocks of several that were saved as CSV with the same header; their footers one after another.

    Each line of a footer stands once.
    """
    blocks: list[Block] = []
    footer: list[str] = []
    header: tuple[str, ...] = ()
    for file in files:
        lines = read_text(file).splitlines()
        first, *rows = csv.reader(line for line in lines if not line.startswith("#"))
        header = tuple(first)
        blocks += [
            (name, tuple((label, tuple(cells)) for own, label, *cells in rows if own == name))
            for name in dict.fromkeys(row[0] for row in rows)
        ]
        footer += [line[2:] for line in lines if line.startswith("#")][1:]
    return BlockTable(title, header, tuple(blocks), tuple(dict.fromkeys(footer)))
