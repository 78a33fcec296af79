"""Judge cards and corrected averages: kappa by its definition, an interval that covers, an order kept or not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from beam_field import card_tables, judge_card, judged_offline
from beam_field.prediction_powered import corrected
from beamlib.errors import UserError
from beamlib.scoring.scores import SCORE_COLUMNS


def test_kappa_is_cohens() -> None:
    # 50 cases, 20 both yes, 15 both no, 5 and 10 apart: the textbook's 0.4
    first = np.repeat([1.0, 1.0, 0.0, 0.0], [20, 5, 10, 15])
    second = np.repeat([1.0, 0.0, 1.0, 0.0], [20, 5, 10, 15])
    assert judge_card.kappa(first, second) == pytest.approx(0.4)
    assert judge_card.kappa(first, first) == 1.0
    assert np.isnan(judge_card.kappa(np.ones(3), np.ones(3)))
    assert np.isnan(judge_card.kappa(np.array([]), np.array([])))


def scores_of(values: np.ndarray, first: int = 0) -> pd.DataFrame:
    """Two questions of each of ten abilities per conversation (rows) with these scores."""
    from beamlib.data.gold import ABILITIES

    rows = [
        (f"1M-{first + c + 1}-q{q:02d}", f"1M-{first + c + 1}", "1M", ABILITIES[q // 2], float(values[c, q]), "")
        for c in range(values.shape[0])
        for q in range(20)
    ]
    return pd.DataFrame(rows, columns=list(SCORE_COLUMNS))


def card_of(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> judge_card.JudgeCard:
    nothing = judge_card.verdict_frame({})
    sides = [
        (name, nothing, {system: scores_of(values) for system, values in own.items()})
        for name, own in (("one", first), ("other", second))
    ]
    return judge_card.judge_card(sides[0], sides[1])


def test_a_card_tells_bias_order_and_the_difference_that_is_within_the_error() -> None:
    draw = np.random.default_rng(0)
    a, b = draw.uniform(0.4, 0.8, (12, 20)), draw.uniform(0.3, 0.7, (12, 20))
    card = card_of({"a": a, "b": b}, {"a": a - 0.1, "b": b + 0.15})
    bias = card.bias.set_index("system")
    assert bias.loc["a", "difference"] == pytest.approx(-0.1)
    assert bias.loc["b", "difference"] == pytest.approx(0.15)
    pair = card.order.iloc[0]
    assert pair["change"] == pytest.approx(-0.25)
    assert not pair["kept"]
    assert card.error >= 0.25
    assert card.alone == 0
    assert any("Differences under" in line for line in card_tables.card_sentences(card))


def test_a_card_over_nothing_in_common_is_refused() -> None:
    with pytest.raises(UserError, match="judged no answer alike"):
        card_of({"a": np.ones((2, 20))}, {"b": np.ones((2, 20))})


def test_one_system_says_that_it_cannot_tell_the_error_of_a_difference() -> None:
    card = card_of({"a": np.full((3, 20), 0.5)}, {"a": np.full((3, 20), 0.6)})
    assert np.isnan(card.error)
    assert any("needs two systems" in line for line in card_tables.card_sentences(card))


@pytest.mark.parametrize(("conversations", "labelled", "noise"), [(35, 10, 0.3), (35, 5, 1.0), (20, 20, 0.3)])
def test_the_corrected_interval_covers(conversations: int, labelled: int, noise: float) -> None:
    """The mean of the better judge lies in about 95 of 100 intervals, whatever the cheap judge is worth."""
    draw, held, samples = np.random.default_rng(7), 0, 400
    for _ in range(samples):
        own = draw.normal(0.6, 0.1, (conversations, 1))
        better = (draw.random((conversations, 20)) < own).astype(float)
        guessed = draw.random((conversations, 20)) < noise
        cheap = np.where(guessed, draw.random((conversations, 20)) < 0.75, better).astype(float)
        labels = np.full_like(better, np.nan)
        chosen = draw.permutation(conversations)[:labelled]
        some = draw.random((len(chosen), 20)) < (1.0 if labelled < conversations else 0.25)
        labels[chosen] = np.where(some, better[chosen], np.nan)
        found = corrected(cheap.ravel(), labels.ravel(), np.repeat(np.arange(conversations), 20))
        held += found.low <= 0.6 <= found.high
    assert 0.92 <= held / samples <= 0.985


@pytest.mark.parametrize("mean", [0.04, 0.96])
@pytest.mark.parametrize("labelled", [10, 20])
def test_the_corrected_interval_covers_skewed_scores(mean: float, labelled: int) -> None:
    """Near 0 and 1, where few conversations hold nearly all that is earned or lost."""
    draw, held, samples = np.random.default_rng(11), 0, 300
    for _ in range(samples):
        own = draw.beta(8 * mean, 8 * (1 - mean), (35, 1))
        better = (draw.random((35, 20)) < own).astype(float)
        cheap = np.where(draw.random((35, 20)) < 0.25, draw.random((35, 20)) < 0.5, better).astype(float)
        labels = np.where(draw.permutation(35)[:, None] < labelled, better, np.nan)
        found = corrected(cheap.ravel(), labels.ravel(), np.repeat(np.arange(35), 20))
        held += found.low <= mean <= found.high
    assert held / samples >= 0.92


def test_a_good_cheap_judge_shortens_the_interval_and_a_bad_one_is_not_believed() -> None:
    draw = np.random.default_rng(3)
    better = (draw.random((35, 20)) < draw.normal(0.6, 0.15, (35, 1))).astype(float)
    labels = np.where(np.arange(35)[:, None] < 10, better, np.nan).ravel()
    units = np.repeat(np.arange(35), 20)
    good = corrected(np.clip(better - 0.1, 0, 1).ravel(), labels, units)
    bad = corrected(draw.random(700), labels, units)
    assert good.power > 0.9
    assert good.high - good.low < 0.7 * (bad.high - bad.low)
    alone = corrected(np.zeros(700), labels, units)
    assert bad.high - bad.low < 1.4 * (alone.high - alone.low)


def test_edges_of_a_correction() -> None:
    nothing = corrected(np.full(4, 0.5), np.full(4, np.nan), np.arange(4))
    assert nothing.n == 0
    assert np.isnan(nothing.mean)
    alone = corrected(np.full(4, 0.5), np.array([1.0, np.nan, np.nan, np.nan]), np.arange(4))
    assert alone.n == 1
    assert np.isnan(alone.low)
    equal = corrected(np.ones(20), np.where(np.arange(20) < 10, 1.0, np.nan), np.arange(20))
    assert equal.mean == 1.0
    assert equal.low < 0.8  # ten labels that are all 1 do not rule out a mean below 1


def test_the_shipped_card_is_of_all_answers_that_both_have_judged() -> None:
    card, judged = judged_offline.shipped_card("nugget-mean")
    overall = card.agreement.set_index("ability").loc[judge_card.ALL]
    assert overall["n"] == 4_830
    assert card.confusion.to_numpy().sum() == overall["n"]
    assert card.alone == 0
    assert (card.bias["conversations"] == 35).all()
    frame = judged_offline.labelled_part(judged, 10, seed=0)
    truth = [own["score"].mean() for own in judged.better.values()]
    assert ((frame["low"] < truth) & (truth < frame["high"])).all()
    assert (frame["labels"] == 200).all()
    assert frame.equals(judged_offline.labelled_part(judged, 10, seed=0))


def test_the_table_of_made_up_answers_has_a_goal_for_each() -> None:
    table = card_tables.made_table()
    assert list(table.cells) == ["answers", "n", "mean", "goal"]
    assert "the reference" in set(table.cells["answers"])
    assert table.cells.notna().all(axis=None)
