"""The shipped verdicts: those of the file they were made of, and every average that their sources state."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from beam_field.questions import by_probe, question_hash, questions
from beam_field.sources import COLUMNS, find_source, judgements, published, sources, verdicts
from beamlib.data.gold import ABILITIES
from beamlib.errors import UserError
from beamlib.files import read_json, to_json
from beamlib.scoring.protocols import PROTOCOLS, REPORTED
from beamlib.scoring.records import Judgement
from beamlib.scoring.scores import score_run, summarise

STATED = {one.name: one.published for one in sources() if one.published is not None}


def over_questions(name: str, protocol: str) -> float:
    """The mean over a run's questions, as most sources average."""
    return float(score_run(judgements(name), protocol)["score"].mean())


def test_there_is_a_record_for_every_run() -> None:
    frame = verdicts()
    assert list(frame) == list(COLUMNS)
    assert len(frame) == 8552
    counted = frame.groupby(["source", "run"])["probe"].nunique().to_dict()
    assert counted == {(one.source, one.run): one.n for one in sources()}
    assert len(sources()) == 17
    assert len(published()) == 80
    with pytest.raises(UserError, match="mem0/1m-top200, "):
        find_source("mem0/2m")


def test_the_numbers_are_those_of_the_reference(shared: Path) -> None:
    theirs = pd.read_csv(shared / "data/field/verdicts.csv", dtype={"votes": str})
    keys = ["source", "run", "probe", "nugget"]
    ours, theirs = (one.sort_values(keys).reset_index(drop=True) for one in (verdicts(), theirs))
    pd.testing.assert_frame_equal(ours.astype(theirs.dtypes.to_dict()), theirs)
    pd.testing.assert_frame_equal(published(), pd.read_csv(shared / "data/field/published.csv"))


def test_questions_are_known_by_tier_and_exact_text(shared: Path) -> None:
    folder = shared / "data/beam_questions"
    found = []
    for path in sorted(folder.glob("*/*/probing_questions/probing_questions.json")):
        size = path.parents[2].name
        for ability, asked in read_json(path).items():
            for one in asked:
                known = questions()[question_hash(size, one["question"])]
                assert (known.ability, known.nuggets, known.tier) == (ability, len(one["rubric"]), size)
                assert known.conversation_id == f"{size}-{path.parents[1].name}"
                found.append(known.probe_id)
    assert len(set(found)) == len(found) == len(questions()) == len(by_probe()) == 2000


@pytest.mark.parametrize(
    ("name", "protocol", "value"),
    [
        ("mem0/1m-top200", "nugget-mean", 0.6409),
        ("mem0/10m-top200", "nugget-mean", 0.4860),
        ("mem0/1m-top200", "released-code without order", 0.593),
        ("mem0/10m-top200", "released-code without order", 0.447),
        *((f"truememory/{run}", "majority-vote", value) for run, value in
          [("1m-run1", 0.750), ("1m-run2", 0.781), ("1m-run3", 0.766), ("10m-run1", 0.650)]),
    ],
)  # fmt: skip
def test_stated_averages_come_out(name: str, protocol: str, value: float) -> None:
    if protocol == "released-code without order":  # as field.md states it: halves floored, in all ten abilities
        frame = verdicts()[lambda all_: (all_["source"] + "/" + all_["run"]) == name]
        found = float((frame["score"] >= 1).groupby(frame["probe"]).mean().mean())
    else:
        found = over_questions(name, protocol)
    assert found == pytest.approx(value, abs=5e-4)


@pytest.mark.parametrize(("tier", "value"), [("100k", 0.794), ("10m", 0.667)])
@pytest.mark.parametrize("protocol", ["nugget-mean", "as-published"])
def test_cognee_averages_over_its_runs(tier: str, value: float, protocol: str) -> None:
    runs = [one.name for one in sources() if one.name.startswith(f"cognee/{tier}-")]
    assert sum(over_questions(name, protocol) for name in runs) / len(runs) == pytest.approx(value, abs=5e-4)


@pytest.mark.parametrize("name", STATED)
def test_as_published_gives_what_the_record_states(name: str) -> None:
    assert over_questions(name, "as-published") == pytest.approx(STATED[name], abs=5e-4)
    rows = summarise(score_run(judgements(name), "as-published")).set_index("ability")
    assert rows.loc["average", "mean"] == pytest.approx(STATED[name], abs=5e-4)  # as many questions in every ability
    assert rows["not_computable"].sum() == 0


@pytest.mark.parametrize("source", sources(), ids=lambda one: one.name)
def test_every_protocol_says_what_it_cannot_compute(source: object) -> None:
    name, kind = source.name, source.kind  # type: ignore[attr-defined]
    judged = judgements(name)
    every = {*ABILITIES}
    wanted = {
        "nuggets": {"majority-vote": every},
        "counts": {"majority-vote": every},
        "votes": dict.fromkeys(PROTOCOLS, every),
    }[kind]
    ordering = {"event_ordering"} if kind != "votes" else every
    wanted |= dict.fromkeys(("paper", "released-code", "f1-weighted"), ordering)
    for protocol in PROTOCOLS | REPORTED:
        scores = score_run(judged, protocol)
        rows = summarise(scores).set_index("ability")
        lost = set(rows.index[rows["not_computable"] > 0]) - {"average"}
        assert lost == wanted.get(protocol, set()), protocol
        assert rows.loc[rows["not_computable"] > 0, "mean"].isna().all()
        assert rows["mean"].isna().sum() == len(lost) + bool(lost)
        assert rows["unscored"].sum() == 0, protocol  # nothing failed


def test_records_come_back_and_own_ones_keep_their_bytes() -> None:
    for name in ("mem0/10m-top50", "cognee/100k-run1", "truememory/10m-run1"):
        for judgement in judgements(name):
            line = to_json(judgement.model_dump(mode="json"))
            assert Judgement.model_validate_json(line) == judgement
    assert "reported" not in Judgement(probe_id="p", conversation_id="c", ability="abstention").model_dump()
