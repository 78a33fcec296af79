"""Memories in any language by the process protocol, end to end."""

from __future__ import annotations

import re
import shutil
import sys
import time
from pathlib import Path

import pytest

from beam_commands.options import absolute_target
from beam_memories.own_memory import OwnMemory, check_own_memory, open_memory
from beam_memories.programs import batches, identify_memory
from beamlib.data.loading import Loaded, load
from beamlib.data.sources import find_conversations
from beamlib.errors import SpendingLimit, UserError
from beamlib.evaluate.arms import Arm, experiments
from beamlib.evaluate.beam_records import Evaluation
from beamlib.evaluate.calling import open_models
from beamlib.evaluate.run import evaluate
from beamlib.llm.endpoints import load_models
from beamlib.llm.model import ModelError
from beamlib.llm.spending import limited, set_spending_limit
from beamlib.params import RunParameters, load_parameters
from beamlib.processes import at_once
from beamlib.run import Run
from scripted_server import ScriptedServer
from steady_replies import one_endpoint
from system_replies import system_reply

WINDOW = 10_000


def script(folder: Path, body: str, name: str = "memory.py") -> str:
    """The target of a memory in plain Python, whose replies to `asked` are what `body` makes of it."""
    path = folder / name
    path.write_text(
        f"import json, os, sys, time, urllib.request\nfor line in sys.stdin:\n asked = json.loads(line)\n{body}"
    )
    return f"process:mine:{sys.executable} {path}"


PLAIN = """
 reply = {"protocol": 2} if asked["method"] == "hello" else {}
 if asked["method"] == "recall": reply = eval(asked["question"])
 print(json.dumps({"id": asked["id"], **reply}), flush=True)
"""

ASKS = """
 reply = {"id": asked["id"], "protocol": 2}
 if asked["method"] == "hello": api = asked["api"]
 if asked["method"] == "ingest": reply = {"id": asked["id"]}
 if asked["method"] == "recall":
  body = json.dumps({"model": api["model"], "messages": [{"role": "user", "content": asked["question"]}]}).encode()
  request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body)
  request.add_header("Authorization", "Bearer " + os.environ["OPENAI_API_KEY"])
  found = json.loads(urllib.request.urlopen(request).read())
  kept = [name for name in ("SECRET_KEY", "OPENAI_API_KEY") if os.environ.get(name, "").startswith("sk-")]
  reply = {"id": asked["id"], "context": found["choices"][0]["message"]["content"] + str(kept), "message_ids": [0]}
 print(json.dumps(reply), flush=True)
"""


@pytest.fixture(scope="module")
def example(repo_root: Path) -> Loaded:
    return load(find_conversations(repo_root / "beamlib/data/example")[0])


def parameters(folder: Path, root: Path, target: str, **more: object) -> RunParameters:
    given = {"data": str(root / "beamlib/data/example"), "run": str(folder / "run"), "workers": 1, **more}
    return load_parameters(root / "params/100k.yaml", own_memory=absolute_target(target), **given)


def own(chosen: RunParameters) -> list[Arm]:
    return [arm for arm in experiments(chosen)["main"] if arm.memory == "own"]


def answers_in(found: Evaluation) -> list[bytes]:
    folder = next(Path(found.run.run).glob("100k*/*/answers.jsonl")).parent
    return [(folder / name).read_bytes() for name in ("answers.jsonl", "judgements.jsonl")]


@pytest.mark.skipif(not shutil.which("perl"), reason="needs perl")
@pytest.mark.usefixtures("in_this_process")
def test_a_memory_in_perl_stands_beside_the_others(tmp_path: Path, repo_root: Path) -> None:
    shipped = repo_root / "packages/beam_memories/adapters/overlap.pl"
    chosen = parameters(tmp_path, repo_root, f"process:overlap:{shipped} 3")
    (arm,) = own(chosen)
    assert arm.name == "process-overlap"
    found = evaluate(chosen, [arm], quiet=True).answers["process-overlap"]
    assert len(found) == 20
    assert not any(answer.unscored for answer in found)
    assert all(len(answer.message_ids) == 6 and answer.context_tokens > 50 for answer in found)


def test_a_conversation_comes_in_batches_of_whole_pairs(example: Loaded) -> None:
    told = list(batches(example.conversation))
    assert [one["id"] for batch in told for one in batch] == [message.id for message in example.conversation]
    for batch in told:
        assert len({one["session"] for one in batch}) == 1
        assert [one["role"] for one in batch] == ["user", "assistant"] * (len(batch) // 2)
        assert len(batch) <= 100
        assert all(one["time"] is None or re.fullmatch(r"\d{4}-\d\d-\d\d", one["time"]) for one in batch)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (PLAIN.replace('"protocol": 2', '"protocol": 3'), "it speaks protocol 3, and this version speaks 2"),
        (PLAIN.replace('{"protocol": 2}', "{}"), "it speaks protocol 0"),
        (PLAIN.replace('{"protocol": 2}', '{"error": "no database"}'), "mine: no database"),
        (' print(\'{"error": "no database"}\', flush=True)\n', "mine: no database"),
        (" print('hello'); sys.exit()\n", "its process ended (exit code 0)"),
        (PLAIN.replace('"id": asked["id"], ', '"id": "1", '), "with a wrong id"),
        (" sys.exit(3)\n", "its process ended (exit code 3)"),
        (" os.kill(os.getpid(), 9)\n", "its process ended (exit code 137)"),
    ],
)
def test_what_does_not_speak_the_protocol_is_told_at_once(tmp_path: Path, body: str, reason: str) -> None:
    with pytest.raises(UserError, match=re.escape(reason)):
        check_own_memory(script(tmp_path, body), seconds=60)


def test_a_command_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="exit code 127"):
        check_own_memory(f"process:mine:{tmp_path}/nowhere", seconds=60)


@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        ("{'message_ids': [0]}", "recall gave no context"),
        ("{'context': 'a', 'message_ids': [9999]}", "names message 9999"),
        ("{'context': 'a ' * 20_000}", "the reader accepts 10,000"),
        ("{'context': 'x' * 2**25}", "more than 16,777,216 bytes"),
        ("time.sleep(60)", "it took more than 1 seconds"),
    ],
)
def test_what_it_says_is_not_taken_on_trust(tmp_path: Path, example: Loaded, deed: str, reason: str) -> None:
    target = script(tmp_path, PLAIN)
    with OwnMemory(target, 1 if "sleep" in deed else 60, WINDOW) as memory:
        memory.begin()
        memory.ingest(example.conversation)
        assert memory.recall("{'context': 'fine', 'message_ids': [1, 1, 0]}").message_ids == (1, 0)
        with pytest.raises(ModelError, match=re.escape(reason)):
            memory.recall(deed)


@pytest.mark.parametrize("given", ["process:mine", "process::ls", "process:a b:ls", "process:../x:ls", "process:mine:"])
def test_a_command_without_name_or_words_is_one_sentence(given: str) -> None:
    with pytest.raises(UserError, match="process:NAME:COMMAND"):
        absolute_target(given)


def test_a_command_is_known_by_the_files_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script(tmp_path, PLAIN)
    target = absolute_target("process:mine:python3 memory.py --k 5")
    assert target == f"process:mine:python3 {tmp_path / 'memory.py'} --k 5"
    before = identify_memory(target)
    script(tmp_path, PLAIN + "\n")
    assert identify_memory(target) != before


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_daemon_of_its_own_ends_with_it(tmp_path: Path) -> None:
    daemon = f"os.spawnlp(os.P_WAIT, 'setsid', 'setsid', '-f', 'sh', '-c', 'echo $$ > {tmp_path}/pid; sleep 600') or "
    with OwnMemory(script(tmp_path, PLAIN), 60, WINDOW) as memory:
        memory.begin()
        memory.recall(daemon + "time.sleep(1) or {'context': ''}")
        process = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}")
        assert process.exists()
    for _ in range(100):
        if not process.exists() or ") Z" in (process / "stat").read_text():
            return
        time.sleep(0.05)
    raise AssertionError("the daemon is still there")


@pytest.mark.usefixtures("in_this_process")
def test_time_that_its_calls_take_is_not_its_own(tmp_path: Path, repo_root: Path) -> None:
    with ScriptedServer(system_reply, latency=4.5) as server:
        models = one_endpoint(server, tmp_path / "models.yaml")
        chosen = parameters(
            tmp_path, repo_root, script(tmp_path, ASKS), models=str(models), confirm_cost=True, memory_timeout=3
        )
        with (
            open_models(Run.of(chosen), "100K-1") as roster,
            open_memory(own(chosen)[0], Run.of(chosen), roster) as memory,
            pytest.raises(ModelError, match="names message 0"),  # of a conversation that it was not told
        ):
            memory.recall("What was said?")


@pytest.mark.usefixtures("in_this_process")
def test_a_limit_of_spending_holds_for_its_own_calls(tmp_path: Path, repo_root: Path) -> None:
    with ScriptedServer(system_reply) as server:
        models = one_endpoint(server, tmp_path / "models.yaml")
        prices = "input_price: 1000.0\n  output_price: 1000.0\n  max_output_tokens: 200"
        models.write_text(re.sub("model: scripted", f"{prices}\n  model: scripted", models.read_text()))
        chosen = parameters(tmp_path, repo_root, script(tmp_path, ASKS), models=str(models), confirm_cost=True)
        try:
            set_spending_limit(0.6)
            with (
                pytest.raises(SpendingLimit, match="process-mine/chat"),
                limited(tmp_path / "run", load_models(models)),
            ):
                evaluate(chosen, own(chosen), quiet=True)
        finally:
            set_spending_limit(None)
        first = len(server.requests)
        assert 0 < first < 40
        found = evaluate(chosen, own(chosen), quiet=True)
        assert server.repeated() == []
    assert not any(answer.unscored for answer in found.answers["process-mine"])


@pytest.mark.usefixtures("in_this_process")
def test_its_own_calls_are_seen_and_replayed(tmp_path: Path, repo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "sk-" + "q" * 30)
    for elsewhere in ("HTTP_PROXY", "http_proxy", "OPENAI_API_BASE"):
        monkeypatch.setenv(elsewhere, "http://127.0.0.1:9")
    target = script(tmp_path, ASKS)
    with ScriptedServer(system_reply) as server:
        models = one_endpoint(server, tmp_path / "models.yaml")
        models.write_text(models.read_text().replace("model: scripted", "key_variable: SECRET_KEY\n  model: scripted"))
        chosen = parameters(tmp_path, repo_root, target, models=str(models), confirm_cost=True)
        found = evaluate(chosen, own(chosen), quiet=True)
        assert {request.authorization for request in server.requests} == {"Bearer sk-" + "q" * 30}
    answers = found.answers["process-mine"]
    assert not any(answer.unscored for answer in answers)
    again = chosen.model_copy(update={"run": str(tmp_path / "again"), "calls": "replay"})
    shutil.copytree(tmp_path / "run/calls", tmp_path / "again/calls")
    assert answers_in(evaluate(again, own(again), quiet=True)) == answers_in(found)
    assert not list((tmp_path / "run").glob(".memory-*"))


def test_no_items_are_no_work() -> None:
    """As in the rehearsal of an arm that cannot be rehearsed: `beamlib meme run --memories own`."""
    assert at_once(str, []) == []
