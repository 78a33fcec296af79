"""The real Mem0, Graphiti and LangMem against the scripted server: recorded, killed, gone on, replayed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from beam_commands.dry_run import CallTally
from beam_commands.estimate import call_rule, count_adapters
from beam_commands.options import spread_k
from beam_memories.own_memory import check_own_memory, open_memory
from beam_memories.programs import adapter_identity
from beam_run.publish import publish, verify
from beamlib.data.loading import load
from beamlib.data.sources import find_conversations
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.calling import open_models
from beamlib.llm.call_store import CallStore, stored_calls
from beamlib.memory.declared import named_memories
from beamlib.params import load_parameters
from beamlib.run import Run
from scripted_server import ScriptedServer
from steady_replies import one_endpoint
from system_replies import system_reply

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")

RUN = """
import sys
from pathlib import Path
from beamlib.evaluate.arms import experiments
from beamlib.run import Run
from beamlib.run import keep_settings
from beamlib.evaluate.run import evaluate
from beamlib.params import load_parameters
from beam_run.plugins import register_packages
register_packages()
if __name__ == "__main__":
    root, run, name, models, calls = sys.argv[1:]
    chosen = load_parameters(
        Path(root) / "params/100k.yaml", data=f"{root}/beamlib/data/example", run=run, own_memory=name, workers=1,
        models=models, confirm_cost=True, calls=calls,
    )
    evaluate(chosen, [arm for arm in experiments(chosen)["main"] if arm.memory == "own"], quiet=True)
    keep_settings(Run.of(chosen))
"""

ADAPTERS = named_memories(outside=True)


@pytest.fixture(params=ADAPTERS)
def system(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    try:
        adapter_identity(name)
    except UserError as error:
        if request.config.getoption("--adapters"):
            raise
        pytest.skip(f"{error} (or ./run_tests.sh --adapters)")
    return name


def begun(root: Path, folder: Path, name: str, models: Path, calls: str = "record") -> subprocess.Popen[str]:
    script = folder / "run.py"
    script.write_text(RUN)
    command = [sys.executable, script, root, folder, name, models, calls]
    return subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True, start_new_session=True)


def finished(process: subprocess.Popen[str]) -> None:
    _, said = process.communicate(timeout=280)
    assert process.returncode == 0, said[-3_000:]


def records(folder: Path, name: str) -> list[bytes]:
    return [(folder / "100k-one" / name / f"{what}.jsonl").read_bytes() for what in ("answers", "judgements")]


def below(process: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(entry.read_text().rpartition(")")[2].split()[1]) == process:
                found.append(int(entry.parent.name))
        except (OSError, ValueError):
            continue
    return found + [deeper for child in found for deeper in below(child)]


def test_killed_midway_gone_on_and_replayed_with_the_server_dead(system: str, tmp_path: Path, repo_root: Path) -> None:
    whole, killed, replayed = (tmp_path / name for name in ("whole", "killed", "replayed"))
    for folder in (whole, killed, replayed):
        folder.mkdir()
    with ScriptedServer(system_reply, latency=0.05) as server:
        models = one_endpoint(server, tmp_path / "models.yaml")
        finished(begun(repo_root, whole, system, models))
        paid = len(server.requests)
        assert server.repeated() == []
        first = begun(repo_root, killed, system, models)
        until = time.monotonic() + 120
        while stored_calls(killed / "calls/100k") < 6 and time.monotonic() < until:
            time.sleep(0.02)
        left = below(first.pid)
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
        held = stored_calls(killed / "calls/100k")
        assert held >= 6
        for _ in range(200):
            if not any(Path(f"/proc/{one}").exists() for one in left):
                break
            time.sleep(0.05)
        else:
            raise AssertionError("a process of the killed run is still there")
        before = len(server.requests)
        finished(begun(repo_root, killed, system, models))
        sent, in_flight = len(server.requests) - before, before - paid - held
        assert 0 <= in_flight <= 2
        assert sent == paid - held
    shutil.copytree(killed / "calls", replayed / "calls")
    finished(begun(repo_root, replayed, system, models, "replay"))
    assert records(whole, system) == records(killed, system) == records(replayed, system)
    answers = [json.loads(line) for line in records(whole, system)[0].splitlines()]
    assert not any(answer["unscored"] for answer in answers)
    assert all(answer["context_tokens"] > 0 for answer in answers)
    assert any(answer["message_ids"] for answer in answers) == (system != "langmem")
    manifest = json.loads((whole / "100k-one" / system / "manifest.json").read_text())
    assert manifest["notes"][0].startswith(f"{system}: ")
    with CallStore(whole / "calls/100k/100K-1.sqlite", read_only=True) as store:
        assert f"{system}/chat" in {one.step for one in store.totals()}
    assert not list(killed.glob(".memory-*"))
    publish(killed, tmp_path / "run.tar.zst")
    assert "1 methods replayed, 20 answers" in verify(tmp_path / "run.tar.zst", repo_root / "beamlib/data/example")


@pytest.mark.parametrize("name", ADAPTERS)
def test_what_it_will_call_is_in_the_estimate(name: str, tmp_path: Path, repo_root: Path) -> None:
    example = load(find_conversations(repo_root / "beamlib/data/example")[0])
    with ScriptedServer(system_reply) as server:
        models = one_endpoint(server, tmp_path / "models.yaml")
    chosen = load_parameters(repo_root / "params/100k.yaml", run=str(tmp_path), models=str(models))
    arms, tally = (Arm(memory="own", target=name),), CallTally()
    count_adapters(tally, arms, example.conversation, len(example.probes), Run.of(chosen), {})
    (step,), rule = tally, call_rule(arms[0])
    assert rule is not None
    counts = tally[step]
    assert step == ("memory", f"{name}/chat")
    assert (counts.pending, counts.held) == (rule.calls * len(example.conversation.pairs), 0)
    assert counts.input > counts.pending * rule.tokens


@pytest.mark.parametrize("name", ADAPTERS)
def test_without_models_it_says_what_it_needs(name: str) -> None:
    try:
        adapter_identity(name)
    except UserError as error:
        assert f'pip install "beamlib[{name}]"' in str(error)
        return
    with pytest.raises(UserError, match="a language model find what it keeps"):
        check_own_memory(name, seconds=60)


@pytest.mark.parametrize(("given", "entries"), [({}, 20), ({"k": 2}, 2), ({"k": 2, "adapter_k": 1}, 1)])
def test_a_given_k_is_what_a_system_is_asked_for(
    system: str, given: dict[str, int], entries: int, tmp_path: Path, repo_root: Path
) -> None:
    conversation = load(find_conversations(repo_root / "beamlib/data/example")[0]).conversation
    with ScriptedServer(system_reply) as server:
        models = one_endpoint(server, tmp_path / "models.yaml")
        values = spread_k(given) | {"run": str(tmp_path / "run"), "models": str(models), "confirm_cost": True}
        chosen = Run.of(load_parameters(repo_root / "params/100k.yaml", **values))
        arm = Arm(memory=system, target=system)
        with open_models(chosen, conversation.id) as roster, open_memory(arm, chosen, roster) as memory:
            memory.ingest(conversation)
            recalled = memory.recall("What did the user say about the project?")
    found = recalled.context.splitlines()
    assert len(found) == entries if given else 2 < len(found) <= entries
