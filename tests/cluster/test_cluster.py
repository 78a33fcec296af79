"""Real clusters of several processes against a real HTTP server: what is paid, what is stored, what comes out."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from beamlib.evaluate.arms import Arm
from beamlib.evaluate.run import Evaluation, evaluate
from beamlib.params import RunParameters, load_parameters
from beamlib.processes import use_cluster
from scripted_server import ScriptedServer
from steady_replies import steady_reply

pytest.importorskip("distributed", reason="dask.distributed is not installed (the extra 'cluster')")
dask = pytest.importorskip("dask")
psutil = pytest.importorskip("psutil")

ARMS = [Arm(memory="none"), Arm(memory="rag", retriever="bm25", k=2), Arm(memory="oracle")]
CONVERSATIONS = 2


@pytest.fixture(autouse=True)
def no_cluster() -> Iterator[None]:
    yield
    use_cluster("")


@pytest.fixture(scope="module")
def data(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Conversations that share no request: the example, each in words of its own."""
    folder = tmp_path_factory.mktemp("conversations")
    for number in range(1, CONVERSATIONS + 1):
        shutil.copytree(repo_root / "beamlib/data/example/100K/1", folder / f"100K/{number}")
        for path in (folder / f"100K/{number}").rglob("*.json"):
            path.write_text(path.read_text().replace(" the ", f" the{number} ").replace("?", f" of {number}?"))
    return folder


def models_file(server: ScriptedServer, path: Path, **fields: Any) -> Path:
    endpoint = {"model": "scripted", "base_url": server.base_url, "context_window": 131_072, "concurrency": 4, **fields}
    roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
    path.write_text(yaml.safe_dump({"readers": {"one": endpoint}, **roles}))
    return path


def parameters(root: Path, data: Path, run: Path, models: Path, **changes: Any) -> RunParameters:
    fixed = {"data": str(data), "run": str(run), "models": str(models), "workers": 2, "confirm_cost": True}
    return load_parameters(root / "params/100k.yaml", **{**fixed, **changes})


def records(run: Path) -> dict[str, bytes]:
    """Answers and judgements of every arm."""
    found = {path.relative_to(run).as_posix(): path.read_bytes() for path in sorted(run.glob("100k*/*/*.jsonl"))}
    assert len(found) == 2 * len(ARMS)
    return found


@pytest.fixture(scope="module")
def expected(repo_root: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], int]:
    """What processes of one machine make of it, and how many requests that takes."""
    place = tmp_path_factory.mktemp("expected")
    with ScriptedServer(steady_reply) as server:
        evaluate(parameters(repo_root, data, place / "run", models_file(server, place / "m.yaml")), ARMS, quiet=True)
        assert not server.repeated()
        return records(place / "run"), len(server.requests)


def left_behind(run: Path) -> list[str]:
    """Files that only belong to a run on a cluster."""
    names = [path.name for path in run.rglob("*")]
    return [name for name in names if name.endswith(".replies") or name.startswith((".leases", ".beamlib"))]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_same_bytes_whatever_the_number_of_workers(
    workers: int, repo_root: Path, data: Path, expected: tuple[dict[str, bytes], int], tmp_path: Path
) -> None:
    use_cluster(f"local:{workers}")
    with ScriptedServer(steady_reply, latency=0.02) as server:
        given = parameters(repo_root, data, tmp_path / "run", models_file(server, tmp_path / "m.yaml"))
        evaluate(given, ARMS, quiet=True)
        assert server.peak <= 4
        assert not server.repeated() and len(server.requests) == expected[1]
    assert records(tmp_path / "run") == expected[0]
    assert not left_behind(tmp_path / "run")
    use_cluster("")
    shutil.rmtree(tmp_path / "run/100k-one")
    evaluate(given.model_copy(update={"calls": "replay"}), ARMS, quiet=True)
    assert records(tmp_path / "run") == expected[0]


class Running:
    """An evaluation in a thread, of which something is to be killed when so many requests were made."""

    def __init__(self, given: RunParameters, server: ScriptedServer, requests: int) -> None:
        self.result: Future[Evaluation] = Future()
        self._given, self.server = given, server
        threading.Thread(target=self._evaluate, daemon=True).start()
        self.wait_for(requests)

    def _evaluate(self) -> None:
        try:
            self.result.set_result(evaluate(self._given, ARMS, quiet=True))
        except BaseException as error:
            self.result.set_exception(error)

    def wait_for(self, requests: int) -> None:
        until = time.monotonic() + 60
        while len(self.server.requests) < requests and not self.result.done() and time.monotonic() < until:
            time.sleep(0.01)
        assert not self.result.done(), self.result.exception()


def at_work() -> tuple[psutil.Process, psutil.Process]:
    """A worker that has a task, and the process of that task."""
    for worker in psutil.Process().children():
        for task in worker.children():
            if "spawn_main" in " ".join(task.cmdline()) and task.cpu_times().user > 0.5:
                return worker, task
    raise AssertionError("no worker is at work")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("beam_cluster.lease.PATIENCE", 2.0)
    with dask.config.set({"distributed.scheduler.worker-ttl": "3s"}):
        yield


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("deed", ["kill the worker", "kill the task", "freeze the task", "freeze both"])
def test_a_worker_that_is_lost_costs_what_was_in_flight(
    deed: str, repo_root: Path, data: Path, expected: tuple[dict[str, bytes], int], tmp_path: Path
) -> None:
    use_cluster("local:2")
    with ScriptedServer(steady_reply, latency=0.1) as server:
        given = parameters(repo_root, data, tmp_path / "run", models_file(server, tmp_path / "m.yaml"))
        running = Running(given, server, 30)
        worker, task = at_work()
        try:
            if deed == "kill the worker":
                worker.kill()
            elif deed == "kill the task":
                task.kill()
            else:
                for process in (worker, task)[deed == "freeze the task" :]:
                    process.suspend()
            running.wait_for(60)
            running.wait_for(expected[1] - 10)
        finally:
            for process in (worker, task):
                with suppress(psutil.NoSuchProcess):
                    process.resume()
        running.result.result(120)
        assert records(tmp_path / "run") == expected[0]
        assert len(server.repeated()) <= 4
        assert len(server.requests) <= expected[1] + 4
    assert not left_behind(tmp_path / "run")
