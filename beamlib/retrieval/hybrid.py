"""The default retriever: words and vectors together."""

from __future__ import annotations

from beamlib.retrieval.base import Hit, Keys, Scores, best
from beamlib.retrieval.dense import DenseIndex
from beamlib.retrieval.encoder import Encoder
from beamlib.retrieval.fusion import weighted
from beamlib.retrieval.sparse import SparseIndex


class HybridIndex:
    """BM25 and cosine of the nearest key, standardised and added."""

    def __init__(self, keys: Keys, encoder: Encoder) -> None:
        self._sparse = SparseIndex(keys)
        self._dense = DenseIndex(keys, encoder)

    def scores(self, query: str) -> Scores:
        """Fused score of every owner."""
        return weighted([self._sparse.scores(query), self._dense.scores(query)], [1.0, 1.0])

    def search(self, query: str, k: int) -> list[Hit]:
        """The `k` best owners, best first."""
        return best(self.scores(query), k)
