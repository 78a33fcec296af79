"""Bootstrap, permutation test and comparison against simple versions of themselves."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beamlib.errors import UserError
from beamlib.scoring.statistics import cluster_bootstrap, compare, interval, sign_flip_test


def frame(values, ability="abstention"):
    """One question per conversation, or several where a value is a list."""
    rows = [
        (f"100K-{c}-q{q:02d}", f"100K-{c}", ability, score)
        for c, value in enumerate(values)
        for q, score in enumerate(value if isinstance(value, list) else [value])
    ]
    return pd.DataFrame(rows, columns=["probe_id", "conversation_id", "ability", "score"])


def test_bootstrap_equals_a_loop_with_gaps():
    cells = np.array([[0.1, np.nan, 0.5], [0.9, np.nan, np.nan], [0.4, np.nan, 1.0], [0.3, np.nan, 0.0]])
    got = cluster_bootstrap(cells, seed=5, resamples=200)
    rng = np.random.default_rng(5)
    for sample, rows in zip(got, rng.integers(4, size=(200, 4)), strict=True):
        for column in range(3):
            values = [cells[row, column] for row in rows if not math.isnan(cells[row, column])]
            assert math.isnan(sample[column]) if not values else sample[column] == pytest.approx(np.mean(values))


def test_interval_of_nothing_is_undefined():
    assert all(math.isnan(bound) for bound in interval(np.array([np.nan, np.nan])))


def test_bootstrap_interval_has_the_width_theory_says():
    values = np.random.default_rng(0).normal(0.5, 0.1, size=400)
    low, high = interval(cluster_bootstrap(values[:, None], seed=1, resamples=4000)[:, 0])
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.06)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([-1.0, -0.5, -0.1, 0.0, 0.1, 0.3, 0.5, 1.0]), min_size=1, max_size=8))
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
    assert (same.difference, same.low, same.high, same.p_value) == (0.0, 0.0, 0.0, 1.0)
    forth, back = compare(a, b), compare(b.sample(frac=1, random_state=1), a)
    assert forth.difference == pytest.approx(-back.difference) and forth.p_value == back.p_value


def test_compare_leaves_out_what_one_side_could_not_score_and_counts_it():
    result = compare(frame([0.9, math.nan, 0.7]), frame([0.5, 0.1, math.nan]))
    assert (result.n, result.unscored) == (1, 2)
    assert result.difference == pytest.approx(0.4)
    assert math.isnan(result.low) and math.isnan(result.high) and result.p_value == 1.0
    nothing = compare(frame([math.nan]), frame([0.5]))
    assert nothing.n == 0 and math.isnan(nothing.difference) and math.isnan(nothing.p_value)


def test_compare_refuses_other_questions():
    with pytest.raises(UserError, match=r"1 only in the first, 0 only in the second, for example 100K-2-q00"):
        compare(frame([0.9, 0.8, 0.7]), frame([0.5, 0.6]))
    with pytest.raises(UserError, match="another ability or conversation"):
        compare(frame([0.9, 0.8]), frame([0.9, 0.8], "summarization"))
