"""`beamlib facts`: every number that prose states, with its definition, source and command; and the marks in prose."""

from __future__ import annotations

import subprocess
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from beam_commands.options import Json
from beamlib.files import to_json
from beamlib.places import ROOT

MODULES = ("beam_run.first_memory", "beam_claims.facts", "beam_field.facts")
"""Modules of packages that register facts."""


def load_facts() -> None:
    """Register the facts of all packages."""
    for module in MODULES:
        import_module(module)


def marked_files() -> list[Path]:
    """List the documents that may hold marks: every tracked Markdown file and notebook."""
    listing = subprocess.run(["git", "ls-files", "-z", "*.md", "*.ipynb"], cwd=ROOT, capture_output=True, check=False)
    names = listing.stdout.decode().split("\0") if listing.returncode == 0 else []
    return [ROOT / name for name in names if name] or [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("notebooks/*.ipynb"),
    ]


def facts(
    name: Annotated[str, typer.Argument(help="A fact with its arguments, as in a mark; by default all.")] = "",
    write: Annotated[bool, typer.Option("--write", help="Fill in the marks of all documents.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Name documents whose marks differ; exit code 1.")] = False,
    as_json: Json = False,
) -> None:
    """Print the numbers that prose states, each with its definition, unit, interval rule, source and command."""
    from beamlib.report.facts import fact_text, fill_files, known_facts  # with pandas and figures

    load_facts()
    if write or check:
        for path in (changed := list(fill_files(marked_files(), write=write))):
            print(f"{'wrote' if write else 'differs:'} {path.relative_to(ROOT)}")
        raise SystemExit(1 if check and changed else 0)
    if name:
        print(fact_text(name))
        return
    rows = [
        {
            "fact": " ".join(filter(None, [entry.name, example])),
            "value": fact_text(f"{entry.name} {example}"),
            "definition": entry.definition,
            **{field: getattr(entry, field) for field in ("unit", "interval", "source", "command")},
        }
        for entry in known_facts()
        for example in entry.examples
    ]
    print(to_json(rows, indent=2) if as_json else "", end="\n" * as_json)
    if not as_json:
        _show(rows)


def _show(rows: list[dict[str, str]]) -> None:
    console = Console(markup=False, emoji=False)
    for row in rows:
        value = row["value"] if "\n" not in row["value"] else "(a table)"
        console.print(f"{row['fact']}: {value}", style="bold")
        table = Table.grid(padding=(0, 1))
        for field in ("definition", "unit", "interval", "source", "command"):
            table.add_row(f"  {field}", row[field])
        console.print(table)
