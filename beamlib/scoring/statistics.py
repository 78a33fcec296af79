"""Uncertainty that respects the data: questions of one conversation go together, so conversations are resampled.

Paper tables print bare means. Here each mean has a percentile interval from a cluster bootstrap over conversations,
and a difference between two methods a sign-flip test on per-conversation means.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from beamlib.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[np.float64]

LEVEL = 0.95
EXACT_UP_TO = 12
"""Conversations up to which all 2^n sign patterns are tried instead of a random sample."""

_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Comparison:
    """Method a minus method b on the same questions.

    `difference` is the mean over `n` conversations, `low` and `high` its 95 % bootstrap interval (NaN for fewer than
    two conversations), `p_value` two-sided. `unscored` questions were left out on both sides.
    """

    difference: float
    low: float
    high: float
    p_value: float
    n: int
    unscored: int


def cluster_bootstrap(cells: Array, seed: int = 0, resamples: int = 2000) -> Array:
    """Column means under resampling of rows: `cells` is (conversations, columns), the result (resamples, columns).

    NaN cells are left out of a mean; a mean over none of them is NaN. Each resample draws the same rows for every
    column, so that columns may be combined afterwards.
    """
    rows = len(cells)
    draws = np.random.default_rng(seed).integers(rows, size=(resamples, rows))
    offsets = draws + rows * np.arange(resamples)[:, None]
    weights = np.bincount(offsets.ravel(), minlength=resamples * rows).reshape(resamples, rows).astype(np.float64)
    held = ~np.isnan(cells)
    counts = weights @ held.astype(np.float64)
    sums = weights @ np.where(held, cells, 0.0)
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def interval(samples: Array) -> tuple[float, float]:
    """Percentile interval of one column of resampled means; samples that are NaN are left out."""
    kept = samples[~np.isnan(samples)]
    if not kept.size:
        return float("nan"), float("nan")
    low, high = np.quantile(kept, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def sign_flip_test(differences: Array, seed: int = 0, resamples: int = 10_000) -> float:
    """Two-sided p-value of paired `differences` (one per conversation) under random signs.

    Exact up to `EXACT_UP_TO` values; beyond, `resamples` random patterns with the observed one counted in.
    NaN without any difference.
    """
    n = len(differences)
    if n == 0:
        return float("nan")
    observed = abs(differences.sum())
    if n <= EXACT_UP_TO:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=n)))
    else:
        signs = np.random.default_rng(seed).choice(np.array([1.0, -1.0]), size=(resamples, n))
    # Sums that are equal but for rounding must count as equal: hence the tolerance, relative to the data.
    reached = np.abs(signs @ differences) >= observed - _TINY * max(1.0, float(np.abs(differences).sum()))
    if n <= EXACT_UP_TO:
        return float(reached.mean())
    return float((reached.sum() + 1) / (resamples + 1))


def compare(scores_a: pd.DataFrame, scores_b: pd.DataFrame, seed: int = 0, resamples: int = 2000) -> Comparison:
    """Compare two methods on the same questions; both frames as `beamlib.scoring.tables.score_run` makes them.

    A conversation counts with the mean of its ability means, over the questions that both methods have a score for.
    Raises `UserError` if the two question sets differ. Select an ability before calling to compare on it alone.
    """
    both = _paired(scores_a, scores_b)
    scored = both.dropna(subset=["score_a", "score_b"])
    differences = (
        (scored["score_a"] - scored["score_b"])
        .groupby([scored["conversation_id"], scored["ability"]])
        .mean()
        .groupby(level="conversation_id")
        .mean()
        .to_numpy(dtype=np.float64)
    )
    n = len(differences)
    low, high = (float("nan"), float("nan"))
    if n > 1:
        low, high = interval(cluster_bootstrap(differences[:, None], seed, resamples)[:, 0])
    mean = float(differences.mean()) if n else float("nan")
    return Comparison(mean, low, high, sign_flip_test(differences, seed), n, len(both) - len(scored))


def _paired(scores_a: pd.DataFrame, scores_b: pd.DataFrame) -> pd.DataFrame:
    keys = ["probe_id", "conversation_id", "ability"]
    only_a = sorted(set(scores_a["probe_id"]) - set(scores_b["probe_id"]))
    only_b = sorted(set(scores_b["probe_id"]) - set(scores_a["probe_id"]))
    if only_a or only_b:
        example = (only_a or only_b)[0]
        raise UserError(
            f"comparison: the two runs answer different questions ({len(only_a)} only in the first, {len(only_b)} only"
            f" in the second, for example {example}); compare runs over the same question set."
        )
    columns = [*keys, "score"]
    both = scores_a[columns].merge(scores_b[columns], on=keys, suffixes=("_a", "_b"), validate="one_to_one")
    if len(both) != len(scores_a):
        raise UserError(
            "comparison: some questions have another ability or conversation in the second run than in the first;"
            " score both runs on the same data."
        )
    return both
