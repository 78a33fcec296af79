"""Do conversations of the offline author behave like the released ones? `python benchmarks/author.py --help`.

Generates conversations (or takes those in FOLDER), measures them (`likeness.py`) and prints every figure beside that of
the released conversations. The author is a stand-in, not a language model.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from beam_generate.authors import GenerationConfig
from beam_generate.of_run import generate_all
from beam_generate.pipeline import ConversationSpec
from beam_generate.seeds import targets
from beam_run.plugins import register_packages
from beamlib.data.conversations import SIZES, Size, parse_size
from beamlib.data.sources import find_conversations
from beamlib.errors import UserError
from beamlib.files import temporary_folder, to_json, write_text
from beamlib.llm.model import OFFLINE_NAME
from beamlib.params import usual_parameters
from likeness import Figure, agreement_rows, agreements, figures, read_figures, write_figures
from run import print_table

SHIPPED = Path(__file__).parent / "released_likeness.csv"
"""Figures of the twenty released 100K conversations: numbers only."""

NOTE = f"Keys of light, and conversations unless models wrote them: {OFFLINE_NAME}."


def main(
    folders: Annotated[list[Path] | None, typer.Argument(help="Folders of conversations; else some are made.")] = None,
    released: Annotated[Path | None, typer.Option(envvar="BEAM_DATA", help="Folder of released conversations.")] = None,
    released_figures: Annotated[
        Path | None, typer.Option(help="CSV of their figures: read if it exists, else written.")
    ] = None,
    sizes: Annotated[str, typer.Option("--sizes", "--size", help="Tiers, separated by commas.")] = "100k",
    conversations: Annotated[int, typer.Option(min=1, help="How many of each tier to generate.")] = 12,
    domains: Annotated[str, typer.Option(help="Their domains, taken in turn; by default drawn.")] = "",
    seed: Annotated[int, typer.Option(help="Seed of the first; each has its own.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Keep the generated conversations here.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    agreement: Annotated[
        Path | None, typer.Option(help="Write the rank agreements as beamlib/report/agreement.csv has them.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Compare generated conversations with released ones."""
    register_packages()
    chosen = [size for size in SIZES if size in {parse_size(name) for name in sizes.split(",")}]
    theirs = _released(released, released_figures, chosen, workers)
    with ExitStack() as stack:
        own = []
        if not folders:
            place = out or stack.enter_context(temporary_folder("beamlib-author-"))
            names = [name.strip() for name in domains.split(",")]
            for size in chosen:
                own += _generate(place, size, conversations, names, seed, workers)
            folders = [place]
        columns = {str(folder): [*own, *_measure(folder, chosen, workers)] for folder in folders}
    if agreement is not None:
        rows = agreement_rows(columns[str(folders[0])], theirs)
        write_text(agreement, pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"))
    compared = compare_figures(columns, theirs)
    if as_json:
        print(to_json({"note": NOTE, "figures": compared}, indent=2))
    else:
        _print(compared, list(columns))


def _measure(folder: Path, chosen: Sequence[Size], workers: int) -> list[Figure]:
    there = {source.size for source in find_conversations(folder)}
    return figures(folder, [size for size in chosen if size in there], workers)


def _released(folder: Path | None, kept: Path | None, chosen: Sequence[Size], workers: int) -> list[Figure]:
    """Return the released figures: those in `kept` if it exists, else measured in `folder`, else the shipped ones."""
    if kept is not None and kept.exists():
        return read_figures(kept)
    if folder is None:
        if kept is not None:
            raise UserError(f"{kept}: does not exist; name the released conversations with --released to write it.")
        return read_figures(SHIPPED)
    measured = _measure(folder, chosen, workers)
    if kept is not None:
        write_figures(kept, measured)
    return measured


def _generate(
    place: Path, size: Size, conversations: int, domains: Sequence[str], seed: int, workers: int
) -> list[Figure]:
    """Write conversations; return the time of one on one process, and the peak memory of the largest process."""
    started = time.monotonic()
    specs = [
        ConversationSpec(usual_parameters(size, generation_seed=seed + number, domain=domain), number)
        for number, domain in enumerate(islice(cycle(domains), conversations), 1)
    ]
    generate_all(specs, place, GenerationConfig(), workers)
    seconds = (time.monotonic() - started) / conversations
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
    return [
        Figure(size, "generation", f"seconds per conversation, {workers} processes", seconds, conversations),
        Figure(size, "generation", "peak MiB of a process", peak, conversations),
    ]


def compare_figures(columns: dict[str, list[Figure]], released: Sequence[Figure]) -> list[dict[str, Any]]:
    """Return a row per figure: the released value, the mean that Table 3 prints, and the value of each folder."""
    theirs = {(figure.size, figure.row, figure.part): figure for figure in released}
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for folder, own in columns.items():
        for figure in [*own, *agreements(own, released)]:
            key = (figure.size, figure.row, figure.part)
            real = theirs.get(key)
            row = rows.setdefault(
                key,
                {"size": figure.size, "row": figure.row, "part": figure.part, "paper": _printed(figure)}
                | {"released": real and real.value, "released_values": list(real.values) if real else []}
                | {"generated": {}},
            )
            row["generated"][folder] = {"value": figure.value, "n": figure.n, "values": list(figure.values)}
    return list(rows.values())


def _printed(figure: Figure) -> float | None:
    """Return Table 3's mean of a count per chat."""
    if figure.row != "per chat":
        return None
    table3 = targets(figure.size)
    return {"turns": table3.turns, "tokens": float(table3.tokens), "probes": 20.0}.get(figure.part)


def _print(rows: Sequence[dict[str, Any]], folders: Sequence[str]) -> None:
    shown = []
    for row in rows:
        cells = {folder: row["generated"].get(folder) for folder in folders}
        own = {
            Path(folder).name: _shown(cell["value"], cell["values"]) if cell else "" for folder, cell in cells.items()
        }
        real = "" if row["released"] is None else _shown(row["released"], row["released_values"])
        paper = "" if row["paper"] is None else _shown(row["paper"], ())
        facts = {"size": row["size"], "figure": row["row"], "": row["part"], "Table 3": paper}
        shown.append({**facts, "released": real, **own})
    print_table(NOTE, shown, {name: lambda row, name=name: row[name] for name in shown[0]}, names=3)


def _shown(value: float, values: Sequence[float]) -> str:
    shown = [f"{one:,.0f}" if one >= 100 else f"{one:.1f}" if one >= 20 else f"{one:.3f}" for one in (value, *values)]
    return f"{shown[0]} ({shown[1]} to {shown[-1]})" if values and values[0] != values[-1] else shown[0]


if __name__ == "__main__":
    try:
        typer.run(main)
    except UserError as error:
        print(f"author: {error}", file=sys.stderr)
        raise SystemExit(2) from None
