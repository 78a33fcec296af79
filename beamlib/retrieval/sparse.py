"""BM25 over stemmed words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

import bm25s
import numpy as np
import Stemmer

from beamlib.retrieval.base import Index, Keys, Scores

_WORD = re.compile(r"\d+(?:[.,:]\d+)+|\w+")
"""Numbers keep their inner points (0.6.2, 1,500, 19:30). `$` and `%` are dropped; `a_b` is split below."""

_FUNCTION_WORDS = (
    "a about across all also am an and any are as at be been being but by can could did do does during each for "
    "from get got had has have having he her hers him his how i if in into is it its itself just like may me might "
    "mine more most my no nor not of on once only or other our ours out over own same shall she should so some such "
    "than that the their theirs them then there these they this those through to too under until up upon us very "
    "was we were what when where which while who whom why will with would you your yours"
)
_STOP = frozenset(_FUNCTION_WORDS.split())


def tokenize(texts: Sequence[str]) -> list[list[str]]:
    """Return the lower-cased, stemmed words of each text without function words; identifiers are split."""
    stems = _Stems()
    return [list(chain.from_iterable(map(stems.__getitem__, text.lower().split()))) for text in texts]


class _Stems(dict[str, list[str]]):
    """The stems in each stretch of text between white space, computed once per stretch."""

    def __init__(self) -> None:
        super().__init__()
        self._stemmer = Stemmer.Stemmer("english")

    def __missing__(self, stretch: str) -> list[str]:
        parts = chain.from_iterable(word.split("_") for word in _WORD.findall(stretch))
        stems: list[str] = self._stemmer.stemWords([part for part in parts if part and part not in _STOP])
        self[stretch] = stems
        return stems


class WordIndex:
    """BM25 (Lucene's variant) over lists of words, with saturation `k1` and length penalty `b`."""

    def __init__(self, documents: Sequence[Sequence[str]], k1: float = 1.5, b: float = 0.75) -> None:
        self._documents = len(documents)
        self._index: bm25s.BM25 | None = None
        if any(documents):
            self._index = bm25s.BM25(method="lucene", k1=k1, b=b)
            self._index.index([list(words) for words in documents], show_progress=False)

    def scores(self, words: Sequence[str]) -> Scores:
        """Return the BM25 of every document; all 0 if no word of the query occurs."""
        known = [word for word in words if self._index is not None and word in self._index.vocab_dict]
        if self._index is None or not known:
            return np.zeros(self._documents, dtype=np.float32)
        return np.asarray(self._index.get_scores(known), dtype=np.float32)


class SparseIndex(Index):
    """BM25 with k1 = 1.5 and b = 0.75; all keys of an owner are one document."""

    def __init__(self, keys: Keys) -> None:
        joined = ["\n".join(texts) for texts in keys]
        super().__init__(joined)
        self._index = WordIndex(tokenize(joined))

    def scores(self, query: str) -> Scores:
        """Return the BM25 of every owner."""
        return self._index.scores(tokenize([query])[0])
