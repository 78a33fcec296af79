"""A run that is killed, stopped, lied to and cut off its power ends as an undisturbed one does, and pays nothing twice.

Seeded: `./run_tests.sh --slow tests/nemesis --nemesis-seed 7 --nemesis-seconds 600`. A seed that fails becomes a test.
It stands in the place of `benchmarks/attack.py`, which disturbed runs of earlier versions.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from nemesis_disk import Disk, build, write_files
from nemesis_history import History, reply_to

from scripted_server import Faults, ScriptedServer

TROUBLE = Faults(delay=0.2, surplus=0.1, drop=0.04, delay_seconds=0.2)
CUTS = 30
FEW = ("abstention", "event_ordering")
"""Abilities that a run in a fork has a question of."""
HERE = Path(__file__).parent
linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


class Place:
    """A folder with data for two conversations, a models file, and at `run` one run at a time: its path is recorded."""

    def __init__(self, folder: Path, repo_root: Path, server: ScriptedServer) -> None:
        self.folder, self.run, self.server = folder, folder / "run", server
        self.library = build(folder)
        for copy in (1, 2):
            shutil.copytree(repo_root / "beamlib/data/example/100K/1", folder / f"data/100K/{copy}")
            for path in (folder / f"data/100K/{copy}").rglob("*.json"):
                path.write_text(path.read_text().replace(" the ", f" the{copy} ").replace("?", f" of {copy}?"))
        shutil.copytree(folder / "data/100K/1", folder / "few/100K/1")
        questions = folder / "few/100K/1/probing_questions/probing_questions.json"
        few = {ability: probes[:1] for ability, probes in json.loads(questions.read_text()).items() if ability in FEW}
        questions.write_text(json.dumps(few))
        endpoint = {"model": "m", "base_url": server.base_url, "context_window": 131_072, "concurrency": 4}
        roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint | {"patience": 9.0})
        (folder / "models.yaml").write_text(yaml.safe_dump({"readers": {"one": roles["judge"]}, **roles}))

    def command(self, cluster: str) -> list[str]:
        """The command of a run by two workers, by a cluster, or in forks by one."""
        parameters = {
            "data": str(self.folder / ("few" if cluster == "forks" else "data")), "run": str(self.run),
            "models": str(self.folder / "models.yaml"), "workers": 1 if cluster == "forks" else 2, "confirm_cost": True,
            "own_memory": f"process:own:{sys.executable} {HERE / 'nemesis_memory.py'}",
        }  # fmt: skip
        path = self.folder / "parameters.json"
        path.write_text(json.dumps(parameters))
        return [sys.executable, str(HERE / "nemesis_run.py"), str(path), cluster]

    def anew(self, faults: Faults, seed: int = 0) -> History:
        """Begin another run, and its history, with a server that has these faults."""
        for name in ("run", "marks", "whole", "left"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        self.run.mkdir()
        (self.folder / "marks").mkdir()
        self.server.requests.clear()
        self.server.faults, self.server.seed = faults, seed
        return History(self.run, self.server)

    def layer(self, **settings: object) -> dict[str, str]:
        """The environment in which the disk below the run is the layer's."""
        (self.folder / "count").unlink(missing_ok=True)
        (self.folder / "log").unlink(missing_ok=True)
        names = {"root": self.run, "count": self.folder / "count"} | settings
        return {f"NEMESIS_{name.upper()}": str(value) for name, value in names.items()}

    def cut_power(self, history: History, disk: Disk, log: list[str], at: int, choice: random.Random) -> None:
        """Leave what a power cut after `at` changes of the log leaves."""
        history.events.append(f"power cut at change {at} of {len(log)}")
        disk.replay(log[:at])
        write_files(disk.whole(), self.run, self.folder / "whole")
        write_files(disk.after_power_cut(choice), self.run, self.folder / "left")
        history.cut_power(self.folder / "whole", self.folder / "left")

    def output(self) -> str:
        """The end of what runs have printed."""
        lines = (self.folder / "output.txt").read_text(errors="replace").splitlines()
        return "\n".join([line for line in lines if "NONCE of nobody" not in line][-30:])


class Campaign:
    """A run with workers or a cluster, from its beginning to its end, with disturbances that chance chooses."""

    def __init__(self, place: Place, cluster: str, chance: random.Random, usual: float, history: History) -> None:
        self.place, self.chance, self.usual, self.history = place, chance, usual, history
        self.command = place.command(cluster)

    def begin(self, **environment: str) -> subprocess.Popen[bytes]:
        with (self.place.folder / "output.txt").open("ab") as output:
            return subprocess.Popen(
                self.command, env={**os.environ, **environment}, stdout=output, stderr=output, start_new_session=True
            )

    def undisturbed(self) -> None:
        """Run to the end, and check."""
        self.place.server.faults = Faults()
        with closing_group(self.begin()) as process:
            assert process.wait(240) == 0, (self.history.events, self.place.output())
        self.history.check()

    def disturb(self) -> bool:
        """Run with one disturbance; return whether it came to its end all the same."""
        library, chance, run = self.place.library, self.chance, self.place.run
        kind = chance.choice(["kill", "kill one", "stop", *(("full", "power", "power") if library else ())])
        seconds = chance.uniform(0.2, 1.0) * self.usual
        self.history.events.append(f"{kind} after {seconds:.2f} s")
        environment = {"NEMESIS_MARKS": str(self.place.folder / "marks")}
        if library:
            skew = chance.choice([0, 0, 7, 4_000, 90_000_000])
            self.history.events.append(f"clocks {skew} s apart")
            environment |= {"LD_PRELOAD": str(library), "NEMESIS_SKEW": str(skew)}
        if kind == "full":
            first, most = chance.randint(1, 300), chance.choice([1, 3, 100_000])
            self.history.events.append(f"disk full at write {first} for {most}")
            environment |= self.place.layer(full=first, full_for=most)
        elif kind == "power":
            environment |= self.place.layer(log=self.place.folder / "log")
        disk = Disk(run)
        with closing_group(self.begin(**environment)) as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(4 * self.usual if kind == "full" else seconds)
            if kind in ("kill one", "stop") and (members := group(process.pid)):
                self.strike(chance.choice(members), signal.SIGKILL if kind == "kill one" else signal.SIGSTOP)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(seconds)
            code = process.poll()
        if kind == "power" and (log := self.place.folder / "log").exists():
            lines = log.read_text().splitlines()
            self.place.cut_power(self.history, disk, lines, chance.randint(0, len(lines)), chance)
        self.history.check()
        return code == 0 and kind != "power"

    def strike(self, victim: int, how: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(victim, how)
            time.sleep(self.chance.uniform(0.2, 1.5))
            os.kill(victim, signal.SIGCONT)


class Forks:
    """Runs in forks of one process that has the layer's disk, each in a fraction of a second."""

    def __init__(self, process: subprocess.Popen[str], place: Place) -> None:
        self.process, self.place = process, place

    def __call__(self, **environment: str) -> int:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(environment) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline() or "-1")

    def to_the_end(self, history: History, expected: dict[str, bytes]) -> None:
        """Run undisturbed, and compare with the records of a run that was never disturbed."""
        assert self() == 0, (history.events, self.place.output())
        history.check()
        assert history.records() == expected, history.events


@contextmanager
def forks(place: Place) -> Iterator[Forks]:
    if place.library is None:
        pytest.skip("needs a C compiler")
    environment = {**os.environ, "LD_PRELOAD": str(place.library)}
    with (place.folder / "output.txt").open("ab") as output:
        process = subprocess.Popen(
            place.command("forks"), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output,
            text=True, start_new_session=True,
        )  # fmt: skip
    with closing_group(process):
        assert process.stdout is not None and process.stdout.readline() == "ready\n", place.output()
        yield Forks(process, place)


@contextmanager
def closing_group(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    """End all processes of a session at the end of the block, at once."""
    try:
        yield process
    finally:
        for _round in range(3):
            for member in group(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            time.sleep(0.1)
        process.wait(10)


def group(leader: int) -> list[int]:
    """The processes that descend from a session's leader, memories in sessions of their own included."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError, ValueError):
            fields = entry.read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                parents.setdefault(int(fields[1]), []).append(int(entry.parent.name))
                if int(fields[3]) == leader:
                    parents.setdefault(leader, []).append(int(entry.parent.name))
    found: list[int] = []
    waiting = [leader]
    while waiting:
        waiting += (below := [one for one in parents.get(waiting.pop(), []) if one not in found and one != leader])
        found += below
    return [leader, *found]


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(reply_to, latency=0.02) as server:
        yield server


@pytest.fixture(scope="module")
def place(repo_root: Path, tmp_path_factory: pytest.TempPathFactory, server: ScriptedServer) -> Place:
    return Place(tmp_path_factory.mktemp("nemesis"), repo_root, server)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--nemesis-seed"))


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--nemesis-seconds"))


@pytest.mark.slow
@pytest.mark.timeout(0)
@linux
@pytest.mark.parametrize("cluster", ["", "local:2"], ids=["workers", "cluster"])
def test_disturbed_runs_end_as_an_undisturbed_one(cluster: str, place: Place, seed: int, seconds: float) -> None:
    if cluster:
        pytest.importorskip("distributed", reason="dask.distributed is not installed (the extra 'cluster')")
    chance, began = random.Random(seed), time.monotonic()
    reference = Campaign(place, cluster, chance, 0.0, place.anew(Faults()))
    reference.undisturbed()
    usual, expected = time.monotonic() - began, reference.history.records()
    assert len(expected) == 6 and b'"unscored": null' in b"".join(expected.values())
    disturbances = 0
    while not disturbances or time.monotonic() < began + seconds:
        history = place.anew(TROUBLE, chance.randint(0, 2**30))
        campaign = Campaign(place, cluster, chance, usual, history)
        ended = False
        while not ended and len(history.events) < 30 and (not disturbances or time.monotonic() < began + seconds):
            ended, disturbances = campaign.disturb(), disturbances + 1
        campaign.undisturbed()
        assert history.records() == expected, (seed, history.events)
    print(f"nemesis: seed {seed}, {cluster or 'workers'}, {disturbances} disturbances")


@pytest.mark.slow
@pytest.mark.timeout(0)
@linux
def test_a_disk_that_is_full_at_each_write_in_turn(place: Place, seed: int) -> None:
    """Each write of a run fails, or it and all that follow: the run says so or goes on, and a later one ends well."""
    with forks(place) as run:
        history = place.anew(Faults())
        assert run(**place.layer(full=10**9)) == 0, place.output()
        history.check()
        expected, count = history.records(), (place.folder / "count").stat().st_size
        assert len(expected) == 3
        for first in range(1, count + 1):
            writes = (1, 10**9)[(first + seed) % 2]
            history = place.anew(Faults())
            history.events.append(f"disk full at write {first} of {count} for {writes}")
            code = run(**place.layer(full=first, full_for=writes))
            assert code in (0, 2), (history.events, code, place.output())
            history.check()
            run.to_the_end(history, expected)


@pytest.mark.slow
@pytest.mark.timeout(0)
@linux
def test_a_power_cut_at_thirty_instants_of_a_run(place: Place, seed: int) -> None:
    """What was not synced is gone; what is left is read, is not paid for again, and a later run ends well."""
    chance = random.Random(seed)
    with forks(place) as run:
        history = place.anew(Faults())
        assert run() == 0, place.output()
        expected = history.records()
        assert len(expected) == 3
        for _cut in range(CUTS):
            history, disk = place.anew(Faults()), Disk(place.run)
            assert run(**place.layer(log=place.folder / "log")) == 0, place.output()
            log = (place.folder / "log").read_text().splitlines()
            place.cut_power(history, disk, log, chance.randint(0, len(log)), chance)
            history.check()
            run.to_the_end(history, expected)


def test_a_power_cut_keeps_what_was_synced_and_no_more(tmp_path: Path) -> None:
    """The layer itself: without fsync of file or folder, data and names are gone."""
    library = build(tmp_path)
    if library is None:
        pytest.skip("needs a C compiler")
    root, log = tmp_path / "root", tmp_path / "log"
    root.mkdir()
    code = """
import os, sys
root = sys.argv[1]
def write(name, sync_file, sync_folder):
    with open(f"{root}/{name}.new", "w") as file:
        file.write(name)
        file.flush()
        sync_file and os.fsync(file.fileno())
    os.replace(f"{root}/{name}.new", f"{root}/{name}")
    if sync_folder:
        folder = os.open(root, os.O_RDONLY)
        os.fsync(folder)
write("both", True, True); write("folder", False, True); write("file", True, False)
"""
    disk = Disk(root)
    environment = {"LD_PRELOAD": str(library), "NEMESIS_ROOT": str(root), "NEMESIS_LOG": str(log)}
    subprocess.run([sys.executable, "-c", code, str(root)], check=True, env={**os.environ, **environment})
    disk.replay(log.read_text().splitlines())
    assert disk.whole() == {root / name: name.encode() for name in ("both", "folder", "file")}
    none = random.Random()
    none.choice = lambda options: options[0]  # type: ignore[method-assign,assignment]
    assert disk.after_power_cut(none) == {root / "both": b"both", root / "folder": b""}


def test_clocks_differ_and_jump_under_the_layer(tmp_path: Path) -> None:
    library = build(tmp_path)
    if library is None:
        pytest.skip("needs a C compiler")
    code = "import time; print(time.time(), time.monotonic())"
    environment = {**os.environ, "LD_PRELOAD": str(library), "NEMESIS_SKEW": "1000000"}
    before, offsets = time.monotonic(), set()
    for _ in range(8):
        output = subprocess.run(
            [sys.executable, "-c", code], check=True, env=environment, capture_output=True, text=True
        )
        date, monotonic = map(float, output.stdout.split())
        offsets.add(round((date - time.time()) / 1_000_000))
        assert before <= monotonic <= time.monotonic()
    assert len(offsets) > 1 and offsets <= {-1, 0, 1}
