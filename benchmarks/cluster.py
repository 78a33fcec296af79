"""The same work by processes of this machine and by workers of a cluster, against an endpoint with a fixed latency.

`python benchmarks/cluster.py` answers and judges copies of the example, each in other words, from an empty store. It
prints wall time, the time of the calls alone, processor time per call, and whether the bytes are the same. Workers of a
cluster need the extra `cluster`; with `--workers ''` there are none.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import resource
import shutil
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated

import typer
import yaml

from beam_run.cluster import use_cluster
from beam_run.plugins import register_packages
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.run import evaluate
from beamlib.files import temporary_folder, to_json
from beamlib.params import load_parameters
from beamlib.places import PARAMS, ROOT
from run import EXAMPLE, Row, print_table

ARMS = {
    "rag": [Arm(memory="none"), Arm(memory="rag", retriever="bm25", k=2)],
    "light": [Arm(memory="light", retriever="bm25", k=3)],
}


def _serve(latency: float, pipe: Connection) -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    from scripted_server import ScriptedServer
    from steady_replies import steady_reply

    with ScriptedServer(steady_reply, latency=latency) as server:
        pipe.send(server.base_url)
        while pipe.recv():
            pipe.send(len(server.requests))


def _copy_example(folder: Path, conversations: int) -> None:
    for number in range(1, conversations + 1):
        shutil.copytree(EXAMPLE / "100K/1", folder / f"100K/{number}")
        for path in (folder / f"100K/{number}").rglob("*.json"):
            text = path.read_text(encoding="utf-8").replace(" the ", f" the{number} ").replace("?", f" of {number}?")
            path.write_text(text, encoding="utf-8")


def models_file(folder: Path, address: str, lanes: int) -> Path:
    endpoint = {"model": "scripted", "base_url": address, "context_window": 131_072, "concurrency": lanes}
    roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
    path = folder / f"models-{lanes}.yaml"
    path.write_text(yaml.safe_dump({"readers": {"one": endpoint}, **roles}), encoding="utf-8")
    return path


def _processor_seconds() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def measure(cluster: str, folder: Path, models: Path, workers: int, arms: str) -> Row:
    """Run one evaluation from nothing with `workers` of a cluster, or with processes where `cluster` is empty."""
    register_packages()
    use_cluster(cluster)
    run = folder / f"run-{cluster or 'processes'}-{workers}"
    places = {"data": str(folder / "data"), "run": str(run), "models": str(models)}
    parameters = load_parameters(PARAMS / "100k.yaml", **places, workers=workers, confirm_cost=True)
    began, processor = time.perf_counter(), _processor_seconds()
    evaluate(parameters, ARMS[arms], quiet=True)
    seconds, digest = time.perf_counter() - began, hashlib.sha256()
    processor = _processor_seconds() - processor
    for path in sorted(run.glob("100k-one/*/[aj]*.jsonl")):  # answers and judgements; other files have times
        digest.update(path.read_bytes())
    who = f"{'cluster' if cluster else 'processes'}, {workers}"
    return {
        "who": who, "workers": workers, "seconds": seconds, "processor": processor, "bytes": digest.hexdigest()[:12],
    }  # fmt: skip


def main(
    conversations: Annotated[int, typer.Option(min=1, help="Copies of the example.")] = 4,
    latency: Annotated[float, typer.Option(min=0, help="Seconds before every reply.")] = 0.5,
    lanes: Annotated[int, typer.Option(min=1, help="Calls that each worker has in flight at once.")] = 4,
    workers: Annotated[str, typer.Option(help="Numbers of workers of a cluster.")] = "1,2,4",
    processes: Annotated[str, typer.Option(help="Numbers of processes of this machine.")] = "1",
    arms: Annotated[str, typer.Option(help="What answers: rag or light.")] = "rag",
    as_json: Annotated[bool, typer.Option("--json", help="Print the measurements as JSON.")] = False,
) -> None:
    """Measure the same work by several numbers of workers."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    spawn.Process(target=_serve, args=(latency, theirs), daemon=True).start()
    address = ours.recv()
    rows: list[Row] = []
    with temporary_folder("beamlib-cluster-benchmark-") as folder:
        _copy_example(folder / "data", conversations)
        before = 0
        kinds = [("", int(number)) for number in processes.split(",") if number]
        kinds += [(f"local:{number}", int(number)) for number in workers.split(",") if number]
        for cluster, number in kinds:
            row = measure(cluster, folder, models_file(folder, address, lanes * number), number, arms)
            ours.send(True)
            total = ours.recv()
            calls, before = total - before, total
            rows.append({**row, "calls": calls, "waited": calls * latency / (min(number, conversations) * lanes)})
    if as_json:
        print(to_json({"rows": rows}))
        return
    base = rows[0]["seconds"]
    same = len({row["bytes"] for row in rows}) == 1
    print_table(
        f"{conversations} conversations, {latency} s a call, {lanes} at once for each worker",
        rows,
        {
            "who": "{who}",
            "wall s": "{seconds:.1f}",
            "speed-up": lambda row: f"{base / row['seconds']:.2f}",
            "calls": "{calls:,}",
            "calls alone s": "{waited:.1f}",
            "CPU ms a call": lambda row: f"{1_000 * row['processor'] / row['calls']:.1f}",
            "bytes": "{bytes}",
        },
        ["bytes: the same whatever the number of workers" if same else "bytes: THEY DIFFER"],
        names=1,
    )
    raise typer.Exit(0 if same else 1)


if __name__ == "__main__":
    typer.run(main)
