"""The interface of an index: documents in, the best owners with their scores out, in a fixed order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from beamlib.errors import UserError

Scores = NDArray[np.floating[Any]]

Keys = Sequence[Sequence[str]]
"""The texts under which each owner (a pair, by its position in the conversation) can be found."""


@dataclass(frozen=True, slots=True)
class Document:
    """The searchable text of an owner.

    Attributes:
        keys: Texts for the plain retrievers (`bm25`, `dense`, `splade`).
        lines: For the hybrid retrievers: statements about the owner, one each.
        body: For the hybrid retrievers: the rest of its text.
        session: The number of its part of the conversation.
    """

    keys: Sequence[str]
    lines: Sequence[str]
    body: str = ""
    session: int = 0


@dataclass(frozen=True, slots=True)
class Hit:
    """An owner and its score: higher is better, comparable within one search only."""

    owner: int
    score: float


class Index:
    """An index over owners: `scores` or `search` is its own.

    Args:
        texts: The whole text of every owner, which breaks ties (see `tie_order`).
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._ties = tie_order(texts)

    def scores(self, query: str) -> Scores:
        """Score every owner."""
        raise NotImplementedError

    def expect(self, queries: Sequence[str]) -> None:
        """Prepare for queries that are to come, where it is cheaper to do so for all at once."""

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the `k` best owners, best first."""
        return best_hits(self.scores(query), k, self._ties)


def tie_order(texts: Sequence[str]) -> NDArray[np.int64]:
    """Rank texts by their hash, equal texts alike.

    Equal scores are common (BM25 gives 0 to every owner without a word of the query). Order by position would favour
    early messages among them, where BEAM's evidence lies.
    """
    hashes = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in texts]
    return np.unique(hashes, return_inverse=True)[1].reshape(-1)


def best_hits(scores: Scores, k: int, ties: NDArray[np.int64]) -> list[Hit]:
    """Return the `k` highest scores as hits, best first; `ties` orders those that are equal to six decimals."""
    if k < 1:
        raise UserError(f"k is {k}, but a search returns at least one pair; give a k of 1 or more.")
    order = np.lexsort((ties, -np.round(scores, 6)))[:k].tolist()
    return [Hit(owner, float(scores[owner])) for owner in order]


_ROUNDING = 1e-6
"""What the order of additions changes in a cosine of float32; scaled up, it would rank by position."""


def standardised(scores: ArrayLike) -> NDArray[np.float64]:
    """Shift and scale scores to mean 0 and standard deviation 1; scores that only rounding tells apart become 0."""
    wide = np.asarray(scores, dtype=np.float64)
    spread = wide.std() if wide.size else 0.0
    return (wide - wide.mean()) / spread if spread > _ROUNDING else np.zeros_like(wide)
