"""Do conversations of the offline author behave like the released ones? `python benchmarks/author.py --help`.

Generates conversations (or takes those in FOLDER), measures them (`likeness.py` says what is counted) and prints every
figure beside that of the released conversations and its goal. The author is a stand-in, not a language model.
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
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from beam_generate.authors import GenerationConfig
from beam_generate.layouts import targets
from beam_generate.of_run import generate_all
from beam_generate.pipeline import ConversationSpec
from beamlib.data.conversations import SIZES, Size
from beamlib.data.sources import find_conversations, parse_size
from beamlib.errors import UserError
from beamlib.files import temporary_folder, to_json, write_text
from beamlib.llm.model import OFFLINE_NAME
from beamlib.params import usual_parameters
from likeness import MORE, Figure, agreement_rows, agreements, figures, goal, read_figures, write_figures

SHIPPED = Path(__file__).parent / "released_likeness.csv"
"""Figures of the twenty released 100K conversations: numbers only."""


NOTE = f"Keys of light, and conversations unless models wrote them: {OFFLINE_NAME}."


def main(
    folders: Annotated[list[Path] | None, typer.Argument(help="Generated conversations; by default some are.")] = None,
    released: Annotated[Path | None, typer.Option(envvar="BEAM_DATA", help="Folder of released conversations.")] = None,
    released_figures: Annotated[
        Path | None, typer.Option(help="Their figures: read where this CSV is there, else written to it.")
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
    more: Annotated[bool, typer.Option("--more", help="Also describe questions, evidence and messages.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Print how generated conversations compare with released ones, and which goals are met."""
    chosen = [size for size in SIZES if size in {parse_size(name) for name in sizes.split(",")}]
    theirs = _released(released, released_figures, chosen, workers)
    with ExitStack() as stack:
        own = []
        if not folders:
            place = out or stack.enter_context(temporary_folder("beamlib-author-"))
            names = [name.strip() for name in domains.split(",")]
            for size in chosen:
                own += _generated(place, size, conversations, names, seed, workers)
            folders = [place]
        columns = {str(folder): [*own, *figures(folder, _sizes(folder, chosen), workers)] for folder in folders}
    if agreement is not None:
        found = agreement_rows(columns[str(folders[0])], theirs)
        write_text(agreement, pd.DataFrame(found).to_csv(index=False, lineterminator="\n"))
    rows = compared(columns, theirs)
    if as_json:
        print(to_json({"note": NOTE, "figures": rows}, indent=2))
    else:
        _print([row for row in rows if more or not row["row"].startswith(MORE)], list(columns))


def _sizes(folder: Path, chosen: Sequence[Size]) -> list[Size]:
    there = {source.size for source in find_conversations(folder)}
    return [size for size in chosen if size in there]


def _released(folder: Path | None, kept: Path | None, chosen: Sequence[Size], workers: int) -> list[Figure]:
    """The released figures: those in `kept` where it exists, else measured in `folder` and kept, else the shipped."""
    if kept is not None and kept.exists():
        return read_figures(kept)
    if folder is None:
        if kept is not None:
            raise UserError(f"{kept}: does not exist; name the released conversations with --released to write it.")
        return read_figures(SHIPPED)
    found = figures(folder, _sizes(folder, chosen), workers)
    if kept is not None:
        write_figures(kept, found)
    return found


def _generated(
    place: Path, size: Size, conversations: int, domains: Sequence[str], seed: int, workers: int
) -> list[Figure]:
    """Write the conversations; the time of one on one process, and the peak memory of the largest process."""
    started = time.monotonic()
    generate_all(
        [
            ConversationSpec(usual_parameters(size, generation_seed=seed + number, domain=domain), number)
            for number, domain in enumerate(islice(cycle(domains), conversations), 1)
        ],
        place,
        GenerationConfig(),
        workers,
    )
    seconds = (time.monotonic() - started) / conversations
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
    return [
        Figure(size, "generation", f"seconds per conversation, {workers} processes", seconds, conversations),
        Figure(size, "generation", "peak MiB of a process", peak, conversations),
    ]


def compared(columns: dict[str, list[Figure]], released: Sequence[Figure]) -> list[dict[str, Any]]:
    """A row per figure: the released value, and per folder the value, its goal and whether it is met."""
    theirs = {(one.size, one.row, one.part): one for one in released}
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for folder, found in columns.items():
        for one in [*found, *agreements(found, released)]:
            key = (one.size, one.row, one.part)
            real = theirs.get(key)
            words, met = goal(one, real, _printed(one))
            row = rows.setdefault(
                key,
                {"size": one.size, "row": one.row, "part": one.part, "released": real and real.value, "goal": words}
                | {"released_values": list(real.values) if real else [], "generated": {}},
            )
            row["generated"][folder] = {"value": one.value, "n": one.n, "met": met, "values": list(one.values)}
    return list(rows.values())


def _printed(one: Figure) -> float | None:
    """Table 3's mean of a count per chat."""
    if one.row != "per chat":
        return None
    wanted = targets(one.size)
    return {"turns": wanted.turns, "tokens": float(wanted.tokens), "probes": 20.0}.get(one.part)


def _print(rows: Sequence[dict[str, Any]], folders: Sequence[str]) -> None:
    table = Table(box=SIMPLE, title=NOTE, title_justify="left")
    for name in ("size", "figure", "", ">released", *(f">{Path(f).name}" for f in folders), "goal", "met"):
        table.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left", overflow="fold")
    for row in rows:
        cells = [row["generated"].get(folder) for folder in folders]
        values = [_shown(cell["value"], cell["values"]) if cell else "" for cell in cells]
        met = " ".join({True: "yes", False: "NO", None: ""}[cell["met"]] if cell else "" for cell in cells)
        real = "" if row["released"] is None else _shown(row["released"], row["released_values"])
        table.add_row(row["size"], row["row"], row["part"], real, *values, row["goal"], met)
    console = Console(markup=False, emoji=False)
    console.width = max(console.width, console.measure(table, options=console.options.update(max_width=999)).maximum)
    console.print(table)
    for folder in folders:
        known = [row["generated"][folder]["met"] for row in rows if folder in row["generated"]]
        goals = [met for met in known if met is not None]
        print(f"{folder if len(folders) > 1 else 'goals'}: {sum(goals)} of {len(goals)} met")


def _shown(value: float, values: Sequence[float]) -> str:
    digits = f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 20 else f"{value:.3f}"
    return f"{digits} ({values[0]:,.0f} to {values[-1]:,.0f})" if values and values[0] != values[-1] else digits


if __name__ == "__main__":
    try:
        typer.run(main)
    except UserError as error:
        print(f"author: {error}", file=sys.stderr)
        raise SystemExit(2) from None
