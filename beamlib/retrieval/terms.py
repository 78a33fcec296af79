"""Terms of many short documents as sparse matrices: counts, and what a weighted query scores."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix


class Vocabulary(dict[Hashable, int]):
    """Terms by number, in the order in which they were first looked up."""

    def __missing__(self, term: Hashable) -> int:
        number = self[term] = len(self)
        return number

    def known(self, terms: Sequence[Hashable]) -> list[int]:
        """Numbers of those of `terms` that occur, with repeats."""
        return [self[term] for term in terms if term in self]


def term_counts(documents: Sequence[Sequence[Hashable]], vocabulary: Vocabulary) -> csr_matrix:
    """How often each term occurs in each document: float32, shape (documents, terms known by then).

    New terms enter `vocabulary`.
    """
    numbered = [list(map(vocabulary.__getitem__, terms)) for terms in documents]
    ends = np.cumsum([0, *map(len, numbered)])
    columns = np.fromiter(chain.from_iterable(numbered), dtype=np.int32, count=int(ends[-1]))
    ones = np.ones(len(columns), dtype=np.float32)
    counts = csr_matrix((ones, columns, ends), shape=(len(documents), len(vocabulary)))
    counts.sum_duplicates()
    return counts


def document_frequency(counts: csr_matrix) -> NDArray[np.int64]:
    """In how many documents each term occurs."""
    return np.bincount(counts.indices, minlength=counts.shape[1])


def bm25(counts: csr_matrix, k1: float, b: float) -> csr_matrix:
    """What each term of each document adds to its BM25 (Lucene's variant). `k1`: saturation; `b`: weight of length."""
    documents = counts.shape[0]
    frequency = document_frequency(counts)
    rarity = np.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    damping = k1 * (1 - b + b * lengths / max(lengths.mean(), 1e-9)) if documents else lengths
    rows = np.repeat(np.arange(documents), np.diff(counts.indptr))
    weights = rarity[counts.indices] * counts.data / (counts.data + damping[rows])
    return csr_matrix((weights.astype(np.float32), counts.indices, counts.indptr), shape=counts.shape)


class TermScores:
    """A matrix (documents, terms) that is read by term."""

    def __init__(self, weights: csr_matrix) -> None:
        self._columns = weights.tocsc()

    def of(self, terms: Mapping[int, float]) -> NDArray[np.float64]:
        """For every document the sum over `terms`, by number, of the term's weight there times the one given."""
        columns = self._columns
        scores = np.zeros(columns.shape[0])
        for term, weight in terms.items():
            held = slice(columns.indptr[term], columns.indptr[term + 1])
            scores[columns.indices[held]] += weight * columns.data[held]
        return scores
