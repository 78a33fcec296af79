"""How much of the wall time is waiting: LIGHT and its questions against an endpoint that a network is in front of.

`python benchmarks/latency.py --data FOLDER` reads one 100K conversation into LIGHT and answers its questions, from an
empty store, for each round trip and each kind of connection. Calls that need one another's replies run one after the
other, and only so many are in flight at once: with one round trip for each call, that bounds the time of any client.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from enum import StrEnum
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beamlib.data.sources import Source, find_conversations
from beamlib.errors import UserError
from beamlib.files import temporary_folder, to_json
from run import EXAMPLE, MIB, Row, machine, print_table

if TYPE_CHECKING:
    from latency_work import Spent


class Wire(StrEnum):
    """How requests travel: HTTP/1.1 without TLS and with it, a connection per call, or HTTP/2 over TLS."""

    PLAIN = "plain"
    TLS = "tls"
    H2 = "h2"


NAMES = {Wire.PLAIN: "HTTP/1.1, no TLS", Wire.TLS: "HTTP/1.1, TLS", Wire.H2: "HTTP/2, TLS"}


def bounds(calls: Mapping[str, int], questions: int, at_once: int, round_trip: float) -> Row:
    """Compute the least time of the calls (by step): the longest chain of dependent calls, and `at_once` calls at once.

    Keys and notes depend on nothing, each compression on what came before, the filter on the finished scratchpad, an
    answer on its filter calls.
    """
    compressions = calls.get("scratchpad_compress", 0)
    extraction = calls["episodic_keys"] + calls["scratchpad_notes"]
    filtering, answering = calls.get("scratchpad_filter", 0), calls["answer"]
    chain = 1 + compressions + (1 if filtering else 0) + 1
    waves = sum(math.ceil(step / at_once) for step in (extraction, filtering, answering)) + compressions
    return {"chain_seconds": chain * round_trip, "bound_seconds": waves * round_trip}


def _serve(wire: str, round_trip: float, certificate: Path, pipe: Connection) -> None:
    # Heavy modules: the parent's peak memory would be the children's too.
    import_module("latency_work").serve(wire, round_trip, certificate, pipe)


def _work(source: Source, base_url: str, lanes: int) -> Spent:
    spent: Spent = import_module("latency_work").work(source, base_url, lanes)
    return spent


def measure(source: Source, lanes: int, wire: Wire, round_trip: float) -> Row:
    """Run the work once, by a client and a server in processes of their own; return its cost and the server's view."""
    spawn = multiprocessing.get_context("spawn")  # a forked child would count this process's memory as its own
    ours, theirs = spawn.Pipe()
    with temporary_folder("beamlib-latency-") as folder:
        certificate = import_module("tls_server").write_certificate(folder / "certificate.pem")
        os.environ["SSL_CERT_FILE"] = str(certificate)
        server = spawn.Process(target=_serve, args=(wire.value, round_trip, certificate, theirs), daemon=True)
        server.start()
        try:
            if not ours.poll(60):
                raise UserError("the server did not start within a minute; see above.")
            base_url = ours.recv()
            with ProcessPoolExecutor(1, mp_context=spawn) as pool:
                spent = pool.submit(_work, source, base_url, lanes).result()
            ours.send("end")
            requests, connections, processor = ours.recv()
        finally:
            server.terminate()
            server.join()
    limits = bounds(spent.calls, spent.questions, lanes, round_trip)
    return {
        "wire": wire.value, "round_trip": round_trip, "calls": spent.calls, "questions": spent.questions,
        "answered": spent.answered, "requests": requests, "connections": connections,
        "seconds": spent.wall, "parts": spent.parts, **limits, "times_bound": spent.wall / limits["bound_seconds"],
        "processor_seconds": spent.processor, "server_processor_seconds": processor,
        "peak_mib": spent.peak / MIB, "base_mib": spent.base / MIB,
    }  # fmt: skip


def print_report(report: Row) -> None:
    """Print a row for each measurement, beside what any client has to wait for."""
    rows = report["measured"]
    steps = ", ".join(f"{count:,} {step}" for step, count in rows[0]["calls"].items())
    print_table(
        f"LIGHT on {report['conversation']}, {rows[0]['questions']} questions, {report['lanes']} calls at once",
        rows,
        {
            "connections": lambda row: NAMES[Wire(row["wire"])],
            "round trip": "{round_trip:g} s",
            "bound": "{bound_seconds:.2f}",
            "seconds": "{seconds:.2f}",
            "x bound": "{times_bound:.2f}",
            "client CPU s": "{processor_seconds:.2f}",
            "opened": "{connections:,}",
            "calls": "{requests:,}",
            "peak MiB": "{peak_mib:,.0f}",
        },
        [
            f"Calls: {steps}.",
            "The bound: these calls in groups, one round trip each. Replies are scripted and of realistic length. "
            "Imports, reading the file and loading the encoder are not timed, but are in the peak "
            f"(before the first call: {rows[0]['base_mib']:,.0f} MiB).",
        ],
    )


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    data: Annotated[
        Path | None, typer.Option(envvar="BEAM_DATA", help="Folder of BEAM conversations; else the built-in example.")
    ] = None,
    lanes: Annotated[int, typer.Option(min=1, help="Calls in flight at once.")] = 64,
    round_trip: Annotated[list[float] | None, typer.Option(min=0.001, help="Seconds; repeatable.")] = None,
    wire: Annotated[list[Wire] | None, typer.Option(help="Kind of connection; repeatable. Default: all three.")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Measurements of each; the fastest counts.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure wall time, calls, processor time and memory of LIGHT over a slow network, beside the least possible."""
    if data is None:
        print("No data given: the built-in example is too small for meaningful speed.", file=sys.stderr)
    sources = find_conversations(data or EXAMPLE, ["100K"])
    if not sources:
        raise UserError(f"{data}: no conversation of size 100K; name a folder that holds one.")
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    kinds = [(kind, seconds) for seconds in round_trip or [0.04, 0.1, 0.5] for kind in wire or Wire]
    rows = [
        min((measure(sources[0], lanes, *kind) for _ in range(repeat)), key=lambda row: row["seconds"])
        for kind in kinds
    ]
    report: dict[str, Any] = {
        "machine": machine(), "conversation": sources[0].id, "example": data is None, "lanes": lanes, "measured": rows,
    }  # fmt: skip
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
