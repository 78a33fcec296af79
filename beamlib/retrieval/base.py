"""What every index is built from and offers: documents, scores for their owners, the best of them in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from beamlib.errors import UserError

Scores = NDArray[np.floating[Any]]

Keys = Sequence[Sequence[str]]
"""One entry per owner (a pair's position in the conversation): the texts under which it can be found."""


@dataclass(frozen=True, slots=True)
class Document:
    """What an owner is found by.

    `keys` are the texts that the plain retrievers search (`bm25`, `dense`, `splade`). The hybrid ones look at two
    things apart: `lines`, each of which says one thing of what the owner is about, and `body`, what else there is to
    read in it. `session` numbers the part of the conversation that the owner stands in.
    """

    keys: Sequence[str]
    lines: Sequence[str]
    body: str = ""
    session: int = 0


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


def standardised(scores: ArrayLike) -> NDArray[np.float64]:
    """Scores shifted and scaled to mean 0 and deviation 1 over the owners; constant scores become 0."""
    wide = np.asarray(scores, dtype=np.float64)
    spread = wide.std() if wide.size else 0.0
    return (wide - wide.mean()) / spread if spread > 1e-9 else np.zeros_like(wide)
