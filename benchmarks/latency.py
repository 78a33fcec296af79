"""How much of the wall time is waiting: LIGHT and its questions against an endpoint that always takes as long.

`python benchmarks/latency.py --data FOLDER` reads one 100K conversation into LIGHT and answers its questions, from an
empty store, against the tests' scripted server. What no client could avoid is known beforehand: calls that need one
another's replies come one after the other, and no more than so many are in flight at once.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import beamlib
from beamlib.data.sources import Source, find_conversations
from beamlib.errors import UserError
from beamlib.files import to_json

if TYPE_CHECKING:
    from latency_work import Spent

EXAMPLE = Path(beamlib.__file__).parent / "data" / "example"
MIB = 1 << 20
RELEASED_LANES = 25
"""Threads of the released code's extraction; everything after it is one call at a time."""

Row = dict[str, Any]


def bounds(calls: Mapping[str, int], questions: int, at_once: int, latency: float) -> Row:
    """What the calls (by step) must take: the longest chain of dependent calls, and with `at_once` calls at once.

    Keys and notes depend on nothing, each compression on what came before, the filter on the finished scratchpad, an
    answer on its filter calls. `released_seconds` is the released code's order: keys, then notes, 25 at a time, then
    question by question, call by call.
    """
    compressions = calls.get("scratchpad_compress", 0)
    extraction = calls["episodic_keys"] + calls["scratchpad_notes"]
    filtering, answering = calls.get("scratchpad_filter", 0), calls["answer"]
    chain = 1 + compressions + (1 if filtering else 0) + 1
    waves = sum(math.ceil(step / at_once) for step in (extraction, filtering, answering)) + compressions
    released = sum(math.ceil(calls[step] / RELEASED_LANES) for step in ("episodic_keys", "scratchpad_notes"))
    released += compressions + filtering + answering
    return {
        "calls": sum(calls.values()),
        "questions": questions,
        "chain": chain,
        "chain_seconds": chain * latency,
        "bound_seconds": waves * latency,
        "released_seconds": released * latency,
    }


def _serve(latency: float, pipe: Connection) -> None:
    from latency_work import serve  # heavy: the parent's peak memory would be the children's, too

    serve(latency, pipe)


def _work(source: Source, base_url: str, lanes: int, released: bool) -> Spent:
    from latency_work import work

    return work(source, base_url, lanes, released)


def measure(source: Source, lanes: int, latency: float, *, released: bool) -> tuple[Spent, Row]:
    """The work done once, by a client and a server in processes of their own, and what the server saw of it."""
    spawn = multiprocessing.get_context("spawn")  # a forked child would count this process's memory as its own
    ours, theirs = spawn.Pipe()
    server = spawn.Process(target=_serve, args=(latency, theirs), daemon=True)
    server.start()
    try:
        if not ours.poll(60):
            raise UserError("the scripted server did not start within a minute; see above.")
        base_url = ours.recv()
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            spent = pool.submit(_work, source, base_url, lanes, released).result()
        ours.send("end")
        requests, peak, processor = ours.recv()
    finally:
        server.terminate()
        server.join()
    return spent, {"requests": requests, "most_at_once": peak, "processor_seconds": processor}


def report_row(name: str, spent: Spent, server: Row, limits: Row) -> Row:
    """One schedule's figures as they are printed."""
    return {
        "schedule": name,
        "seconds": spent.wall,
        "parts": spent.parts,
        "requests": server["requests"],
        "most_at_once": server["most_at_once"],
        "answered": spent.answered,
        "times_bound": spent.wall / limits["bound_seconds"],
        "times_chain": spent.wall / limits["chain_seconds"],
        "processor_seconds": spent.processor,
        "server_processor_seconds": server["processor_seconds"],
        "peak_mib": spent.peak / MIB,
        "base_mib": spent.base / MIB,
    }


def _first(data: Path) -> Source:
    found = find_conversations(data, ["100K"])
    if not found:
        raise UserError(f"{data}: no conversation of size 100K; name a folder that holds one.")
    return found[0]


def _table(title: str, rows: Sequence[tuple[str, ...]], columns: tuple[str, ...], caption: str) -> Table:
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left", box=SIMPLE)
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    return table


def tables(report: Row) -> list[Table]:
    """What must be waited for, and what was."""
    limits, latency, lanes = report["bounds"], report["latency"], report["lanes"]
    steps = ", ".join(f"{count:,} {step}" for step, count in report["calls"].items())
    must = [
        ("chain x latency", f"{limits['chain']} x {latency:g} s", f"{limits['chain_seconds']:.2f}"),
        (f"{lanes} calls at once", f"{limits['calls']:,} calls", f"{limits['bound_seconds']:.2f}"),
        ("released order (computed)", f"{limits['calls']:,} calls", f"{limits['released_seconds']:.2f}"),
    ]
    took = [
        (
            row["schedule"],
            f"{row['seconds']:.2f}",
            *(f"{seconds:.2f}" for seconds in row["parts"].values()),
            f"{row['requests']:,}",
            str(row["most_at_once"]),
            f"{row['times_bound']:.2f}",
            f"{row['times_chain']:.1f}",
            f"{row['processor_seconds']:.2f}",
            f"{row['server_processor_seconds']:.2f}",
            f"{row['peak_mib']:,.0f}",
        )
        for row in report["schedules"]
    ]
    speedup = limits["released_seconds"] / report["schedules"][0]["seconds"]
    return [
        _table(
            f"What has to be waited for: {report['conversation']}, {limits['questions']} questions",
            must,
            ("bound", "of", "seconds"),
            f"Calls: {steps}.",
        ),
        _table(
            "What it took",
            took,
            (
                *("schedule", "seconds", "ingest", "answer", "calls", "at once", "x bound", "x chain"),
                *("client CPU s", "server CPU s", "peak MiB"),
            ),
            f"The released order, counted as waiting alone, takes {speedup:.1f} times beamlib's measured time. Replies "
            "are scripted and of realistic length; imports, reading the file and loading the encoder are not timed, "
            f"but are in the peak (before the first call: {report['schedules'][0]['base_mib']:,.0f} MiB).",
        ),
    ]


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    data: Annotated[
        Path | None, typer.Option(envvar="BEAM_DATA", help="Folder of BEAM conversations; else the built-in example.")
    ] = None,
    lanes: Annotated[int, typer.Option(min=1, help="Calls in flight at once.")] = 64,
    latency: Annotated[float, typer.Option(min=0.001, help="Seconds that every reply takes.")] = 0.1,
    released: Annotated[
        bool, typer.Option("--released", help="Also run the released code's order of calls (some minutes).")
    ] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Measurements of beamlib; the fastest counts.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Wall time, calls, processor time and memory of LIGHT at a fixed latency, beside the least possible."""
    console = Console(stderr=as_json)
    if data is None:
        console.print("No data given: the built-in example stands in, too small for meaningful speed.")
    source = _first(data or EXAMPLE)
    measured = [measure(source, lanes, latency, released=False) for _ in range(repeat)]
    spent, server = min(measured, key=lambda found: found[0].wall)
    limits = bounds(spent.calls, spent.questions, lanes, latency)
    rows = [report_row("beamlib", spent, server, limits)]
    if released:
        rows.append(report_row("released order", *measure(source, lanes, latency, released=True), limits))
    report = {
        "machine": {
            "beamlib": beamlib.__version__,
            "python": platform.python_version(),
            "processors": os.cpu_count(),
        },
        "conversation": source.id,
        "example": data is None,
        "lanes": lanes,
        "latency": latency,
        "calls": spent.calls,
        "bounds": limits,
        "schedules": rows,
    }
    if as_json:
        print(to_json(report, indent=2))
        return
    for table in tables(report):
        console.print(table)


if __name__ == "__main__":
    try:
        app()
    except UserError as error:
        print(f"benchmarks/latency.py: {error}", file=sys.stderr)
        raise SystemExit(2) from None
