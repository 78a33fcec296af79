"""Text to vectors. The one encoder in the package is a static token table that needs numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np
from model2vec import StaticModel
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

EMBEDDED = Path(__file__).with_name("embedded")
"""Folder of the shipped table; its PROVENANCE.md says how it was made."""

_BATCH = 1024


class Encoder(Protocol):
    """Anything that turns texts into unit vectors."""

    @property
    def name(self) -> str:
        """Names the encoder in manifests and table captions."""
        ...

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        ...

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of `texts`, shape (len(texts), dim), rows of length 1, or 0 where a text has no known token."""
        ...


class StaticEncoder:
    """A table with one vector per word piece; a text is the normalised sum over its pieces.

    model2vec loads the folder (no network) and cuts text into pieces; adding up is done here, as one sparse product,
    which takes a fraction of model2vec's time on long texts and gives the same vectors. Text is never truncated.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._model = StaticModel.from_pretrained(folder)
        table = np.asarray(self._model.embedding, dtype=np.float32)
        if self._model.weights is not None:
            table = table * np.asarray(self._model.weights, dtype=np.float32)[:, None]
        self._table: NDArray[np.float32] = table
        self.dim = int(table.shape[1])

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of `texts`, float32 of shape (len(texts), dim), normalised; zero rows for texts without a piece."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            part = list(texts[start : start + _BATCH])
            vectors[start : start + _BATCH] = self._sums(self._model.tokenize(part))
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: NDArray[np.float32] = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
        return unit

    def _sums(self, pieces: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        ends = np.cumsum([0, *map(len, pieces)])
        columns = np.fromiter((piece for text in pieces for piece in text), dtype=np.int32, count=int(ends[-1]))
        ones = np.ones(len(columns), dtype=np.float32)
        counts = csr_matrix((ones, columns, ends), shape=(len(pieces), len(self._table)))
        counts.sum_duplicates()
        return np.asarray(counts @ self._table, dtype=np.float32)


@cache
def embedded_encoder() -> StaticEncoder:
    """The encoder shipped with the package, loaded once per process (about 0.1 s)."""
    return StaticEncoder(EMBEDDED, "embedded-minilm-256")
