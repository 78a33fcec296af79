"""Import: every format gives the same kind of run, keeps what is there, and says what is not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from published_results import FILES, LINES, asked, cognee, mem0, neutral, past_results, truememory, written

from beam_field.importing import ImportedArm, read_runs, write_runs
from beam_field.sources import judgements as shipped
from beamlib.errors import UserError
from beamlib.evaluate.arm_folder import read_answers, read_manifest, stored_judgements
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.configuration import stated
from beamlib.evaluate.imported import DETAILS
from beamlib.evaluate.run import evaluate
from beamlib.files import read_jsonl, sha256_of_file
from beamlib.params import usual_parameters
from beamlib.report.results import score_folders
from beamlib.scoring.intervals import compare
from beamlib.scoring.protocols import PROTOCOLS, REPORTED
from beamlib.scoring.scores import score_run, summarise
from commands import Call


def files_of(form: str, folder: Path, values: list[Any] | None = None) -> list[Path]:
    """The files of a format, written."""
    paths = []
    for number, value in enumerate(FILES[form] if values is None else values):
        paths.append(folder / f"{form}{number}.json")
        paths[-1].write_text(written(value, form in LINES))
    return paths


def imported(form: str, folder: Path, table: Path, values: list[Any] | None = None, **stated: str) -> list[ImportedArm]:
    return read_runs(files_of(form, folder, values), stated=stated, table=table)


def lacking(one: ImportedArm, protocol: str) -> set[str]:
    rows = summarise(score_run(one.judgements, protocol)).set_index("ability")
    return set(rows.index[rows["not_computable"] > 0]) - {"average"}


def value(one: ImportedArm, protocol: str, place: int) -> float:
    return float(score_run(one.judgements, protocol)["score"][place])


@pytest.mark.parametrize("form", FILES)
def test_every_format_becomes_a_run_that_can_be_scored(form: str, tmp_path: Path, table: Path) -> None:
    arms = imported(form, tmp_path, table)
    assert {one.imported.format for one in arms} == {form}
    run = tmp_path / "run"
    folders = write_runs(arms, run)
    for folder, one in zip(folders, arms, strict=True):
        assert sorted(path.name for path in folder.iterdir()) == sorted(
            ["answers.jsonl", "judgements.jsonl", "manifest.json", DETAILS]
        )
        assert stored_judgements(folder) == list(one.judgements)
        assert read_answers(folder) == list(one.answers)
        found = read_manifest(folder)
        assert found == one.manifest and found.imported
        assert found.imported.details_sha256 == sha256_of_file(folder / DETAILS)
        assert [row["probe_id"] for row in read_jsonl(folder / DETAILS)] == [j.probe_id for j in one.judgements]
        assert found.imported.files == {
            path.name: sha256_of_file(path) for path in tmp_path.glob("*.json") if path.name in found.imported.files
        }
    for protocol in PROTOCOLS | REPORTED:
        rows = score_folders(run, protocol)
        assert {row["arm"] for row in rows} == {one.arm.name for one in arms}
    before = {path: path.read_bytes() for path in run.rglob("*.json*")}
    write_runs(arms, run)
    assert {path: path.read_bytes() for path in run.rglob("*.json*")} == before


def test_newer_mem0_files_keep_their_figure_of_order(tmp_path: Path, table: Path) -> None:
    value = mem0()
    place = next(n for n, one in enumerate(value["evaluations"]) if "event_ordering" in one["question_id"])
    order = {"tau_b": -0.3333, "predicted_order": [2, 1], "reference_order": [0, 1, 2]}
    value["evaluations"][place]["cutoff_results"]["top_200"] |= {
        "event_ordering": order,
        "score_with_tau": 0.4,
        "judgment": "PASS",
    }
    value["evaluations"][place + 1]["cutoff_results"]["top_200"]["event_ordering"] = {"error": "timed out"}
    del value["evaluations"][-1]["cutoff_results"]  # searched for only
    one, _ = imported("mem0", tmp_path, table, [value])
    told = [judgement.reported.order for judgement in one.judgements if judgement.reported]
    assert (told[place], told[place + 1]) == (-0.3333, None)
    assert len(one.imported.missing) == 1
    assert lacking(one, "paper") == {"event_ordering"}  # its matches leave out what matched nothing: no alignment


def test_names_move_no_cursor(tmp_path: Path, table: Path) -> None:
    head, *rows = neutral()
    head |= {"system": "A\x1b[2J\nB\u202e", "reader": "r\r"}
    (one,) = imported("beam-results", tmp_path, table, [[head, *rows, {"question": "who\x1b[31m?"}]])
    assert (one.imported.system, one.imported.reader) == ("A [2J B", "r")
    assert one.imported.unmatched == ("who [31m?",)


def test_cutoffs_are_arms(tmp_path: Path, table: Path) -> None:
    first, second = imported("mem0", tmp_path, table)
    assert [one.arm.name for one in (first, second)] == ["imported-mem0-top_200", "imported-mem0-top_10"]
    assert first.part == "1m-reader-9-imported"
    assert [value(one, "nugget-mean", 0) for one in (first, second)] == [0.5, 0.0]
    assert first.judgements[0].verdicts[1].reason == "so"
    assert first.details[0].memories == 200 and first.details[0].rubric[1] == "names blue"
    assert lacking(first, "paper") == {"event_ordering"}
    assert value(first, "released-code", 0) == pytest.approx(1 / 3)  # halves lost, as there


def test_counts_have_no_order_and_no_votes(tmp_path: Path, table: Path) -> None:
    (one,) = imported("cognee", tmp_path, table)
    assert one.arm.name == "imported-cognee-run3" and one.imported.number == 3
    assert one.manifest.judge == "unknown judge by the prompt of cognee (question, rubric)"
    assert one.details[0].context_chars == 40
    assert (value(one, "nugget-mean", 0), value(one, "binary", 0), value(one, "as-published", 0)) == (0.5, 0.0, 0.5)
    assert one.judgements[4].reported and one.judgements[4].reported.order == 0.25
    assert not lacking(one, "nugget-mean") and lacking(one, "f1-weighted") == {"event_ordering"}
    assert len(lacking(one, "majority-vote")) == 10


def test_votes_are_votes_and_a_wrong_name_of_the_benchmark_does_not_count(tmp_path: Path, table: Path) -> None:
    (one,) = imported("truememory", tmp_path, table)
    assert (one.manifest.size, one.manifest.reader) == ("10M", "reader-8")
    scores = score_run(one.judgements, "majority-vote")["score"]
    assert scores.mean() == 0.5
    assert all(len(lacking(one, protocol)) == 10 for protocol in PROTOCOLS)


def test_a_score_per_question_is_kept_as_it_is(tmp_path: Path, table: Path) -> None:
    (one,) = imported("amb", tmp_path, table)
    assert list(score_run(one.judgements, "as-published")["score"][:2]) == [1.0, 0.75]
    assert all(len(lacking(one, protocol)) == 10 for protocol in PROTOCOLS)
    assert one.answers[0].context_tokens == 20 and one.details[0].context_chars == 80
    assert one.imported.gold_in_prompt == "unknown"


def test_answers_and_verdicts_of_two_files_are_joined(tmp_path: Path, table: Path) -> None:
    (one,) = imported("past", tmp_path, table, judge="judge-5")
    assert one.manifest.judge.startswith("judge-5 by the prompt of past")
    assert one.judgements[0].verdicts[1].reply == '{"score": 0.5}'
    ordering = one.judgements[4]
    assert ordering.alignments[0].matches == (0, None, 2) and ordering.alignments[0].items[1] == "fog"
    assert not lacking(one, "paper") and lacking(one, "released-code") == {"event_ordering"}
    assert lacking(one, "nugget-mean") == {"event_ordering"}  # their order was judged, not the nuggets
    with pytest.raises(UserError, match="give the file of answers with that of verdicts"):
        read_runs([tmp_path / "past1.json"], table=table)


def test_failures_of_a_source_are_no_zeros(tmp_path: Path, table: Path) -> None:
    (one,) = imported("past", tmp_path, table, [past_results()])
    assert one.imported.gold_in_prompt == "yes"
    scores = score_run(one.judgements, "paper")
    assert list(scores["unscored"][:2]) == ["the source says: timed out", "1 of 3 nuggets unscored: no reply"]
    assert list(score_run(one.judgements, "as-published")["score"][:2]) == [0.0, 0.5]  # as they count it
    votes = truememory()
    votes["details"][0] |= {"generated_answer": "ERROR: timed out", "correct": False, "judge_votes": [False] * 3}
    (third,) = imported("truememory", tmp_path, table, [votes])
    assert third.answers[0].text is None and third.imported.kinds == {"failed": 1, "votes": 19}
    assert value(third, "majority-vote", 0) == 0.0  # as they count it: these are their votes
    (other,) = imported("honcho", tmp_path, table)
    assert score_run(other.judgements, "nugget-mean")["score"].isna()[0]
    assert value(other, "nugget-mean", 1) == 0.5 and [v.score for v in other.judgements[1].verdicts] == [1.0, 0.5, 0.0]
    assert lacking(other, "nugget-mean") == {"event_ordering"}


def test_a_score_between_the_steps_is_never_rounded(tmp_path: Path, table: Path) -> None:
    (one,) = imported("beam-results", tmp_path, table)
    assert value(one, "nugget-mean", 2) == pytest.approx(1.75 / 3)
    assert one.judgements[2].verdicts[0].reason.startswith("0.75 is between the steps")
    assert (value(one, "binary", 2), value(one, "released-code", 2)) == (0.0, pytest.approx(1 / 3))
    assert one.judgements[4].alignments[0].matches == (0, None, 2)
    assert one.arm.name == "imported-Remembrall-run2"
    assert one.imported.kinds == {"failed": 1, "nuggets": 19}


def test_what_does_not_match_is_counted_and_named(tmp_path: Path, table: Path) -> None:
    rows = neutral()
    rows[3]["question"] += " "
    rows[5]["tier"] = "10M"
    rows.append(dict(rows[8]))
    (one,) = imported("beam-results", tmp_path, table, [rows])
    found = one.imported
    assert found.unmatched_count == 2 and len(found.unmatched) == 2
    assert found.missing == ("1M-1-q02", "1M-1-q04") and found.twice == ("1M-1-q07",)
    assert "2 questions not matched; 1 questions there twice; 2 questions missing" in found.lines()[0]
    for row in rows[1:]:
        row["question"] = "Who?"
    with pytest.raises(UserError, match="none of its 21 questions is a released one"):
        imported("beam-results", tmp_path, table, [rows])


def test_runs_of_one_system_are_runs(tmp_path: Path, table: Path) -> None:
    arms = imported("truememory", tmp_path, table, [truememory(), truememory(benchmark="BEAM-10M")])
    assert [one.arm.name for one in arms] == ["imported-truememory_pro-run1", "imported-truememory_pro-run2"]
    write_runs(arms[:1], tmp_path / "run")
    changed = truememory()
    changed["details"][0]["correct"] = False
    others = imported("truememory", tmp_path, table, [changed, truememory()])
    with pytest.raises(UserError, match="holds other results already"):
        write_runs(others, tmp_path / "run")
    assert len(list((tmp_path / "run").rglob("manifest.json"))) == 1  # nor is the second written


def test_a_file_is_given_once(tmp_path: Path, table: Path) -> None:
    with pytest.raises(UserError, match=r"mem01\.json: it is the same file as .*mem00\.json"):
        imported("mem0", tmp_path, table, [mem0(), mem0()])


def test_a_gap_in_a_source_is_unscored_and_spoils_no_ability(tmp_path: Path, table: Path) -> None:
    value = mem0()
    del value["evaluations"][0]["cutoff_results"]["top_10"]["nugget_scores"]
    (_, one) = imported("mem0", tmp_path, table, [value])
    scores = score_run(one.judgements, "nugget-mean")
    assert scores["unscored"][0].startswith("the source has no verdicts of this question")
    assert not lacking(one, "nugget-mean") and summarise(scores)["unscored"].iloc[-1] == 1
    assert score_run(one.judgements, "as-published")["score"].notna().all()
    order = past_results()
    order[5]["judge"] = {**order[5]["judge"], "reference": ["1st: hail", "2nd: frost"]}  # another list than the rubric
    (other,) = imported("past", tmp_path, table, [order])
    assert "alignment" in score_run(other.judgements, "paper")["unscored"][5]
    assert lacking(other, "paper") == set()


def test_what_is_not_computable_is_not_compared(tmp_path: Path, table: Path) -> None:
    first, second = imported("mem0", tmp_path, table)
    found = compare(*(score_run(one.judgements, "paper") for one in (first, second)))
    assert pd.isna(found.difference) and pd.isna(found.p_value) and found.n == 0
    found = compare(*(score_run(one.judgements, "nugget-mean") for one in (first, second)))
    assert found.difference == 0.5


def test_tiers_of_one_file_are_parts(tmp_path: Path, table: Path) -> None:
    both = mem0()
    both["evaluations"] += mem0("10M", "10M-1")["evaluations"]
    assert [one.part for one in imported("mem0", tmp_path, table, [both])] == [
        "1m-reader-9-imported", "10m-reader-9-imported", "1m-reader-9-imported", "10m-reader-9-imported",
    ]  # fmt: skip


def test_the_command_says_what_it_found(
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
    done = called("tables", run)
    assert "Not computable from its source under this protocol" in done.stdout
    assert called("score", run, "--protocol", "as-published").returncode == 0
    told = json.loads(called("import", *paths, "--check", "--json").stdout)
    assert told[0]["imported"]["kinds"] == {"nuggets": 20}
    for wrong in (["--name", "../x"], ["--name", "a/b"], ["--format", "csv"], ["--gold", "maybe"]):
        done = called("import", *paths, *wrong)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr


def test_imported_and_own_arms_share_a_table_only_when_told(called: Call, tmp_path: Path, table: Path) -> None:
    write_runs(imported("mem0", tmp_path, table), tmp_path / "run")
    write_runs(imported("cognee", tmp_path, table, [cognee()], reader="reader-9"), tmp_path / "run")
    assert "cannot share a table" in called("tables", tmp_path / "run").stderr
    done = called("tables", tmp_path / "run", "--mixed", "--protocol", "nugget-mean")
    assert "Mixed runs: their judges differ" in done.stdout, done.stderr


def test_what_is_imported_stays_out_of_a_run_s_own_tables(
    called: Call, tmp_path: Path, table: Path, repo_root: Path
) -> None:
    run = tmp_path / "run"
    example = str(repo_root / "beamlib/data/example")
    parameters = usual_parameters("100K", data=example, run=str(run), token_counter="regex-words")
    evaluate(parameters, [Arm(memory="none")], quiet=True)
    own = called("tables", run, "--protocol", "nugget-mean").stdout
    write_runs(imported("mem0", tmp_path, table), run)
    beside = called("tables", run, "--protocol", "nugget-mean").stdout
    assert "Left out, imported: 1m-reader-9-imported" in beside and "mem0-top" not in beside
    assert [line for line in beside.splitlines() if line.startswith("|")] == [
        line for line in own.splitlines() if line.startswith("|")
    ]
    mixed = called("tables", run, "--protocol", "nugget-mean", "--mixed").stdout
    assert "mem0-top" in mixed and "offline stand-in" in mixed and "Mixed runs" in mixed
    alone = called("tables", run, "--protocol", "nugget-mean", "--parts", "1m-reader-9-imported").stdout
    assert "mem0-top" in alone and "Mixed runs" not in alone


@pytest.mark.parametrize("run", ["top200", "top50"])
def test_mem0_files_give_the_shipped_verdicts(run: str, field_data: Path) -> None:
    (one,) = read_runs([field_data / f"mem0_1m_{run}.json.gz"])
    assert one.imported.shipped == f"mem0/1m-{run}" and one.imported.licence == "Apache-2.0"
    theirs = {judgement.probe_id: judgement for judgement in shipped(f"mem0/1m-{run}")}
    for judgement in one.judgements:
        other = theirs.pop(judgement.probe_id)
        assert judgement.reported == other.reported
        assert [verdict.score for verdict in judgement.verdicts] == [verdict.score for verdict in other.verdicts]
    assert not theirs and not one.imported.missing and not one.imported.other_rubric


@pytest.mark.parametrize("number", [0, 1])
def test_cognee_files_give_the_shipped_counts(number: int, shared: Path) -> None:
    path = shared / "data" / "verdicts" / f"100k_run{number}.json.gz"
    (one,) = read_runs([path])
    assert one.imported.shipped == f"cognee/100k-run{number}"
    theirs = {judgement.probe_id: judgement.reported for judgement in shipped(f"cognee/100k-run{number}")}
    assert {judgement.probe_id: judgement.reported for judgement in one.judgements} == theirs
    assert one.details[0].rubric and one.answers[0].text


def test_gzip_and_plain_files_are_the_same_run(tmp_path: Path, table: Path) -> None:
    (plain,) = files_of("cognee", tmp_path)
    packed = tmp_path / "packed.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    first, second = (read_runs([path], table=table)[0] for path in (plain, packed))
    assert first.judgements == second.judgements and first.imported.files != second.imported.files
    assert len(asked("1M-1")) == len(first.judgements)


def test_an_imported_run_has_no_configuration_to_state() -> None:
    assert stated([(), ("paper", "k=15")]) == "paper, but k=15"  # the page of a run with imported parts
