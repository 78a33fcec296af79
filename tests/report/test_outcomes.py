"""Where answers are lost: every question has one outcome, by the rules that the notebook prints."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beamlib.report.outcomes import OUTCOMES, outcome_figure, outcome_frame, outcome_rows

NAN = float("nan")


def rows(*scores: float) -> pd.DataFrame:
    ids = [f"100K-{number % 2 + 1}-q{number:02}" for number in range(len(scores))]
    frame = pd.DataFrame({"probe_id": ids, "conversation_id": [key.rpartition("-")[0] for key in ids], "size": "100K"})
    return frame.assign(ability="summarization", score=scores, unscored=["failed" * int(np.isnan(s)) for s in scores])


@pytest.mark.parametrize(
    ("score", "whole", "in_part", "oracle", "spoilt", "outcome"),
    [
        (0.5, 0.0, 0.0, 0.0, True, "right"),
        (NAN, 1.0, 1.0, 1.0, True, "unscored"),
        (0.49, 1.0, 1.0, 0.0, True, "defective question"),
        (0.49, 1.0, 1.0, 0.49, False, "oracle loses it too"),
        (0.0, 1.0, 1.0, 0.5, False, "shown whole, answered wrong"),
        (0.0, 1.0, 1.0, NAN, False, "shown whole, answered wrong"),
        (0.0, 0.5, 0.5, None, False, "shown in part"),
        (0.0, 0.0, 0.5, 1.0, False, "shown in part"),
        (0.0, 0.0, 0.0, 1.0, False, "not shown"),
        (0.0, None, None, 1.0, False, "cites nothing, answered wrong"),
    ],
)
def test_a_question_has_the_first_reason_that_holds(
    score: float, whole: float | None, in_part: float | None, oracle: float | None, spoilt: bool, outcome: str
) -> None:
    frame = rows(score)
    key = frame["probe_id"][0]
    given_values = [{} if value is None else {key: value} for value in (whole, in_part, oracle)]
    assert list(outcome_rows(frame, *given_values, {key} if spoilt else ())["outcome"]) == [outcome]


@settings(max_examples=25)
@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, NAN]), min_size=2, max_size=12), st.data())
def test_the_shares_of_an_arm_sum_to_one(scores: list[float], data: st.DataObject) -> None:
    frame = rows(*scores)
    whole = {key: data.draw(st.sampled_from([0.0, 0.5, 1.0])) for key in frame["probe_id"][::2]}
    shares = outcome_frame({"rag": outcome_rows(frame, whole, whole, {}, ())})
    assert list(dict.fromkeys(shares["outcome"])) == list(OUTCOMES)
    assert shares.groupby(["series", "ability"])["mean"].sum().round(12).eq(1).all()


def test_shares_by_hand_and_the_lengths_of_the_bars() -> None:
    """Two conversations of two questions: shares are means over conversations, with an interval over them."""
    frame = rows(1.0, 0.0, 1.0, 1.0)
    shares = outcome_frame({"rag": outcome_rows(frame, {"100K-2-q01": 0.0}, {"100K-2-q01": 0.0}, {}, ())})
    own = shares[shares["ability"] == "average"].set_index("outcome")
    assert own.loc["right", "mean"] == 0.75 and own.loc["not shown", "mean"] == 0.25
    assert own.loc["right", "low"] < 0.75 < own.loc["right", "high"] and own.loc["right", "conversations"] == 2
    assert own.loc[own["mean"] == 0, ["low", "high"]].isna().all(axis=None) and (own["mean"] == 0).sum() == 6
    bars = outcome_figure(shares).axes[0].containers
    assert [bar.patches[-1].get_width() for bar in bars] == [own.loc[name, "mean"] for name in OUTCOMES]
