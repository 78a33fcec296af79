"""How much of the wall time is waiting: LIGHT and its questions against an endpoint with a fixed latency.

`python benchmarks/latency.py --data FOLDER` reads one 100K conversation into LIGHT and answers its questions, from an
empty store, against the tests' scripted server. Calls that need one another's replies run one after the other, and only
so many are in flight at once: that bounds the time of any client.
"""

from __future__ import annotations

import math
import multiprocessing
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beamlib.data.sources import Source, find_conversations
from beamlib.errors import UserError
from beamlib.files import to_json
from run import EXAMPLE, MIB, Row, machine, print_table

if TYPE_CHECKING:
    from latency_work import Spent


def bounds(calls: Mapping[str, int], questions: int, at_once: int, latency: float) -> Row:
    """Compute the least time of the calls (by step): the longest chain of dependent calls, and `at_once` calls at once.

    Keys and notes depend on nothing, each compression on what came before, the filter on the finished scratchpad, an
    answer on its filter calls.
    """
    compressions = calls.get("scratchpad_compress", 0)
    extraction = calls["episodic_keys"] + calls["scratchpad_notes"]
    filtering, answering = calls.get("scratchpad_filter", 0), calls["answer"]
    chain = 1 + compressions + (1 if filtering else 0) + 1
    waves = sum(math.ceil(step / at_once) for step in (extraction, filtering, answering)) + compressions
    return {
        "calls": sum(calls.values()),
        "questions": questions,
        "chain": chain,
        "chain_seconds": chain * latency,
        "bound_seconds": waves * latency,
    }


def _serve(latency: float, pipe: Connection) -> None:
    import_module("latency_work").serve(latency, pipe)  # heavy: the parent's peak memory would be the children's too


def _work(source: Source, base_url: str, lanes: int) -> Spent:
    spent: Spent = import_module("latency_work").work(source, base_url, lanes)
    return spent


def measure(source: Source, lanes: int, latency: float) -> tuple[Spent, Row]:
    """Run the work once, by a client and a server in processes of their own; return its cost and the server's view."""
    spawn = multiprocessing.get_context("spawn")  # a forked child would count this process's memory as its own
    ours, theirs = spawn.Pipe()
    server = spawn.Process(target=_serve, args=(latency, theirs), daemon=True)
    server.start()
    try:
        if not ours.poll(60):
            raise UserError("the scripted server did not start within a minute; see above.")
        base_url = ours.recv()
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            spent = pool.submit(_work, source, base_url, lanes).result()
        ours.send("end")
        requests, peak, processor = ours.recv()
    finally:
        server.terminate()
        server.join()
    return spent, {"requests": requests, "most_at_once": peak, "server_processor_seconds": processor}


def print_report(report: Row) -> None:
    """Print what must be waited for, and what the run took."""
    limits, latency, lanes, took = report["bounds"], report["latency"], report["lanes"], report["measured"]
    must = [
        ("chain x latency", f"{limits['chain']} x {latency:g} s", limits["chain_seconds"]),
        (f"{lanes} calls at once", f"{limits['calls']:,} calls", limits["bound_seconds"]),
    ]
    steps = ", ".join(f"{count:,} {step}" for step, count in report["calls"].items())
    print_table(
        f"What has to be waited for: {report['conversation']}, {limits['questions']} questions",
        [dict(zip(("bound", "of", "seconds"), row, strict=True)) for row in must],
        {"bound": "{bound}", "of": "{of}", "seconds": "{seconds:.2f}"},
        [f"Calls: {steps}."],
    )
    print_table(
        "What it took",
        [took],
        {
            "seconds": "{seconds:.2f}",
            "ingest": "{parts[ingest]:.2f}",
            "answer": "{parts[recall and answer]:.2f}",
            "calls": "{requests:,}",
            "at once": "{most_at_once}",
            "x bound": "{times_bound:.2f}",
            "client CPU s": "{processor_seconds:.2f}",
            "server CPU s": "{server_processor_seconds:.2f}",
            "peak MiB": "{peak_mib:,.0f}",
        },
        [
            "Replies are scripted and of realistic length. Imports, reading the file and loading the encoder are not "
            f"timed, but are in the peak (before the first call: {took['base_mib']:,.0f} MiB)."
        ],
        names=0,
    )


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    data: Annotated[
        Path | None, typer.Option(envvar="BEAM_DATA", help="Folder of BEAM conversations; else the built-in example.")
    ] = None,
    lanes: Annotated[int, typer.Option(min=1, help="Calls in flight at once.")] = 64,
    latency: Annotated[float, typer.Option(min=0.001, help="Seconds that every reply takes.")] = 0.1,
    repeat: Annotated[int, typer.Option(min=1, help="Measurements of beamlib; the fastest counts.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Measure wall time, calls, processor time and memory of LIGHT at a fixed latency, beside the least possible."""
    if data is None:
        print("No data given: the built-in example is too small for meaningful speed.", file=sys.stderr)
    sources = find_conversations(data or EXAMPLE, ["100K"])
    if not sources:
        raise UserError(f"{data}: no conversation of size 100K; name a folder that holds one.")
    measured = [measure(sources[0], lanes, latency) for _ in range(repeat)]
    spent, server = min(measured, key=lambda pair: pair[0].wall)
    limits = bounds(spent.calls, spent.questions, lanes, latency)
    report: dict[str, Any] = {
        "machine": machine(),
        "conversation": sources[0].id,
        "example": data is None,
        "lanes": lanes,
        "latency": latency,
        "calls": spent.calls,
        "bounds": limits,
        "measured": {
            "seconds": spent.wall,
            "parts": spent.parts,
            "answered": spent.answered,
            "times_bound": spent.wall / limits["bound_seconds"],
            "processor_seconds": spent.processor,
            "peak_mib": spent.peak / MIB,
            "base_mib": spent.base / MIB,
            **server,
        },
    }
    if as_json:
        print(to_json(report, indent=2))
    else:
        print_report(report)


if __name__ == "__main__":
    try:
        app()
    except UserError as error:
        print(f"benchmarks/latency.py: {error}", file=sys.stderr)
        raise SystemExit(2) from None
