"""Nearest keys by the dot product of learned sparse vectors."""

from __future__ import annotations

import numpy as np

from beamlib.retrieval.base import Hit, Keys, Scores, best
from beamlib.retrieval.transformer import SparseModel


class SparseVectorIndex:
    """One sparse vector per key; an owner scores what its best key scores."""

    def __init__(self, keys: Keys, encoder: SparseModel) -> None:
        self._encoder = encoder
        self._owners = len(keys)
        self._owner_of = np.array([owner for owner, texts in enumerate(keys) for _ in texts], dtype=np.int64)
        self._vectors = encoder.encode_documents([text for texts in keys for text in texts])

    def scores(self, query: str) -> Scores:
        """Highest dot product (0 or more) of the query and any key of each owner; 0 for an owner without keys."""
        result = np.zeros(self._owners, dtype=np.float32)
        products = (self._vectors @ self._encoder.encode_query(query).T).toarray().ravel()
        np.maximum.at(result, self._owner_of, products)
        return result

    def search(self, query: str, k: int) -> list[Hit]:
        """The `k` best owners, best first."""
        return best(self.scores(query), k)
