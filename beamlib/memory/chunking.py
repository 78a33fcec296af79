"""Semantic chunking: cut a text where neighbouring sentences are least alike.

Behaves like LangChain's SemanticChunker, which the paper uses (section 3.2, footnote 2): windows of a sentence and its
neighbours are embedded, and a cut falls wherever the cosine distance between two neighbouring windows lies above a
percentile of all such distances in the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from beamlib.retrieval.encoder import Encoder

_SENTENCE_BREAK = re.compile(r"(?<=[.?!])\s+")


def sentences_of(text: str) -> list[str]:
    """`text` cut at white space after a full stop, question or exclamation mark; empty pieces left out."""
    return [sentence for sentence in _SENTENCE_BREAK.split(text.strip()) if sentence]


def chunk_bounds(sentences: Sequence[str], encoder: Encoder, percentile: float, buffer: int) -> list[tuple[int, int]]:
    """Half-open ranges of `sentences` that belong together, in order and without gaps.

    `buffer` neighbours on either side make a sentence's window. `percentile` (0 to 100) of the distances stays below
    the cut: 80 cuts at about one gap in five.
    """
    if len(sentences) < 2:
        return [(0, len(sentences))] if sentences else []
    windows = [" ".join(sentences[max(0, i - buffer) : i + buffer + 1]) for i in range(len(sentences))]
    vectors = encoder.encode(windows)
    distances = 1.0 - np.sum(vectors[:-1] * vectors[1:], axis=1, dtype=np.float64)
    threshold = np.percentile(distances, percentile)
    starts = [0, *(int(gap) + 1 for gap in np.flatnonzero(distances > threshold))]
    return list(zip(starts, [*starts[1:], len(sentences)], strict=True))
