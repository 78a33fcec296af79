"""A balanced slice: as many questions of each ability, the same for every arm; a larger one holds the smaller one."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from beam_run.publish import publish, verify
from beamlib.data.conversations import Treatment
from beamlib.data.loading import load
from beamlib.data.sources import find_conversations
from beamlib.errors import UserError
from beamlib.evaluate.answering import answer_questions
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.beam_records import MANIFEST, read_answers, read_judgements, read_manifest
from beamlib.evaluate.jobs import AnswerJob, JudgeJob
from beamlib.evaluate.kept_settings import keep_settings
from beamlib.evaluate.records import write_manifest
from beamlib.evaluate.run import evaluate, plan_run
from beamlib.evaluate.runner import rehearsals
from beamlib.files import write_text
from beamlib.llm.model import ModelRoles
from beamlib.llm.prompts import prompts_in_force
from beamlib.params import RunParameters, load_parameters
from beamlib.plugins import plugins
from beamlib.report.footer import ensure_comparable
from beamlib.report.results import results, score_folders
from beamlib.run import Run

ARMS = (Arm(memory="none"), Arm(memory="light", retriever="bm25", k=2), Arm(memory="oracle"))
FILES = ("answers.jsonl", "judgements.jsonl", "manifest.json")


@pytest.fixture
def data(tmp_path: Path, repo_root: Path) -> Path:
    """Two conversations with three questions of some abilities."""
    for number in "12":
        place = tmp_path / "data/100K" / number
        shutil.copytree(repo_root / "beamlib/data/example/100K/1", place)
        path = place / "probing_questions/probing_questions.json"
        questions: dict[str, list[dict[str, Any]]] = json.loads(path.read_text("utf-8"))
        for ability in ("abstention", "temporal_reasoning"):
            more = {
                **questions[ability][0],
                "question": f"Once more, for {number}: {questions[ability][0]['question']}",
            }
            questions[ability].append(more)
        write_text(path, json.dumps(questions))
    return tmp_path / "data"


@pytest.fixture
def parameters(tmp_path: Path, data: Path, repo_root: Path) -> RunParameters:
    return load_parameters(repo_root / "params/100k.yaml", data=str(data), run=str(tmp_path / "run"), workers=1)


def sliced(parameters: RunParameters, number: int, run: Path | None = None) -> RunParameters:
    return parameters.model_copy(update={"per_ability": number, **({"run": str(run)} if run else {})})


def contents(run: Path) -> dict[str, bytes]:
    return {f"{arm.name}/{name}": (run / "100k" / arm.name / name).read_bytes() for arm in ARMS for name in FILES}


def test_a_slice_has_as_many_of_each_ability_and_grows(data: Path) -> None:
    for source in find_conversations(data):
        every = load(source)
        abilities = Counter(gold.ability for gold in every.gold.values())
        assert abilities["abstention"] == 3
        before: set[str] = set()
        for number in (1, 2, 3):
            loaded = load(source, Treatment(per_ability=number))
            ids = {probe.id for probe in loaded.probes}
            wanted = {ability: min(number, there) for ability, there in abilities.items()}
            assert Counter(gold.ability for gold in loaded.gold.values()) == wanted
            assert before < ids == set(loaded.gold)
            assert [probe for probe in every.probes if probe.id in ids] == list(loaded.probes)
            before = ids
        assert before == {probe.id for probe in every.probes}


def test_the_choice_knows_no_place_of_a_question(data: Path) -> None:
    def chosen() -> list[set[str]]:
        loaded = (load(source, Treatment(per_ability=1)) for source in find_conversations(data))
        return [{probe.question for probe in one.probes} for one in loaded]

    before = chosen()
    assert before[0] != before[1]  # the conversations are equal but for their number
    for path in data.glob("100K/*/probing_questions/probing_questions.json"):
        questions = json.loads(path.read_text("utf-8"))
        write_text(path, json.dumps({ability: own[::-1] for ability, own in questions.items()}))
    assert chosen() == before


@pytest.mark.usefixtures("in_this_process")
def test_a_larger_slice_asks_only_what_is_new(
    parameters: RunParameters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    evaluate(sliced(parameters, 1), ARMS, quiet=True)
    first = {arm.name: read_answers(run / "100k" / arm.name) for arm in ARMS}
    ids = {name: [answer.probe_id for answer in answers] for name, answers in first.items()}
    assert len(ids["none"]) == 20 and len(set(map(tuple, ids.values()))) == 1
    assert read_manifest(run / "100k/light-bm25-k2").settings["per_ability"] == 1

    asked: list[str] = []
    judged: list[str] = []
    answer, judge = AnswerJob.perform, JudgeJob.perform

    def answering(job: AnswerJob) -> Any:
        asked.extend(probe.id for work in job.work for probe in work.asked.probes for _ in work.arms)
        return answer(job)

    def judging(job: JudgeJob) -> Any:
        done = judge(job)
        judged.extend(judgement.probe_id for own in done.values() for judgement in own)  # type: ignore[attr-defined]
        return done

    monkeypatch.setattr(AnswerJob, "perform", answering)
    monkeypatch.setattr(JudgeJob, "perform", judging)
    evaluate(sliced(parameters, 2), ARMS, quiet=True)
    assert len(asked) == len(judged) == 20 * len(ARMS)
    assert not {*asked, *judged} & {*ids["none"]}
    evaluate(parameters, ARMS, quiet=True)  # all, of which two abilities have a third question
    assert len(asked) == len(judged) == (20 + 4) * len(ARMS)
    assert "per_ability" not in read_manifest(run / "100k/none").settings

    evaluate(sliced(parameters, 0, tmp_path / "at-once"), ARMS, quiet=True)
    assert contents(run) == contents(tmp_path / "at-once")


@pytest.mark.usefixtures("in_this_process")
def test_answers_on_file_are_used_and_not_made_again(parameters: RunParameters, tmp_path: Path) -> None:
    evaluate(sliced(parameters, 1), ARMS[:1], quiet=True)
    folder = tmp_path / "run/100k/none"
    before = {answer.probe_id: answer for answer in read_answers(folder)}
    assert plan_run(sliced(parameters, 1), ARMS[:1], quiet=True).answering == []
    plan = plan_run(sliced(parameters, 2), ARMS, quiet=True)
    sizes = [(unit.id, len(unit.asked.probes), len(arms)) for unit, arms in plan.answering]
    assert sizes == [("100K-1", 10, 1), ("100K-1", 20, 2), ("100K-2", 10, 1), ("100K-2", 20, 2)]
    evaluate(sliced(parameters, 2), ARMS, quiet=True)
    after = {answer.probe_id: answer for answer in read_answers(folder)}
    assert len(after) == 40 and before == {key: after[key] for key in before}
    assert [judgement.probe_id for judgement in read_judgements(folder)] == list(after)


@pytest.mark.usefixtures("in_this_process")
def test_a_run_that_ends_while_it_grows_keeps_what_it_had(
    parameters: RunParameters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate(sliced(parameters, 1), ARMS, quiet=True)
    before = {arm.name: read_answers(tmp_path / "run/100k" / arm.name) for arm in ARMS}
    calls = 0

    def ends(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise KeyboardInterrupt
        return answer_questions(*arguments)

    monkeypatch.setattr("beamlib.evaluate.run.Beam.answer", staticmethod(ends))
    with pytest.raises(KeyboardInterrupt):
        evaluate(sliced(parameters, 2), ARMS, quiet=True)
    monkeypatch.undo()
    for arm in ARMS:
        now = {answer.probe_id: answer for answer in read_answers(tmp_path / "run/100k" / arm.name)}
        assert before[arm.name] == [now[answer.probe_id] for answer in before[arm.name]]
    evaluate(sliced(parameters, 2), ARMS, quiet=True)
    evaluate(sliced(parameters, 2, tmp_path / "at-once"), ARMS, quiet=True)
    assert contents(tmp_path / "run") == contents(tmp_path / "at-once")


@pytest.mark.usefixtures("in_this_process")
def test_a_slice_does_not_shrink_and_other_settings_begin_anew(parameters: RunParameters, tmp_path: Path) -> None:
    evaluate(sliced(parameters, 2), ARMS[:1], quiet=True)
    with pytest.raises(UserError, match=r"none: it has answers to 20 questions of 100K-1, and 10 .* --per-ability 1;"):
        plan_run(sliced(parameters, 1), ARMS[:1], quiet=True)
    other = sliced(parameters, 1).model_copy(update={"strip_markers": False})
    plan = plan_run(other, ARMS[:1], quiet=True)
    assert [len(unit.asked.probes) for unit, _ in plan.answering] == [10, 10]


@pytest.mark.usefixtures("in_this_process")
def test_prompts_that_hold_earlier_questions_are_asked_again(parameters: RunParameters) -> None:
    arms = (Arm(memory="full-context"),)
    released = parameters.model_copy(update={"released": ["questions_accumulate"]})
    evaluate(sliced(released, 1), arms, quiet=True)
    plan = plan_run(sliced(released, 2), arms, quiet=True)
    assert [len(unit.asked.probes) for unit, _ in plan.answering] == [20, 20]


@pytest.mark.usefixtures("in_this_process")
def test_an_archive_of_a_slice_is_replayed_as_it_was_asked(parameters: RunParameters, tmp_path: Path) -> None:
    run = Run.of(sliced(parameters, 1))
    evaluate(run, ARMS[:1], quiet=True)
    keep_settings(run)
    archive = tmp_path / "slice.tar.zst"
    assert "replayed on the data" in publish(run.folder, archive, Path(parameters.data))
    assert "20 answers and judgements, all as published" in verify(archive, Path(parameters.data))


@pytest.mark.usefixtures("in_this_process")
def test_every_footer_and_caption_names_the_slice(parameters: RunParameters, tmp_path: Path) -> None:
    words = "2 of each ability and conversation, chosen by hash"
    measured = results(evaluate(sliced(parameters, 2), ARMS, quiet=True))
    for footer in (measured.footer, measured.evidence_footer):
        assert f" questions ({words})" in footer.lines()[1]
    assert all(row["asked"] == words for row in score_folders(tmp_path / "run", "paper"))
    assert "--per-ability 2" in Run.of(sliced(parameters, 2)).recording_command
    every = results(evaluate(parameters, ARMS, quiet=True))
    assert "chosen by hash" not in " ".join(every.footer.lines())


@pytest.mark.usefixtures("in_this_process")
def test_a_slice_and_the_whole_share_no_table(parameters: RunParameters, tmp_path: Path) -> None:
    parts = [evaluate(sliced(parameters, 1), ARMS[:1], quiet=True)]
    parts += [evaluate(parameters.model_copy(update={"run": str(tmp_path / "all")}), ARMS[2:], quiet=True)]
    manifests = [m.model_dump(mode="json") for part in parts for m in part.manifests.values()]
    with pytest.raises(UserError, match="differ in their questions"):
        ensure_comparable(manifests)


@pytest.mark.usefixtures("in_this_process")
def test_an_estimate_rehearses_what_is_new_and_all_for_a_new_judge(parameters: RunParameters, tmp_path: Path) -> None:
    evaluate(sliced(parameters, 1), ARMS[:1], quiet=True)
    with prompts_in_force(Run.of(parameters).prompt_files):
        roster = ModelRoles.of(plugins().model())
        parts = rehearsals(plan_run(sliced(parameters, 2), ARMS[:1], quiet=True))
        assert [len(part.perform(roster)["none"]) for part in parts] == [10, 10]

        folder = tmp_path / "run/100k/none"
        manifest = read_manifest(folder)
        write_manifest(folder / MANIFEST, manifest.model_copy(update={"judgements_key": "another judge"}))
        parts = rehearsals(plan_run(sliced(parameters, 2), ARMS[:1], quiet=True))
        # The answers on file go to the judge as well: apart, as they are asked about the whole conversation.
        counts = [sum(map(len, part.perform(roster).values())) for part in parts]
        assert counts == [10, 10, 10, 10] and [bool(part.answering) for part in parts] == [True, True, False, False]
    evaluate(sliced(parameters, 2), ARMS[:1], quiet=True)
    assert len(read_judgements(folder)) == 40
    evaluate(sliced(parameters, 2, tmp_path / "at-once"), ARMS[:1], quiet=True)
    assert (folder / "judgements.jsonl").read_bytes() == (tmp_path / "at-once/100k/none/judgements.jsonl").read_bytes()
