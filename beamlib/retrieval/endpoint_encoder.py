"""Encode text by an endpoint: the role `embedding` of a models file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from beamlib.llm.embedding_model import embedding_prompt, read_vector
from beamlib.llm.model import Model, ModelError, Outcome, complete_all

_AT_ONCE = 4_096


class EndpointEncoder:
    """An encoder whose vectors are replies of `model`. Raises `ModelError` for a text that has none."""

    def __init__(self, model: Model) -> None:
        self.name = model.name
        self._model = model
        self._dim = 0

    @property
    def dim(self) -> int:
        """Width of the vectors, read from a reply."""
        if not self._dim:
            self.encode(["width"])
        return self._dim

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode `texts` as float32 (len(texts), dim), rows of length 1; 0 for a text of white space, never sent."""
        rows: dict[str, list[int]] = {}
        for row, text in enumerate(texts):
            if text.strip():
                rows.setdefault(text, []).append(row)
        distinct = list(rows)
        vectors: NDArray[np.float32] | None = None
        for start in range(0, len(distinct), _AT_ONCE):
            part = distinct[start : start + _AT_ONCE]
            replies = complete_all(self._model, [embedding_prompt(text) for text in part])
            for text, reply in zip(part, replies, strict=True):
                vector = read_vector(reply)
                self._dim = self._dim or vector.size
                if vector.size != self._dim:
                    sizes = f"of {self._dim} and of {vector.size} numbers"
                    raise ModelError(f"{self.name} gives vectors {sizes}", Outcome.UNREADABLE)
                if vectors is None:
                    vectors = np.zeros((len(texts), self._dim), dtype=np.float32)
                vectors[rows[text]] = vector / (np.linalg.norm(vector) or 1.0)
        return np.zeros((len(texts), self.dim), dtype=np.float32) if vectors is None else vectors
