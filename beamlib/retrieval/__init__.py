"""Retrieval: BM25, vectors over FAISS, learned sparse vectors, and two fusions, behind one name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from beamlib.errors import UserError
from beamlib.plugins import plugins
from beamlib.retrieval.base import Document, Hit, Index
from beamlib.retrieval.encoder import EMBEDDED_NAME, Encoder, embedded_encoder

__all__ = [
    "RETRIEVERS",
    "SHIPPED",
    "Document",
    "Encoder",
    "Encoders",
    "Hit",
    "Index",
    "build_index",
    "dense_encoder",
    "embedded_encoder",
]

SHIPPED = ("bm25", "dense", "hybrid", "hybrid-beam")
"""Retrievers that need nothing beyond the default install."""

RETRIEVERS = (*SHIPPED, "splade")
"""`hybrid`, the default: words, the shipped table's vectors, and more. `hybrid-beam`: the like, tuned on BEAM. `bm25`:
words. `dense`: vectors over FAISS. `splade`: learned sparse vectors."""


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
            return plugins().neural().encoder_name(self.splade, "splade")
        if retriever == "dense" and self.dense != "embedded":
            return plugins().neural().encoder_name(self.dense, "encoder")
        return EMBEDDED_NAME if retriever in ("dense", "hybrid", "hybrid-beam") else None


_DEFAULT = Encoders()


def build_index(documents: Sequence[Document], retriever: str = "hybrid", encoders: Encoders = _DEFAULT) -> Index:
    """An index of the named kind, the same for every memory; an unknown retriever is a `UserError`.

    The libraries of each are imported here: what only names retrievers or encoders does without them.
    """
    if retriever == "hybrid":
        from beamlib.retrieval.hybrid import HybridIndex

        return HybridIndex(documents, embedded_encoder())
    if retriever == "hybrid-beam":
        return plugins().tuned_index(documents, embedded_encoder())
    keys = [document.keys for document in documents]
    if retriever == "bm25":
        from beamlib.retrieval.sparse import SparseIndex

        return SparseIndex(keys)
    if retriever == "dense":
        from beamlib.retrieval.dense import DenseIndex

        return DenseIndex(keys, dense_encoder(encoders.dense))
    if retriever == "splade":
        return plugins().neural().sparse_vector_index(keys, encoders.splade)
    raise UserError(f"retriever is {retriever!r}, which does not exist; choose one of {', '.join(RETRIEVERS)}.")


def dense_encoder(name: str) -> Encoder:
    """The encoder called `name`: `embedded` for the shipped table, else a model (`beam_memories`), once per process."""
    if name == "embedded":
        return embedded_encoder()
    return plugins().neural().dense_encoder(name)
