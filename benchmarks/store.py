"""What a call store with very many calls costs: to fill, to begin a run with, to sum up, to publish and to verify.

`python benchmarks/store.py` makes a store with a million calls in a temporary folder. Each step runs in a process of
its own, whose peak memory is printed beside its time.
"""

from __future__ import annotations

import multiprocessing
import resource
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from beam_run.archive import export_calls, import_calls, verify_archive
from beamlib.errors import UserError
from beamlib.files import sha256, temporary_folder, to_json
from beamlib.llm.stored_model import CallStore, StoredCall

_UNIT = 1024 if sys.platform == "linux" else 1  # of ru_maxrss


def _call(number: int) -> StoredCall:
    return StoredCall(
        role="judge", conversation="100K-1", step="judge_nugget", about=f"100K-1-{number % 20:02d}", model="made-up",
        base_url="http://127.0.0.1:9/v1", text=f"verdict {number} " * 20, input_tokens=500, output_tokens=60,
        latency=0.5, finish_reason="stop", time="2026-01-01T00:00:00.000000+00:00",
    )  # fmt: skip


def fill(path: Path, calls: int) -> None:
    """Put made-up calls into the store at `path`."""
    with CallStore(path) as store:
        store.add((sha256(str(number)), _call(number)) for number in range(calls))


def begin(path: Path) -> None:
    """Open the store at `path` as a run that records does."""
    with CallStore(path) as store:
        store.claim()


def begin_copied(path: Path) -> None:
    """The same with a copy, which nobody vouches for."""
    copy = path.with_name("copy.sqlite")
    shutil.copyfile(path, copy)
    begin(copy)
    copy.unlink()


def sums(path: Path) -> None:
    """Sum up calls and tokens, as the report does."""
    with CallStore(path, read_only=True) as store:
        store.totals()


def _spent(work: Callable[[], object]) -> tuple[float, int]:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


def measure(calls: int, folder: Path) -> list[dict[str, Any]]:
    """A row for each step: its name, seconds, and peak memory in MiB."""
    stores, archive = folder / "calls", folder / "run.tar.zst"
    store = stores / "100k" / "100K-1.sqlite"
    steps: dict[str, Callable[[], object]] = {
        "fill it": partial(fill, store, calls),
        "begin to record": partial(begin, store),
        "begin to record into a copy": partial(begin_copied, store),
        "sum up": partial(sums, store),
        "export": partial(export_calls, stores, archive),
        "verify": partial(verify_archive, archive),
        "import": partial(import_calls, archive, folder / "again"),
    }
    rows = []
    for name, work in steps.items():
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            seconds, peak = pool.submit(_spent, work).result()
        rows.append({"step": name, "calls": calls, "seconds": seconds, "peak_mib": peak / (1 << 20)})
    return rows


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    calls: Annotated[int, typer.Option(min=1, help="Calls in the store.")] = 1_000_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Time and peak memory of each thing that is done with a call store."""
    with temporary_folder("beamlib-benchmark-") as folder:
        rows = measure(calls, folder)
    if as_json:
        print(to_json(rows, indent=2))
        return
    table = Table(title=f"A store with {calls:,} calls", title_justify="left", box=SIMPLE)
    for number, name in enumerate(("step", "seconds", "peak MiB")):
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(row["step"], f"{row['seconds']:.2f}", f"{row['peak_mib']:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    try:
        app()
    except UserError as error:
        print(f"benchmarks/store.py: {error}", file=sys.stderr)
        raise SystemExit(2) from None
