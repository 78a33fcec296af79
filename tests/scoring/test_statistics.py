"""Intervals against scipy and by simulation, permutation test and comparison against simple versions of themselves."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from beamlib.errors import UserError
from beamlib.scoring.intervals import (
    compare,
    conversation_values,
    difference_interval,
    holm,
    interval_note,
    mean_interval,
    sign_flip_test,
)

SCORES = st.lists(st.integers(0, 40).map(lambda step: step / 40), min_size=2, max_size=12)


def frame(values, ability="abstention"):
    """One question per conversation, or several where a value is a list."""
    rows = [
        (f"100K-{c}-q{q:02d}", f"100K-{c}", ability, score)
        for c, value in enumerate(values)
        for q, score in enumerate(value if isinstance(value, list) else [value])
    ]
    return pd.DataFrame(rows, columns=["probe_id", "conversation_id", "ability", "score"])


@pytest.mark.parametrize("n", [2, 3, 5, 10, 35])
def test_the_interval_of_a_difference_is_scipys(n):
    a, b = np.random.default_rng(n).uniform(0.35, 0.65, size=(2, n))
    expected = stats.ttest_rel(a, b).confidence_interval(0.95)
    if n > 2:
        assert difference_interval(a - b) == pytest.approx(expected)
    result = compare(frame(a), frame(b))
    assert (result.low, result.high) == pytest.approx((max(-1, expected.low), min(1, expected.high)))


@pytest.mark.parametrize("n", [2, 5, 35])
def test_the_interval_of_a_mean_is_students_on_the_logit_scale(n):
    scores = np.random.default_rng(n).beta(2, 5, size=n)
    mean, error = scores.mean(), stats.sem(scores) / (scores.mean() * (1 - scores.mean()))
    low, high = stats.t.interval(0.95, n - 1, math.log(mean / (1 - mean)), error)
    assert mean_interval(scores) == pytest.approx((1 / (1 + math.exp(-low)), 1 / (1 + math.exp(-high))))


@settings(max_examples=100, deadline=None)
@given(SCORES, st.randoms(use_true_random=False))
def test_a_mean_lies_inside_its_interval_and_nothing_else_matters(scores, random):
    values = np.array(scores)
    low, high = mean_interval(values)
    if len(set(scores)) == 1:
        assert math.isnan(low) and math.isnan(high)
        return
    assert 0 <= low <= values.mean() + 1e-12 and values.mean() - 1e-12 <= high <= 1
    assert high - low > 0.01  # never certain
    random.shuffle(scores)
    assert mean_interval(np.array(scores)) == pytest.approx((low, high))
    assert mean_interval(1 - values) == pytest.approx((1 - high, 1 - low), abs=1e-9)


@pytest.mark.parametrize("n", [2, 10, 35])
@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1.0])
def test_equal_scores_have_no_interval(n, value):
    """They show no spread. Beside others in one array each row is judged by itself."""
    for interval in (mean_interval, difference_interval):
        assert np.isnan(interval(np.full(n, value))).all()
        both = interval(np.stack([np.full(n, value), np.linspace(0.2, 0.7, n)]))
        assert np.isnan(both[:, 0]).all() and not np.isnan(both[:, 1]).any()


def test_one_conversation_has_no_interval_and_says_so():
    for interval in (mean_interval, difference_interval):
        assert all(math.isnan(end) for end in interval(np.array([0.4])))
    assert "n = 1" in interval_note(1) and "t-interval" not in interval_note(1)
    assert "t-interval over conversations (n = 20)" in interval_note(20)


def test_a_ratio_has_the_interval_of_its_linear_part():
    sums, counts = np.array([1.0, 0.5, 2.0, 0.0]), np.array([2.0, 1.0, 4.0, 2.0])
    values = conversation_values(sums, counts)
    assert values.mean() == pytest.approx(3.5 / 9)
    residuals = sums - 3.5 / 9 * counts  # the textbook's standard error of a ratio of sums over clusters
    error = math.sqrt((residuals**2).sum() * 4 / 3) / 9
    assert stats.sem(values) == pytest.approx(error)
    np.testing.assert_allclose(conversation_values(sums, np.full(4, 3.0)), sums / 3)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([-1.0, -0.5, -0.1, 0.0, 0.1, 0.3, 0.5, 1.0]), min_size=2, max_size=8))
def test_sign_flips_equal_brute_force(differences):
    observed = abs(math.fsum(differences))
    reached = [
        abs(math.fsum(sign * d for sign, d in zip(signs, differences, strict=True))) >= observed - 1e-9
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    assert sign_flip_test(np.array(differences)) == sum(reached) / len(reached)


def test_sign_flips_by_chance_come_close_to_the_exact_value():
    differences = np.array([0.3, 0.1, -0.2, 0.4, 0.2, 0.1, 0.3, -0.1, 0.2, 0.1, 0.0, 0.2, 0.1, -0.3])
    exact = np.mean(
        [
            abs(np.dot(signs, differences)) >= abs(differences.sum()) - 1e-9
            for signs in itertools.product((1, -1), repeat=len(differences))
        ]
    )
    assert sign_flip_test(differences, seed=2) == pytest.approx(exact, abs=0.01)
    assert sign_flip_test(differences, seed=2) == sign_flip_test(differences, seed=2)


def test_a_random_test_never_gives_zero():
    assert sign_flip_test(np.ones(40), resamples=99) == 1 / 100


def test_compare_pairs_conversations():
    result = compare(frame([0.9, 0.8, [1.0, 0.6]]), frame([0.5, 0.8, [0.4, 0.2]]))
    assert result.difference == pytest.approx((0.4 + 0.0 + 0.5) / 3)
    assert (result.n, result.unscored) == (3, 0)
    assert result.p_value == 0.5  # of eight patterns, four reach the observed sum
    assert result.low <= result.difference <= result.high


def test_compare_weighs_abilities_alike_within_a_conversation():
    a = pd.concat([frame([[1.0, 1.0, 1.0]]), frame([0.0], "summarization").assign(probe_id="100K-0-q09")])
    b = a.assign(score=0.0)
    assert compare(a, b).difference == 0.5


def test_compare_a_method_with_itself_and_its_mirror():
    a, b = frame([0.9, 0.4, 0.7, 0.2]), frame([0.5, 0.6, 0.1, 0.3])
    same = compare(a, a)
    assert (same.difference, same.p_value) == (0.0, 1.0) and math.isnan(same.low) and math.isnan(same.high)
    forth, back = compare(a, b), compare(b.sample(frac=1, random_state=1), a)
    assert forth.difference == pytest.approx(-back.difference) and forth.p_value == back.p_value


def test_compare_leaves_out_what_one_side_could_not_score_and_counts_it():
    result = compare(frame([0.9, math.nan, 0.7]), frame([0.5, 0.1, math.nan]))
    assert (result.n, result.unscored) == (1, 2)
    assert result.difference == pytest.approx(0.4)
    assert math.isnan(result.low) and math.isnan(result.high) and math.isnan(result.p_value)
    nothing = compare(frame([math.nan]), frame([0.5]))
    assert nothing.n == 0 and math.isnan(nothing.difference) and math.isnan(nothing.p_value)


def test_compare_refuses_other_questions():
    with pytest.raises(UserError, match=r"1 only in the first, 0 only in the second, for example 100K-2-q00"):
        compare(frame([0.9, 0.8, 0.7]), frame([0.5, 0.6]))
    with pytest.raises(UserError, match="another ability or conversation"):
        compare(frame([0.9, 0.8]), frame([0.9, 0.8], "summarization"))


def test_holm_equals_its_definition() -> None:
    """Sorted p-values times the number of hypotheses that are left, never falling, at most 1 (Holm 1979)."""
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert holm([0.04, float("nan"), 0.01])[::2] == pytest.approx([0.04, 0.02])
    assert holm([]) == [] and holm([0.7, 0.8]) == [1.0, 1.0]


@pytest.mark.slow
def test_of_fifty_comparisons_without_a_difference_hardly_any_table_differs() -> None:
    """Ten abilities times five ablations, n = 20: plain tests find some in most tables, corrected ones hardly."""
    draws = np.random.default_rng(4).normal(size=(400, 50, 20))
    p_values = 2 * stats.t.sf(abs(draws.mean(-1)) / (draws.std(-1, ddof=1) / np.sqrt(20)), 19)
    plain = (p_values < 0.05).any(axis=1).mean()
    corrected = np.mean([min(holm(list(row))) < 0.05 for row in p_values])
    assert plain > 0.85 and corrected < 0.08
