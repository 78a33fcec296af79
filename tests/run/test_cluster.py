"""Real clusters of several processes against a real HTTP server: what is paid, what is stored, what comes out."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from beam_run.cluster import use_cluster
from beamlib.errors import SpendingLimit, UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.beam_records import Evaluation
from beamlib.evaluate.run import evaluate
from beamlib.llm.endpoints import load_models
from beamlib.llm.spending import limited, set_spending_limit
from beamlib.params import RunParameters, load_parameters
from scripted_server import ScriptedServer, free_port
from steady_replies import steady_reply

pytest.importorskip("distributed", reason="dask.distributed is not installed (the extra 'cluster')")
psutil = pytest.importorskip("psutil")
addresses = pytest.importorskip("beam_run.cluster.addresses")

ARMS = [Arm(memory="none"), Arm(memory="oracle")]
FEW = ARMS[:1]


@pytest.fixture(autouse=True)
def no_cluster() -> Iterator[None]:
    yield
    use_cluster("")
    set_spending_limit(None)


@pytest.fixture(scope="module")
def data(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Conversations that share no request: the example, each in words of its own."""
    folder = tmp_path_factory.mktemp("conversations")
    for number in (1, 2):
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
    return {path.relative_to(run).as_posix(): path.read_bytes() for path in sorted(run.glob("100k*/*/[aj]*.jsonl"))}


@pytest.fixture(scope="module")
def expected(repo_root: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], int]:
    """What processes of one machine make of it, and how many requests that takes."""
    place = tmp_path_factory.mktemp("expected")
    with ScriptedServer(steady_reply) as server:
        evaluate(parameters(repo_root, data, place / "run", models_file(server, place / "m.yaml")), ARMS, quiet=True)
        assert not server.repeated()
        return records(place / "run"), len(server.requests)


@pytest.fixture(scope="module")
def fewer(repo_root: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], int]:
    """The same of one conversation and arm."""
    place = tmp_path_factory.mktemp("fewer")
    with ScriptedServer(steady_reply) as server:
        given = parameters(repo_root, data, place / "run", models_file(server, place / "m.yaml"), conversations=1)
        evaluate(given, FEW, quiet=True)
        return records(place / "run"), len(server.requests)


def left_behind(run: Path) -> list[str]:
    """Files of call stores that only belong to a run that goes on."""
    return [path.name for path in (run / "calls").rglob("*") if path.suffix != ".sqlite" and path.is_file()]


@pytest.mark.slow
def test_workers_of_a_cluster_give_the_same_bytes_as_processes(
    repo_root: Path, data: Path, expected: tuple[dict[str, bytes], int], tmp_path: Path
) -> None:
    use_cluster("local:2")
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
            self.result.set_result(evaluate(self._given, FEW, quiet=True))
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
        for server in worker.children():
            if "forkserver" in " ".join(server.cmdline()) and (tasks := server.children()):
                return worker, tasks[0]
    raise AssertionError("no worker is at work")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam_run.cluster.addresses.PATIENCE", 2.0)


@pytest.mark.usefixtures("impatient")
@pytest.mark.quick("kill the task")
@pytest.mark.parametrize("deed", ["kill the task", "kill the worker", "freeze the task", "freeze both"])
def test_a_worker_that_is_lost_costs_nothing(
    deed: str, repo_root: Path, data: Path, fewer: tuple[dict[str, bytes], int], tmp_path: Path
) -> None:
    use_cluster("local:2")
    with ScriptedServer(steady_reply, latency=0.05) as server:
        given = parameters(repo_root, data, tmp_path / "run", models_file(server, tmp_path / "m.yaml"), conversations=1)
        running = Running(given, server, 10)
        worker, task = at_work()
        try:
            if deed == "kill the worker":
                worker.kill()
            elif deed == "kill the task":
                task.kill()
            else:
                for process in (worker, task)[deed == "freeze the task" :]:
                    process.suspend()
            running.wait_for(fewer[1] - 5)
        finally:
            for process in (worker, task):
                with suppress(psutil.NoSuchProcess):
                    process.resume()
        running.result.result(120)
        assert records(tmp_path / "run") == fewer[0]
        assert not server.repeated() and len(server.requests) == fewer[1]  # what was in flight went on at the door
    assert not left_behind(tmp_path / "run")


@pytest.mark.slow
def test_a_limit_of_spending_holds_for_all_workers(
    repo_root: Path, data: Path, expected: tuple[dict[str, bytes], int], tmp_path: Path
) -> None:
    use_cluster("local:2")
    with ScriptedServer(steady_reply, latency=0.02) as server:
        prices = {"input_price": 1_000.0, "output_price": 1_000.0, "max_output_tokens": 60}
        models = models_file(server, tmp_path / "m.yaml", **prices)
        given = parameters(repo_root, data, tmp_path / "run", models)
        set_spending_limit(4.0)
        said = r"has spent \$[23].* of \$4.00, and the next call"
        with pytest.raises(SpendingLimit, match=said) as reached, limited(Path(given.run), load_models(models)):
            evaluate(given, ARMS, quiet=True)
        assert reached.value.exit_code == 3
        made = len(server.requests)
        words = sum(
            len("\n".join(str(m["content"]) for m in one.body["messages"]).split())
            + len(steady_reply(one.body).split())
            for one in server.requests
        )
        assert 2.0 < words / 1_000 <= 4.0
        set_spending_limit(1_000)
        with limited(Path(given.run), load_models(models)):
            evaluate(given, ARMS, quiet=True)
        assert not server.repeated() and 0 < made < len(server.requests) == expected[1]
    assert records(tmp_path / "run") == {**expected[0]}


@pytest.fixture
def begun(tmp_path: Path, repo_root: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Begins processes in the checkout, which are ended with the test."""
    processes = []

    def begin(*command: object, **more: str) -> subprocess.Popen[str]:
        with (tmp_path / f"log{len(processes)}").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *map(str, command)], cwd=repo_root, env={**os.environ, **more}, stdout=log,
                stderr=log, text=True, start_new_session=True,
            )  # fmt: skip
        processes.append(process)
        return process

    yield begin
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_scheduler_that_is_begun_again_has_the_work_go_on(
    begun: Callable[..., subprocess.Popen[str]],
    repo_root: Path,
    data: Path,
    fewer: tuple[dict[str, bytes], int],
    tmp_path: Path,
) -> None:
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    scheduler = ("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
    worker = ("distributed.cli.dask_worker", address, "--nthreads", 1, "--no-dashboard", "--local-directory", tmp_path)
    first = begun(*scheduler)
    begun(*worker)
    use_cluster(address)
    with ScriptedServer(steady_reply, latency=0.05) as server:
        given = parameters(repo_root, data, tmp_path / "run", models_file(server, tmp_path / "m.yaml"), conversations=1)
        until = time.monotonic() + 30
        while True:  # until the worker is there
            try:
                running = Running(given, server, 10)
                break
            except AssertionError as error:
                assert "has no workers" in str(error) and time.monotonic() < until
                time.sleep(0.5)
        os.killpg(first.pid, signal.SIGKILL)
        begun(*scheduler)
        time.sleep(1)
        begun(*worker)
        running.result.result(120)
        assert not server.repeated() and len(server.requests) == fewer[1]
    assert records(tmp_path / "run") == fewer[0]
    assert not left_behind(tmp_path / "run")


SBATCH = """#!/bin/sh
setsid sh -c "sleep 4; $(cat "$1")" > /dev/null 2>&1 &
echo $! >> "$(dirname "$0")/jobs"
echo "Submitted batch job $!"
"""


@pytest.mark.slow
def test_workers_as_jobs_of_a_batch_system(
    repo_root: Path, data: Path, fewer: tuple[dict[str, bytes], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dask-jobqueue with a SLURM whose jobs stand in its queue for longer than workers that are gone are waited for."""
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed (the extra 'cluster')")
    for name, text in (("sbatch", SBATCH), ("scancel", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("beam_run.cluster.pool.RECONNECT", 1.0)
    monkeypatch.chdir(repo_root)
    file = yaml.safe_load((repo_root / "params/cluster/slurm.yaml").read_text())
    here = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    changed = {"job_script_prologue": [], "memory": "1GB", "log_directory": str(tmp_path), "scheduler_options": here}
    (tmp_path / "slurm.yaml").write_text(
        yaml.safe_dump({**file, "workers": 1, "options": {**file["options"], **changed}})
    )
    use_cluster(str(tmp_path / "slurm.yaml"))
    try:
        with ScriptedServer(steady_reply) as server:
            models = models_file(server, tmp_path / "m.yaml")
            evaluate(parameters(repo_root, data, tmp_path / "run", models, conversations=1), FEW, quiet=True)
        assert records(tmp_path / "run") == fewer[0]
        assert len((tmp_path / "jobs").read_text().split()) == 1  # for answers and verdicts
    finally:
        for job in (tmp_path / "jobs").read_text().split():
            with suppress(ProcessLookupError):
                os.killpg(int(job), signal.SIGKILL)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("cluster: PickleCluster\nworkers: 1", "cluster: Input should be 'HTCondorCluster'"),
        ("cluster: SLURMCluster\nworkers: 1\nextra: 1", "extra: Extra inputs are not permitted"),
        ("[", "not valid YAML"),
    ],
)
def test_a_file_that_names_no_cluster_is_told_in_one_sentence(given: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(given)
    with pytest.raises(UserError, match=said):
        use_cluster(str(tmp_path / "cluster.yaml"))


@pytest.mark.parametrize("given", ["local:0", "local:two", "http://host:1", "tcp://host", "nowhere.yaml"])
def test_a_cluster_that_is_none_is_told_in_one_sentence(given: str) -> None:
    with pytest.raises(UserError, match="is neither local:N"):
        use_cluster(given)


def test_what_is_no_scheduler_but_listens_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beam_run.cluster.addresses._CONNECT", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(UserError, match="no scheduler answers"), addresses.cluster_of(address):
            pass


def test_a_certificate_that_dask_was_not_told_of_is_told_in_one_sentence() -> None:
    with pytest.raises(UserError, match="ssl_context"), addresses.cluster_of("tls://127.0.0.1:9"):
        pass


def test_a_batch_system_that_is_not_here_is_told_in_one_sentence(
    repo_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    file = str(repo_root / "params/cluster/slurm.yaml")
    with pytest.raises(UserError, match="sbatch, which is not on this machine"), addresses.cluster_of(file):
        pass


RUNS = """
import json, sys
from pathlib import Path
from beam_run.cluster import addresses
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.run import evaluate
from beamlib.params import load_parameters
from beam_run.cluster import use_cluster
from beam_run.plugins import register_packages
addresses.PATIENCE = 2.0
if __name__ == "__main__":
    register_packages()
    root, given = Path(sys.argv[1]), json.loads(sys.argv[2])
    use_cluster("local:2")
    evaluate(load_parameters(root / "params/100k.yaml", **given), [Arm(memory="none")], quiet=True)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_driver_that_is_ended_goes_on_where_it_was(
    number: signal.Signals, repo_root: Path, data: Path, fewer: tuple[dict[str, bytes], int], tmp_path: Path
) -> None:
    """Ctrl-C lets what is under way arrive; a kill costs that."""
    (tmp_path / "run.py").write_text(RUNS)
    with ScriptedServer(steady_reply, latency=0.05) as server:
        given = parameters(repo_root, data, tmp_path / "run", models_file(server, tmp_path / "m.yaml"), conversations=1)
        command = [sys.executable, str(tmp_path / "run.py"), str(repo_root), given.model_dump_json()]
        first = subprocess.Popen(command, cwd=repo_root, stderr=subprocess.PIPE, text=True)
        while len(server.requests) < 10:
            assert first.poll() is None, first.stderr and first.stderr.read()
            time.sleep(0.01)
        first.send_signal(number)
        assert first.wait(40) != 0
        made = len(server.requests)
        assert made < fewer[1] - 20
        time.sleep(1)
        assert len(server.requests) <= made + (4 if number == signal.SIGKILL else 0)
        again = subprocess.run(command, cwd=repo_root, capture_output=True, text=True, timeout=120)
        assert again.returncode == 0, again.stderr
        assert len(server.repeated()) <= (4 if number == signal.SIGKILL else 0)
    assert records(tmp_path / "run") == fewer[0]
    assert not left_behind(tmp_path / "run")
