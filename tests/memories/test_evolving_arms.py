"""Memories for facts that change as arms of BEAM: chosen by name, killed, resumed and replayed against a real server,
and what becomes of models that misuse their tools."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

import beamlib
from beam_commands.estimate import estimate
from beam_memories.evolving.evolving_memory import EvolvingMemory
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm, experiments
from beamlib.evaluate.beam_records import Evaluation
from beamlib.evaluate.run import evaluate
from beamlib.memory.declared import memory_kind, named_memories
from beamlib.params import RunParameters, load_parameters
from scripted_server import Answer, ScriptedServer, completion
from steady_replies import steady_reply

pytestmark = pytest.mark.usefixtures("in_this_process")

NAMED = named_memories(outside=False)
EVOLVING = [name for name in NAMED if issubclass(memory_kind(name), EvolvingMemory)]
EXAMPLE = Path(beamlib.__file__).parent / "data" / "example"
PROGRAM = """
import sys
sys.path[:0] = {paths!r}
from pathlib import Path
from test_evolving_arms import arm_of, parameters
from beam_run.plugins import register_packages
from beamlib.evaluate.run import evaluate
if __name__ == "__main__":
    register_packages()
    given = parameters(Path({root!r}), Path({run!r}), {name!r}, models={models!r})
    evaluate(given, [arm_of(given)], quiet=True)
"""


def parameters(root: Path, run: Path, name: str, **changes: Any) -> RunParameters:
    fixed = {"data": str(EXAMPLE), "run": str(run), "workers": 1, "confirm_cost": True, "retriever": "bm25", "k": 2}
    return load_parameters(root / "params" / "100k.yaml", **{**fixed, "own_memory": name, **changes})


def arm_of(given: RunParameters) -> Arm:
    return next(arm for arm in experiments(given)["main"] if arm.memory == given.own_memory)


def ask(given: RunParameters) -> Evaluation:
    return evaluate(given, [arm_of(given)], quiet=True)


def answers(given: RunParameters, part: str = "100k") -> list[dict[str, Any]]:
    path = Path(given.run) / part / arm_of(given).name / "answers.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def models_file(server: ScriptedServer, path: Path, **fields: Any) -> str:
    endpoint = {"model": "scripted", "base_url": server.base_url, "context_window": 131_072, "patience": 5.0, **fields}
    roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
    path.write_text(yaml.safe_dump({"readers": {"one": endpoint}, **roles}))
    return str(path)


def tags_of(body: dict[str, Any]) -> dict[str, str]:
    text = str(body["messages"][-1]["content"])
    return dict(re.findall(r"<(\w+)>\n(.*?)\n?</\1>", text, re.DOTALL))


def called(tool: str, arguments: Any) -> str:
    return json.dumps({"calls": [{"tool": tool, "arguments": arguments}]})


def reply(body: dict[str, Any]) -> str:
    """What a well-behaved model says: one line kept, one line taken, one note made."""
    tags = tags_of(body)
    if "known" in tags:
        return json.dumps({"facts": [{"subject": "garden", "value": "tulips", "message": 0}]})
    if "entries" in tags:
        return called("append", {"file": "a.md", "text": f"# a\n- {head(tags)} kept"}) if blank(tags) else called_none()
    if "session" in tags:
        return called("append", {"text": f"- {head(tags)} kept"}) if blank(tags) else called_none()
    if "index" in tags:
        return '{"pages": ["a.md"]}'
    if "done" in tags:
        return called("take", {"lines": "1"}) if blank(tags) else called_none()
    return steady_reply(body)


def blank(tags: dict[str, str]) -> bool:
    return not tags["done"].strip()


def called_none() -> str:
    return '{"calls": []}'


def head(tags: dict[str, str]) -> str:
    found = re.search(r"\[messages \d+-\d+\]", tags.get("session") or tags["entries"])
    return found[0] if found else ""


# By name


@pytest.mark.parametrize("name", EVOLVING)
def test_a_name_is_one_more_arm_whose_contexts_carry_message_ids(name: str, repo_root: Path, tmp_path: Path) -> None:
    given = parameters(repo_root, tmp_path, name)
    assert [arm.memory for arm in experiments(given)["main"]][-2:] == [name, "oracle"]
    ask(given)
    made = answers(given)
    assert made and all(one["unscored"] is None for one in made)
    assert any(one["message_ids"] for one in made)


def test_several_names_are_several_arms(repo_root: Path) -> None:
    run = load_parameters(repo_root / "params/100k.yaml", own_memory="mem0,md-flat,langmem")
    assert [arm.name for arm in experiments(run)["main"][4:-1]] == ["mem0", "md-flat", "langmem"]
    with pytest.raises(UserError, match="own_memory"):
        load_parameters(repo_root / "params/100k.yaml", own_memory="mem0,mine")


def test_none_of_them_is_in_the_default_run_and_another_name_is_refused(repo_root: Path, tmp_path: Path) -> None:
    memories = {arm.memory for arms in experiments(parameters(repo_root, tmp_path, "")).values() for arm in arms}
    assert memories.isdisjoint(NAMED)
    with pytest.raises(UserError, match=r"own_memory.*md-flat, wiki, dependencies"):
        parameters(repo_root, tmp_path, "md-flatter")


# Paid for once


@pytest.mark.slow
@pytest.mark.parametrize("name", EVOLVING)
def test_a_killed_run_pays_no_call_twice_and_is_replayed(name: str, repo_root: Path, tmp_path: Path) -> None:
    with ScriptedServer(reply, latency=0.05) as server:
        models = models_file(server, tmp_path / "models.yaml", concurrency=1)
        run = tmp_path / "run"
        paths = [str(repo_root), str(repo_root / "packages"), str(repo_root / "tests"), str(Path(__file__).parent)]
        (tmp_path / "program.py").write_text(
            PROGRAM.format(paths=paths, root=str(repo_root), run=str(run), name=name, models=models)
        )
        first = subprocess.Popen([sys.executable, str(tmp_path / "program.py")], start_new_session=True)
        while len(server.requests) < 6 and first.poll() is None:
            time.sleep(0.01)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        begun = len(server.requests)
        assert begun >= 6
        given = parameters(repo_root, run, name, models=models)
        pending = estimate(given, [arm_of(given)], quiet=True).pending
        ask(given)
        assert pending > 0
        assert len(server.repeated()) <= 1  # what was on its way when the kill struck
        held = len(server.requests)
        ask(given)
        assert len(server.requests) == held
        made = answers(given, "100k-one")
        (run / "100k-one" / arm_of(given).name / "answers.jsonl").unlink()
        ask(given.model_copy(update={"calls": "replay"}))
        assert len(server.requests) == held
        assert answers(given, "100k-one") == made


# Models that misuse their tools

MISUSED = {
    "an unknown tool": called("shell", {"command": "rm -rf /"}),
    "arguments that are no JSON": called("append", "{text: 'no"),
    "arguments of ten megabytes": called("append", {"text": "x" * 10_000_000, "file": "x.md"}),
    "a path out of the folder": called("append", {"file": "../../etc/passwd", "text": "x"}),
    "calls without an end": called("append", {"file": "a.md", "text": "again"}),
    "no JSON at all": "I have noted it.",
    "a nest": "[" * 50_000,
}


@pytest.mark.parametrize("name", EVOLVING)
@pytest.mark.parametrize("text", MISUSED.values(), ids=MISUSED.keys())
def test_a_model_that_misuses_its_tools_harms_nothing(name: str, text: str, repo_root: Path, tmp_path: Path) -> None:
    route = name != "wiki"  # by tool calls; else as JSON in the reply

    def misuse(body: dict[str, Any]) -> str | Answer:
        if not tags_of(body).keys() & {"known", "entries", "session", "index", "done"}:
            return reply(body)
        if not route or '"tool"' not in text:
            return text
        call = json.loads(text)["calls"][0]
        arguments = call["arguments"] if isinstance(call["arguments"], str) else json.dumps(call["arguments"])
        found = completion(body, None, "tool_calls")
        function = {"name": call["tool"], "arguments": arguments}
        found["choices"][0]["message"]["tool_calls"] = [{"id": "c", "type": "function", "function": function}]
        return Answer(found)

    with ScriptedServer(misuse) as server:
        models = models_file(server, tmp_path / "models.yaml", tool_calls=route)
        given = parameters(repo_root, tmp_path / "run", name, models=models)
        ask(given)
        bodies = [tags_of(one.body) for one in server.requests]
    made = answers(given, "100k-one")
    reasons = {one["unscored"] for one in made}
    assert reasons == {None} or (None not in reasons and len(reasons) == 1)
    reading = [tags.get("session") or tags["entries"] for tags in bodies if "session" in tags or "entries" in tags]
    assert all(reading.count(one) <= 5 for one in reading)
    assert all(len(str(tags)) < 400_000 for tags in bodies)
    assert {path.name for path in tmp_path.iterdir()} <= {"models.yaml", "run"}
    assert sum(path.stat().st_size for path in (tmp_path / "run").rglob("*.json*")) < 5_000_000
