"""Words as the judge reads them: what each is (stem, number or not, vector), found once and kept in tables."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from beam_generate.read_facts import NUMBER_WORDS, STOP_STEMS, WORD_LISTS, stem
from beamlib.retrieval.encoder import embedded_encoder

_LETTER = r"[A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u1fff\u2c00-\u2dff\u3040-\ud7ff\uf900-\ufdff\uff21-\uffdc]"
WORD: Final = re.compile(rf"{_LETTER}{{1,40}}(?:['’]{_LETTER}{{1,40}}){{0,2}}|\d[\d,]{{0,30}}(?:\.\d{{1,20}}){{0,4}}")
"""A word or a number of bounded length. Letters by their ranges: that is a third faster than by their class."""

_MOST_KNOWN = 32_768
_WIDTH = 128  # of the 256 columns of the table: verdicts agree as well, in four fifths of the time

VAGUE: Final = frozenset(stem(word) for word in WORD_LISTS["vague"].split())
"""Stems of nuggets that say what kind of thing is meant rather than which."""


_PIECE = re.compile(r"['’.,]|[^'’.,]+")


@lru_cache(maxsize=4096)
def _piece(text: str) -> NDArray[np.float32]:
    found: NDArray[np.float32] = embedded_encoder().word_sums([text])[0, :_WIDTH]
    return found


def _vectors(words: list[str]) -> NDArray[np.float32]:
    """The encoder's sums of words, those with marks inside ("don't", "3.5") from their pieces.

    The tokenizer cuts there too; calling it for a single word takes a millisecond.
    """
    marked = [at for at, word in enumerate(words) if not word.isalnum()]
    plain = words.copy()
    for at in marked:
        plain[at] = "a"  # to be overwritten
    sums: NDArray[np.float32] = embedded_encoder().word_sums(plain)[:, :_WIDTH]
    for at in marked:
        sums[at] = sum(map(_piece, _PIECE.findall(words[at])))
    return sums


class Lexicon(dict[str, int]):
    """The words met so far by number, and by this number what they are.

    `stems` are texts, empty for words that carry no content; `content` says of which they are not, `numeric`
    which are numbers; `vectors` the encoder's sums, float32 of shape (words, 128), in which common words are short, and
    `lengths` theirs. It forgets everything when it holds `_MOST_KNOWN` words: what is read keeps copies and no numbers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stems: list[str] = []
        self._new: list[str] = []
        self.numeric: NDArray[np.bool_] = np.zeros(1024, dtype=bool)
        self.content: NDArray[np.bool_] = np.zeros(1024, dtype=bool)
        self.vectors: NDArray[np.float32] = np.zeros((1024, _WIDTH), dtype=np.float32)
        self.lengths: NDArray[np.float32] = np.zeros(1024, dtype=np.float32)
        self._filled = 0

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self.stems)
        self._new.append(word)
        found = stem(word.replace("’", "'"))
        self.stems.append("" if found in STOP_STEMS else found)
        return number

    def numbers(self, words: list[str]) -> list[int]:
        """Return the numbers of `words`. Their rows are in the tables from now on."""
        if len(self.stems) > _MOST_KNOWN:
            self.clear()
            self.stems, self._new, self._filled = [], [], 0
        found = list(map(self.__getitem__, words))
        if self._new:
            self._learn()
        return found

    def _learn(self) -> None:
        start, end = self._filled, len(self.stems)
        if end > len(self.numeric):
            room = max(end, 2 * len(self.numeric))
            self.numeric, self.lengths = np.resize(self.numeric, room), np.resize(self.lengths, room)
            self.content = np.resize(self.content, room)
            grown = np.zeros((room, self.vectors.shape[1]), dtype=np.float32)
            grown[:start] = self.vectors[:start]
            self.vectors = grown
        self.numeric[start:end] = [word[0].isdigit() or word.lower() in NUMBER_WORDS for word in self._new]
        self.content[start:end] = list(map(bool, self.stems[start:]))
        new = self.vectors[start:end] = _vectors(self._new)
        self.lengths[start:end] = np.sqrt(np.maximum(np.einsum("ij,ij->i", new, new), 1e-12))
        self._new, self._filled = [], end


@cache
def lexicon() -> Lexicon:
    """Return the lexicon of this process, with the encoder's vectors of marks loaded."""
    for mark in "'’.,":
        _piece(mark)
    return Lexicon()


def sum_vectors(vectors: NDArray[np.float32], sizes: NDArray[np.int64]) -> NDArray[np.float32]:
    """Add up the vectors of successive words text by text.

    Args:
        vectors: One row for each word.
        sizes: How many words each text has.

    Returns:
        One row for each text, zeros where it has no word.
    """
    found = np.zeros((len(sizes), vectors.shape[1]), dtype=np.float32)
    if len(vectors):
        found[sizes > 0] = np.add.reduceat(vectors, (np.cumsum(sizes) - sizes)[sizes > 0])
    return found
