"""Speed and memory of the package: `python benchmarks/run.py --help`. `beamlib evidence` measures evidence recall.

Every stage runs in a fresh process, so that its peak memory is its own. On Linux a new process inherits the peak of the
one that started it; therefore heavy imports happen in the children, and in the parent only to print.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from tqdm import tqdm

import beamlib
from beamlib.data.conversations import SIZES, Size, parse_size
from beamlib.data.sources import Source, find_conversations
from beamlib.errors import UserError
from beamlib.files import to_json

EXAMPLE = Path(beamlib.__file__).parent / "data" / "example"
BASELINES = {"characters": "index pairs, bm25", "questions": "recall, rag bm25"}
"""The row of the same tier and run that every other row with this unit is compared with."""

STAGES = {
    "load": "characters",
    "index pairs, bm25": "characters",
    "index pairs, dense": "characters",
    "index pairs, hybrid": "characters",
    "ingest, light": "characters",
    "recall, rag bm25": "questions",
    "recall, rag dense": "questions",
    "recall, rag hybrid": "questions",
    "recall, light": "questions",
}
"""The measured stages in order, with their units."""

MIB = 1 << 20

Row = dict[str, Any]


def select(data: Path, sizes: Sequence[Size] | None, conversations: int) -> dict[Size, list[Source]]:
    """Select the first `conversations` of each tier, 0 for all."""
    every = find_conversations(data, sizes)
    tiers = {size: [source for source in every if source.size == size] for size in SIZES}
    chosen = {size: sources[: conversations or None] for size, sources in tiers.items() if sources}
    if missing := [size for size in sizes or () if size not in chosen]:
        raise UserError(f"{data}: no conversation of size {', '.join(missing)}; there are {', '.join(chosen)}.")
    return chosen


def in_child(what: str, function: str, *arguments: object) -> Any:
    """Call a function of `stages` in a process that is started for it and ends with it."""
    # "spawn": a forked child would share this process's pages and count them as its own.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(_call, function, *arguments).result()
        except BrokenProcessPool:
            raise UserError(
                f"{what}: its process was killed, most likely for want of memory; choose a smaller --size."
            ) from None


def _call(function: str, *arguments: object) -> Any:
    return getattr(import_module("stages"), function)(*arguments)


def stage_rows(tiers: Mapping[Size, Sequence[Source]], repeat: int, *, quiet: bool) -> list[Row]:
    """Measure every tier and stage: the fastest of `repeat` processes, the largest of their peaks."""
    rows: list[Row] = []
    pairs = [(size, stage) for size in tiers for stage in STAGES]
    for size, stage in (bar := tqdm(pairs, unit="stage", disable=quiet)):
        bar.set_description(f"{size}: {stage}")
        costs = [in_child(f"{size}, {stage}", "measure", stage, tiers[size]) for _ in range(repeat)]
        amount, seconds = costs[0].amount, min(cost.seconds for cost in costs)
        row = {"size": size, "stage": stage, "unit": STAGES[stage], "amount": amount, "seconds": seconds}
        peak = max(cost.peak for cost in costs) / MIB
        rows.append(row | {"per_second": amount / seconds, "peak_mib": peak})
    speeds = {(row["size"], row["stage"]): row["per_second"] for row in rows}
    return [row | {"relative": speeds[row["size"], BASELINES[row["unit"]]] / row["per_second"]} for row in rows]


def machine() -> Row:
    """Return what times depend on besides the code."""
    return {
        "beamlib": beamlib.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
    }


Columns = Mapping[str, str | Callable[[Row], str]]


def print_table(title: str, rows: Sequence[Row], columns: Columns, footer: Sequence[str] = (), names: int = 2) -> None:
    """Print rows as a table; a column is a format string or a function of the row."""
    import pandas as pd

    from beamlib.report.table import Table

    cells = [[form(row) if callable(form) else form.format(**row) for form in columns.values()] for row in rows]
    print(Table(title, pd.DataFrame(cells, columns=list(columns)), tuple(footer), names=names).to_text())


def print_report(report: Row) -> None:
    """Print the table of a report."""
    amounts = {(row["size"], row["unit"]): row["amount"] for row in report["stages"]}
    measured = [
        f"{size}: {len(ids)} conversation(s), {amounts[size, 'characters']:,} characters, "
        f"{amounts[size, 'questions']} questions"
        for size, ids in report["tiers"].items()
    ]
    footer = (
        *measured,
        f"× base: time per character over that of '{BASELINES['characters']}', time per question over that of "
        f"'{BASELINES['questions']}', in the same tier.",
        f"A process that has only imported the package and loaded the encoder peaks at "
        f"{report['import_peak_mib']:,.0f} MiB. Keys and notes are by the offline stand-in, not a "
        "language model.",
    )
    columns: Columns = {"tier": "{size}", "stage": "{stage}", "seconds": "{seconds:.3f}"}
    speed = {"speed": "{per_second:,.0f} {unit:.4}/s", "× base": "{relative:.2f}", "peak MiB": "{peak_mib:,.0f}"}
    print_table("Speed and memory", report["stages"], {**columns, **speed}, footer)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    data: Annotated[
        Path | None, typer.Option(envvar="BEAM_DATA", help="Folder of BEAM conversations; else the built-in example.")
    ] = None,
    size: Annotated[str, typer.Option(help="Tiers, separated by commas; by default all that are found.")] = "",
    conversations: Annotated[int, typer.Option(min=0, help="The first so many of each tier; 0 for all.")] = 1,
    repeat: Annotated[int, typer.Option(min=1, help="Processes per stage; the fastest counts.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Measure characters per second and peak memory; nothing is asserted."""
    if data is None:
        print("No data given: the built-in example is too small for meaningful speed.", file=sys.stderr)
    sizes = [parse_size(name) for name in size.split(",")] if size.strip() else None
    tiers = select(data or EXAMPLE, sizes, conversations)
    report: Row = {
        "machine": machine(),
        "tiers": {size: [source.id for source in sources] for size, sources in tiers.items()},
        "example": data is None,
        "baselines": BASELINES,
        "import_peak_mib": in_child("import", "measure_import").peak / MIB,
        "stages": stage_rows(tiers, repeat, quiet=as_json),
    }
    if as_json:
        print(to_json(report, indent=2))
        return
    print("  ".join(f"{name} {value}" for name, value in report["machine"].items() if value is not None))
    print_report(report)


if __name__ == "__main__":
    try:
        app()
    except UserError as error:
        print(f"benchmarks/run.py: {error}", file=sys.stderr)
        raise SystemExit(2) from None
