"""What every run promises, for the three tasks alike: it resumes, redoes nothing, pays for no call twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from beam_commands.estimate import estimate_plan
from beam_meme.task import Meme
from beam_meme.task import unit_of as episode_unit
from beam_memorycode.dialogue_files import load_dialogues
from beam_memorycode.generating import GenerateOptions, generate_dialogues
from beam_memorycode.task import MEMORYCODE, dialogue_unit
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.run import BEAM
from beamlib.evaluate.runner import plan_task, run_task
from beamlib.evaluate.task import Task, TaskPlan, Unit
from beamlib.llm.model import OFFLINE_NAME
from beamlib.params import RunParameters, load_parameters
from scripted_server import Answer, ScriptedServer, error_body
from small_episodes import LOADED
from steady_replies import steady_reply

ROOT = Path(__file__).resolve().parents[2]
SECRET = "zk-1f8e7d6c5b4a39281706"


@dataclass(frozen=True)
class Case:
    """A task with some arms on two or three small units."""

    task: Task
    arms: Sequence[Any]
    units: Callable[[Path], Sequence[Unit]]
    refused: str
    """Part of a prompt that the scripted endpoint refuses."""

    def parameters(self, run: Path, **changes: Any) -> RunParameters:
        fixed = {"run": str(run), "workers": 1, "confirm_cost": True, "retriever": "bm25", "k": 2}
        return load_parameters(ROOT / "params/100k.yaml", **{**fixed, **changes})

    def plan(self, parameters: RunParameters, data: Path, **more: Any) -> TaskPlan:
        return plan_task(self.task, parameters, self.arms, units=more.pop("units", None) or self.units(data), **more)

    def run(self, parameters: RunParameters, data: Path, **more: Any) -> TaskPlan:
        plan = self.plan(parameters, data, **more)
        run_task(plan, command="the recording command", quiet=True)
        self.task.finish(plan)
        return plan


def beam_units(data: Path) -> Sequence[Unit]:
    for number in "12":
        if not (data / "100K" / number).exists():
            shutil.copytree(ROOT / "beamlib/data/example/100K/1", data / "100K" / number)
    return BEAM.units(load_parameters(ROOT / "params/100k.yaml", data=str(data)), quiet=True).units


def dialogue_units(data: Path) -> Sequence[Unit]:
    if not (data / "dataset").exists():
        generate_dialogues(GenerateOptions(data, seed=1, counts=(2, 3), per_count=1))
    return [dialogue_unit(item) for item in load_dialogues(data)]


def episode_units(data: Path) -> Sequence[Unit]:
    return [episode_unit(one) for one in LOADED]


CASES = {
    "beam": Case(BEAM, (Arm(memory="none"), Arm(memory="oracle"), Arm(memory="rag", retriever="bm25", k=2)),
                 beam_units, "USER: "),
    "memorycode": Case(MEMORYCODE, ("instruction", "session", "history", "rag"), dialogue_units, "<sessions>"),
    "meme": Case(Meme("nofiller"), ("none", "gold-facts", "bm25", "rag"), episode_units, "log drain endpoint?"),
}  # fmt: skip
EACH = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
HERE = pytest.mark.usefixtures("in_this_process")


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory, file_in_this_process: None) -> Callable[[Case], Path]:
    """The folder of a finished run by the stand-in, which has `data` and `run`."""
    made: dict[str, Path] = {}

    def folder(case: Case) -> Path:
        if case.task.title not in made:
            place = made[case.task.title] = tmp_path_factory.mktemp(case.task.title)
            case.run(case.parameters(place / "run"), place / "data")
        return made[case.task.title]

    return folder


def files(plan: TaskPlan) -> dict[str, bytes]:
    return {
        f"{name}/{path.name}": path.read_bytes()
        for name, store in plan.stores.items()
        for path in sorted(store.folder.iterdir())
        if path.name != "times.log"
    }


def pending(plan: TaskPlan) -> set[tuple[str, str]]:
    return {(unit.id, getattr(arm, "name", arm)) for unit, arms in plan.answering for arm in arms}


@EACH
def test_a_finished_run_redoes_nothing_and_what_was_touched_is_redone(
    case: Case, offline: Callable[[Case], Path]
) -> None:
    place = offline(case)
    parameters, data = case.parameters(place / "run"), place / "data"
    plan = case.plan(parameters, data)
    assert plan.pending == {}
    assert {name: set(plan.records(name)) for name in plan.stores} == {name: set(plan.units) for name in plan.stores}
    before, (first, second) = files(plan), list(plan.units)
    one, two, *_ = plan.stores
    path = plan.stores[one].folder / "answers.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[1:]))  # one record of the first unit is lost
    path = plan.stores[two].folder / "answers.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[-1]["text"] = "edited"
    path.write_text("".join(json.dumps(row, sort_keys=True, ensure_ascii=False) + "\n" for row in rows))
    touched = case.plan(parameters, data)
    assert pending(touched) == {(rows[0]["conversation_id"], one), (rows[-1]["conversation_id"], two)}
    plan.stores[two].manifest_path.write_text("{")  # a manifest of no version
    touched = case.plan(parameters, data)
    assert pending(touched) == {(first, one), (first, two), (second, two)}
    case.run(parameters, data)
    assert files(plan) == before
    if case.task.judge:
        (plan.stores[one].folder / "judgements.jsonl").unlink()
        touched = case.plan(parameters, data)
        assert not touched.answering and len(touched.judging) == 2
        case.run(parameters, data)
    assert files(plan) == before


@EACH
def test_other_data_and_other_settings_concern_what_rests_on_them(case: Case, offline: Callable[[Case], Path]) -> None:
    place = offline(case)
    first, second = case.units(place / "data")
    other = replace(second, record=second.record.model_copy(update={"sha256": "another"}))
    names = {getattr(arm, "name", arm) for arm in case.arms}
    parameters = case.parameters(place / "run")
    assert pending(case.plan(parameters, place / "data", units=[first, other])) == {(second.id, name) for name in names}
    changed = case.parameters(place / "run", calls="refresh")
    assert len(pending(case.plan(changed, place / "data"))) == 2 * len(names)
    assert case.plan(parameters, place / "data", units=[first]).pending == {}
    if case.task.name:
        changed = case.parameters(place / "run", k=3)
        assert {name for _, name in pending(case.plan(changed, place / "data"))} == {"bm25", "rag"} & names


@pytest.mark.quick("beam")
@EACH
def test_processes_give_the_same_bytes_and_only_the_ceiling_is_handed_evidence(
    case: Case, offline: Callable[[Case], Path], tmp_path: Path
) -> None:
    place = offline(case)
    plan = case.plan(case.parameters(tmp_path / "run"), place / "data")
    rounds = case.task.answer_jobs(plan.task.merge_shared(plan.answering), plan.run, "")
    for number, jobs in enumerate(rounds):
        for job in jobs:
            memories = {case.task.memory(arm) for unit in job.work for arm in unit.arms}
            assert bool(job.evidence) == (number == 1) == (memories == {case.task.ceiling})
    with pytest.MonkeyPatch.context() as patch:
        from beamlib.processes import process_pool

        patch.setattr("beamlib.evaluate.jobs.process_pool", process_pool)
        two = case.run(case.parameters(tmp_path / "run", workers=2), place / "data")
    assert files(two) == files(case.plan(case.parameters(place / "run"), place / "data"))


@EACH
def test_the_manifest_names_what_the_answers_rest_on(case: Case, offline: Callable[[Case], Path]) -> None:
    place = offline(case)
    plan = case.plan(case.parameters(place / "run"), place / "data")
    name = next(name for name in plan.stores if name.startswith("rag"))
    manifest = plan.stores[name].finish()
    assert manifest.models["reader"]["model"] == OFFLINE_NAME
    assert set(manifest.answers_sha256) == set(plan.units)
    assert {"retriever", "reader_window"} <= set(manifest.settings) | set(manifest.settings.get("arm") or {})
    edited = json.loads(plan.stores[name].manifest_path.read_text())
    assert edited["sha256"] and edited["commit"]


# Against a real HTTP server that fails, dies and comes back


def replies(case: Case) -> Callable[[dict[str, Any]], str | Answer]:
    def reply(body: dict[str, Any]) -> str | Answer:
        text = str(body["messages"][-1]["content"])
        if case.refused in text and ("Write a" in text or "<question>" in text):
            return Answer(error_body("Filtered by a content policy.", "content_filter"), 400)
        if "Write a" in text and "Leave out" in text:
            return f"```python\ndef answer_{len(text)}():\n    return 1\n```"
        return '{"pass": true, "reason": "scripted"}' if "verdict" in text.lower() else steady_reply(body)

    return reply


def models_file(server: ScriptedServer, path: Path, **fields: Any) -> str:
    endpoint = {"model": "scripted", "base_url": server.base_url, "context_window": 131_072, "patience": 5.0, **fields}
    roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
    priced = {"input_price": 1.0, "output_price": 2.0, **endpoint}
    path.write_text(yaml.safe_dump({"readers": {"one": priced}, **roles}))
    return str(path)


@EACH
@HERE
def test_a_run_is_estimated_recorded_and_replayed(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", SECRET)
    data = tmp_path / "data"
    with ScriptedServer(replies(case), require_key=SECRET) as server:
        models = models_file(server, tmp_path / "models.yaml", key_variable="SCRIPTED_KEY")
        parameters = case.parameters(tmp_path / "run", models=models)
        unconfirmed = case.parameters(tmp_path / "other", models=models, confirm_cost=False)
        with pytest.raises(UserError, match="nothing is called before confirm_cost"):
            case.run(unconfirmed, data)
        estimated = estimate_plan(case.plan(parameters, data, judged=False), quiet=True)
        assert not server.requests and estimated.dollars > 0
        plan = case.run(parameters, data, judged=False)
        assert len(server.requests) == estimated.pending
        answers = [one for name in plan.stores for own in plan.records(name).values() for one in own]
        reasons = {one.unscored for one in answers if one.text is None}
        assert len(reasons) == 1 and reasons.pop().startswith("content filter")
        written = [path.read_bytes() for path in Path(parameters.run).rglob("*") if path.is_file()]
        assert not [held for held in written if SECRET.encode() in held]
        called, before = len(server.requests), files(plan)
        assert estimate_plan(case.plan(parameters, data, judged=False), quiet=True).pending == 0
        case.run(parameters, data, judged=False)
        assert len(server.requests) == called
        for store in plan.stores.values():
            shutil.rmtree(store.folder)
    # From here on nobody answers.
    replay = case.parameters(tmp_path / "run", models=models, calls="replay", confirm_cost=False)
    assert files(case.run(replay, data, judged=False)) == before
    shutil.rmtree(tmp_path / "run" / "calls")
    shutil.rmtree(plan.stores[next(iter(plan.stores))].folder)
    with pytest.raises(UserError, match="the call is not stored; to record it, run: "):
        case.run(replay, data, judged=False)


@EACH
@pytest.mark.usefixtures("in_this_process", "short_pauses")
def test_what_may_pass_is_asked_again_and_nothing_else(case: Case, tmp_path: Path) -> None:
    usual, seen = replies(case), dict[str, int]()
    attempts = 2

    def busy(body: dict[str, Any]) -> str | Answer:
        """Refuse every third request as often as one run tries it."""
        request = json.dumps(body)
        left = seen.setdefault(request, 0 if len(seen) % 3 else attempts)
        seen[request] = max(0, left - 1)
        return Answer(error_body("Slow down."), 429, {"Retry-After": "0.01"}) if left else usual(body)

    with ScriptedServer(busy) as server:
        models = models_file(server, tmp_path / "models.yaml", attempts=attempts)
        parameters = case.parameters(tmp_path / "run", models=models)
        first = case.run(parameters, tmp_path / "data", judged=False)
        failed = [a for name in first.stores for own in first.records(name).values() for a in own if a.transient]
        assert failed
        server.reply = usual
        again = case.run(parameters, tmp_path / "data", judged=False)
        assert not [a for name in again.stores for own in again.records(name).values() for a in own if a.transient]


PROGRAM = """
import sys
from pathlib import Path
sys.path[:0] = [{tests!r}, {here!r}]
from test_task_runs import CASES
if __name__ == "__main__":
    case = CASES[{name!r}]
    case.run(case.parameters(Path({run!r}), models={models!r}), Path({data!r}), judged=False)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_killed_run_resumes_and_pays_no_call_twice(name: str, tmp_path: Path, repo_root: Path) -> None:
    case, lanes = CASES[name], 2
    case.units(tmp_path / "data")
    with ScriptedServer(replies(case), latency=0.1) as server:
        models = models_file(server, tmp_path / "models.yaml", concurrency=lanes)
        places = {"tests": str(repo_root / "tests"), "here": str(Path(__file__).parent), "name": name}
        places |= {"run": str(tmp_path / "run"), "data": str(tmp_path / "data"), "models": models}
        program = tmp_path / "program.py"
        program.write_text(PROGRAM.format(**places))
        environment = {**os.environ, "PYTHONPATH": f"{repo_root}{os.pathsep}{repo_root / 'packages'}"}
        first = subprocess.Popen([sys.executable, str(program)], env=environment, start_new_session=True)
        while len(server.requests) < 7 and first.poll() is None:
            time.sleep(0.01)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        begun = len(server.requests)
        parameters = case.parameters(tmp_path / "run", models=models)
        estimated = estimate_plan(case.plan(parameters, tmp_path / "data", judged=False), quiet=True).pending
        assert estimated > 0
        plan = case.run(parameters, tmp_path / "data", judged=False)
        assert len(server.requests) == begun + estimated
        assert all(set(plan.records(arm)) == set(plan.units) for arm in plan.stores)
        in_both = {one.hash for one in server.requests[:begun]} & {one.hash for one in server.requests[begun:]}
        alike = {one.hash for one in server.requests[begun:] if server.requests[begun:].count(one) > 1}
        assert len(in_both - alike) <= lanes + 8  # what was in flight, and prompts that units share
        called = len(server.requests)
        assert estimate_plan(case.plan(parameters, tmp_path / "data", judged=False), quiet=True).pending == 0
        case.run(parameters, tmp_path / "data", judged=False)
        assert len(server.requests) == called
