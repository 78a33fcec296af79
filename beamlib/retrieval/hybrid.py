"""The default index: the weighted sum of eleven signals about each document, plus a share of its session's best.

It is neutral: it knows no position in a conversation, no wording of any benchmark's questions, and no subject. Two
signals tell what a stored line is: a standing instruction or a preference.

`HYBRID_WEIGHTS` are a listwise logistic fit to the questions of BEAM's 100K tier and of 500K 1 and 2, over the offline
stand-in's keys (`scripts/fit_hybrid.py`), rounded to tenths. They differ little from equal weights: docs/design.md
compares them with those and with fits that leave each conversation out in turn.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate, chain, pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from beamlib.retrieval.base import Document, Index, Scores, standardised, tie_order
from beamlib.retrieval.encoder import Encoder, encode_query, expect_queries
from beamlib.retrieval.sparse import tokenize
from beamlib.text import split_sentences

_STANDING = re.compile(
    r"^\W*(?:[\w ]{1,24}: )?(?:please )?"
    r"(?:always|never|from now on|going forward|whenever|every time|each time)\b",
    re.IGNORECASE,
)
_PREFERENCE = re.compile(r"\bprefer|\bi(?:'d| would) rather\b|\bmy favou?rite\b", re.IGNORECASE)

_QUANTITY = re.compile(
    r"\bhow (?:many|much|long|old|often|far|soon)\b|\bwhen (?:am|are|is|was|were|do|does|did|will)\b|\baverage\b"
    r"|\b(?:what|which) (?:\w+ )?(?:time|date|day|month|year|age|amount|number|percentage)\b",
    re.IGNORECASE,
)
_ACCOUNT = re.compile(r"\bsummar|\boverview\b|\brecap|\btimeline\b|\bchronolog|\b(?:order|sequence)\b", re.IGNORECASE)
_WHETHER = re.compile(r"^\W*(?:am|are|is|was|were|do|does|did|have|has|had) (?:i|we|my|our|the|there)\b", re.IGNORECASE)
_PAST = re.compile(
    r"\b(?:did|have|had|was|were) (?:i|we|you|my|our)\b"
    r"|\b(?:i|we|you) (?:\w+ed|said|told|chose|set|made|took|had|was|were|went|got)\b",
    re.IGNORECASE,
)
_OWN = re.compile(r"^\W*what(?:'s| is| are| was| were) (?:my|our|the)\b", re.IGNORECASE)


def is_standing_instruction(line: str) -> bool:
    """Tell whether a stored line opens as a standing instruction ("Always ...", "From now on ...").

    A label before it ("rule: ...", as a model may write it) is ignored.
    """
    return bool(_STANDING.search(line))


def is_preference(line: str) -> bool:
    """Tell whether a stored line states a preference and is no standing instruction."""
    return bool(_PREFERENCE.search(line)) and not is_standing_instruction(line)


def is_request(question: str) -> bool:
    """Tell whether a question requests something new (advice, an example): instructions and preferences apply to that.

    All questions do, except those about a number or a date, a summary or an order, a yes or no, something past, or
    something of the user's.
    """
    return not any(kind.search(question) for kind in (_QUANTITY, _ACCOUNT, _WHETHER, _PAST, _OWN))


HYBRID_WEIGHTS = {
    "words": 0.3,
    "word pairs": 0.1,
    "coverage": 0.3,
    "meaning": 0.1,
    "nearest line": 0.2,
    "nearest passage": 0.2,
    "feedback": 0.2,
    "short": 0.4,
    "figures": 0.3,
    "instruction": 0.4,
    "preference": 0.4,
}
"""Weight of each signal of `HybridIndex.signals`, all of them standardised over the documents."""

SESSION = 0.4
"""Weight of the mean of the session's three best documents: documents in the right session gain."""

PASSAGE_CHARACTERS = 200
"""Sentences of a body are joined up to this length: one vector for a whole answer would blur its subject."""

_LINES_OVER_BODY = 3
_LEADERS = 10
_FEEDBACK_TERMS = 15
_SESSION_BEST = 3

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_FIGURES = re.compile(r"\d+")


class HybridIndex(Index):
    """Fuse words and vectors of a document's lines, of each line and of its body."""

    def __init__(self, documents: Sequence[Document], encoder: Encoder) -> None:
        self._encoder = encoder
        self._size = len(documents)
        self._sessions = np.array([document.session for document in documents], dtype=np.int64)
        lines = [line for document in documents for line in document.lines]
        bodies = [_CODE.sub("\n", document.body) for document in documents]
        texts = ["\n".join(document.lines) for document in documents]
        super().__init__([f"{text}\n{document.body}" for text, document in zip(texts, documents, strict=True)])
        self._lines = _Runs([len(document.lines) for document in documents])
        # The terms of each line, of each document's lines, of lines and body, and neighbouring words.
        self._terms, self._pairs = Vocabulary(), Vocabulary()
        words = tokenize([*lines, *bodies])
        every = term_counts(words, self._terms)
        self._term_order = tie_order(list(map(str, self._terms)))
        in_lines, in_bodies = every[: len(lines)], every[len(lines) :]
        self._counts = counts = self._lines.sums(in_lines)
        self._lengths = np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1)
        uses = np.asarray(counts.sum(axis=0)).ravel()
        self._rarity_of_use = np.log(max(uses.sum(), 1) / np.maximum(uses, 1))
        self._rarity = np.log((self._size + 1) / (document_frequency(counts) + 0.5))
        self._line_terms = TermScores(in_lines.sign())
        self._text_words = TermScores(bm25(counts, k1=1.2, b=0.6))
        self._words = TermScores(bm25((_LINES_OVER_BODY * counts + in_bodies).tocsr(), k1=1.2, b=0.6))
        joined = [list(chain.from_iterable(words[start:end])) for start, end in self._lines.bounds]
        neighbours = term_counts([list(pairwise(terms)) for terms in joined], self._pairs)
        self._word_pairs = TermScores(bm25(neighbours, k1=1.2, b=0.5))
        cut = [_passages(body) for body in bodies]
        self._passages = _Runs([len(passages) for passages in cut])
        # In one call, because the encoder cuts each distinct word of a call into pieces once.
        vectors = encoder.encode([*texts, *lines, *chain.from_iterable(cut)])
        self._text_vectors, self._line_vectors, self._passage_vectors = np.split(
            vectors, [len(texts), len(texts) + len(lines)]
        )
        self._short = standardised(-np.log1p([len(text) for text in texts]))
        self._figures = standardised(np.log1p([len(_FIGURES.findall(text)) for text in texts]))
        self._instructions = np.array([is_standing_instruction(line) for line in lines], dtype=bool)
        self._preferences = np.array([is_preference(line) for line in lines], dtype=bool)

    def expect(self, queries: Sequence[str]) -> None:
        """Encode `queries` at once where an endpoint encodes."""
        expect_queries(self._encoder, queries)

    def signals(self, query: str) -> dict[str, Scores]:
        """Compute each signal, standardised over the documents.

        - `words`, `word pairs`: BM25, of lines and body with the lines counted three times, and of neighbouring words
          of the lines.
        - `coverage`: the largest share of the question's information (inverse document frequency) in one line.
        - `meaning`, `nearest line`, `nearest passage`: cosine to the lines together, to the best line, to the best
          stretch of the body without its code.
        - `feedback`: BM25 of the lines for the terms that the ten leaders by words, coverage and cosines have most of
          (relevance feedback, RM3).
        - `short`, `figures`: few characters, and many numbers, in the lines. A single fact is stated briefly.
        - `instruction`, `preference`: where the question is a request, cosine plus coverage of the best line that is a
          standing instruction, or a preference; 0 for documents without one.
        """
        words = tokenize([query])[0]
        vector = encode_query(self._encoder, query)
        query_terms = Counter(self._terms.known(words))
        lines_cosine = self._line_vectors @ vector
        # By line, the share of the information in the question's words that it has, between 0 and 1.
        distinct = list(dict.fromkeys(words))
        weights = {term: float(self._rarity[term]) for term in self._terms.known(distinct)}
        unseen = float(np.log((self._size + 1) / 0.5)) * (len(distinct) - len(weights))
        lines_covered = self._line_terms.of(weights) / max(sum(weights.values()) + unseen, 1e-9)
        raw = {
            "words": self._words.of(query_terms),
            "word pairs": self._word_pairs.of(Counter(self._pairs.known(list(pairwise(words))))),
            "coverage": self._lines.best(lines_covered),
            "meaning": self._text_vectors @ vector,
            "nearest line": self._lines.best(lines_cosine),
            "nearest passage": self._passages.best(self._passage_vectors @ vector),
        }
        signals: dict[str, Scores] = {name: standardised(scores) for name, scores in raw.items()}
        leading = standardised(self._text_words.of(query_terms))
        leading += signals["coverage"] + signals["meaning"] + signals["nearest line"]
        signals["feedback"] = standardised(self._text_words.of(self._feedback(leading)))
        signals |= {"short": self._short, "figures": self._figures}
        suits = lines_cosine + lines_covered if is_request(query) else np.zeros(len(lines_covered))
        for name, chosen in (("instruction", self._instructions), ("preference", self._preferences)):
            signals[name] = standardised(self._lines.best(np.where(chosen, suits, 0.0)))
        return signals

    def scores(self, query: str) -> Scores:
        """Score every document: the weighted sum of its signals, and the share of its session."""
        total = np.zeros(self._size)
        for name, signal in self.signals(query).items():
            total += HYBRID_WEIGHTS[name] * signal
        return with_session(total, self._sessions, SESSION)

    def _feedback(self, leading: Scores) -> dict[int, float]:
        """Weight the terms that mark the leaders: their mean share of a leader's words, times how rare they are."""
        counts, weights = self._counts, np.zeros(len(self._rarity_of_use))
        for leader in np.lexsort((self._ties, -leading))[:_LEADERS]:
            row = slice(counts.indptr[leader], counts.indptr[leader + 1])
            weights[counts.indices[row]] += counts.data[row] / self._lengths[leader]
        weights *= self._rarity_of_use
        used = np.flatnonzero(weights)
        terms = used[np.lexsort((self._term_order[used], -weights[used]))[:_FEEDBACK_TERMS]]
        return {int(term): float(weights[term]) for term in terms}


def with_session(total: Scores, sessions: NDArray[np.int64], share: float) -> Scores:
    """Add `share` times the mean of the three best documents in each document's session, standardised."""
    best_of = np.zeros(len(total))
    for session in np.unique(sessions):
        inside = sessions == session
        best_of[inside] = np.sort(total[inside])[-_SESSION_BEST:].mean()
    return total + share * standardised(best_of)


class _Runs:
    """Rows that belong to documents: a run of `sizes[i]` rows to document i."""

    def __init__(self, sizes: Sequence[int]) -> None:
        ends = [0, *accumulate(sizes)]
        self.bounds = list(pairwise(ends))
        self._holders = np.flatnonzero(sizes)
        self._starts = np.array(ends[:-1], dtype=np.int64)[self._holders]
        self._ends = np.array(ends)

    def best(self, rows: NDArray[np.floating]) -> Scores:
        """Return the highest value of each document's rows; 0 for a document without rows."""
        highest = np.zeros(len(self.bounds))
        if len(self._holders):
            highest[self._holders] = np.maximum.reduceat(rows, self._starts)
        return highest

    def sums(self, rows: csr_matrix) -> csr_matrix:
        owners = np.arange(rows.shape[0])
        ones = np.ones(len(owners), dtype=np.float32)
        joining = csr_matrix((ones, owners, self._ends), shape=(len(self.bounds), len(owners)))
        return (joining @ rows).tocsr()


def _passages(text: str) -> list[str]:
    """Join neighbouring sentences up to `PASSAGE_CHARACTERS`; a longer sentence stays alone."""
    passages: list[str] = []
    for sentence in split_sentences(text):
        if passages and len(passages[-1]) + len(sentence) < PASSAGE_CHARACTERS:
            passages[-1] = f"{passages[-1]} {sentence}"
        else:
            passages.append(sentence)
    return passages


class Vocabulary(dict[Hashable, int]):
    """Term numbers in the order of first use."""

    def __missing__(self, term: Hashable) -> int:
        number = self[term] = len(self)
        return number

    def known(self, terms: Sequence[Hashable]) -> list[int]:
        """Return the numbers of the known `terms`, with repeats."""
        return [self[term] for term in terms if term in self]


def term_counts(documents: Sequence[Sequence[Hashable]], vocabulary: Vocabulary) -> csr_matrix:
    """Count each term in each document: float32, shape (documents, terms); new terms enter `vocabulary`."""
    numbered = [list(map(vocabulary.__getitem__, terms)) for terms in documents]
    ends = np.cumsum([0, *map(len, numbered)])
    columns = np.fromiter(chain.from_iterable(numbered), dtype=np.int32, count=int(ends[-1]))
    ones = np.ones(len(columns), dtype=np.float32)
    counts = csr_matrix((ones, columns, ends), shape=(len(documents), len(vocabulary)))
    counts.sum_duplicates()
    return counts


def document_frequency(counts: csr_matrix) -> NDArray[np.int64]:
    """Count the documents in which each term occurs."""
    return np.bincount(counts.indices, minlength=counts.shape[1])


def bm25(counts: csr_matrix, k1: float, b: float) -> csr_matrix:
    """Compute each term's share of each document's BM25 (Lucene's variant); `k1`: saturation, `b`: length weight."""
    documents = counts.shape[0]
    frequency = document_frequency(counts)
    rarity = np.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    damping = k1 * (1 - b + b * lengths / max(lengths.mean(), 1e-9)) if documents else lengths
    rows = np.repeat(np.arange(documents), np.diff(counts.indptr))
    weights = rarity[counts.indices] * counts.data / (counts.data + damping[rows])
    return csr_matrix((weights.astype(np.float32), counts.indices, counts.indptr), shape=counts.shape)


class TermScores:
    """A matrix (documents, terms) for reading by term."""

    def __init__(self, weights: csr_matrix) -> None:
        self._columns = weights.tocsc()

    def of(self, terms: Mapping[int, float]) -> NDArray[np.float64]:
        """Score every document: the sum over `terms`, by number, of its weight there times its weight in the query."""
        columns = self._columns
        scores = np.zeros(columns.shape[0])
        for term, weight in terms.items():
            column = slice(columns.indptr[term], columns.indptr[term + 1])
            scores[columns.indices[column]] += weight * columns.data[column]
        return scores
