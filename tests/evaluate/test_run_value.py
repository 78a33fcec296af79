"""A run is one value, read once: files that are edited after planning change the next run and not this one."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.run import BEAM
from beamlib.evaluate.run_store import prompt_hashes
from beamlib.evaluate.runner import plan_task, run_task
from beamlib.params import usual_parameters
from beamlib.places import ROOT
from beamlib.run import Run
from scripted_server import ScriptedServer

EXAMPLE = ROOT / "beamlib/data/example"
ARMS = [Arm(memory="none"), Arm(memory="light", retriever="bm25", k=2)]

COUNT_READS = """
import json, sys
from collections import Counter
from pathlib import Path
reads = Counter()
def watch(event, args):
    if event == "open" and isinstance(args[0], str) and args[0].endswith((".yaml", ".md")):
        reads[str(Path(args[0]).resolve())] += 1
sys.addaudithook(watch)
"""
"""Counts the openings of parameter, models and prompt files in a process of its own."""


def verdict(body: Any) -> str:
    return '{"score": 1, "reason": "ok"}'


def write_models(path: Path, server: ScriptedServer, model: str) -> Path:
    endpoint = {"model": model, "base_url": server.base_url, "context_window": 131_072}
    roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
    path.write_text(json.dumps({"readers": {"r": endpoint}, **roles}))
    return path


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(verdict) as started:
        yield started


def chosen(tmp_path: Path, models: Path, **changes: Any) -> Any:
    fixed = {"data": str(EXAMPLE), "run": str(tmp_path / "run"), "models": str(models), "confirm_cost": True}
    return usual_parameters("100K", **{**fixed, "workers": 1, **changes})


def asked(server: ScriptedServer) -> set[str]:
    return {request.body["model"] for request in server.requests}


@pytest.mark.quick("2")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_models_file_edited_after_planning_is_not_asked(server: ScriptedServer, tmp_path: Path, workers: int) -> None:
    models = write_models(tmp_path / "models.yaml", server, "model-a")
    parameters = chosen(tmp_path, models, workers=workers)
    plan = plan_task(BEAM, parameters, ARMS, quiet=True)
    write_models(models, server, "model-b")
    run_task(plan, quiet=True)
    assert asked(server) == {"model-a"}
    for manifest in BEAM.finish(plan).values():
        assert {role["model"] for role in manifest.models.values()} == {"model-a"}
    write_models(models, server, "model-a")
    assert not plan_task(BEAM, parameters, ARMS, quiet=True).pending
    write_models(models, server, "model-b")  # a run that is planned now is another one
    assert plan_task(BEAM, parameters, ARMS, quiet=True).pending


def test_a_models_file_that_is_gone_or_broken_after_planning_is_not_missed(
    server: ScriptedServer, tmp_path: Path
) -> None:
    models = write_models(tmp_path / "models.yaml", server, "model-a")
    plans = [plan_task(BEAM, chosen(tmp_path / name, models), ARMS[:1], quiet=True) for name in ("gone", "broken")]
    for plan, change in zip(plans, (lambda: models.unlink(), lambda: models.write_text("{")), strict=True):
        change()
        run_task(plan, quiet=True)
        assert all(answer.text for own in plan.records("none").values() for answer in own)


def test_prompts_edited_after_planning_are_not_sent(server: ScriptedServer, tmp_path: Path) -> None:
    models = write_models(tmp_path / "models.yaml", server, "model-a")
    own = tmp_path / "prompts"
    own.mkdir()
    shipped = (ROOT / "prompts/answer.md").read_text()
    (own / "answer.md").write_text(shipped)
    parameters = chosen(tmp_path, models, prompts=str(own))
    plan = plan_task(BEAM, parameters, ARMS[:1], quiet=True)
    stated = prompt_hashes(parameters, ["answer"])["answer"]
    (own / "answer.md").write_text(f"{shipped.rstrip()}\nEDITED\n")
    (own / "judge_nugget.md").write_text((ROOT / "prompts/judge_nugget.md").read_text().rstrip() + "\nEDITED\n")
    run_task(plan, quiet=True)
    assert not [request for request in server.requests if "EDITED" in json.dumps(request.body)]
    (manifest,) = BEAM.finish(plan).values()
    assert manifest.prompts["answer"] == stated != prompt_hashes(parameters, ["answer"])["answer"]
    assert plan_task(BEAM, parameters, ARMS[:1], quiet=True).pending


def test_what_is_kept_beside_a_run_is_what_it_read(server: ScriptedServer, tmp_path: Path) -> None:
    from beamlib.evaluate.kept_settings import keep_settings

    models, own = write_models(tmp_path / "models.yaml", server, "model-a"), tmp_path / "own"
    own.mkdir()
    (own / "answer.md").write_text("{{ question }} | {{ context }}")
    run = Run.of(chosen(tmp_path, models, prompts=str(own)))
    write_models(models, server, "model-b")
    (own / "answer.md").write_text("{{ context }} and {{ question }}")
    keep_settings(run)
    assert "model-b" not in run.path("models.yaml").read_text()
    assert run.path("prompts", "answer.md").read_text() == "{{ question }} | {{ context }}"


def test_a_run_can_be_pickled_and_says_what_it_rests_on(server: ScriptedServer, tmp_path: Path) -> None:
    run = Run.of(chosen(tmp_path, write_models(tmp_path / "models.yaml", server, "model-a")))
    again = pickle.loads(pickle.dumps(run))
    assert again == run and again.identities() == run.identities() and again.given == run.given
    assert again.prompt_files == run.prompt_files and again.endpoints == run.endpoints
    assert Run.of(again) is again and again.part == "100k-r"
    with pytest.raises(ValueError, match="models"):
        run.model_copy(update={"models": "another.yaml"})
    with pytest.raises(UserError, match="backbone"):
        Run.of(chosen(tmp_path, tmp_path / "models.yaml", backbone="nobody"))


def count_reads(script: str, *arguments: str) -> Counter[str]:
    """Run `script` after `COUNT_READS`, and return how often it opened each file of the repository and of the run."""
    ending = "\nprint('READS', json.dumps(reads))"
    done = subprocess.run(
        [sys.executable, "-c", f"{COUNT_READS}{script}{ending}", *arguments], capture_output=True, text=True,
        cwd=ROOT, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("READS"))
    found = json.loads(line.removeprefix("READS"))
    kinds = (str(ROOT / "params"), str(ROOT / "prompts"), *filter(None, arguments))
    return Counter({path: number for path, number in found.items() if path.startswith(kinds)})


def test_a_process_that_builds_a_run_reads_each_file_once(server: ScriptedServer, tmp_path: Path) -> None:
    models = write_models(tmp_path / "models.yaml", server, "model-a")
    (tmp_path / "own").mkdir()
    (tmp_path / "own/answer.md").write_text("{{ question }} | {{ context }}")
    script = """
from beam_run.plugins import register_packages; register_packages()
from pathlib import Path
from beamlib.evaluate.arms import arms_of, experiments
from beamlib.evaluate.run import BEAM
from beamlib.evaluate.runner import plan_task, run_task
from beamlib.params import usual_parameters
top = sys.argv[1]
parameters = usual_parameters("100K", data="beamlib/data/example", run=f"{top}/run", models=f"{top}/models.yaml",
                              prompts=f"{top}/own", confirm_cost=True, workers=1)
arms = arms_of(parameters, experiments(parameters))
assert len(arms) > 10
plan = plan_task(BEAM, parameters, arms, quiet=True)
run_task(plan_task(BEAM, plan.run, arms[:1], quiet=True), quiet=True)
BEAM.finish(plan)
"""
    reads = count_reads(script, str(tmp_path))
    assert reads[str(models)] == reads[str(tmp_path / "own/answer.md")] == 1
    assert reads[str(ROOT / "params/base.yaml")] == reads[str(ROOT / "prompts/judge_nugget.md")] == 1
    assert max(reads.values()) == 1, reads.most_common(3)


def test_a_worker_reads_none_of_them(server: ScriptedServer, tmp_path: Path) -> None:
    models = write_models(tmp_path / "models.yaml", server, "model-a")
    plan = plan_task(BEAM, chosen(tmp_path, models), ARMS[:1], quiet=True)
    (tmp_path / "run").mkdir()
    rounds = BEAM.answer_jobs(plan.answering, plan.run, "")
    (tmp_path / "job.bin").write_bytes(pickle.dumps(rounds[0][0]))
    script = """
import pickle
from beam_run.plugins import register_packages; register_packages()
from pathlib import Path
job = pickle.loads(Path(sys.argv[1], "job.bin").read_bytes())
(records,) = job.perform().values()
assert all(answer.text for answer in records["none"]["answers"])
"""
    assert count_reads(script, str(tmp_path)) == {}
    assert asked(server) == {"model-a"}
