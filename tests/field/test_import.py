"""Import: every format gives the same kind of run, keeps what it holds, and says what it lacks."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from published_results import (
    FILES,
    LINES,
    amb,
    cognee,
    mem0,
    memorybench,
    neutral,
    past_results,
    records,
    released_code,
    truememory,
    written,
)

import beamlib
from beam_field.exporting import export_arm
from beam_field.importing import read_runs, write_runs
from beam_field.matching import ImportedArm
from beam_field.sources import judgements as shipped
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm, stated
from beamlib.evaluate.beam_records import DETAILS, read_answers, read_manifest, stored_judgements
from beamlib.evaluate.run import evaluate
from beamlib.files import read_jsonl, sha256_of_file
from beamlib.params import usual_parameters
from beamlib.report.results import score_folders
from beamlib.scoring.intervals import compare
from beamlib.scoring.protocols import PROTOCOLS, REPORTED
from beamlib.scoring.scores import score_run, summarise
from commands import Call


def files_of(form: str, folder: Path, values: list[Any] | None = None) -> list[Path]:
    """Write the files of a format."""
    paths = []
    for number, value in enumerate(FILES[form] if values is None else values):
        paths.append(folder / f"{form}{number}.json")
        paths[-1].write_text(written(value, form in LINES))
    return paths


def imported(form: str, folder: Path, table: Path, values: list[Any] | None = None, **stated: str) -> list[ImportedArm]:
    return read_runs(files_of(form, folder, values), stated=stated, table=table)


def lacking(arm: ImportedArm, protocol: str) -> set[str]:
    rows = summarise(score_run(arm.judgements, protocol)).set_index("ability")
    return set(rows.index[rows["not_computable"] > 0]) - {"average"}


def score(arm: ImportedArm, protocol: str, place: int) -> float:
    return float(score_run(arm.judgements, protocol)["score"][place])


@pytest.mark.parametrize("form", FILES)
def test_every_format_becomes_a_run_that_is_scored_exported_and_imported_again(
    form: str, tmp_path: Path, table: Path
) -> None:
    arms = imported(form, tmp_path, table)
    run = tmp_path / "run"
    folders = write_runs(arms, run)
    before = {path: path.read_bytes() for path in run.rglob("*.json*")}
    for folder, arm in zip(folders, arms, strict=True):
        assert {path.name for path in folder.iterdir()} == {
            "answers.jsonl", "judgements.jsonl", "manifest.json", DETAILS,
        }  # fmt: skip
        assert stored_judgements(folder) == list(arm.judgements) and read_answers(folder) == list(arm.answers)
        manifest = read_manifest(folder)
        assert manifest == arm.manifest and manifest.imported and manifest.imported.format == form
        assert manifest.imported.details_sha256 == sha256_of_file(folder / DETAILS)
        assert [row["probe_id"] for row in read_jsonl(folder / DETAILS)] == [j.probe_id for j in arm.judgements]
        for name, digest in manifest.imported.files.items():
            assert sha256_of_file(tmp_path / name) == digest
        out = tmp_path / "out.jsonl"
        export_arm(folder, out)
        (again,) = read_runs([out], table=table)
        assert [answer.text for answer in again.answers] == [answer.text for answer in arm.answers]
        for protocol in PROTOCOLS | REPORTED:
            scores = (score_run(own.judgements, protocol).set_index("probe_id")["score"] for own in (arm, again))
            pd.testing.assert_series_equal(*scores)
        facts = ("reader", "judge", "gold_in_prompt")
        assert [getattr(again.imported, name) for name in facts] == [getattr(arm.imported, name) for name in facts]
    for protocol in PROTOCOLS | REPORTED:
        assert {row["arm"] for row in score_folders(run, protocol)} == {arm.arm.name for arm in arms}
    write_runs(arms, run)
    assert {path: path.read_bytes() for path in run.rglob("*.json*")} == before


@pytest.mark.parametrize("form", FILES)
def test_imported_runs_have_frames(form: str, tmp_path: Path, table: Path) -> None:
    arms = imported(form, tmp_path, table)
    write_runs(arms, tmp_path / "run")
    opened = beamlib.open_run(tmp_path / "run")
    assert len(opened.answers()) == sum(len(arm.answers) for arm in arms)
    scores, verdicts = opened.scores("nugget-mean"), opened.verdicts()
    assert len(scores) == sum(len(arm.judgements) for arm in arms)
    assert set(verdicts["question"]) == set(scores["question"])
    assert opened.questions()["text"].notna().all()  # a publisher states it


def test_mem0_cutoffs_are_arms_and_its_figure_of_order_is_kept(tmp_path: Path, table: Path) -> None:
    value = mem0()
    place = next(n for n, entry in enumerate(value["evaluations"]) if "event_ordering" in entry["question_id"])
    results = [entry["cutoff_results"]["top_200"] for entry in value["evaluations"]]
    results[place] |= {"event_ordering": {"tau_b": -0.3333, "predicted_order": [2, 1]}, "judgment": "PASS"}
    results[place + 1]["event_ordering"] = {"error": "timed out"}
    del value["evaluations"][-1]["cutoff_results"]  # searched for only
    first, second = imported("mem0", tmp_path, table, [value])
    assert [arm.arm.name for arm in (first, second)] == ["imported-mem0-top_200", "imported-mem0-top_10"]
    assert first.part == "1m-reader-9-imported"
    orders = [judgement.reported.order for judgement in first.judgements if judgement.reported]
    assert orders[place : place + 2] == [-0.3333, None]
    assert len(first.imported.missing) == 1
    assert lacking(first, "paper") == {"event_ordering"}  # its matches leave out what matched nothing: no alignment
    assert [score(arm, "nugget-mean", 0) for arm in (first, second)] == [0.5, 0.0]
    assert score(first, "released-code", 0) == pytest.approx(1 / 3)  # halves lost, as there
    assert first.judgements[0].verdicts[1].reason == "so"
    assert first.details[0].memories == 200 and first.details[0].rubric[1] == "names blue"


def test_cognee_has_counts_without_order_and_votes(tmp_path: Path, table: Path) -> None:
    (arm,) = imported("cognee", tmp_path, table)
    assert arm.arm.name == "imported-cognee-run3" and arm.imported.number == 3
    assert arm.manifest.judge == "unknown judge by the prompt of cognee (question, rubric)"
    assert arm.details[0].context_chars == 40
    assert [score(arm, name, 0) for name in ("nugget-mean", "binary", "as-published")] == [0.5, 0.0, 0.5]
    assert arm.judgements[4].reported and arm.judgements[4].reported.order == 0.25
    assert not lacking(arm, "nugget-mean") and lacking(arm, "f1-weighted") == {"event_ordering"}
    assert len(lacking(arm, "majority-vote")) == 10


def test_truememory_has_votes_and_amb_a_score_per_question(tmp_path: Path, table: Path) -> None:
    (votes,), (amb,) = (imported(form, tmp_path, table) for form in ("truememory", "amb"))
    assert (votes.manifest.size, votes.manifest.reader) == ("10M", "reader-8")  # its benchmark's name is wrong
    assert score_run(votes.judgements, "majority-vote")["score"].mean() == 0.5
    assert [score(amb, "as-published", place) for place in (0, 1)] == [1.0, 0.75]
    assert amb.answers[0].context_tokens == 20 and amb.details[0].context_chars == 80
    assert amb.imported.gold_in_prompt == "unknown"
    assert all(len(lacking(arm, protocol)) == 10 for protocol in PROTOCOLS for arm in (votes, amb))


def test_smart_jelly_answers_and_verdicts_are_joined(tmp_path: Path, table: Path) -> None:
    (arm,) = imported("past", tmp_path, table, judge="judge-5")
    assert arm.manifest.judge.startswith("judge-5 by the prompt of past")
    assert arm.judgements[0].verdicts[1].reply == '{"score": 0.5}'
    alignment = arm.judgements[4].alignments[0]
    assert alignment.matches == (0, None, 2) and alignment.items[1] == "fog"
    assert not lacking(arm, "paper") and lacking(arm, "released-code") == {"event_ordering"}
    assert lacking(arm, "nugget-mean") == {"event_ordering"}  # their order was judged, not the nuggets
    with pytest.raises(UserError, match="give the file of answers with that of verdicts"):
        read_runs([tmp_path / "past1.json"], table=table)


def test_failures_and_gaps_of_a_source_are_no_zeros(tmp_path: Path, table: Path) -> None:
    (past,) = imported("past", tmp_path, table, [past_results()])
    assert past.imported.gold_in_prompt == "yes"
    reasons = list(score_run(past.judgements, "paper")["unscored"][:2])
    assert reasons == ["the source says: timed out", "1 of 3 nuggets unscored: no reply"]
    assert [score(past, "as-published", place) for place in (0, 1)] == [0.0, 0.5]  # as they count it
    votes = truememory()
    votes["details"][0] |= {"generated_answer": "ERROR: timed out", "correct": False, "judge_votes": [False] * 3}
    (failed,) = imported("truememory", tmp_path, table, [votes])
    assert failed.answers[0].text is None and failed.imported.kinds == {"failed": 1, "votes": 19}
    assert score(failed, "majority-vote", 0) == 0.0  # as they count it: these are their votes
    (honcho,) = imported("honcho", tmp_path, table)
    assert score_run(honcho.judgements, "nugget-mean")["score"].isna()[0]
    assert [verdict.score for verdict in honcho.judgements[1].verdicts] == [1.0, 0.5, 0.0]
    assert lacking(honcho, "nugget-mean") == {"event_ordering"}
    value = mem0()
    del value["evaluations"][0]["cutoff_results"]["top_10"]["nugget_scores"]
    (_, gap) = imported("mem0", tmp_path, table, [value])
    scores = score_run(gap.judgements, "nugget-mean")
    assert scores["unscored"][0].startswith("the source has no verdicts of this question")
    assert not lacking(gap, "nugget-mean") and summarise(scores)["unscored"].iloc[-1] == 1
    assert score_run(gap.judgements, "as-published")["score"].notna().all()
    order = past_results()
    order[5]["judge"] = {**order[5]["judge"], "reference": ["1st: hail", "2nd: frost"]}  # another list than the rubric
    (other,) = imported("past", tmp_path, table, [order])
    assert "alignment" in score_run(other.judgements, "paper")["unscored"][5]
    assert lacking(other, "paper") == set()


def test_a_score_between_the_steps_is_never_rounded(tmp_path: Path, table: Path) -> None:
    (arm,) = imported("beam-results", tmp_path, table)
    assert score(arm, "nugget-mean", 2) == pytest.approx(1.75 / 3)
    assert arm.judgements[2].verdicts[0].reason.startswith("0.75 is between the steps")
    assert (score(arm, "binary", 2), score(arm, "released-code", 2)) == (0.0, pytest.approx(1 / 3))
    assert arm.judgements[4].alignments[0].matches == (0, None, 2)
    assert arm.arm.name == "imported-Remembrall-run2"
    assert arm.imported.kinds == {"failed": 1, "nuggets": 19}


def test_what_does_not_match_is_counted_and_named_on_one_line(tmp_path: Path, table: Path) -> None:
    rows = neutral()
    rows[0] |= {"system": "A\x1b[2J\nB\u202e", "reader": "r\r"}
    rows[3]["question"] = "who\x1b[31m?"
    rows[5]["tier"] = "10M"
    rows.append(dict(rows[8]))
    (arm,) = imported("beam-results", tmp_path, table, [rows])
    result = arm.imported
    assert (result.system, result.reader) == ("A [2J B", "r")
    assert result.unmatched_count == 2 and result.unmatched[0] == "who [31m?"
    assert result.missing == ("1M-1-q02", "1M-1-q04") and result.twice == ("1M-1-q07",)
    assert "2 questions not matched; 1 questions there twice; 2 questions missing" in result.lines()[0]
    for row in rows[1:]:
        row["question"] = "Who?"
    with pytest.raises(UserError, match="none of its 21 questions is a released one"):
        imported("beam-results", tmp_path, table, [rows])


def test_runs_of_one_system_are_runs_and_a_file_is_given_once(tmp_path: Path, table: Path) -> None:
    arms = imported("truememory", tmp_path, table, [truememory(), truememory(benchmark="BEAM-10M")])
    assert [arm.arm.name for arm in arms] == ["imported-truememory_pro-run1", "imported-truememory_pro-run2"]
    write_runs(arms[:1], tmp_path / "run")
    changed = truememory()
    changed["details"][0]["correct"] = False
    others = imported("truememory", tmp_path, table, [changed, truememory()])
    with pytest.raises(UserError, match="holds other results already"):
        write_runs(others, tmp_path / "run")
    assert len(list((tmp_path / "run").rglob("manifest.json"))) == 1  # nor is the second written
    with pytest.raises(UserError, match=r"mem01\.json: it is the same file as .*mem00\.json"):
        imported("mem0", tmp_path, table, [mem0(), mem0()])


def test_tiers_of_one_file_are_parts_and_gzip_changes_nothing(tmp_path: Path, table: Path) -> None:
    both = mem0()
    both["evaluations"] += mem0("10M", "10M-1")["evaluations"]
    arms = imported("mem0", tmp_path, table, [both])
    assert [arm.part for arm in arms] == ["1m-reader-9-imported", "10m-reader-9-imported"] * 2
    (plain,) = files_of("cognee", tmp_path)
    packed = tmp_path / "packed.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    first, second = (read_runs([path], table=table)[0] for path in (plain, packed))
    assert first.judgements == second.judgements and first.imported.files != second.imported.files


def test_what_is_not_computable_is_not_compared(tmp_path: Path, table: Path) -> None:
    pair = imported("mem0", tmp_path, table)
    result = compare(*(score_run(arm.judgements, "paper") for arm in pair))
    assert pd.isna(result.difference) and pd.isna(result.p_value) and result.n == 0
    assert compare(*(score_run(arm.judgements, "nugget-mean") for arm in pair)).difference == 0.5


def test_the_command_shows_what_it_found(
    called: Call, tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beam_field.matching.QUESTIONS", table)
    monkeypatch.setattr("beamlib.places.RUNS", tmp_path / "runs")
    paths = files_of("mem0", tmp_path)
    checked = called("import", *paths, "--check")
    assert checked.returncode == 0, checked.stderr
    assert "paper: not computable from this source: event_ordering" in checked.stdout
    assert "nugget-mean: 0.5000 over abilities, 0.5000 over questions" in checked.stdout
    assert not (tmp_path / "runs").exists()
    assert called("import", *paths, "--name", "theirs").returncode == 0
    run = tmp_path / "runs" / "theirs"
    done = called("tables", run, "--protocol", "nugget-mean")
    assert "imported (mem0)" in done.stdout and "0.500" in done.stdout, done.stderr
    assert "Not computable from its source under this protocol" in called("tables", run).stdout
    assert called("score", run, "--protocol", "as-published").returncode == 0
    records = json.loads(called("import", *paths, "--check", "--json").stdout)
    assert records[0]["imported"]["kinds"] == {"nuggets": 20}
    for wrong in (["--name", "../x"], ["--name", "a/b"], ["--format", "csv"], ["--gold", "maybe"]):
        done = called("import", *paths, *wrong)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr


def test_imported_arms_share_a_table_with_others_only_by_option(
    called: Call, tmp_path: Path, table: Path, repo_root: Path
) -> None:
    run = tmp_path / "run"
    parameters = {"data": str(repo_root / "beamlib/data/example"), "run": str(run), "token_counter": "regex-words"}
    evaluate(usual_parameters("100K", **parameters), [Arm(memory="none")], quiet=True)
    own = called("tables", run, "--protocol", "nugget-mean").stdout
    write_runs(imported("mem0", tmp_path, table), run)
    beside = called("tables", run, "--protocol", "nugget-mean").stdout
    assert "Left out, imported: 1m-reader-9-imported" in beside and "mem0-top" not in beside
    rows = [[line for line in text.splitlines() if line.startswith("|")] for text in (own, beside)]
    assert rows[0] == rows[1]
    mixed = called("tables", run, "--protocol", "nugget-mean", "--mixed").stdout
    assert "mem0-top" in mixed and "offline stand-in" in mixed and "Mixed runs" in mixed
    alone = called("tables", run, "--protocol", "nugget-mean", "--parts", "1m-reader-9-imported").stdout
    assert "mem0-top" in alone and "Mixed runs" not in alone
    write_runs(imported("mem0", tmp_path, table), tmp_path / "two")
    write_runs(imported("cognee", tmp_path, table, [cognee()], reader="reader-9"), tmp_path / "two")
    assert "cannot share a table" in called("tables", tmp_path / "two").stderr
    assert stated([(), ("paper", "k=15")]) == "paper, but k=15"  # an imported run has no configuration to state


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("field/mem0_1m_top200.json.gz", "mem0/1m-top200"),
        ("field/mem0_1m_top50.json.gz", "mem0/1m-top50"),
        ("verdicts/100k_run0.json.gz", "cognee/100k-run0"),
        ("verdicts/100k_run1.json.gz", "cognee/100k-run1"),
    ],
)
def test_real_files_give_the_shipped_verdicts(file: str, name: str, field_data: Path) -> None:
    (arm,) = read_runs([field_data.parent / file])
    assert arm.imported.shipped == name and arm.imported.licence
    theirs = {judgement.probe_id: judgement for judgement in shipped(name)}
    for judgement in arm.judgements:
        other = theirs.pop(judgement.probe_id)
        assert judgement.reported == other.reported
        assert [verdict.score for verdict in judgement.verdicts] == [verdict.score for verdict in other.verdicts]
    assert not theirs and not arm.imported.missing and not arm.imported.other_rubric
    assert arm.details[0].rubric and arm.answers[0].text


@pytest.mark.parametrize("reverse", [False, True])
def test_the_released_codes_verdicts_are_joined_with_their_answers(reverse: bool, tmp_path: Path, table: Path) -> None:
    paths = []
    for conversation in ("1M-1", "1M-2"):
        for prefix, value in zip(("", "evaluation-"), released_code(conversation), strict=True):
            paths.append(tmp_path / conversation / f"{prefix}results.json")
            paths[-1].parent.mkdir(exist_ok=True)
            paths[-1].write_text(json.dumps(value))
    (arm,) = read_runs(paths[::-1] if reverse else paths, table=table)
    assert len(arm.judgements) == 40 and arm.arm.name == "imported-results"  # one run, a file per conversation
    assert {tuple(v.score for v in own.verdicts) for own in arm.judgements} == {(1.0, 0.5, 0.0)}
    reported = {own.ability: own.reported for own in arm.judgements if own.reported}
    assert (reported["event_ordering"].score, reported["event_ordering"].order) == (0.5, 0.75)
    with pytest.raises(UserError, match="verdicts without questions; give the file of answers"):
        read_runs(paths[1::2], table=table)
    (alone,) = read_runs(paths[:1], table=table)  # nobody has judged these
    assert len(alone.judgements) == 20 and set(alone.imported.kinds) == {"none"}


def test_a_row_without_a_verdict_gives_way_to_one_with(tmp_path: Path, table: Path) -> None:
    value, rows = amb(), amb()["results"]
    for change in ({"score": None, "correct": None, "answer": ""}, {}):
        value["results"] = [{**row, **change} for row in rows[:3]] + rows
        (arm,) = imported("amb", tmp_path, table, [value])
        assert len(arm.imported.twice) == 3 and arm.answers[0].text == rows[0]["answer"]
        assert all(own.reported and own.reported.score is not None for own in arm.judgements)
    header, *lines = neutral()
    failed = [{"question": line["question"], "failed": "429"} for line in lines[1:6]]
    (arm,) = imported("beam-results", tmp_path, table, [[header, *failed, *lines]])
    assert sum(own.unscored is not None and "429" in own.unscored for own in arm.judgements) == 0


def test_what_is_neither_matched_nor_scored_refuses_no_file(tmp_path: Path, table: Path) -> None:
    value = mem0()
    for number, entry in enumerate(value["evaluations"]):
        entry |= {"question": f" \n{entry['question']}\t ", "ground_truth_answer": [7, {"a": None}, True][number % 3]}
        entry |= {"total_memories_retrieved": "many", "rubric": ["a"]}
        result = entry["cutoff_results"]["top_200"]
        result |= {"event_ordering": {"tau_b": float("nan")}, "generated_answer": "half \ud83d a pair"}
        result["nugget_scores"][0] |= {"reason": 5, "nugget": None}
    arm, _ = imported("mem0", tmp_path, table, [value])
    assert len(arm.judgements) == 20 and not arm.imported.unmatched
    assert score(arm, "nugget-mean", 0) == 0.5 and arm.answers[0].text == "half \ufffd a pair"
    assert [details.reference for details in arm.details[:3]] == ["7", '{"a": null}', "true"]
    value = memorybench()
    value["evaluations"][0]["score"] = float("nan")  # of a score: there is none
    (arm,) = imported("memorybench", tmp_path, table, [value])
    assert arm.judgements[0].reported and arm.judgements[0].reported.score is None


def test_answers_without_verdicts_are_read_to_be_judged(tmp_path: Path, table: Path) -> None:
    rows = records(score=None, nugget_scores=[])["results"][0]["results"]
    answers = [{**row, "gold": row.pop("ideal_answer")} for row in rows]
    for name, value in {"a list": answers, "by question": {"runs": [{"items": answers}]}}.items():
        (arm,) = imported("records", tmp_path, table, [value])
        assert arm.unjudged and [answer.text for answer in arm.answers] == ["Blue."] * 20, name
        assert {lacking(arm, protocol) == {own.ability for own in arm.judgements} for protocol in PROTOCOLS} == {True}


@pytest.mark.parametrize("scale", ["1M", "1m", "1000K", "", "all"])
def test_plain_scores_of_nuggets_and_of_questions_are_read_at_any_depth(
    scale: str, tmp_path: Path, table: Path
) -> None:
    value = records()
    value["results"][0]["scale"] = scale
    (arm,) = imported("records", tmp_path, table, [value])
    assert arm.imported.reader == "reader-9" and arm.imported.judge == "judge-9"
    assert score(arm, "nugget-mean", 0) == 0.5 and score(arm, "as-published", 0) == 0.5
    (bare,) = imported("records", tmp_path, table, [records(nugget_scores=[])])
    assert lacking(bare, "as-published") == set() and "score" in bare.imported.kinds


def test_scores_of_nuggets_by_text_are_read_and_written_as_texts_refused(tmp_path: Path, table: Path) -> None:
    (arm,) = imported("records", tmp_path, table, [records(nugget_scores={"a": 1.0, "b": 0.5, "c": 0})])
    assert score(arm, "nugget-mean", 0) == 0.5
    with pytest.raises(UserError, match=r"results\[0\].*'nuggets.0.score'.*valid number"):
        imported("records", tmp_path, table, [records(nugget_scores=["1.0", "0.5", "0"])])


def test_a_run_of_amb_that_only_retrieves_has_no_zeros(tmp_path: Path, table: Path) -> None:
    value = amb()
    value["results"] = [{**row, "answer": "", "correct": False, "score": None} for row in value["results"]]
    (arm,) = imported("amb", tmp_path, table, [value])
    assert arm.unjudged


def test_an_answer_beside_another_is_the_reference_and_a_score_of_words_is_none(tmp_path: Path, table: Path) -> None:
    (arm,) = imported("records", tmp_path, table, [records(ai_answer="Green.", ideal_answer=None, nugget_scores=[])])
    assert arm.answers[0].text == "Green." and arm.details[0].reference == "Blue."
    unjudged = records(match="1/2", nugget_scores=[])
    del unjudged["metadata"]["judge_model"]
    (arm,) = imported("records", tmp_path, table, [unjudged])
    assert arm.unjudged, "found words are on another scale than a judge's score"


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_table_is_called_one(sign: str, packed: bool, tmp_path: Path) -> None:
    text = f'question{sign}answer{sign}score\n"a{sign}b"{sign}c{sign}0.5\n'.encode()
    path = tmp_path / "results.json"
    path.write_bytes(gzip.compress(text) if packed else text)
    with pytest.raises(UserError, match=r"a table \(CSV\) with the columns question, answer, score; only JSON"):
        read_runs([path])
