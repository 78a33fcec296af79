"""Retrieval: BM25, vectors over FAISS, learned sparse vectors, and a fusion, behind one name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from beamlib.errors import UserError
from beamlib.retrieval.base import Hit, Index, Keys
from beamlib.retrieval.dense import DenseIndex
from beamlib.retrieval.encoder import Encoder, embedded_encoder
from beamlib.retrieval.hybrid import HybridIndex
from beamlib.retrieval.keyed import KeyIndex
from beamlib.retrieval.sparse import SparseIndex
from beamlib.retrieval.splade import SparseVectorIndex
from beamlib.retrieval.transformer import SparseModel, dense_encoder, encoder_name, sparse_encoder

__all__ = [
    "RETRIEVERS",
    "SHIPPED",
    "Encoder",
    "Encoders",
    "Hit",
    "Index",
    "Keys",
    "SparseModel",
    "dense_encoder",
    "document_index",
    "embedded_encoder",
    "key_index",
    "sparse_encoder",
]

SHIPPED = ("bm25", "dense", "embedded")
"""Retrievers that need nothing beyond the default install."""

RETRIEVERS = (*SHIPPED, "splade")
"""`bm25`: words. `dense`: vectors over FAISS. `splade`: learned sparse vectors. `embedded`, the default: words, the
shipped table's vectors, and more."""


@dataclass(frozen=True, slots=True)
class Encoders:
    """Which models the retrievers `dense` and `splade` use; the other retrievers look at neither.

    `dense` is `embedded` for the shipped table; any other name, and `splade`, is a sentence-transformers model's on
    the hub or its folder. The paper: `BAAI/bge-small-en-v1.5` and the default of `splade`.
    """

    dense: str = "embedded"
    splade: str = "naver/splade-cocondenser-ensembledistil"

    def used(self, retriever: str) -> str | None:
        """Name, with a hash of its weights, of the encoder that `retriever` uses; None for `bm25`."""
        if retriever == "splade":
            return encoder_name(self.splade, "splade")
        if retriever == "dense" and self.dense != "embedded":
            return encoder_name(self.dense, "encoder")
        return None if retriever == "bm25" else embedded_encoder().name


_DEFAULT = Encoders()


def key_index(keys: Keys, retriever: str = "embedded", encoders: Encoders = _DEFAULT) -> Index:
    """An index of owners by their keys, for episodic memory; an unknown retriever is a `UserError`."""
    return KeyIndex(keys, embedded_encoder()) if retriever == "embedded" else _plain(keys, retriever, encoders)


def document_index(documents: Sequence[str], retriever: str = "embedded", encoders: Encoders = _DEFAULT) -> Index:
    """An index of documents, one per owner, for RAG; an unknown retriever is a `UserError`."""
    if retriever == "embedded":
        return HybridIndex(documents, embedded_encoder())
    return _plain([[text] for text in documents], retriever, encoders)


def _plain(keys: Keys, retriever: str, encoders: Encoders) -> Index:
    if retriever == "bm25":
        return SparseIndex(keys)
    if retriever == "dense":
        return DenseIndex(keys, dense_encoder(encoders.dense))
    if retriever == "splade":
        return SparseVectorIndex(keys, sparse_encoder(encoders.splade))
    raise UserError(f"retriever is {retriever!r}, which does not exist; choose one of {', '.join(RETRIEVERS)}.")
