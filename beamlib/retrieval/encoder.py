"""Text to vectors. The one encoder in the package is a static token table that needs numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np
from model2vec import StaticModel
from numpy.typing import NDArray

EMBEDDED = Path(__file__).with_name("embedded")
"""Folder of the shipped table; its PROVENANCE.md says how it was made."""


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
    """A table with one vector per word piece; a text is the normalised mean over its pieces.

    Loaded by model2vec from a folder, without the network. Text is never truncated.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._model = StaticModel.from_pretrained(folder)
        self.dim = int(self._model.dim)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of `texts`, float32 of shape (len(texts), dim), normalised; zero rows for texts without a token."""
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        # One thread: model2vec's pool would make speed, not results, depend on what else the machine does.
        vectors = np.asarray(self._model.encode(list(texts), use_multiprocessing=False), dtype=np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: NDArray[np.float32] = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
        return unit


@cache
def embedded_encoder() -> StaticEncoder:
    """The encoder shipped with the package, loaded once per process (about 0.1 s)."""
    return StaticEncoder(EMBEDDED, "embedded-minilm-256")
