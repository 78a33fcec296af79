"""Nearest keys by cosine, over FAISS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import faiss
import numpy as np

from beamlib.retrieval.base import Hit, Index, Keys, Scores, best_hits
from beamlib.retrieval.encoder import Encoder, encode_query, expect_queries
from beamlib.settings import FaissIndex

NEIGHBOURS = 32
"""Links of a key in an HNSW graph (M); FAISS's usual number, as the paper names none."""
BREADTH = 64
"""Keys that a search of an HNSW graph keeps (efSearch), and links are chosen from (efConstruction)."""


class DenseIndex(Index):
    """An inner-product index with a vector per key; an owner's score is that of its nearest key.

    Args:
        kind: `flat` compares with every key. `hnsw` walks a graph of them (Table 12) and may miss some; it is built by
            one thread with FAISS's fixed seed, so that equal keys give equal graphs.
    """

    def __init__(self, keys: Keys, encoder: Encoder, kind: FaissIndex = "flat") -> None:
        super().__init__(["\n".join(texts) for texts in keys])
        self._encoder = encoder
        self._kind = kind
        self._owners = len(keys)
        self._owner_of = np.array([owner for owner, texts in enumerate(keys) for _ in texts], dtype=np.int64)
        if len(self._owner_of):
            vectors = encoder.encode([text for texts in keys for text in texts])
            with one_thread():
                self._index = _empty_index(vectors.shape[1], kind)
                self._index.add(vectors)

    def expect(self, queries: Sequence[str]) -> None:
        """Encode `queries` at once where an endpoint encodes."""
        expect_queries(self._encoder, queries)

    def scores(self, query: str) -> Scores:
        """Return the highest cosine between the query and any key of each owner; -1 for an owner without keys.

        An owner whose keys an HNSW search misses has -1, too.
        """
        return self._scores(query, len(self._owner_of))

    def _scores(self, query: str, count: int) -> Scores:
        result = np.full(self._owners, -1.0, dtype=np.float32)
        if len(self._owner_of):
            similarities, keys = self._index.search(encode_query(self._encoder, query)[None], count)
            reached = keys[0] >= 0
            np.maximum.at(result, self._owner_of[keys[0][reached]], similarities[0][reached])
        return result

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the `k` best owners, best first; fewer `k` give the beginning of the same list.

        An HNSW search goes on with twice the keys until they belong to `k` owners; those that it had stay in front.
        """
        if self._kind == "flat":
            return super().search(query, k)
        hits: dict[int, Hit] = {}
        count = BREADTH
        while True:
            scores = self._scores(query, min(count, len(self._owner_of)))
            for hit in best_hits(scores, self._owners, self._ties):
                if hit.score > -1 or count >= len(self._owner_of):
                    hits.setdefault(hit.owner, hit)
            if len(hits) >= min(k, self._owners):
                return list(hits.values())[:k]
            count *= 2


def _empty_index(width: int, kind: FaissIndex) -> faiss.Index:
    if kind == "flat":
        return faiss.IndexFlatIP(width)
    index = faiss.IndexHNSWFlat(width, NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = index.hnsw.efSearch = BREADTH
    return index


@contextmanager
def one_thread() -> Iterator[None]:
    """Let FAISS use one thread: several would link the keys of a graph in an order of chance."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
