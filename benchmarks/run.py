"""Speed, memory and evidence recall of the package: `python benchmarks/run.py --help`.

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
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from tqdm import tqdm

import beamlib
from beamlib.data.conversations import SIZES, Size
from beamlib.data.sources import Source, find_conversations, parse_size
from beamlib.errors import UserError
from beamlib.files import temporary_folder, to_json

EXAMPLE = Path(beamlib.__file__).parent / "data" / "example"
BASELINES = {"characters": "index pairs, bm25", "questions": "recall, rag bm25"}
"""The row of the same tier and run that every other row with this unit is compared with."""

STAGES = {
    "load": "characters",
    "embed": "characters",
    "index pairs, bm25": "characters",
    "index pairs, dense": "characters",
    "index pairs, hybrid": "characters",
    "extract and index keys": "characters",
    "ingest, light": "characters",
    "recall, rag bm25": "questions",
    "recall, rag dense": "questions",
    "recall, rag hybrid": "questions",
    "recall, light": "questions",
    "answer, rag": "questions",
    "answer, light": "questions",
    "answer, full-context": "questions",
    "judge": "questions",
}
"""The measured stages in order, with their units."""

COMPARED = (
    ("ingest, light", "index pairs, hybrid"),
    ("extract and index keys", "index pairs, hybrid"),
    ("recall, light", "recall, rag hybrid"),
    ("answer, light", "answer, rag"),
)
"""Pairs of stages compared within a tier. For RAG, ingesting is indexing the pairs."""

MIB = 1 << 20

Row = dict[str, Any]


@dataclass(frozen=True)
class Selection:
    """The conversations measured, by tier, and a folder with those of the released layout and no others."""

    tiers: Mapping[Size, Sequence[Source]]
    folder: Path


def select(data: Path, sizes: Sequence[Size] | None, conversations: int, scratch: Path) -> Selection:
    """Select the first `conversations` of each tier (0 for all); parquet files cannot be cut, so there `data` stays."""
    every = find_conversations(data, sizes)
    tiers = {size: [source for source in every if source.size == size] for size in SIZES}
    chosen = {size: sources[: conversations or None] for size, sources in tiers.items() if sources}
    missing = [size for size in sizes or () if size not in chosen]
    if missing:
        raise UserError(f"{data}: no conversation of size {', '.join(missing)}; there are {', '.join(chosen)}.")
    if any(source.kind == "hub" for source in every):
        return Selection(chosen, data)
    for size, sources in chosen.items():
        (scratch / size).mkdir()
        for source in sources:
            (scratch / size / source.path.name).symlink_to(source.path.resolve(), target_is_directory=True)
    return Selection(chosen, scratch)


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


def stage_rows(selection: Selection, repeat: int, *, quiet: bool) -> list[Row]:
    """Measure every tier and stage: the fastest of `repeat` processes, the largest of their peaks."""
    rows: list[Row] = []
    pairs = [(size, stage) for size in selection.tiers for stage in STAGES]
    for size, stage in (bar := tqdm(pairs, unit="stage", disable=quiet)):
        bar.set_description(f"{size}: {stage}")
        costs = [in_child(f"{size}, {stage}", "measure", stage, selection.tiers[size]) for _ in range(repeat)]
        amount, seconds = costs[0].amount, min(cost.seconds for cost in costs)
        row = {"size": size, "stage": stage, "unit": STAGES[stage], "amount": amount, "seconds": seconds}
        peak = max(cost.peak for cost in costs) / MIB
        rows.append(row | {"per_second": amount / seconds, "peak_mib": peak})
    return [row | {"relative": _ratio(row, _row(rows, row["size"], BASELINES[row["unit"]]))} for row in rows]


def comparisons(rows: Sequence[Row]) -> list[Row]:
    """Compare time per character or question: LIGHT with RAG in a tier, the largest tier with the smallest."""
    sizes = list(dict.fromkeys(row["size"] for row in rows))
    pairs = [((size, stage), (size, base)) for size in sizes for stage, base in COMPARED]
    if len(sizes) > 1:
        pairs += [((sizes[-1], stage), (sizes[0], stage)) for stage in STAGES]
    return [
        {
            "of": {"size": of[0], "stage": of[1]},
            "to": {"size": to[0], "stage": to[1]},
            "unit": STAGES[of[1]],
            "ratio": _ratio(_row(rows, *of), _row(rows, *to)),
        }
        for of, to in pairs
    ]


def _row(rows: Sequence[Row], size: str, stage: str) -> Row:
    return next(row for row in rows if (row["size"], row["stage"]) == (size, stage))


def _ratio(row: Row, other: Row) -> float:
    return float((row["seconds"] / row["amount"]) / (other["seconds"] / other["amount"]))


def evidence_rows(selection: Selection, *, quiet: bool) -> list[Row]:
    """Measure evidence recall at K=5 of each memory and retriever, per tier."""
    sizes = tqdm(list(selection.tiers), desc="evidence recall", unit="tier", disable=quiet)
    return [row for size in sizes for row in in_child(f"{size}, evidence", "evidence", selection.folder, size)]


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
    """Print the tables of a report."""
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
        f"{report['import_peak_mib']:,.0f} MiB. Keys, notes, answers and verdicts are by the offline stand-in, not a "
        "language model.",
    )
    columns: Columns = {"tier": "{size}", "stage": "{stage}", "seconds": "{seconds:.3f}"}
    speed = {"speed": "{per_second:,.0f} {unit:.4}/s", "× base": "{relative:.2f}", "peak MiB": "{peak_mib:,.0f}"}
    print_table("Speed and memory", report["stages"], {**columns, **speed}, footer)
    ratios = {
        "stage": lambda row: " ".join(row["of"].values()),
        "to": lambda row: " ".join(row["to"].values()),
        "per": lambda row: row["unit"].removesuffix("s"),
        "ratio": "{ratio:.2f}",
    }
    print_table("Ratios of time", report["comparisons"], ratios)
    recall = {
        "memory": "{memory}",
        "retriever": "{retriever}",
        "K": "{k}",
        "recall": "{recall:.3f}",
        "questions": "{n}",
    }
    keys = "light: the episodic index alone, its keys by the offline stand-in, not a language model."
    print_table("Evidence recall", report["evidence"], {"tier": "{size}", **recall}, [keys], names=3)


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
    """Measure characters per second, peak memory and evidence recall; nothing is asserted."""
    if data is None:
        print("No data given: the built-in example is too small for meaningful speed.", file=sys.stderr)
    sizes = [parse_size(name) for name in size.split(",")] if size.strip() else None
    with temporary_folder("beamlib-benchmark-") as scratch:
        selection = select(data or EXAMPLE, sizes, conversations, scratch)
        rows = stage_rows(selection, repeat, quiet=as_json)
        report: Row = {
            "machine": machine(),
            "tiers": {size: [source.id for source in sources] for size, sources in selection.tiers.items()},
            "example": data is None,
            "baselines": BASELINES,
            "import_peak_mib": in_child("import", "measure_import").peak / MIB,
            "stages": rows,
            "comparisons": comparisons(rows),
            "evidence": evidence_rows(selection, quiet=as_json),
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
