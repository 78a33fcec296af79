"""Retrieval: BM25, dense vectors over FAISS, learned sparse vectors, and a fusion of words and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from beamlib.errors import UserError
from beamlib.llm.endpoints import EMBEDDING
from beamlib.llm.model import Model
from beamlib.plugins import plugins
from beamlib.retrieval.base import Document, Hit, Index
from beamlib.retrieval.encoder import EMBEDDED_NAME, Encoder, embedded_encoder
from beamlib.settings import FaissIndex

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

SHIPPED = ("bm25", "dense", "hybrid")
"""Retrievers that need nothing beyond the default install."""

RETRIEVERS = (*SHIPPED, "splade")
"""`hybrid`, the default: words, the shipped table's vectors, and more. `bm25`: words. `dense`: vectors over
FAISS. `splade`: learned sparse vectors."""


@dataclass(frozen=True, slots=True)
class Encoders:
    """The models of the retrievers: `dense` serves `dense` and `hybrid`, `splade` the retriever of that name.

    `dense` is `embedded` for the shipped table, `minilm`, or `embedding` for the model `endpoint`, which that role of
    the models file names. Any other name, and `splade`, is a sentence-transformers model on the hub or in a folder. The
    paper uses `bge-small`, in Table 11 also `bge-large`, and the default of `splade`. `faiss_index` is that of the
    retriever `dense`.
    """

    dense: str = "embedded"
    splade: str = "naver/splade-cocondenser-ensembledistil"
    endpoint: Model | None = field(default=None, compare=False, repr=False)
    faiss_index: FaissIndex = "flat"

    def used(self, retriever: str) -> str | None:
        """Return the name, with a hash of its weights, of a retriever's encoder; None for `bm25` and an endpoint."""
        if retriever == "splade":
            return plugins().neural().encoder_name(self.splade, "splade")
        if retriever not in ("dense", "hybrid") or self.dense == EMBEDDING:
            return None
        return EMBEDDED_NAME if self.dense == "embedded" else plugins().neural().encoder_name(self.dense, "encoder")


_DEFAULT = Encoders()


def build_index(documents: Sequence[Document], retriever: str = "hybrid", encoders: Encoders = _DEFAULT) -> Index:
    """Build an index with a retriever; raise `UserError` for an unknown one.

    Each retriever's libraries are imported here, so that naming a retriever costs nothing.
    """
    if retriever == "hybrid":
        from beamlib.retrieval.hybrid import HybridIndex

        return HybridIndex(documents, dense_encoder(encoders.dense, encoders.endpoint))
    keys = [document.keys for document in documents]
    if retriever == "bm25":
        from beamlib.retrieval.sparse import SparseIndex

        return SparseIndex(keys)
    if retriever == "dense":
        from beamlib.retrieval.dense import DenseIndex

        return DenseIndex(keys, dense_encoder(encoders.dense, encoders.endpoint), encoders.faiss_index)
    if retriever == "splade":
        return plugins().neural().sparse_vector_index(keys, encoders.splade)
    raise UserError(f"retriever is {retriever!r}, which does not exist; choose one of {', '.join(RETRIEVERS)}.")


def dense_encoder(name: str, endpoint: Model | None = None) -> Encoder:
    """Return an encoder by name, loaded once per process: `embedded` is the shipped table, others are models.

    Args:
        endpoint: The model that embeds where the name is `embedding`.
    """
    if name == "embedded":
        return embedded_encoder()
    if name == EMBEDDING:
        if endpoint is None:
            raise UserError(f"encoder is {name!r}, a role of the models file, and no model has that role here.")
        from beamlib.retrieval.endpoint_encoder import EndpointEncoder

        return EndpointEncoder(endpoint)
    return plugins().neural().dense_encoder(name)
