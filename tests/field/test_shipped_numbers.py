"""The shipped verdicts: those of their files, every average that sources state, and files made of them read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from beam_field.importing import read_runs
from beam_field.sources import (
    VERDICTS,
    PublishedRun,
    find_run,
    judgements,
    published_runs,
    published_scores,
    question_hash,
    released_questions,
)
from beamlib.data.conversations import SIZES
from beamlib.data.gold import ABILITIES
from beamlib.errors import UserError
from beamlib.files import read_json, to_json
from beamlib.scoring.protocols import PROTOCOLS, REPORTED
from beamlib.scoring.records import Judgement
from beamlib.scoring.scores import AVERAGE, score_run, summarise

RUNS = published_runs()


def over_questions(name: str, protocol: str) -> float:
    """Return the mean over a run's questions, as most sources average."""
    return float(score_run(judgements(name), protocol)["score"].mean())


def test_every_run_has_its_verdicts() -> None:
    assert {run.name: len(judgements(run.name)) for run in RUNS} == {run.name: run.n for run in RUNS}
    assert len(RUNS) == 17
    with pytest.raises(UserError, match="mem0/1m-top200, "):
        find_run("mem0/2m")
    for name in ("mem0/10m-top50", "cognee/100k-run1", "truememory/10m-run1"):
        for judgement in judgements(name):
            assert Judgement.model_validate_json(to_json(judgement.model_dump(mode="json"))) == judgement
    assert "reported" not in Judgement(probe_id="p", conversation_id="c", ability="abstention").model_dump()


def test_the_numbers_are_those_of_the_reference(shared: Path, repo_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(repo_root / "scripts"))
    from field_data import pack_verdicts, questions as packed_questions  # type: ignore[import-not-found]  # noqa: I001

    data = shared / "data"
    assert pack_verdicts(pd.read_csv(data / "field/verdicts.csv", dtype={"votes": str})) == VERDICTS.read_text()
    assert packed_questions(data / "beam_questions") == VERDICTS.with_name("questions.csv").read_text()
    gathered = pd.read_csv(data / "field/published.csv")  # what was added since follows
    pd.testing.assert_frame_equal(published_scores().head(len(gathered)), gathered)
    assert len(gathered) == 80 and len(released_questions()) == 2000


def test_every_printed_score_says_whose_it_is_and_of_what() -> None:
    scores = published_scores()
    assert len(scores) >= 80 and scores["score_percent"].between(0, 100).all()
    assert set(scores["tier"]) <= set(SIZES) and set(scores["ability"]) <= {*ABILITIES, AVERAGE}
    assert scores.notna().all(axis=None)
    assert not scores.duplicated(["source", "system", "tier", "ability", "reader", "scoring"]).any()


@pytest.mark.parametrize(
    ("names", "protocol", "value"),
    [
        ("mem0/1m-top200", "nugget-mean", 0.6409),
        ("mem0/10m-top200", "nugget-mean", 0.4860),
        ("truememory/1m-run1", "majority-vote", 0.750),
        ("truememory/1m-run2", "majority-vote", 0.781),
        ("truememory/1m-run3", "majority-vote", 0.766),
        ("truememory/10m-run1", "majority-vote", 0.650),
        ("cognee/100k-", "nugget-mean", 0.794),
        ("cognee/100k-", "as-published", 0.794),
        ("cognee/10m-", "nugget-mean", 0.667),
        ("cognee/10m-", "as-published", 0.667),
    ],
)
def test_stated_averages_come_out(names: str, protocol: str, value: float) -> None:
    runs = [run.name for run in RUNS if run.name.startswith(names)]
    assert sum(over_questions(name, protocol) for name in runs) / len(runs) == pytest.approx(value, abs=5e-4)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_protocols_give_the_stated_average_and_say_what_they_cannot_compute(run: PublishedRun) -> None:
    every = {*ABILITIES}
    ordering = every if run.kind == "votes" else {"event_ordering"}
    expected = dict.fromkeys(PROTOCOLS, every) if run.kind == "votes" else {"majority-vote": every}
    expected |= dict.fromkeys(("paper", "released-code", "f1-weighted"), ordering)
    for protocol in PROTOCOLS | REPORTED:
        rows = summarise(score_run(judgements(run.name), protocol)).set_index("ability")
        lacking = set(rows.index[rows["not_computable"] > 0]) - {"average"}
        assert lacking == expected.get(protocol, set()), protocol
        assert rows.loc[rows["not_computable"] > 0, "mean"].isna().all()
        assert rows["mean"].isna().sum() == len(lacking) + bool(lacking)
        assert rows["unscored"].sum() == 0, protocol  # nothing failed
        if protocol == "as-published" and run.published is not None:
            assert over_questions(run.name, protocol) == pytest.approx(run.published, abs=5e-4)
            assert rows.loc["average", "mean"] == pytest.approx(run.published, abs=5e-4)


@pytest.fixture(scope="module")
def texts(field_data: Path) -> Mapping[str, str]:
    """The text of each question by probe id."""
    found: dict[str, str] = {}
    for path in (field_data.parent / "beam_questions").glob("*/*/probing_questions/probing_questions.json"):
        size = path.parents[2].name
        for ability, own in read_json(path).items():
            for entry in own if ability in ABILITIES else ():
                known = released_questions()[question_hash(size, entry["question"])]
                assert (known.ability, known.nuggets, known.tier) == (ability, len(entry["rubric"]), size)
                found[known.probe_id] = entry["question"]
    if not found:
        pytest.skip("no questions beside the published result files")
    assert len(found) == 2000
    return found


def as_published(run: PublishedRun, texts: Mapping[str, str]) -> Any:
    """Return the value of a file of the run's own format; answers have the right length and no content."""
    lines = (line.split(",") for line in VERDICTS.read_text().splitlines())
    chars = {probe: chars for name, probe, *_, chars in lines if name == run.name}
    rows = []
    for judgement in judgements(run.name):
        question, answer = texts[judgement.probe_id], "x" * int(chars[judgement.probe_id])
        reported = judgement.reported
        assert reported is not None
        if run.source == "mem0":
            nuggets = [{"nugget": "", "score": verdict.score, "reason": ""} for verdict in judgement.verdicts]
            cutoff = {"score": reported.score, "generated_answer": answer, "nugget_scores": nuggets}
            rows.append({"chat_size": run.tier, "question": question, "cutoff_results": {"top_1": cutoff}})
        elif run.source == "cognee":
            counts = [count or 0 for count in (reported.full, reported.partial, reported.none)]
            reason = "{} full, {} partial, {} none out of {} criteria".format(*counts, sum(counts))
            metrics = {"beam_rubric": {"score": reported.score, "reason": reason}}
            metrics |= {"kendall_tau": {"score": reported.order}}
            rows.append({"question": question, "answer": answer, "run_idx": run.number, "metrics": metrics})
        else:
            votes = {"correct": reported.score == 1, "judge_votes": list(reported.votes)}
            rows.append({"question": question, "generated_answer": answer, **votes})
    return {"mem0": {"evaluations": rows}, "cognee": rows, "truememory": {"j_score": 1, "details": rows}}[run.source]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_file_of_the_shipped_verdicts_is_recognised(
    run: PublishedRun, texts: Mapping[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps(as_published(run, texts)))
    (arm,) = read_runs([path])
    facts = (arm.imported.shipped, arm.manifest.size, arm.imported.licence, arm.imported.commit, arm.manifest.reader)
    assert facts == (run.name, run.tier, run.licence, run.commit, run.reader)
    assert len(arm.judgements) == run.n and not arm.imported.unmatched_count
    for protocol in PROTOCOLS | REPORTED:
        ours, theirs = (
            score_run(own, protocol).set_index("probe_id").sort_index()
            for own in (arm.judgements, judgements(run.name))
        )
        pd.testing.assert_frame_equal(ours, theirs)
