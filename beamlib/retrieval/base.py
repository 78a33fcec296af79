"""What every index offers: scores for its owners, and the best of them in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from beamlib.errors import UserError

Scores = NDArray[np.float32]

Keys = Sequence[Sequence[str]]
"""One entry per owner (a pair's position in the conversation): the texts under which it can be found."""


@dataclass(frozen=True, slots=True)
class Hit:
    """An owner found by a search, and its score (higher is better; comparable within one search only)."""

    owner: int
    score: float


class Index(Protocol):
    """An index over owners, built from their keys."""

    def search(self, query: str, k: int) -> list[Hit]:
        """The `k` best owners, best first."""
        ...


def best(scores: Scores, k: int) -> list[Hit]:
    """The `k` highest scores as hits, best first; equal scores keep owner order, so a search is repeatable."""
    return top(np.argsort(-scores, kind="stable").tolist(), scores, k)


def top(order: Sequence[int], scores: Scores, k: int) -> list[Hit]:
    """The first `k` owners of `order` as hits."""
    if k < 1:
        raise UserError(f"k is {k}, but a search returns at least one pair; give a k of 1 or more.")
    return [Hit(owner, float(scores[owner])) for owner in order[:k]]
