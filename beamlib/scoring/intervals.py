"""Intervals and tests over conversations: questions of one conversation are not independent.

Paper tables print bare means. Here each mean has a 95 % interval over conversations, by Student's t with n - 1 degrees
of freedom. A difference between two methods has an interval over paired conversations and a sign-flip test. A
percentile bootstrap would be too short with few conversations. `benchmarks/intervals.py` measures the coverage of each
interval by simulation.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit, stdtrit

from beamlib.errors import UserError
from beamlib.scoring.protocols import NOT_COMPUTABLE

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[np.float64]

LEVEL = 0.95
EXACT_UP_TO = 12
"""Conversations up to which all 2^n sign patterns are tried instead of a random sample."""
SEED, RESAMPLES = 0, 10_000
"""For drawing sign patterns. The page draws them again, hence numpy's default generator and a choice of two."""

_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Comparison:
    """Method a minus method b on the same questions.

    Attributes:
        difference: The mean over `n` conversations, with its 95 % interval from `low` to `high`: NaN for fewer than two
            conversations, and where all have the same difference.
        p_value: Two-sided, NaN for fewer than two conversations.
        unscored: Questions that were left out on both sides.
    """

    difference: float
    low: float
    high: float
    p_value: float
    n: int
    unscored: int


def interval_note(n: int) -> str:
    """Describe the intervals of means over `n` conversations for a footer."""
    if n < 2:
        return f"none (n = {n}: one conversation shows no spread, so differences rank nothing)"
    return f"95 % t-interval over conversations (n = {n}), logit scale"


def mean_interval(scores: Array) -> Array:
    """Compute the 95 % interval of a mean of scores from 0 to 1.

    Student's t on the logit scale: t standard errors either way, divided by mean x (1 - mean). In mid-range that is the
    plain t-interval. Near 0 and 1, where scores pile up on one side, it reaches further to the other, and it never
    leaves the range. Equal scores have no interval: they show no spread that one could rest on.

    Args:
        scores: Shape (..., n), one score per conversation.

    Returns:
        The ends, shape (2, ...), NaN for n < 2 and for equal scores.
    """
    return np.where(are_equal(scores), np.nan, logit_interval(*_student(scores)))


def logit_interval(mean: float | Array, half: float | Array) -> Array:
    """Compute the ends, shape (2, ...), of the interval `half` either side of a mean in [0, 1], on the logit scale."""
    inside = np.clip(mean, _TINY, 1 - _TINY)
    reach = half / (inside * (1 - inside))
    ends: Array = expit(logit(inside) + np.stack([-reach, reach]))
    return ends


def difference_interval(differences: Array) -> Array:
    """Compute the 95 % interval of a mean of paired differences from -1 to 1; shapes as in `mean_interval`.

    The plain t-interval, clipped to the range. Equal differences have none.
    """
    mean, half = _student(differences)
    return np.where(are_equal(differences), np.nan, np.stack([mean - half, mean + half]).clip(-1, 1))


def are_equal(values: Array) -> npt.NDArray[np.bool_]:
    """Tell where all n values of the last axis are the same, for n of two and more."""
    if values.shape[-1] < 2:
        return np.zeros(values.shape[:-1], dtype=np.bool_)
    return np.asarray(np.ptp(values, axis=-1) < _TINY)


def _student(values: Array) -> tuple[Array, Array]:
    """Compute the mean and half the width of its plain t-interval; NaN for n < 2."""
    n = values.shape[-1]
    if n < 2:
        nothing = np.full(values.shape[:-1], np.nan)
        return nothing, nothing
    return values.mean(axis=-1), stdtrit(n - 1, (1 + LEVEL) / 2) * values.std(axis=-1, ddof=1) / np.sqrt(n)


def conversation_values(sums: Array, counts: Array) -> Array:
    """Linearise a ratio: compute values per conversation whose plain mean is `sums.sum() / counts.sum()`.

    The spread of these values is, to first order, that of the ratio when conversations are drawn, so an interval for
    their mean is one for the ratio. With equal counts they are the conversations' own means. All shapes are (..., n).
    """
    ratio = sums.sum(axis=-1, keepdims=True) / counts.sum(axis=-1, keepdims=True)
    values: Array = ratio + (sums - ratio * counts) / counts.mean(axis=-1, keepdims=True)
    return values


def sign_flip_test(differences: Array, seed: int = SEED, resamples: int = RESAMPLES) -> float:
    """Compute the two-sided p-value of paired `differences` (one per conversation) under random signs.

    Exact up to `EXACT_UP_TO` values; beyond, `resamples` random patterns and the observed one are counted.
    NaN for fewer than two values: one difference has the same size under either sign.
    """
    n = len(differences)
    if n < 2:
        return float("nan")
    exact = n <= EXACT_UP_TO
    if exact:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=n)))
    else:
        signs = np.random.default_rng(seed).choice(np.array([1.0, -1.0]), size=(resamples, n))
    # Sums that are equal but for rounding must count as equal: hence the tolerance, relative to the data.
    tolerance = _TINY * max(1.0, float(np.abs(differences).sum()))
    reached = np.abs(signs @ differences) >= abs(differences.sum()) - tolerance
    return float(reached.mean() if exact else (reached.sum() + 1) / (resamples + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct the p-values of one table by Holm's step-down method; NaN, where there is no test, stays and counts none.

    The chance that any of the corrected values of true hypotheses is at most alpha is at most alpha.
    """
    tested = sorted((value, place) for place, value in enumerate(p_values) if not np.isnan(value))
    corrected, least = [float("nan")] * len(p_values), 0.0
    for rank, (value, place) in enumerate(tested):
        corrected[place] = least = max(least, min(1.0, value * (len(tested) - rank)))
    return corrected


def compare(scores_a: pd.DataFrame, scores_b: pd.DataFrame, seed: int = SEED) -> Comparison:
    """Compare two methods on the same questions.

    A conversation counts with the mean of its ability means, over the questions that both methods have a score for. If
    a question is not computable from its source, there is no comparison (NaN over no conversation): the rest would not
    be the average.

    Args:
        scores_a: A table of `beamlib.scoring.scores.score_run`. Select an ability first to compare on it alone.
        scores_b: The other method's table.
        seed: For the signs of the test.

    Raises:
        UserError: If the two question sets differ.
    """
    only_a = sorted(set(scores_a["probe_id"]) - set(scores_b["probe_id"]))
    only_b = sorted(set(scores_b["probe_id"]) - set(scores_a["probe_id"]))
    if only_a or only_b:
        raise UserError(
            f"comparison: the two runs answer different questions ({len(only_a)} only in the first, {len(only_b)} only"
            f" in the second, for example {(only_a or only_b)[0]}); compare runs over the same question set."
        )
    keys = ["probe_id", "conversation_id", "ability"]
    columns = [*keys, "score"]
    both = scores_a[columns].merge(scores_b[columns], on=keys, suffixes=("_a", "_b"), validate="one_to_one")
    if len(both) != len(scores_a):
        raise UserError(
            "comparison: some questions have another ability or conversation in the second run than in the first;"
            " score both runs on the same data."
        )
    nan = float("nan")
    reasons = [scores["unscored"] for scores in (scores_a, scores_b) if "unscored" in scores]
    if any(reason.str.startswith(NOT_COMPUTABLE).any() for reason in reasons):
        return Comparison(nan, nan, nan, nan, 0, len(both))
    scored = both.dropna(subset=["score_a", "score_b"])
    by_question = scored["score_a"] - scored["score_b"]
    by_ability = by_question.groupby([scored["conversation_id"], scored["ability"]]).mean()
    differences = by_ability.groupby(level="conversation_id").mean().to_numpy(dtype=np.float64)
    mean, low, high = nan, nan, nan
    if len(differences):
        mean = float(differences.mean())
        low, high = map(float, difference_interval(differences))
    p_value = sign_flip_test(differences, seed)
    return Comparison(mean, low, high, p_value, len(differences), len(both) - len(scored))
