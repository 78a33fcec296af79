"""Judge cards and corrected averages: kappa by its definition, an interval that covers, an order kept or reversed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from beam_field import cards
from beam_field.judge_card import (
    ALL_ABILITIES,
    JudgeCard,
    JudgeScores,
    cohen_kappa,
    correct_mean,
    judge_card,
    nugget_verdicts,
)
from beamlib.data.gold import ABILITIES
from beamlib.errors import UserError
from beamlib.scoring.scores import SCORE_COLUMNS


def test_kappa_is_cohens() -> None:
    # 50 cases, 20 both yes, 15 both no, 5 and 10 apart: the textbook's 0.4
    first = np.repeat([1.0, 1.0, 0.0, 0.0], [20, 5, 10, 15])
    second = np.repeat([1.0, 0.0, 1.0, 0.0], [20, 5, 10, 15])
    assert cohen_kappa(first, second) == pytest.approx(0.4)
    assert cohen_kappa(first, first) == 1.0
    assert np.isnan(cohen_kappa(np.ones(3), np.ones(3)))
    assert np.isnan(cohen_kappa(np.array([]), np.array([])))


def scores_of(values: np.ndarray) -> pd.DataFrame:
    """Return scores of two questions of each of ten abilities per conversation (rows)."""
    rows = [
        (f"1M-{c}-q{q:02d}", f"1M-{c}", "1M", ABILITIES[q // 2], float(score), "")
        for c, own in enumerate(values, start=1)
        for q, score in enumerate(own)
    ]
    return pd.DataFrame(rows, columns=list(SCORE_COLUMNS))


def card_of(**systems: dict[str, np.ndarray]) -> JudgeCard:
    first, second = (
        JudgeScores(name, nugget_verdicts({}), {system: scores_of(values) for system, values in own.items()})
        for name, own in systems.items()
    )
    return judge_card(first, second)


def test_a_card_tells_bias_order_and_the_difference_within_the_error() -> None:
    draw = np.random.default_rng(0)
    a, b = draw.uniform(0.4, 0.8, (12, 20)), draw.uniform(0.3, 0.7, (12, 20))
    card = card_of(first={"a": a, "b": b}, second={"a": a - 0.1, "b": b + 0.15})
    assert card.bias.set_index("system")["difference"].to_dict() == pytest.approx({"a": -0.1, "b": 0.15})
    pair = card.order.iloc[0]
    assert pair["change"] == pytest.approx(-0.25) and not pair["kept"]
    assert card.error == pytest.approx(0.25) and card.alone == 0  # the change is the same in all conversations
    assert any("Differences under" in line for line in cards.card_sentences(card))
    assert not any("no replacement" in line for line in cards.card_sentences(card))
    weak = pd.DataFrame(
        {"ability": [ALL_ABILITIES, *ABILITIES[:3]], "kappa": [0.9, 1.0, 0.3, 0.7], "kappa_half": 1.0, "n": 9}
    )
    (least,) = (line for line in cards.card_sentences(replace(card, agreement=weak)) if "no replacement" in line)
    assert least.startswith("Least on contradiction resolution (0.30): there")
    with pytest.raises(UserError, match="judged no answer alike"):
        card_of(first={"a": a}, second={"b": b})
    alone = card_of(first={"a": np.full((3, 20), 0.5)}, second={"a": np.full((3, 20), 0.6)})
    assert np.isnan(alone.error)
    assert any("needs two systems" in line for line in cards.card_sentences(alone))


def test_equal_verdicts_differ_by_nothing_and_have_no_interval() -> None:
    """The same judge over the same answers is no sample: 0, and nothing that looks like a range."""
    draw = np.random.default_rng(0)
    a, b = draw.uniform(0.4, 0.8, (12, 20)), draw.uniform(0.3, 0.7, (12, 20))
    card = card_of(first={"a": a, "b": b}, second={"a": a, "b": b})
    for row in (*card.bias.to_dict("records"), *card.order.to_dict("records")):
        assert row.get("difference", row.get("change")) == 0 and np.isnan(row["low"]) and np.isnan(row["high"])
    changed = card_of(first={"a": a}, second={"a": np.where(a > 0.79, 0, a)})
    assert not np.isnan(changed.bias["low"]).any()


@pytest.mark.parametrize(
    ("conversations", "labelled", "noise", "mean"),
    [(35, 10, 0.3, 0.6), (35, 5, 1.0, 0.6), (20, 20, 0.3, 0.6), (35, 10, 0.25, 0.04), (35, 10, 0.25, 0.96)],
)
def test_the_corrected_interval_covers(conversations: int, labelled: int, noise: float, mean: float) -> None:
    """The better judge's mean lies in about 95 of 100 intervals, whatever the cheap judge is worth."""
    draw, covered, samples = np.random.default_rng(7), 0, 400
    for _ in range(samples):
        own = draw.beta(8 * mean, 8 * (1 - mean), (conversations, 1))
        better = (draw.random((conversations, 20)) < own).astype(float)
        cheap = np.where(draw.random((conversations, 20)) < noise, draw.random((conversations, 20)) < 0.6, better)
        labels = np.where(draw.permutation(conversations)[:, None] < labelled, better, np.nan)
        if labelled == conversations:  # a part of every conversation
            labels[draw.random(labels.shape) < 0.75] = np.nan
        found = correct_mean(cheap.astype(float).ravel(), labels.ravel(), np.repeat(np.arange(conversations), 20))
        covered += found.low <= mean <= found.high
    assert 0.92 <= covered / samples <= (0.985 if mean == 0.6 else 1)


def test_a_good_cheap_judge_shortens_the_interval_and_a_bad_one_is_not_believed() -> None:
    draw = np.random.default_rng(3)
    better = (draw.random((35, 20)) < draw.normal(0.6, 0.15, (35, 1))).astype(float)
    labels = np.where(np.arange(35)[:, None] < 10, better, np.nan).ravel()
    units = np.repeat(np.arange(35), 20)
    judges = (np.clip(better - 0.1, 0, 1).ravel(), draw.random(700), np.zeros(700))
    good, bad, alone = (correct_mean(cheap, labels, units) for cheap in judges)
    assert good.power > 0.9
    assert good.high - good.low < 0.7 * (bad.high - bad.low)
    assert bad.high - bad.low < 1.4 * (alone.high - alone.low)


def test_edges_of_a_correction() -> None:
    nothing = correct_mean(np.full(4, 0.5), np.full(4, np.nan), np.arange(4))
    assert nothing.n == 0 and np.isnan(nothing.mean)
    alone = correct_mean(np.full(4, 0.5), np.array([1.0, np.nan, np.nan, np.nan]), np.arange(4))
    assert alone.n == 1 and np.isnan(alone.low)
    equal = correct_mean(np.ones(20), np.where(np.arange(20) < 10, 1.0, np.nan), np.arange(20))
    assert equal.mean == 1.0
    assert np.isnan(equal.low) and np.isnan(equal.high)  # ten labels that are all 1 show no spread


def test_the_shipped_card_is_of_all_answers_that_both_have_judged() -> None:
    card, judges = cards.shipped_card("nugget-mean")
    overall = card.agreement.set_index("ability").loc[ALL_ABILITIES]
    assert overall["n"] == 4_830 == card.confusion.to_numpy().sum()
    assert card.alone == 0 and (card.bias["conversations"] == 35).all()
    frame = cards.corrected_by_part(judges, 10, seed=0)
    truth = [own["score"].mean() for own in judges[0].scores.values()]
    assert ((frame["low"] < truth) & (truth < frame["high"])).all()
    assert (frame["labels"] == 200).all()
    assert frame.equals(cards.corrected_by_part(judges, 10, seed=0))
    table = cards.deception_table()
    assert list(table.cells) == ["answers", "n", "mean", "goal"]
    assert "the reference" in set(table.cells["answers"])
