"""Scores and their spread when every answer is judged several times."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from beamlib.scoring.records import Judgement, NuggetVerdict, RepeatJudgement
from beamlib.scoring.scores import judge_spread, score_run


def verdicts(scores):
    return tuple(
        NuggetVerdict(
            nugget=f"n{k}",
            score=score,
            reason="" if score is not None else "truncated: 64 tokens",
            reply=f'{{"score": {score}}}' if score is not None else "",
        )
        for k, score in enumerate(scores)
    )


def judged(conversation, number, ability, *rounds):
    """A judgement whose r-th repeat gave the r-th list of scores."""
    return Judgement(
        probe_id=f"{conversation}-q{number:02d}",
        conversation_id=conversation,
        ability=ability,
        verdicts=verdicts(rounds[0]) if rounds else (),
        repeats=tuple(RepeatJudgement(verdicts=verdicts(scores)) for scores in rounds[1:]),
        unscored=None if rounds else "the reader failed",
    )


def test_a_score_is_the_mean_over_the_repeats_that_have_one():
    run = [
        judged("100K-1", 0, "abstention", [1.0], [0.0], [0.5]),
        judged("100K-1", 1, "abstention", [None, 1.0], [0.5, 1.0], [0.5, 0.5]),
        judged("100K-1", 2, "summarization", [None], [None], [None]),
        judged("100K-1", 3, "summarization"),
    ]
    table = score_run(run, "paper")
    assert table["probe_id"].tolist() == [judgement.probe_id for judgement in run]
    assert table["score"].tolist()[:2] == [0.5, pytest.approx((0.75 + 0.5) / 2)]
    assert table["score"].isna().tolist() == [False, False, True, True]
    assert table["unscored"].tolist() == ["", "", "1 of 1 nuggets unscored: truncated: 64 tokens", "the reader failed"]
    assert judge_spread(run, "paper").set_index("ability")["missing"].to_dict() == {
        "abstention": 1,
        "summarization": 0,
        "average": 1,
    }


def test_the_released_scorer_stops_in_one_repeat_and_not_in_another():
    run = [
        judged("100K-1", 0, "abstention", [1.0], [1.0]),
        judged("100K-1", 1, "summarization", [None], [1.0]),
        judged("100K-1", 2, "temporal_reasoning", [1.0], [0.0]),
        judged("100K-2", 2, "temporal_reasoning", [1.0], [0.0]),
    ]
    table = score_run(run, "released-code")
    assert table["score"].tolist() == [1.0, 1.0, 0.0, 0.5]
    spread = judge_spread(run, "released-code").set_index("ability")
    assert spread.loc["temporal_reasoning", ["mean_1", "mean_2", "missing"]].tolist() == [1.0, 0.0, 1]


ABILITIES = ("abstention", "event_ordering", "summarization")
SCORES = st.sampled_from([0.0, 0.5, 1.0, 1.0, None])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.data())
def test_the_spread_equals_plain_numpy(repeats, data):
    values, run = {}, []
    for conversation in ("100K-1", "100K-2", "100K-3"):
        for number, ability in enumerate(ABILITIES * 2):
            nuggets = data.draw(st.integers(1, 3))
            drawn = data.draw(
                st.lists(st.lists(SCORES, min_size=nuggets, max_size=nuggets), min_size=repeats, max_size=repeats)
            )
            run.append(judged(conversation, number, ability, *drawn))
            values[conversation, ability, number] = np.array(drawn, dtype=float)  # (repeats, nuggets)
    table = judge_spread(run, "nugget-mean").set_index("ability")
    assert list(table.index) == [*ABILITIES, "average"]

    question = {key: cell.mean(axis=1) for key, cell in values.items()}  # NaN where a nugget has no verdict
    means = np.full((repeats, len(ABILITIES)), np.nan)
    for r in range(repeats):
        for a, ability in enumerate(ABILITIES):
            per_conversation = []
            for conversation in ("100K-1", "100K-2", "100K-3"):
                own = [v[r] for (c, b, _), v in question.items() if (c, b) == (conversation, ability)]
                kept = [value for value in own if not math.isnan(value)]
                per_conversation += [np.mean(kept)] if kept else []
            means[r, a] = np.mean(per_conversation) if per_conversation else np.nan
    wide = np.column_stack([means, means.mean(axis=1)])
    for a, ability in enumerate([*ABILITIES, "average"]):
        row = table.loc[ability]
        np.testing.assert_allclose([row[f"mean_{r + 1}"] for r in range(repeats)], wide[:, a])
        np.testing.assert_allclose(row["sd"], np.std(wide[:, a], ddof=1) if repeats > 1 else np.nan, atol=1e-12)
        cells = [cell for (_, b, _), cell in values.items() if ability in (b, "average")]
        columns = [column[~np.isnan(column)] for cell in cells for column in cell.T]
        changed = [len(np.unique(column)) > 1 for column in columns if len(column) > 1]
        np.testing.assert_allclose(row["changed"], np.mean(changed) if changed else np.nan)
        scored = np.array([v for (_, b, _), v in question.items() if ability in (b, "average")])
        some = ~np.isnan(scored).all(axis=1)
        assert row["n_nuggets"] == len(changed) and row["n_questions"] == some.sum()
        assert row["missing"] == np.isnan(scored[some]).sum()


def test_sizes_stand_apart_and_an_empty_run_has_no_rows():
    run = [judged("10M-1", 0, "abstention", [1.0], [0.0]), judged("100K-1", 0, "abstention", [1.0], [1.0])]
    table = judge_spread(run, "paper")
    assert table["size"].tolist() == ["100K", "100K", "10M", "10M"]
    assert table["changed"].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert judge_spread([], "paper").empty


def test_repeats_judge_the_same_nuggets():
    with pytest.raises(ValidationError, match="the same nuggets"):
        judged("100K-1", 0, "abstention", [1.0], [1.0, 1.0])
