"""Several rankings into one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beamlib.retrieval.base import Scores

RRF_CONSTANT = 60
"""The customary constant of reciprocal rank fusion (Cormack et al., 2009)."""


def reciprocal_rank(rankings: Sequence[Scores], weights: Sequence[float]) -> Scores:
    """Sum over rankings of weight / (60 + rank), ranks from 1, equal scores in owner order."""
    total = np.zeros(len(rankings[0]), dtype=np.float64)
    for scores, weight in zip(rankings, weights, strict=True):
        ranks = np.empty(len(scores), dtype=np.float64)
        ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
        total += weight / (RRF_CONSTANT + ranks)
    return total.astype(np.float32)


def standardised(scores: Scores) -> Scores:
    """Scores shifted and scaled to mean 0 and deviation 1 over the owners; constant scores become 0."""
    wide = scores.astype(np.float64)
    spread = wide.std() if wide.size else 0.0
    return ((wide - wide.mean()) / spread if spread > 1e-9 else np.zeros_like(wide)).astype(np.float32)


def weighted(rankings: Sequence[Scores], weights: Sequence[float]) -> Scores:
    """Weighted sum of standardised scores."""
    total = np.zeros(len(rankings[0]), dtype=np.float64)
    for scores, weight in zip(rankings, weights, strict=True):
        total += weight * standardised(scores)
    return total.astype(np.float32)
