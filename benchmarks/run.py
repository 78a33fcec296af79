"""Speed, memory and evidence recall of the package, measured in one go: `python benchmarks/run.py --help`.

Every stage runs in a fresh process, so that its peak memory is its own. On Linux a new process inherits the peak of the
one that started it; therefore nothing heavy is imported here, only in the children.
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
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

import beamlib
from beamlib.data.conversations import SIZES, Size
from beamlib.data.sources import Source, find_conversations, parse_size
from beamlib.errors import UserError
from beamlib.files import temporary_folder, to_json

if TYPE_CHECKING:
    from stages import Cost

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
"""What is measured, in this order, and what it is counted in."""

NOTEBOOKS = ("05_memory", "06_main_results", "07_retrieval_budget", "08_dense_vs_sparse", "09_ablation")
COMPARED = (
    ("ingest, light", "index pairs, hybrid"),
    ("extract and index keys", "index pairs, hybrid"),
    ("recall, light", "recall, rag hybrid"),
    ("answer, light", "answer, rag"),
)
"""Pairs of stages set against each other within a tier. Indexing the pairs is all that ingesting means for RAG."""

MIB = 1 << 20

Row = dict[str, Any]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Selection:
    """The conversations measured, by tier, and a folder that shows those of the released layout and no others."""

    tiers: Mapping[Size, Sequence[Source]]
    folder: Path
    conversations: int


def select(data: Path, sizes: Sequence[Size] | None, conversations: int, scratch: Path) -> Selection:
    """The first `conversations` of each tier (0 for all). Parquet files cannot be cut: there, `folder` is `data`."""
    found = find_conversations(data, sizes)
    tiers = {size: [source for source in found if source.size == size] for size in SIZES}
    chosen = {size: sources[: conversations or None] for size, sources in tiers.items() if sources}
    missing = [size for size in sizes or () if size not in chosen]
    if missing:
        raise UserError(f"{data}: no conversation of size {', '.join(missing)}; there are {', '.join(chosen)}.")
    if any(source.kind == "hub" for source in found):
        return Selection(chosen, data, conversations)
    for size, sources in chosen.items():
        (scratch / size).mkdir()
        for source in sources:
            (scratch / size / source.path.name).symlink_to(source.path.resolve(), target_is_directory=True)
    return Selection(chosen, scratch, conversations)


def _in_child(what: str, function: Callable[..., Result], *arguments: object) -> Result:
    """Call `function` in a process that is started for it and ends with it."""
    # "spawn": a forked child would share this process's pages and count them as its own.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            raise UserError(
                f"{what}: its process was killed, most likely for want of memory; choose a smaller --size."
            ) from None


def _measure(stage: str, sources: Sequence[Source]) -> Cost:
    from stages import measure

    return measure(stage, sources)


def _measure_import() -> Cost:
    from stages import measure_import

    return measure_import()


def _measure_evaluation(size: Size, data: str, run: str, conversations: int) -> Cost:
    from stages import measure_evaluation

    return measure_evaluation(size, data, run, conversations)


def _measure_notebook(name: str, size: Size, data: str, run: str, conversations: int) -> Cost:
    from stages import measure_notebook

    return measure_notebook(name, size, data, run, conversations)


def _evidence(folder: Path, size: Size) -> list[Row]:
    from stages import evidence

    return evidence(folder, size)


def stage_rows(selection: Selection, repeat: int, *, quiet: bool) -> list[Row]:
    """One row per tier and stage: the fastest of `repeat` processes, the largest of their peaks."""
    todo = [(size, stage) for size in selection.tiers for stage in STAGES]
    rows: list[Row] = []
    for size, stage in (bar := tqdm(todo, unit="stage", disable=quiet)):
        bar.set_description(f"{size}: {stage}")
        what = f"{size}, {stage}"
        costs = [_in_child(what, _measure, stage, selection.tiers[size]) for _ in range(repeat)]
        amount, seconds = costs[0].amount, min(cost.seconds for cost in costs)
        rows.append(
            {
                "size": size,
                "stage": stage,
                "unit": STAGES[stage],
                "amount": amount,
                "seconds": seconds,
                "per_second": amount / seconds,
                "peak_mib": max(cost.peak for cost in costs) / MIB,
            }
        )
    return [row | {"relative": _ratio(row, _row(rows, row["size"], BASELINES[row["unit"]]))} for row in rows]


def comparisons(rows: Sequence[Row]) -> list[Row]:
    """Time per character or question of one row as a multiple of another's: LIGHT to RAG, largest to smallest tier."""
    sizes = list(dict.fromkeys(row["size"] for row in rows))
    couples = [((size, one), (size, other)) for size in sizes for one, other in COMPARED]
    if len(sizes) > 1:
        couples += [((sizes[-1], stage), (sizes[0], stage)) for stage in STAGES]
    return [
        {
            "of": {"size": of[0], "stage": of[1]},
            "to": {"size": to[0], "stage": to[1]},
            "unit": STAGES[of[1]],
            "ratio": _ratio(_row(rows, *of), _row(rows, *to)),
        }
        for of, to in couples
    ]


def _row(rows: Sequence[Row], size: str, stage: str) -> Row:
    return next(row for row in rows if (row["size"], row["stage"]) == (size, stage))


def _ratio(row: Row, other: Row) -> float:
    return float((row["seconds"] / row["amount"]) / (other["seconds"] / other["amount"]))


def notebook_rows(selection: Selection, run: Path, *, quiet: bool) -> list[Row]:
    """The evaluation of the smallest tier, from nothing, then each notebook, which replays it."""
    size = next(iter(selection.tiers))
    common = (size, str(selection.folder), str(run), selection.conversations)
    rows: list[Row] = []
    for name in (bar := tqdm(("evaluation", *NOTEBOOKS), unit="notebook", disable=quiet)):
        bar.set_description(f"{size}: {name}")
        if name == "evaluation":
            cost = _in_child(name, _measure_evaluation, *common)
        else:
            cost = _in_child(name, _measure_notebook, name, *common)
        rows.append({"size": size, "name": name, "seconds": cost.seconds, "peak_mib": cost.peak / MIB})
    return [row | {"relative": row["seconds"] / rows[0]["seconds"]} for row in rows]


def evidence_rows(selection: Selection, *, quiet: bool) -> list[Row]:
    """Evidence recall at K=5 of each memory and retriever, per tier."""
    sizes = tqdm(list(selection.tiers), desc="evidence recall", unit="tier", disable=quiet)
    return [row for size in sizes for row in _in_child(f"{size}, evidence", _evidence, selection.folder, size)]


def machine() -> Row:
    """What the times depend on besides the code."""
    return {
        "beamlib": beamlib.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
    }


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> Table:
    """`columns` that begin with `>` are numbers and stand to the right."""
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left", box=SIMPLE)
    for name in columns:
        table.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left")
    for row in rows:
        table.add_row(*row)
    return table


def _speed_table(report: Row) -> Table:
    amounts = {(row["size"], row["unit"]): row["amount"] for row in report["stages"]}
    measured = [
        f"{size}: {len(ids)} conversation(s), {amounts[size, 'characters']:,} characters, "
        f"{amounts[size, 'questions']} questions"
        for size, ids in report["tiers"].items()
    ]
    return _table(
        "Speed and memory\n" + "\n".join(measured),
        ("tier", "stage", ">seconds", ">speed", ">× base", ">peak MiB"),
        [
            (
                row["size"],
                row["stage"],
                f"{row['seconds']:.3f}",
                f"{row['per_second']:,.0f} {'char' if row['unit'] == 'characters' else 'q'}/s",
                f"{row['relative']:.2f}",
                f"{row['peak_mib']:,.0f}",
            )
            for row in report["stages"]
        ],
        f"× base: time per character over that of '{BASELINES['characters']}', time per question over that of "
        f"'{BASELINES['questions']}', in the same tier. A process that has only imported the package and loaded the "
        f"encoder peaks at {report['import_peak_mib']:,.0f} MiB. Keys, notes, answers and verdicts are by the offline "
        "stand-in, not a language model.",
    )


def _comparison_table(report: Row) -> Table:
    rows = []
    for row in report["comparisons"]:
        of, to = row["of"], row["to"]
        if of["size"] == to["size"]:
            rows.append((of["size"], f"{of['stage']} / {to['stage']}", row["unit"].removesuffix("s"), row["ratio"]))
        else:
            rows.append((f"{of['size']} / {to['size']}", of["stage"], row["unit"].removesuffix("s"), row["ratio"]))
    return _table(
        "Ratios of time",
        ("tier", "stage", "per", ">ratio"),
        [(size, stage, unit, f"{ratio:.2f}") for size, stage, unit, ratio in rows],
    )


def _evidence_table(report: Row) -> Table:
    return _table(
        "Evidence recall",
        ("tier", "memory", "retriever", ">K", ">recall", ">questions"),
        [
            (row["size"], row["memory"], row["retriever"], str(row["k"]), f"{row['recall']:.3f}", str(row["n"]))
            for row in report["evidence"]
        ],
        "light: the episodic index alone, its keys by the offline stand-in, not a language model.",
    )


def _notebook_table(report: Row) -> Table:
    return _table(
        "Notebooks",
        ("tier", "notebook", ">seconds", ">× evaluation", ">peak MiB"),
        [
            (row["size"], row["name"], f"{row['seconds']:.1f}", f"{row['relative']:.2f}", f"{row['peak_mib']:,.0f}")
            for row in report["notebooks"]
        ],
        "evaluation: all arms answered and judged from nothing; the notebooks replay it. Peak of the largest process.",
    )


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    data: Annotated[
        Path | None, typer.Option(envvar="BEAM_DATA", help="Folder of BEAM conversations; else the built-in example.")
    ] = None,
    size: Annotated[str, typer.Option(help="Tiers, separated by commas; by default all that are found.")] = "",
    conversations: Annotated[int, typer.Option(min=0, help="The first so many of each tier; 0 for all.")] = 1,
    repeat: Annotated[int, typer.Option(min=1, help="Processes per stage; the fastest counts.")] = 1,
    notebooks: Annotated[bool, typer.Option("--notebooks", help="Also time notebooks 05 to 09.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Characters per second, peak memory and evidence recall on the same conversations; nothing is asserted."""
    console = Console(stderr=as_json)
    if data is None:
        console.print("No data given: the built-in example stands in, too small for meaningful speed.")
    sizes = [parse_size(name) for name in size.split(",")] if size.strip() else None
    with temporary_folder("beamlib-benchmark-") as scratch:
        shown, run = scratch / "data", scratch / "run"
        shown.mkdir()
        selection = select(data or EXAMPLE, sizes, conversations, shown)
        rows = stage_rows(selection, repeat, quiet=as_json)
        report: Row = {
            "machine": machine(),
            "tiers": {size: [source.id for source in sources] for size, sources in selection.tiers.items()},
            "example": data is None,
            "baselines": BASELINES,
            "import_peak_mib": _in_child("import", _measure_import).peak / MIB,
            "stages": rows,
            "comparisons": comparisons(rows),
            "evidence": evidence_rows(selection, quiet=as_json),
            "notebooks": notebook_rows(selection, run, quiet=as_json) if notebooks else [],
        }
    if as_json:
        print(to_json(report, indent=2))
        return
    console.print("  ".join(f"{name} {value}" for name, value in report["machine"].items() if value is not None))
    tables = [_speed_table(report), _comparison_table(report), _evidence_table(report)]
    for table in [*tables, _notebook_table(report)] if notebooks else tables:
        console.print(table)


if __name__ == "__main__":
    try:
        app()
    except UserError as error:
        print(f"benchmarks/run.py: {error}", file=sys.stderr)
        raise SystemExit(2) from None
