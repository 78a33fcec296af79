"""Imported answers judged again: a second judge gets a part beside the first, and is called, stored and resumed."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest
from published_results import amb, cognee, mem0, neutral, truememory, written

from beam_field.cards import card_of_runs
from beam_field.exporting import export_arm
from beam_field.importing import read_runs, write_runs
from beam_field.judging_again import JudgeOptions, judge_again
from beamlib.errors import UserError
from beamlib.evaluate.beam_records import DETAILS, read_manifest, stored_answers, stored_judgements
from beamlib.llm.model import OFFLINE_NAME
from beamlib.scoring.protocols import PROTOCOLS, REPORTED
from beamlib.scoring.scores import score_run
from scripted_server import ScriptedServer
from steady_replies import one_endpoint, steady_reply

pytestmark = pytest.mark.usefixtures("file_in_this_process")

ARM = "imported-mem0-top_200"


def imported(value: Any, run: Path, table: Path) -> Path:
    """A run of one made-up file; its only part."""
    file = run.with_name(f"{run.name}.json")
    file.write_text(json.dumps(value))
    (folder, *_) = write_runs(read_runs([file], table=table), run)
    return folder.parent


def bytes_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_old_verdicts_stay_and_the_new_ones_stand_beside_them(tmp_path: Path, table: Path) -> None:
    part = imported(mem0(), tmp_path / "run", table)
    before = bytes_below(part)
    lines = judge_again(JudgeOptions(tmp_path / "run"))
    assert len(lines) == 2
    assert bytes_below(part) == before
    again = part.with_name(f"{part.name}-by-offline")
    found = read_manifest(again / ARM)
    assert (found.judge, found.reader) == (OFFLINE_NAME, "reader-9")
    assert found.imported
    assert (found.imported.judge, found.imported.gold_in_prompt) == (OFFLINE_NAME, "no")
    assert stored_answers(again / ARM) == stored_answers(part / ARM)
    judgements = stored_judgements(again / ARM)
    assert len(judgements) == 20
    assert all([v.nugget for v in one.verdicts] == ["names a colour", "names blue", "says when"] for one in judgements)
    assert score_run(judgements, "paper")["score"].notna().all()  # the alignment that the source lacks is made here
    kept = bytes_below(again)
    with pytest.raises(UserError, match="verdicts of this judge by other settings"):
        judge_again(JudgeOptions(tmp_path / "run", settings={"judge_repeats": 2}))
    judge_again(JudgeOptions(tmp_path / "run"))  # neither judged anew nor judged again itself
    assert bytes_below(again) == kept
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [part.name, again.name]


@pytest.mark.parametrize("form", ["cognee", "amb"])
def test_counts_and_scores_get_verdicts_by_the_rubric_of_their_file(form: str, tmp_path: Path, table: Path) -> None:
    value: Any = cognee()
    if form == "amb":
        value = amb()
        for entry in value["results"]:
            entry["meta"] = {"question_category": "", "rubric": ["names a colour", "names blue", "says when"]}
    part = imported(value, tmp_path / "run", table)
    judge_again(JudgeOptions(part))
    (arm,) = part.with_name(f"{part.name}-by-offline").iterdir()
    assert [len(one.verdicts) for one in stored_judgements(arm)] == [3] * 20


def test_a_missing_rubric_is_read_from_the_released_questions(
    tmp_path: Path, table: Path, field_data: Path, shared: Path
) -> None:
    imported(truememory(), tmp_path / "run", table)
    with pytest.raises(UserError, match=r"rubric of 10M-1-q00 is not there; name .* with --data"):
        judge_again(JudgeOptions(tmp_path / "run"))
    with pytest.raises(UserError, match="10M-1-q00 is another question there"):  # the made-up one has the id of a real
        judge_again(JudgeOptions(tmp_path / "run", data=shared / "data/beam_questions"))
    assert len(list((tmp_path / "run").iterdir())) == 1
    questions = shared / "data/beam_questions/10M/1/probing_questions/probing_questions.json"
    asked = [entry["question"] for own in json.loads(questions.read_text()).values() for entry in own]
    voted = {"category": "", "generated_answer": "On March 3.", "correct": True, "judge_votes": [True] * 3}
    details = [{"question": question, **voted} for question in asked]
    file = tmp_path / "votes.json"
    file.write_text(json.dumps({"system": "x", "judge_model": "j", "details": details}))
    write_runs(read_runs([file]), tmp_path / "real")
    (line,) = judge_again(JudgeOptions(tmp_path / "real", data=shared / "data/beam_questions"))
    assert "20 answers judged" in line


def test_what_was_changed_after_the_import_is_refused(tmp_path: Path, table: Path) -> None:
    part = imported(mem0(), tmp_path / "run", table)
    details = part / ARM / DETAILS
    details.write_text(details.read_text().replace("names a colour", "names any colour"))
    with pytest.raises(UserError, match="changed after the import"):
        judge_again(JudgeOptions(tmp_path / "run"))
    with pytest.raises(UserError, match="no answers to judge"):
        judge_again(JudgeOptions(tmp_path / "nothing"))


def test_models_are_asked_after_a_yes_and_never_twice(tmp_path: Path, table: Path) -> None:
    part = imported(mem0(), tmp_path / "run", table)
    with ScriptedServer(reply=steady_reply) as server:
        models = str(one_endpoint(server, tmp_path / "models.yaml"))
        with pytest.raises(UserError, match="add --yes"):
            judge_again(JudgeOptions(tmp_path / "run", models))
        assert not server.requests
        assert len(list((tmp_path / "run").iterdir())) == 1
        judge_again(JudgeOptions(tmp_path / "run", models, yes=True))
        asked = len(server.requests)
        again = part.with_name(f"{part.name}-by-scripted")
        kept = bytes_below(again)
        judge_again(JudgeOptions(tmp_path / "run", models, yes=True))
        assert len(server.requests) == asked
    for arm in again.iterdir():  # what a kill would have cost: the verdicts, not the calls
        if arm.is_dir():
            (arm / "judgements.jsonl").unlink()
    judge_again(JudgeOptions(tmp_path / "run", models, calls="replay"))  # the server is gone
    assert bytes_below(again) == kept
    assert read_manifest(again / ARM).judge == "scripted"


def test_a_card_of_two_runs_and_what_it_refuses(tmp_path: Path, table: Path) -> None:
    part = imported(mem0(), tmp_path / "run", table)
    judge_again(JudgeOptions(part))
    again = part.with_name(f"{part.name}-by-offline")
    found = card_of_runs(again, part, "nugget-mean")
    assert (found.card.first, found.card.second) == (read_manifest(part / ARM).judge, OFFLINE_NAME)
    assert found.card.agreement.set_index("ability").loc["all", "n"] == 120
    assert "Cohen's kappa" in found.render()
    json.dumps(found.record(), allow_nan=False)
    with pytest.raises(UserError, match="several judges"):
        card_of_runs(tmp_path / "run", part, "nugget-mean")
    with pytest.raises(UserError, match="not computable under the protocol 'paper'"):
        card_of_runs(again, part, "paper")
    with pytest.raises(UserError, match="no results"):
        card_of_runs(again, tmp_path, "nugget-mean")
    for name, score in (("a", 0), ("b", 1)):  # answers that nobody has are not known to be the same
        rows = [{key: value for key, value in row.items() if key in ("question", "nuggets")} for row in neutral()[6:]]
        lines = [neutral()[0], *({**row, "nuggets": [score] * 3} for row in rows)]
        (tmp_path / f"{name}.jsonl").write_text(written(lines, lines=True))
        write_runs(read_runs([tmp_path / f"{name}.jsonl"], table=table), tmp_path / name)
    with pytest.raises(UserError, match="judged no answer alike"):
        card_of_runs(tmp_path / "a", tmp_path / "b", "nugget-mean")
    other = imported(mem0(conversation="1M-2"), tmp_path / "other", table)
    with pytest.raises(UserError, match="judged no answer alike"):
        card_of_runs(again, other, "nugget-mean")


def test_runs_of_a_system_are_averaged_and_counts_have_no_kappa(tmp_path: Path, table: Path) -> None:
    part = imported([*cognee(1), *cognee(2)], tmp_path / "run", table)
    judge_again(JudgeOptions(part))
    found = card_of_runs(part.with_name(f"{part.name}-by-offline"), part, "nugget-mean")
    (bias,) = found.card.bias.to_dict("records")
    assert (bias["system"], bias["n"]) == ("cognee", 20)
    assert found.card.order.empty
    assert "No nugget has a verdict by both judges" in found.render()


def test_one_process_at_a_time_judges_a_part(tmp_path: Path, table: Path) -> None:
    part = imported(mem0(), tmp_path / "run", table)
    lock = tmp_path / "run" / f".{part.name}-by-offline.judging"
    with lock.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="another `beamlib judge` is writing it"):
            judge_again(JudgeOptions(part))
    judge_again(JudgeOptions(part))
    assert not lock.exists()


def test_what_was_judged_here_goes_out_and_comes_back_with_the_same_scores(tmp_path: Path, table: Path) -> None:
    part = imported(mem0(), tmp_path / "run", table)
    judge_again(JudgeOptions(part))  # aligns events both ways, so every protocol has what it needs
    again, file = part.with_name(f"{part.name}-by-offline"), tmp_path / "out.jsonl"
    assert export_arm(again / ARM, file) == 20
    assert "names a colour" not in file.read_text()
    assert "what was said" not in file.read_text()
    (back,) = write_runs(read_runs([file], table=table), tmp_path / "back")
    for protocol in PROTOCOLS | REPORTED:
        scores = [
            score_run(stored_judgements(one), protocol).set_index("probe_id")["score"] for one in (again / ARM, back)
        ]
        assert scores[0].to_dict() == pytest.approx(scores[1].to_dict(), abs=0, nan_ok=True)
    with pytest.raises(UserError, match="rubric of 1M-1-q00 is not there"):
        judge_again(JudgeOptions(tmp_path / "back"))
    with pytest.raises(UserError, match="no arm of a run; name one, such as"):
        export_arm(tmp_path / "run", file)
