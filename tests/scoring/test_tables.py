"""Scores per question, and their means."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from beamlib.errors import UserError
from beamlib.scoring.intervals import mean_interval
from beamlib.scoring.records import Judgement, NuggetVerdict
from beamlib.scoring.scores import (
    SCORE_COLUMNS,
    SUMMARY_COLUMNS,
    average_values,
    score_run,
    summarise,
    unscored_reasons,
)


def judged(conversation, number, ability, *scores):
    verdicts = tuple(
        NuggetVerdict(nugget=f"n{k}", score=score, reason="" if score is not None else "429")
        for k, score in enumerate(scores)
    )
    return Judgement(
        probe_id=f"{conversation}-q{number:02d}",
        conversation_id=conversation,
        ability=ability,
        verdicts=verdicts,
        unscored=None if scores else "the reader failed",
    )


RUN = [
    judged("100K-1", 0, "abstention", 1.0),
    judged("100K-1", 1, "abstention", 0.5, 0.0),
    judged("100K-1", 2, "summarization", 0.5, 0.5, 0.5, 0.5),
    judged("100K-2", 0, "abstention", 0.0),
    judged("100K-2", 1, "abstention"),
    judged("100K-2", 2, "summarization", 1.0, None),
    judged("100K-3", 0, "abstention", 1.0),
    judged("100K-3", 2, "summarization", 1.0),
]


def test_one_row_per_question_in_order():
    table = score_run(RUN, "paper")
    assert list(table.columns) == list(SCORE_COLUMNS)
    assert list(table["probe_id"]) == [judgement.probe_id for judgement in RUN]
    assert set(table["size"]) == {"100K"}
    assert table["score"].tolist()[:4] == [1.0, 0.25, 0.5, 0.0]
    assert table["unscored"].tolist()[3:6] == ["", "the reader failed", "1 of 2 nuggets unscored: 429"]
    assert table["score"].isna().tolist()[3:6] == [False, True, True]


def test_means_are_over_questions_then_conversations_and_never_count_the_unscored():
    table = summarise(score_run(RUN, "paper")).set_index("ability")
    assert list(table.index) == ["abstention", "summarization", "average"]
    assert table.loc["abstention", "mean"] == pytest.approx((0.625 + 0.0 + 1.0) / 3)
    assert table.loc["summarization", "mean"] == pytest.approx((0.5 + 1.0) / 2)
    assert table.loc["average", "mean"] == pytest.approx((1.625 / 3 + 0.75) / 2)
    assert table["n_questions"].tolist() == [4, 2, 6]
    assert table["n_conversations"].tolist() == [3, 2, 3]
    assert table["unscored"].tolist() == [1, 1, 2]
    assert (table["low"] <= table["mean"]).all() and (table["mean"] <= table["high"]).all()


def test_sizes_are_never_mixed():
    run = [*RUN, judged("10M-4", 0, "abstention", 0.0), judged("1M-2", 0, "abstention", 1.0)]
    table = summarise(score_run(run, "paper"))
    assert list(table.columns) == list(SUMMARY_COLUMNS)
    assert list(dict.fromkeys(table["size"])) == ["100K", "1M", "10M"]
    assert table[table["size"] == "10M"]["mean"].tolist() == [0.0, 0.0]


def test_one_conversation_has_no_interval():
    table = summarise(score_run(RUN[:3], "paper"))
    assert table["low"].isna().all() and table["high"].isna().all() and table["mean"].notna().all()


def test_an_ability_without_any_score_has_no_mean_and_neither_has_the_average():
    run = [*RUN, *(judged(f"100K-{n}", 8, "temporal_reasoning") for n in (1, 2, 3))]
    table = summarise(score_run(run, "paper")).set_index("ability")
    assert math.isnan(table.loc["temporal_reasoning", "mean"]) and math.isnan(table.loc["average", "mean"])
    assert table.loc["temporal_reasoning", ["n_questions", "n_conversations", "unscored"]].tolist() == [0, 0, 3]


def test_intervals_are_over_the_conversations_that_were_scored():
    table = summarise(score_run(RUN, "paper")).set_index("ability")
    for ability, values in (("abstention", [0.625, 0.0, 1.0]), ("summarization", [0.5, 1.0])):
        assert table.loc[ability, ["low", "high"]].tolist() == pytest.approx(mean_interval(np.array(values)))


def test_with_gaps_an_average_keeps_its_mean_and_the_spread_of_resampled_ones():
    cells = np.random.default_rng(0).uniform(size=(40, 3))
    cells[:8, 0] = cells[30:, 1] = np.nan
    values = average_values(cells)
    assert values.mean() == pytest.approx(np.nanmean(cells, axis=0).mean())
    drawn = cells[np.random.default_rng(1).integers(40, size=(4000, 40))]
    assert stats.sem(values) == pytest.approx(np.nanmean(drawn, axis=1).mean(axis=-1).std(), rel=0.05)


def test_an_average_with_a_part_of_one_conversation_has_no_interval():
    run = [*RUN, judged("100K-2", 8, "temporal_reasoning", 1.0)]
    table = summarise(score_run(run, "paper")).set_index("ability")
    assert table.loc[["temporal_reasoning", "average"], ["low", "high"]].isna().all(axis=None)
    assert table["mean"].notna().all() and table.loc["abstention", ["low", "high"]].notna().all()


def test_nothing_judged_gives_empty_tables():
    scores = score_run([], "paper")
    assert list(scores.columns) == list(SCORE_COLUMNS) and scores.empty
    assert list(summarise(scores).columns) == list(SUMMARY_COLUMNS)


def test_bad_input_is_one_sentence():
    with pytest.raises(UserError, match="100K-1-q00 occurs twice"):
        score_run([RUN[0], RUN[0]], "paper")
    with pytest.raises(UserError, match="'median' is not one of paper"):
        score_run(RUN, "median")


def test_missing_scores_are_counted_by_named_outcome():
    def unscored(number, reason):
        return Judgement(
            probe_id=f"100K-1-q{number:02d}", conversation_id="100K-1", ability="abstention", unscored=reason
        )

    lost = NuggetVerdict(nugget="n", score=None, reason="truncated: 64 tokens")
    judgements = [
        judged("100K-1", 0, "abstention", 1.0),
        unscored(1, "content filter: the provider withheld it"),
        unscored(2, "truncated: 512 tokens"),
        Judgement(probe_id="100K-1-q03", conversation_id="100K-1", ability="abstention", verdicts=(lost,)),
        unscored(4, "an event could not be aligned: truncated: 8 tokens"),
        unscored(5, "a reason of " + "many " * 40 + "words"),
        judged("100K-1", 6, "abstention", None),
    ]
    counts = unscored_reasons(score_run(judgements, "paper"))
    assert list(counts.items())[:3] == [("truncated", 3), ("429", 1), ("a reason of " + "many " * 9 + "...", 1)]
    assert counts["content filter"] == 1 and sum(counts.values()) == 6
    assert unscored_reasons(score_run(RUN[:4], "paper")) == {}
