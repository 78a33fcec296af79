"""Semantic chunking: cut a text where neighbouring sentences are least alike (paper section 3.2, footnote 2).

The paper uses LangChain's SemanticChunker, and so does this module where langchain-experimental is installed. That
package is being given up by its makers, so the same behaviour stands here in thirty lines: windows of a sentence and
its neighbours are embedded, and a cut falls wherever the cosine distance between two neighbouring windows lies above a
percentile of all such distances in the text. What a machine has installed must not change a number: both ways give the
same chunks, to the byte.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beamlib.retrieval.encoder import Encoder

_SENTENCE_BREAK = re.compile(r"(?<=[.?!])\s+")

_GRID = float(2**20)
"""Vectors are rounded to multiples of 1 / _GRID. Their products then add up without rounding in float64, in whatever
order a library does it, so that equal distances are equal everywhere."""


def sentences_of(text: str) -> list[str]:
    """`text` cut at white space after a full stop, question or exclamation mark: LangChain's default rule.

    As there, an empty text is one empty sentence, and white space at the end leaves an empty last one.
    """
    return _SENTENCE_BREAK.split(text)


def semantic_chunks(text: str, encoder: Encoder, percentile: float, buffer: int) -> list[str]:
    """The chunks of `text`, each of them whole sentences joined by a space.

    `buffer` neighbours on either side make a sentence's window. `percentile` (0 to 100) of the distances stays below
    the cut: 80 cuts at about one gap in five.
    """
    chunker = langchain_chunker()
    if chunker is None:
        return own_chunks(text, encoder, percentile, buffer)
    splitter = chunker(
        _Embeddings(encoder),
        buffer_size=buffer,
        breakpoint_threshold_type="percentile",
        breakpoint_threshold_amount=percentile,
    )
    chunks: list[str] = splitter.split_text(text)
    return chunks


def own_chunks(text: str, encoder: Encoder, percentile: float, buffer: int) -> list[str]:
    """`semantic_chunks` without LangChain."""
    sentences = sentences_of(text)
    if len(sentences) == 1:
        return sentences
    windows = [" ".join(sentences[max(0, i - buffer) : i + buffer + 1]) for i in range(len(sentences))]
    vectors = _on_grid(encoder, windows)
    lengths = np.linalg.norm(vectors, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        similarities = np.sum(vectors[:-1] * vectors[1:], axis=1) / (lengths[:-1] * lengths[1:])
    distances = 1 - np.where(np.isfinite(similarities), similarities, 0.0)  # a text without a known word is like none
    threshold = np.percentile(distances, percentile)
    starts = [0, *(int(gap) + 1 for gap in np.flatnonzero(distances > threshold))]
    return [" ".join(sentences[a:b]) for a, b in zip(starts, [*starts[1:], len(sentences)], strict=True)]


@cache
def langchain_chunker() -> Any | None:
    """LangChain's class `SemanticChunker`, None where it is not installed.

    Also None where simsimd is: LangChain would then compute in float32, and other chunks could come out.
    """
    if importlib.util.find_spec("simsimd") is not None:
        return None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*being sunset", category=DeprecationWarning)
        try:
            return importlib.import_module("langchain_experimental.text_splitter").SemanticChunker
        except ImportError:
            return None


class _Embeddings:
    """An encoder as LangChain's `Embeddings`, as far as its chunker asks."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = _on_grid(self._encoder, texts).tolist()
        return vectors


def _on_grid(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float64]:
    return np.round(encoder.encode(texts).astype(np.float64) * _GRID) / _GRID
