"""Encode text as vectors. The encoder in the package is a static token table that needs numpy alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from beamlib.llm.model import ModelError

if TYPE_CHECKING:
    from model2vec import StaticModel

EMBEDDED_NAME = "embedded-minilm-256"
EMBEDDED = Path(__file__).with_name("embedded")
"""Folder of the shipped table; its PROVENANCE.md says how it was made."""

_BATCH = 1024

_WORD = re.compile(r"\[(?:PAD|UNK|CLS|SEP|MASK)\]|[!-/:-@\[-`{-~]|[^ \t\n\r!-/:-@\[-`{-~]+")
"""A special token's name, an ASCII punctuation mark, or text between these and white space. The tokenizer always cuts
there, so a text has the pieces of its words in order. That does not hold for other white space (such as a form feed)
and other marks."""


class Encoder(Protocol):
    """An encoder of texts as unit vectors."""

    @property
    def name(self) -> str:
        """Its name in manifests and table captions."""
        ...

    @property
    def dim(self) -> int:
        """Width of the vectors."""
        ...

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode `texts` as an array (len(texts), dim) with rows of length 1, or 0 for a text without known token."""
        ...


def encode_query(encoder: Encoder, query: str) -> NDArray[np.float32]:
    """Encode a text that is searched for, which some encoders treat otherwise than those that are searched in."""
    vectors: NDArray[np.float32] = getattr(encoder, "encode_queries", encoder.encode)([query])
    return np.asarray(vectors[0])


def expect_queries(encoder: Encoder, queries: Sequence[str]) -> None:
    """Encode queries that are to come in one go where each would be a request; one that fails then fails on its own."""
    encode = getattr(encoder, "encode_queries", None)
    if encode:
        with suppress(ModelError):
            encode(queries)


class StaticEncoder:
    """A table with a vector per word piece; a text is the normalised sum over its pieces.

    model2vec loads the folder (no network) and cuts text into pieces. The sum is a sparse product here, which takes a
    fraction of model2vec's time on long texts and gives the same vectors. Text is never truncated.
    """

    def __init__(self, folder: Path, name: str) -> None:
        from model2vec import StaticModel  # here and below: most processes encode nothing

        self.name = name
        self._model = StaticModel.from_pretrained(folder)
        table = np.asarray(self._model.embedding, dtype=np.float32)
        if self._model.weights is not None:
            table = table * np.asarray(self._model.weights, dtype=np.float32)[:, None]
        self._table: NDArray[np.float32] = table
        self.dim = int(table.shape[1])

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode `texts` as float32 (len(texts), dim), normalised; zero rows for texts without a piece."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        words = _Words(self._model)
        for start in range(0, len(texts), _BATCH):
            ends, pieces = words.pieces(texts[start : start + _BATCH])
            part = vectors[start : start + _BATCH]
            part[:] = self._sums(ends, pieces)
            # In place, batch by batch: for ten million tokens the vectors alone take a quarter of a gigabyte.
            lengths = np.linalg.norm(part, axis=1, keepdims=True)
            np.divide(part, lengths, out=part, where=lengths > 0)
        return vectors

    def word_sums(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of single words before normalisation, shape (len(words), dim).

        The vector of a text is the sum over its words. Plain words are cut here as the tokenizer would: for a few words
        calling it takes longer.
        """
        cut = [self._cut(word.lower()) if word.isascii() and word.isalnum() else [] for word in words]
        sums = self._table[[pieces[0] if pieces else 0 for pieces in cut]]
        for at, pieces in enumerate(cut):
            if len(pieces) > 1:
                sums[at] = self._table[pieces].sum(axis=0)
        rest = [at for at, pieces in enumerate(cut) if not pieces]
        if rest:
            sums[rest] = self._sums(*_Words(self._model).pieces([words[at] for at in rest]))
        return sums

    def _cut(self, word: str) -> list[int]:
        """Cut a word into the longest pieces from left to right; return none if a rest of it is no piece."""
        pieces, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = self._pieces.get(word[start:end] if not start else f"##{word[start:end]}")
                if piece is not None:
                    break
            else:
                return []
            pieces.append(piece)
            start = end
        return pieces

    @cached_property
    def _pieces(self) -> dict[str, int]:
        vocabulary: dict[str, int] = self._model.tokenizer.get_vocab()
        return vocabulary

    def _sums(self, ends: NDArray[np.int64], pieces: NDArray[np.int32]) -> NDArray[np.float32]:
        from scipy.sparse import csr_matrix

        ones = np.ones(len(pieces), dtype=np.float32)
        counts = csr_matrix((ones, pieces, ends), shape=(len(ends) - 1, len(self._table)))
        counts.sum_duplicates()
        return np.asarray(counts @ self._table, dtype=np.float32)


class _Words(dict[str, int]):
    """The distinct words of some texts, numbered, with the word pieces of each.

    Each word is cut into pieces once, which saves most of a long conversation's time.
    """

    def __init__(self, model: StaticModel) -> None:
        super().__init__()
        self._model = model
        self._new: list[str] = []
        self._flat = np.zeros(0, dtype=np.int32)  # the pieces of all words, one word after the other
        self._ends = np.zeros(1, dtype=np.int64)  # where those of each word end, with a leading 0

    def __missing__(self, word: str) -> int:
        self._new.append(word)
        number = self[word] = len(self)
        return number

    def pieces(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return the pieces of all texts in order, and where those of each text end (with a leading 0)."""
        numbered = [list(map(self.__getitem__, _WORD.findall(text))) for text in texts]
        if self._new:
            cut = self._model.tokenize(self._new)
            self._ends = np.concatenate([self._ends, self._ends[-1] + np.cumsum([len(pieces) for pieces in cut])])
            self._flat = np.concatenate([self._flat, np.array(list(chain.from_iterable(cut)), dtype=np.int32)])
            self._new = []
        words_before = np.cumsum([0, *map(len, numbered)])
        words = np.fromiter(chain.from_iterable(numbered), dtype=np.int64, count=int(words_before[-1]))
        starts = self._ends[words]
        ends = np.concatenate([[0], np.cumsum(self._ends[words + 1] - starts)])
        places = np.arange(ends[-1]) + np.repeat(starts - ends[:-1], np.diff(ends))
        return ends[words_before], self._flat[places]


@cache
def embedded_encoder() -> StaticEncoder:
    """Load the encoder shipped with the package, once per process (about 0.1 s)."""
    return StaticEncoder(EMBEDDED, EMBEDDED_NAME)
