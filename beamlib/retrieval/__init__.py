"""Retrieval: BM25, vectors over FAISS, and their fusion, behind one name."""

from __future__ import annotations

from beamlib.errors import UserError
from beamlib.retrieval.base import Hit, Index, Keys
from beamlib.retrieval.dense import DenseIndex
from beamlib.retrieval.encoder import Encoder, embedded_encoder
from beamlib.retrieval.hybrid import HybridIndex
from beamlib.retrieval.sparse import SparseIndex

__all__ = ["RETRIEVERS", "Encoder", "Hit", "Index", "Keys", "build_index", "embedded_encoder"]

RETRIEVERS = ("bm25", "dense", "embedded")
"""`bm25`: words. `dense`: the shipped token table over FAISS. `embedded`: both, the default."""


def build_index(keys: Keys, retriever: str = "embedded") -> Index:
    """An index over owners by the retriever's name; an unknown name is a `UserError`."""
    if retriever == "bm25":
        return SparseIndex(keys)
    if retriever == "dense":
        return DenseIndex(keys, embedded_encoder())
    if retriever == "embedded":
        return HybridIndex(keys, embedded_encoder())
    raise UserError(f"retriever is {retriever!r}, which does not exist; choose one of {', '.join(RETRIEVERS)}.")
