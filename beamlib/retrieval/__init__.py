"""Retrieval: BM25, vectors over FAISS, and their fusion, behind one name."""

from __future__ import annotations

from collections.abc import Sequence

from beamlib.errors import UserError
from beamlib.retrieval.base import Hit, Index, Keys
from beamlib.retrieval.dense import DenseIndex
from beamlib.retrieval.encoder import Encoder, embedded_encoder
from beamlib.retrieval.hybrid import HybridIndex
from beamlib.retrieval.keyed import KeyIndex
from beamlib.retrieval.sparse import SparseIndex

__all__ = ["RETRIEVERS", "Encoder", "Hit", "Index", "Keys", "document_index", "embedded_encoder", "key_index"]

RETRIEVERS = ("bm25", "dense", "embedded")
"""`bm25`: words. `dense`: the shipped token table over FAISS. `embedded`, the default: both and more."""


def key_index(keys: Keys, retriever: str = "embedded") -> Index:
    """An index of owners by their keys, for episodic memory; an unknown retriever is a `UserError`."""
    return KeyIndex(keys, embedded_encoder()) if retriever == "embedded" else _plain(keys, retriever)


def document_index(documents: Sequence[str], retriever: str = "embedded") -> Index:
    """An index of documents, one per owner, for RAG; an unknown retriever is a `UserError`."""
    if retriever == "embedded":
        return HybridIndex(documents, embedded_encoder())
    return _plain([[text] for text in documents], retriever)


def _plain(keys: Keys, retriever: str) -> Index:
    if retriever == "bm25":
        return SparseIndex(keys)
    if retriever == "dense":
        return DenseIndex(keys, embedded_encoder())
    raise UserError(f"retriever is {retriever!r}, which does not exist; choose one of {', '.join(RETRIEVERS)}.")
