"""The same work by 1, 2, 4 workers of a cluster, against an endpoint that always takes as long.

`python benchmarks/cluster.py` answers and judges copies of the example, each in words of its own, from an empty store;
it needs the extra `cluster`. Printed: wall time, what the calls alone would take, what one task costs beyond its calls,
and whether the bytes are those of processes of this machine.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import shutil
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import beamlib
from beam_run.cluster import use_cluster
from beam_run.plugins import register_packages
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.run import evaluate
from beamlib.files import temporary_folder, to_json
from beamlib.params import load_parameters
from beamlib.places import PARAMS, ROOT

EXAMPLE = Path(beamlib.__file__).parent / "data/example/100K/1"
ARMS = [Arm(memory="none"), Arm(memory="rag", retriever="bm25", k=2)]
TASKS_OF_ONE = 2  # a conversation's arms answer, and are judged
Row = dict[str, Any]


def _serve(latency: float, pipe: Connection) -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    from scripted_server import ScriptedServer
    from steady_replies import steady_reply

    with ScriptedServer(steady_reply, latency=latency) as server:
        pipe.send(server.base_url)
        while pipe.recv():
            pipe.send(len(server.requests))


def _data(folder: Path, conversations: int) -> Path:
    for number in range(1, conversations + 1):
        shutil.copytree(EXAMPLE, folder / f"100K/{number}")
        for path in (folder / f"100K/{number}").rglob("*.json"):
            text = path.read_text(encoding="utf-8").replace(" the ", f" the{number} ").replace("?", f" of {number}?")
            path.write_text(text, encoding="utf-8")
    return folder


def _models(folder: Path, address: str, lanes: int) -> Path:
    endpoint = {"model": "scripted", "base_url": address, "context_window": 131_072, "concurrency": lanes}
    roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
    path = folder / f"models-{lanes}.yaml"
    path.write_text(yaml.safe_dump({"readers": {"one": endpoint}, **roles}), encoding="utf-8")
    return path


def _digest(run: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(run.glob("100k-one/*/*.jsonl")):
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


def measure(cluster: str, folder: Path, models: Path, workers: int) -> Row:
    """One evaluation from nothing by `workers` of a cluster, or processes where `cluster` is empty."""
    register_packages()
    use_cluster(cluster)
    given = load_parameters(
        PARAMS / "100k.yaml", data=str(folder / "data"), run=str(folder / f"run-{cluster or 'processes'}-{workers}"),
        models=str(models), workers=workers, confirm_cost=True,
    )  # fmt: skip
    began = time.perf_counter()
    evaluate(given, ARMS, quiet=True)
    return {
        "who": f"cluster, {workers}" if cluster else f"processes, {workers}",
        "workers": workers,
        "seconds": time.perf_counter() - began,
        "bytes": _digest(Path(given.run)),
    }


def main(
    conversations: Annotated[int, typer.Option(min=1, help="Copies of the example.")] = 4,
    latency: Annotated[float, typer.Option(min=0, help="Seconds before every reply.")] = 0.5,
    lanes: Annotated[int, typer.Option(min=1, help="Calls that each worker has in flight at once.")] = 4,
    workers: Annotated[str, typer.Option(help="Numbers of workers.")] = "1,2,4",
    as_json: Annotated[bool, typer.Option("--json", help="Print the measurements as JSON.")] = False,
) -> None:
    """Measure the same work by several numbers of workers."""
    spawned = multiprocessing.get_context("spawn")
    here, there = spawned.Pipe()
    server = spawned.Process(target=_serve, args=(latency, there), daemon=True)
    server.start()
    address = here.recv()
    rows: list[Row] = []
    with temporary_folder("beamlib-cluster-benchmark-") as folder:
        _data(folder / "data", conversations)
        before = 0
        numbers = [int(one) for one in workers.split(",")]
        for cluster, number in [("", numbers[0]), *((f"local:{number}", number) for number in numbers)]:
            row = measure(cluster, folder, _models(folder, address, lanes * number), number)
            here.send(True)
            after = here.recv()
            calls, before = after - before, after
            at_once = min(number, conversations)
            waited = calls * latency / (at_once * lanes)
            beyond = (row["seconds"] - waited) * at_once / (TASKS_OF_ONE * conversations)
            rows.append({**row, "calls": calls, "waited": waited, "per_task": beyond})
    here.send(False)
    if as_json:
        print(to_json({"rows": rows}))
        return
    table = Table(
        box=SIMPLE, title=f"{conversations} conversations, {latency} s a call, {lanes} at once for each worker"
    )
    for title in ("who", "wall s", "speed-up", "calls", "calls alone s", "beyond them, s a task", "bytes"):
        table.add_column(title, justify="left" if title in ("who", "bytes") else "right")
    base = next(row["seconds"] for row in rows if row["who"].startswith("cluster"))
    for row in rows:
        table.add_row(
            row["who"], f"{row['seconds']:.1f}", f"{base / row['seconds']:.2f}", f"{row['calls']:,}",
            f"{row['waited']:.1f}", f"{row['per_task']:.2f}", row["bytes"],
        )  # fmt: skip
    Console().print(table)
    same = len({row["bytes"] for row in rows}) == 1
    print("bytes: the same whatever the number of workers" if same else "bytes: THEY DIFFER")
    raise typer.Exit(0 if same else 1)


if __name__ == "__main__":
    typer.run(main)
