"""Nearest keys by cosine, over FAISS."""

from __future__ import annotations

from collections.abc import Sequence

import faiss
import numpy as np

from beamlib.retrieval.base import Index, Keys, Scores
from beamlib.retrieval.encoder import Encoder, encode_query, expect_queries


class DenseIndex(Index):
    """A flat inner-product index with a vector per key; an owner's score is that of its nearest key."""

    def __init__(self, keys: Keys, encoder: Encoder) -> None:
        super().__init__(["\n".join(texts) for texts in keys])
        self._encoder = encoder
        self._owners = len(keys)
        self._owner_of = np.array([owner for owner, texts in enumerate(keys) for _ in texts], dtype=np.int64)
        if len(self._owner_of):
            vectors = encoder.encode([text for texts in keys for text in texts])
            self._index = faiss.IndexFlatIP(vectors.shape[1])
            self._index.add(vectors)

    def expect(self, queries: Sequence[str]) -> None:
        """Encode `queries` at once where an endpoint encodes."""
        expect_queries(self._encoder, queries)

    def scores(self, query: str) -> Scores:
        """Return the highest cosine between the query and any key of each owner; -1 for an owner without keys."""
        result = np.full(self._owners, -1.0, dtype=np.float32)
        if len(self._owner_of):
            similarities, keys = self._index.search(encode_query(self._encoder, query)[None], self._index.ntotal)
            np.maximum.at(result, self._owner_of[keys[0]], similarities[0])
        return result
