"""Runs on file: the same bytes again, resuming after a kill, nothing redone, nothing stale taken for current."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.beam_records import MANIFEST, read_answers, read_judgements, read_manifest
from beamlib.evaluate.records import write_manifest
from beamlib.evaluate.run import evaluate, plan_run
from beamlib.llm.model import Completion, ModelError, Prompt
from beamlib.params import RunParameters, load_parameters

ARMS = (Arm(memory="none"), Arm(memory="oracle"), Arm(memory="rag", retriever="bm25", k=2))
FILES = ("answers.jsonl", "judgements.jsonl", "manifest.json")


@pytest.fixture
def data(tmp_path: Path, repo_root: Path) -> Path:
    """Three conversations: the built-in example under three numbers."""
    for number in "123":
        shutil.copytree(repo_root / "beamlib/data/example/100K/1", tmp_path / "data/100K" / number)
    return tmp_path / "data"


@pytest.fixture
def parameters(tmp_path: Path, data: Path, repo_root: Path) -> RunParameters:
    return load_parameters(repo_root / "params/100k.yaml", data=str(data), run=str(tmp_path / "run"), workers=1)


def contents(parameters: RunParameters) -> dict[str, bytes]:
    folder = Path(parameters.run) / "100k"
    return {f"{arm.name}/{name}": (folder / arm.name / name).read_bytes() for arm in ARMS for name in FILES}


def forbid(*_: object, **__: object) -> None:
    raise AssertionError("something was computed again")


@pytest.mark.usefixtures("one_worker")
def test_a_second_run_redoes_nothing(parameters: RunParameters, monkeypatch: pytest.MonkeyPatch) -> None:
    first = evaluate(parameters, ARMS, quiet=True)
    assert {name: len(answers) for name, answers in first.answers.items()} == {arm.name: 60 for arm in ARMS}
    before = contents(parameters)
    monkeypatch.setattr("beamlib.evaluate.jobs.perform_job", forbid)
    second = evaluate(parameters, ARMS, quiet=True)
    assert contents(parameters) == before
    assert second.judgements == first.judgements


@pytest.mark.usefixtures("one_worker")
def test_more_conversations_extend_a_run(parameters: RunParameters, monkeypatch: pytest.MonkeyPatch) -> None:
    few = parameters.model_copy(update={"conversations": 1})
    assert len(evaluate(few, ARMS, quiet=True).answers["none"]) == 20
    assert len(evaluate(parameters, ARMS, quiet=True).answers["none"]) == 60
    monkeypatch.setattr("beamlib.evaluate.jobs.perform_job", forbid)
    assert len(evaluate(few, ARMS, quiet=True).answers["none"]) == 20


@pytest.mark.usefixtures("one_worker")
def test_changed_data_and_changed_settings_are_computed_again(parameters: RunParameters, data: Path) -> None:
    evaluate(parameters, ARMS, quiet=True)
    path = data / "100K/2/chat.json"
    path.write_text(path.read_text().replace("850 euros", "870 euros"))
    plan = plan_run(parameters, ARMS, quiet=True)
    assert [(unit.id, len(arms)) for unit, arms in plan.answering] == [("100K-2", 3)]
    plan = plan_run(parameters.model_copy(update={"strip_markers": False}), ARMS, quiet=True)
    assert [(unit.id, len(arms)) for unit, arms in plan.answering] == [(f"100K-{n}", 3) for n in "123"]


@pytest.mark.usefixtures("in_this_process")
def test_answers_outlive_a_change_of_judge(parameters: RunParameters, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate(parameters, ARMS, quiet=True)
    folder = Path(parameters.run) / "100k" / "none"
    found = read_manifest(folder)
    other = found.model_copy(update={"judgements_key": "another judge"})
    write_manifest(folder / MANIFEST, other)
    answers = (folder / "answers.jsonl").read_bytes()
    monkeypatch.setattr("beamlib.evaluate.jobs.AnswerJob.perform", forbid)
    evaluate(parameters, ARMS, quiet=True)
    assert (folder / "answers.jsonl").read_bytes() == answers
    assert read_manifest(folder) == found


@pytest.mark.usefixtures("in_this_process")
def test_answers_outlive_an_end_before_the_judging(parameters: RunParameters, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, pytest.raises(AssertionError, match="computed again"):
        patch.setattr("beamlib.evaluate.jobs.JudgeJob.perform", forbid)
        evaluate(parameters, ARMS, quiet=True)
    monkeypatch.setattr("beamlib.evaluate.jobs.AnswerJob.perform", forbid)
    again = evaluate(parameters, ARMS, quiet=True)
    assert {name: len(judgements) for name, judgements in again.judgements.items()} == {arm.name: 60 for arm in ARMS}


class Broken:
    """A model that is down."""

    name = "broken"

    async def complete(self, prompt: Prompt) -> Completion:
        raise ModelError("the endpoint is down")


def test_a_failed_call_is_unscored_with_its_reason(parameters: RunParameters) -> None:
    from beamlib.data.loading import load
    from beamlib.data.sources import find_conversations
    from beamlib.evaluate.answering import answer_arms
    from beamlib.llm.model import ModelRoles
    from beamlib.run import Run

    loaded = load(find_conversations(Path(parameters.data))[0])
    arms = [Arm(memory="none"), Arm(memory="light", retriever="bm25", k=2)]
    found = answer_arms(arms, loaded.conversation, loaded.probes, Run.of(parameters), ModelRoles.of(Broken()), {})
    assert len(found) == 2
    for answers in found.values():
        assert len(answers) == 20
        assert all(answer.text is None and "the endpoint is down" in str(answer.unscored) for answer in answers)


@pytest.mark.usefixtures("one_worker")
@pytest.mark.parametrize("file", ["answers.jsonl", "judgements.jsonl"])
def test_a_damaged_record_is_named(parameters: RunParameters, file: str) -> None:
    evaluate(parameters, ARMS, quiet=True)
    path = Path(parameters.run) / "100k" / "none" / file
    lines = path.read_text().splitlines()
    lines[3] = lines[3].replace('"schema_version": 1', '"schema_version": 9')
    path.write_text("\n".join(lines))
    with pytest.raises(UserError, match=rf"{file}: record 4, field 'schema_version'"):
        (read_answers if file == "answers.jsonl" else read_judgements)(path.parent)


@pytest.mark.slow
@pytest.mark.usefixtures("one_worker")
def test_one_conversation_in_two_processes_gives_the_same_bytes(parameters: RunParameters, tmp_path: Path) -> None:
    light = Arm(memory="light", retriever="bm25", k=2)
    one = parameters.model_copy(update={"conversations": 1})
    two = one.model_copy(update={"run": str(tmp_path / "other"), "workers": 2})
    plan = plan_run(two, (*ARMS, light), quiet=True)
    rounds = plan.task.answer_jobs(plan.answering, plan.run, "")
    assert [[[arm.memory for arm in job.work[0].arms] for job in jobs] for jobs in rounds] == [
        [["none", "rag"], ["light"]],
        [["oracle"]],
    ]
    assert [[bool(job.evidence) for job in jobs] for jobs in rounds] == [[False, False], [True]]
    evaluate(one, (*ARMS, light), quiet=True)
    evaluate(two, (*ARMS, light), quiet=True)
    assert contents(two) == contents(one)
    for name in FILES:
        place = Path("100k") / light.name / name
        assert (Path(two.run) / place).read_bytes() == (Path(one.run) / place).read_bytes()
