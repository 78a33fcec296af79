"""A run that is killed, stopped, lied to and cut off its power ends as an undisturbed one does, and pays nothing twice.

Seeded: `NEMESIS_SEED=7 NEMESIS_SECONDS=600 ./run_tests.sh --slow tests/nemesis`. A seed that fails becomes a test.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from nemesis_disk import Disk, build, write_files

from scripted_server import Faults, ScriptedServer
from steady_replies import steady_reply

SECONDS, SEED = float(os.environ.get("NEMESIS_SECONDS", "200")), int(os.environ.get("NEMESIS_SEED", "1"))
TROUBLE = Faults(delay=0.2, surplus=0.1, drop=0.04, delay_seconds=0.2)

DRIVER = """
import json, sys
from pathlib import Path
from beam_run.cluster import addresses, use_cluster
from beam_run.plugins import register_packages
from beamlib.evaluate.arms import Arm, experiments
from beamlib.evaluate.run import evaluate
from beamlib.params import load_parameters
if __name__ == "__main__":
    register_packages()
    addresses.PATIENCE = 2.0
    use_cluster(sys.argv[3])
    chosen = load_parameters(Path(sys.argv[1]) / "params/100k.yaml", **json.loads(sys.argv[2]))
    own = [arm for arm in experiments(chosen)["main"] if arm.memory == "own"]
    evaluate(chosen, [Arm(memory="none"), *own], quiet=True)
"""

MEMORY = """
import hashlib, json, os, sys, urllib.request

def say(value): print(json.dumps(value), flush=True)

def once(name):
    try: os.close(os.open(os.path.join(os.environ["NEMESIS_MARKS"], name), os.O_CREAT | os.O_EXCL))
    except (OSError, KeyError): return False
    return True

for line in sys.stdin:
    asked = json.loads(line)
    say({"level": "info", "msg": asked["method"], "context": "NONCE of nobody"})
    if asked["method"] == "hello":
        api = asked["api"]
        say({"protocol": 2})
    elif asked["method"] == "ingest": say({"id": asked["id"]})
    else:
        question = asked["question"]
        nonce = hashlib.sha256(question.encode()).hexdigest()
        body = json.dumps({"model": api["model"], "messages": [{"role": "user", "content": "Recall: " + question}]})
        request = urllib.request.Request(api["base_url"] + "/chat/completions", body.encode())
        request.add_header("Authorization", "Bearer " + api["api_key"])
        found = json.loads(urllib.request.urlopen(request).read())["choices"][0]["message"]["content"]
        reply = {"id": asked["id"], "context": "NONCE " + nonce + " " + found}
        say(reply)
        if nonce[0] in "012" and once("double" + nonce): say(reply)
        if nonce[0] in "34" and once("fork" + nonce) and not os.fork(): say({**reply, "id": "another"}), os._exit(0)
        if nonce[0] in "56" and once("exit" + nonce): os._exit(1)
"""


def number(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def reply_to(body: dict[str, Any]) -> str:
    """A reply that occurs once: its text names the request."""
    mark = number(json.dumps(body["messages"]))
    text = str(body["messages"][-1]["content"])
    if text.startswith("Recall: "):
        return f"Recalled {mark}."
    reply = steady_reply(body)
    return json.dumps({**json.loads(reply), "reason": mark}) if reply.startswith('{"score"') else f"{reply} {mark}"


class Campaign:
    """A run from its beginning to its end, with disturbances, and the history that is checked."""

    usual = 5.0
    """Seconds that an undisturbed run takes on this machine."""

    def __init__(
        self,
        place: Path,
        root: Path,
        server: ScriptedServer,
        library: Path | None,
        chance: random.Random,
        cluster: str,
    ) -> None:
        self.place, self.run, self.server, self.library, self.chance = place, place / "run", server, library, chance
        self.history: list[str] = []
        self.stored: set[str] = set()
        shutil.rmtree(place, ignore_errors=True)
        (place / "marks").mkdir(parents=True)
        self.run.mkdir()
        (place / "driver.py").write_text(DRIVER)
        endpoint = {
            "model": "m",
            "base_url": server.base_url,
            "context_window": 131_072,
            "concurrency": 4,
            "patience": 9.0,
        }
        roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
        (place / "models.yaml").write_text(yaml.safe_dump({"readers": {"one": endpoint}, **roles}))
        memory = place.parent / "memory.py"  # one path: it is part of the records
        memory.write_text(MEMORY)
        given = {
            "data": str(place.parent / "data"), "run": str(self.run), "models": str(place / "models.yaml"),
            "workers": 2, "confirm_cost": True, "own_memory": f"process:own:{sys.executable} {memory}",
        }  # fmt: skip
        self.command = [sys.executable, str(place / "driver.py"), str(root), json.dumps(given), cluster]

    def begin(self, **environment: str) -> subprocess.Popen[bytes]:
        marks = {"NEMESIS_MARKS": str(self.place / "marks")} if self.server.faults != Faults() else {}
        output = (self.place / "output.txt").open("ab")
        return subprocess.Popen(
            self.command,
            env={**os.environ, **marks, **environment},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )

    def undisturbed(self) -> None:
        """Run to the end."""
        with closing_group(self.begin()) as process:
            assert process.wait(240) == 0, (self.history, (self.place / "output.txt").read_text()[-2_000:])

    def disturb(self) -> bool:
        """Run with one disturbance; return whether it came to its end all the same."""
        kind = self.chance.choice(["kill", "kill one", "stop", *(("full", "power", "power") if self.library else ())])
        seconds = self.chance.uniform(0.2, 1.0) * self.usual
        self.history.append(f"{kind} after {seconds:.2f} s")
        log = self.place / "disk.log"
        environment = {}
        if self.library and (skew := self.chance.choice([0, 0, 7, 4_000, 90_000_000])):
            self.history.append(f"clocks {skew} s apart")
            environment = {"LD_PRELOAD": str(self.library), "NEMESIS_SKEW": str(skew)}
        log.unlink(missing_ok=True)
        if self.library and kind in ("full", "power"):
            environment |= {"LD_PRELOAD": str(self.library), "NEMESIS_ROOT": str(self.run)}
            if kind == "full":
                first, most = self.chance.randint(1, 300), self.chance.choice([1, 3, 100_000])
                self.history.append(f"disk full at write {first} for {most}")
                environment |= {"NEMESIS_FULL": str(first), "NEMESIS_FULL_FOR": str(most)}
                environment |= {"NEMESIS_COUNT": str(self.place / "count")}
                (self.place / "count").unlink(missing_ok=True)
            else:
                environment |= {"NEMESIS_LOG": str(log)}
        before, disk = len(self.server.requests), Disk(self.run) if kind == "power" else None
        with closing_group(self.begin(**environment)) as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(4 * self.usual if kind == "full" else seconds)
            if kind in ("kill one", "stop") and (members := group(process.pid)):
                victim = self.chance.choice(members)
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL if kind == "kill one" else signal.SIGSTOP)
                    time.sleep(self.chance.uniform(0.2, 1.5))
                    os.kill(victim, signal.SIGCONT)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(seconds)
            code = process.poll()
        if disk is not None:
            self.cut_power(disk, log.read_text().splitlines() if log.exists() else [])
        self.check(before)
        return code == 0 and kind != "power"

    def cut_power(self, disk: Disk, lines: list[str]) -> None:
        """Leave what a power cut at a random instant of the log leaves; at most one call a store was being written."""
        at = self.chance.randint(0, len(lines))
        self.history.append(f"power cut at change {at} of {len(lines)}")
        disk.replay(lines[:at])
        write_files(disk.whole(), self.run, self.place / "whole")
        write_files(disk.after_power_cut(self.chance), self.run, self.place / "left")
        seen, left = stored(self.place / "whole"), stored(self.place / "left")
        for name, texts in seen.items():
            assert len(texts - left.get(name, set())) <= 1, (self.history, name, len(texts), len(left.get(name, set())))
        shutil.rmtree(self.run)
        (self.place / "left").rename(self.run)
        # What was stored after the instant never was: it may be paid for again.
        self.stored &= {text for texts in seen.values() for text in texts}

    def check(self, before: int) -> None:
        """Compare the history with the stores: nothing is lost, nothing that was stored is paid for again."""
        calls = stored(self.run)
        now = {text for texts in calls.values() for text in texts}
        assert self.stored <= now, (self.history, "lost", sorted(self.stored - now)[:3])
        again = {reply_to(request.body) for request in self.server.requests[before:]} & self.stored
        assert not again, (self.history, "paid again", sorted(again)[:3])
        assert len(now) <= len(self.server.requests), self.history
        for request in self.server.requests[before:]:
            text = str(request.body["messages"][-1]["content"])
            if (nonce := re.search(r"NONCE ([0-9a-f]{64})", text)) and (question := tagged(text, "question")):
                assert hashlib.sha256(question.encode()).hexdigest() == nonce[1], (self.history, "another's context")
            assert "NONCE of nobody" not in text, self.history
        self.stored = now

    def records(self) -> dict[str, bytes]:
        paths = [path for path in sorted(self.run.glob("100k*/*/*")) if path.suffix in (".json", ".jsonl")]
        return {path.relative_to(self.run).as_posix(): path.read_bytes() for path in paths}


class closing_group:
    """End all processes of a session at the end of the block, at once."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def __enter__(self) -> subprocess.Popen[bytes]:
        return self.process

    def __exit__(self, *_: object) -> None:
        for _round in range(3):
            for member in group(self.process.pid):
                with suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            time.sleep(0.1)
        self.process.wait(10)


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


def tagged(text: str, tag: str) -> str:
    found = re.findall(rf"<{tag}>\n(.*?)\n</{tag}>", text, re.DOTALL)
    return found[-1] if found else ""


def stored(run: Path) -> dict[str, set[str]]:
    """The replies in each call store, read from a copy: reading merges what a kill left."""
    texts: dict[str, set[str]] = {}
    for path in run.glob("calls/*/*.sqlite"):
        copy = run.parent / "copy" / path.name
        shutil.rmtree(copy.parent, ignore_errors=True)
        copy.parent.mkdir()
        for part in path.parent.glob(f"{path.name}*"):
            shutil.copy(part, copy.parent / part.name)
        with closing(sqlite3.connect(copy)) as connection:
            rows = connection.execute("SELECT text FROM calls WHERE text IS NOT NULL").fetchall()
        texts[path.name] = {row[0] for row in rows}
    return texts


@pytest.fixture(scope="module")
def place(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nemesis")
    for copy in (1, 2):
        shutil.copytree(repo_root / "beamlib/data/example/100K/1", folder / f"data/100K/{copy}")
        for path in (folder / f"data/100K/{copy}").rglob("*.json"):
            path.write_text(path.read_text().replace(" the ", f" the{copy} ").replace("?", f" of {copy}?"))
    return folder


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(reply_to, latency=0.02) as one:
        yield one


@pytest.mark.slow
@pytest.mark.timeout(int(SECONDS) + 700)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("cluster", ["", "local:2"], ids=["workers", "cluster"])
def test_disturbed_runs_end_as_an_undisturbed_one(
    cluster: str, place: Path, repo_root: Path, server: ScriptedServer
) -> None:
    until, chance, library = time.monotonic() + SECONDS, random.Random(SEED), build(place)
    server.requests.clear()
    server.faults = Faults()
    reference = Campaign(place / "campaign", repo_root, server, None, chance, cluster)
    began = time.monotonic()
    reference.undisturbed()
    Campaign.usual = time.monotonic() - began
    reference.check(0)
    expected = reference.records()
    assert len(expected) == 6 and b'"unscored": null' in b"".join(expected.values())
    rounds = 0
    while time.monotonic() < until:
        server.requests.clear()
        server.faults, server.seed = TROUBLE, chance.randint(0, 2**30)
        campaign = Campaign(place / "campaign", repo_root, server, library, chance, cluster)
        ended = False
        while not ended and len(campaign.history) < 12 and time.monotonic() < until:
            ended, rounds = campaign.disturb(), rounds + 1
        before, server.faults = len(server.requests), Faults()
        campaign.undisturbed()
        campaign.check(before)
        assert campaign.records() == expected, (SEED, campaign.history)
    print(f"nemesis: seed {SEED}, {cluster or 'workers'}, {rounds} disturbances")
    assert rounds


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
