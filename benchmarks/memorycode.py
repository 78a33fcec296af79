"""Speed and memory of scoring MemoryCode, in one process: `python benchmarks/memorycode.py --help`.

Compared within one run, on the same answers: this scorer, which parses every distinct answer once, and scoring that
parses the answer again for every rule that it is held against, as the authors' script does. The second shares the
extraction and the rules with the first, so what is compared is the repeated parsing alone.
"""

from __future__ import annotations

import resource
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from beam_memorycode.dialogue_files import LoadedDialogue, load_dialogues
from beam_memorycode.generating import GenerateOptions
from beam_memorycode.generating import generate_dialogues as generate
from beam_memorycode.outputs import OUTPUTS, Outputs, outputs_in, read_outputs
from beam_memorycode.rule_scoring import ScoredAnswer, Scorer, applications, score_outputs, summarise
from beam_memorycode.running import PUBLISHED
from beam_memorycode.task import MEMORYCODE
from beam_run.task_options import TaskOptions, run_command
from beamlib.errors import UserError
from beamlib.files import temporary_folder, to_json
from beamlib.llm.model import OFFLINE_NAME

KIB_PER_MIB = 1 << 10


def repeated(items: Sequence[LoadedDialogue], outputs: dict[int, Outputs]) -> int:
    """Score every (answer, rule) with a parse of its own; returns how many there were."""
    done = 0
    for item in tqdm(items, desc="parsing once per rule", unit="dialogue", leave=False):
        if item.dialogue.id not in outputs:
            continue
        for *_, answer, rules in applications(item, outputs[item.dialogue.id]):
            for rule in rules if answer is not None else ():
                Scorer().verdicts(answer, (rule,))
                done += 1
    return done


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What `work` returns, and the seconds of processor time it took: the machine may be shared."""
    started = time.process_time()
    found = work()
    return found, time.process_time() - started


def peak_mib() -> float:
    """The process's peak resident memory so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / KIB_PER_MIB / (KIB_PER_MIB if sys.platform == "darwin" else 1)


def generated(folder: Path) -> Path:
    """One dialogue of each number of sessions with the stand-in's answers, for want of published ones."""
    with redirect_stdout(sys.stderr):  # what is printed here is the table
        generate(GenerateOptions(out=folder / "data"))
        run_command(MEMORYCODE, TaskOptions(data=folder / "data", folder=folder / "run", arms=PUBLISHED))
    shutil.copytree(folder / "run" / "memorycode" / OUTPUTS / "offline", folder / "data" / OUTPUTS / "offline")
    print(f"benchmark: no --data: generated dialogues, answers by the {OFFLINE_NAME}", file=sys.stderr)
    return folder / "data"


def measure(data: Path, model: str, every: int) -> list[dict[str, Any]]:
    """Rows for one model: loading, scoring all, and the two ways of scoring on every `every`-th dialogue."""
    path = outputs_in(data, model)[model] if model else next(iter(outputs_in(data).values()))
    items, loading = timed(lambda: load_dialogues(data))
    outputs, reading = timed(lambda: read_outputs(path, [item.dialogue for item in items]))
    scored: list[ScoredAnswer]
    scored, scoring = timed(lambda: score_outputs(items, outputs))
    _, averaging = timed(lambda: summarise(scored, [item.dialogue for item in items]))
    memory = peak_mib()
    some = items[::every]
    (again, ours), (rules, theirs) = timed(lambda: score_outputs(some, outputs)), timed(lambda: repeated(some, outputs))
    whole = f"{len(outputs)} dialogues"
    part = f"{len(some)} dialogues, {rules:,} rules"
    rows = [
        ("load dialogues and outputs", whole, len(scored), loading + reading, None),
        ("score", whole, len(scored), scoring, None),
        ("average (dialogue-mean)", whole, len(scored), averaging, None),
        ("score, each answer parsed once", part, len(again), ours, 1.0),
        ("score, parsed once per rule", part, len(again), theirs, theirs / ours),
    ]
    names = ("stage", "on", "answers", "seconds", "ratio")
    return [
        {**dict(zip(names, row, strict=True)), "per_second": row[2] / row[3], "peak_mib": memory, "model": path.name}
        for row in rows
    ]


def main(
    data: Annotated[
        Path | None, typer.Option(envvar="MEMORYCODE_DATA", help="Folder of dialogues with outputs; else generated.")
    ] = None,
    model: Annotated[str, typer.Option(help="Which outputs; by default the first.")] = "",
    every: Annotated[int, typer.Option(min=1, help="Compare both ways on every so many-th dialogue.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Seconds of processor time, answers per second and peak memory of scoring one model's outputs."""
    try:
        with temporary_folder("beamlib-benchmark-") as place:
            rows = measure(data or generated(place), model, every)
    except UserError as error:
        print(f"benchmark: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    if as_json:
        print(to_json(rows, indent=2))
        return
    table = Table("stage", "on", "answers", "seconds", "answers/s", "ratio", box=SIMPLE, title=rows[0]["model"])
    for row in rows:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.1f}"
        table.add_row(
            row["stage"], row["on"], f"{row['answers']:,}", f"{row['seconds']:.2f}", f"{row['per_second']:,.0f}", ratio
        )
    console = Console(width=140)
    console.print(table)
    console.print(f"One process, processor time; peak memory of scoring all: {rows[0]['peak_mib']:.0f} MiB.")


if __name__ == "__main__":
    typer.run(main)
