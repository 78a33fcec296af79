"""The index that is tuned on BEAM, `hybrid-beam`: a weighted sum of signals, with some ranks reserved.

It uses knowledge of the benchmark: evidence comes early (the largest weight), questions are framed in certain ways, and
questions of some kinds need a certain statement (`beam_memories.query_intent`). The rounded weights come from a
listwise logistic fit to the 204 questions of twelve conversations. docs/design.md compares its evidence recall with
that of the neutral index.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from beam_memories.query_intent import (
    QueryIntent,
    instruction_topics,
    is_denial,
    is_instruction,
    is_preference,
    read_question,
)
from beamlib.retrieval.base import Document, Hit, Index, Scores, first_hits, standardised
from beamlib.retrieval.dense import DenseIndex
from beamlib.retrieval.encoder import Encoder
from beamlib.retrieval.sparse import WordIndex, tokenize

_FIGURES = re.compile(r"\d+")

WEIGHTS = {
    "words": 0.15,
    "word pairs": 0.1,
    "coverage": 0.35,
    "meaning": 0.25,
    "nearest key": 0.2,
    "feedback": 0.2,
    "early": 0.4,
    "short": 0.3,
    "figures": 0.3,
}
"""Weight of each signal of `TunedIndex.signals`, all of them standardised over the owners."""

_FEEDBACK = 5


class TunedIndex(Index):
    """An index over documents by their lines, tuned to BEAM's questions."""

    def __init__(self, documents: Sequence[Document], encoder: Encoder) -> None:
        keys = [document.lines for document in documents]
        self._encoder = encoder
        texts = ["\n".join(lines) for lines in keys]
        super().__init__(texts)
        words = tokenize(texts)
        self._words = WordIndex(words)
        self._pairs = WordIndex([_bigrams(found) for found in words], k1=1.2, b=0.5)
        self._coverage = Coverage(words)
        self._vectors = encoder.encode(texts)
        self._nearest = DenseIndex(keys, encoder)
        position = np.arange(len(keys)) / max(len(keys), 1)
        self._early = standardised(-np.log(0.05 + position))
        self._short = standardised(-np.log1p([len(text) for text in texts]))
        self._figures = standardised(np.log1p([len(_FIGURES.findall(text)) for text in texts]))
        self._instructions = _Kind(
            [[topic for line in lines if is_instruction(line) for topic in instruction_topics(line)] for lines in keys],
            encoder,
            self._coverage,
        )
        # A preference or a denial is often half a sentence; the rest of the message tells its subject.
        self._preferences = _Kind(_whole(keys, is_preference), encoder, self._coverage)
        self._denials = _Kind(_whole(keys, is_denial), encoder, self._coverage)

    def signals(self, query: str) -> dict[str, Scores]:
        """Compute each signal, standardised over the owners.

        The signals are BM25 of words and of word pairs; the share of the question's information that is covered; the
        cosine of the owner's text and of its nearest key; the cosine to the centroid of the best five (pseudo-relevance
        feedback). Three do not depend on the subject: early owners hold the facts that others build on (Table 7 of the
        paper), short ones say one thing, and figures matter where a number is asked for.
        """
        wish = read_question(query)
        words = tokenize([wish.topic])[0]
        meaning = self._vectors @ self._encoder.encode([wish.topic])[0]
        found = {
            "words": self._words.scores(words),
            "word pairs": self._pairs.scores(_bigrams(words)),
            "coverage": self._coverage.scores(words),
            "meaning": meaning,
            "nearest key": self._nearest.scores(wish.topic),
        }
        signals: dict[str, Scores] = {name: standardised(scores) for name, scores in found.items()}
        leaders = np.argsort(-(signals["words"] + signals["meaning"]), kind="stable")[:_FEEDBACK]
        signals["feedback"] = standardised(self._vectors @ self._vectors[leaders].sum(axis=0))
        signals["early"] = self._early
        signals["short"] = self._short
        signals["figures"] = self._figures if wish.figure else np.zeros_like(self._figures)
        return signals

    def scores(self, query: str) -> Scores:
        """Sum the weighted signals for every owner."""
        total = np.zeros(len(self._early), dtype=np.float64)
        for name, signal in self.signals(query).items():
            total += WEIGHTS[name] * signal
        return total.astype(np.float32)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the `k` best owners, best first, with statements that a question needs among the first four.

        A request for something new gets the best standing instruction and preference; a question whether something ever
        happened gets the best denial.
        """
        scores = self.scores(query)
        order = np.argsort(-scores, kind="stable").tolist()
        for place, owner in self._needed(read_question(query)):
            if order.index(owner) > place:
                order.remove(owner)
                order.insert(place, owner)
        return first_hits(order, scores, k)

    def _needed(self, wish: QueryIntent) -> list[tuple[int, int]]:
        """Return (rank, owner) of the statements that must be included."""
        wanted = [(2, self._instructions), (3, self._preferences)] if wish.request else []
        wanted += [(1, self._denials)] if wish.whether else []
        found = [(place, kind.best(wish.topic)) for place, kind in wanted]
        return [(place, owner) for place, owner in found if owner is not None]


class Coverage:
    """The share of a query's information that a document covers; words weigh their inverse document frequency."""

    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        self._documents = len(documents)
        holders: dict[str, list[int]] = {}
        for number, words in enumerate(documents):
            for word in dict.fromkeys(words):
                holders.setdefault(word, []).append(number)
        self._holders = {word: np.array(numbers, dtype=np.int32) for word, numbers in holders.items()}

    def weight(self, word: str) -> float:
        """Return the inverse document frequency; a word that occurs nowhere weighs most."""
        return float(np.log((self._documents + 1) / (len(self._holders.get(word, ())) + 0.5)))

    def scores(self, words: Sequence[str]) -> Scores:
        """Score every document between 0 and 1."""
        total, covered = 0.0, np.zeros(self._documents, dtype=np.float64)
        for word in dict.fromkeys(words):
            weight = self.weight(word)
            total += weight
            if word in self._holders:
                covered[self._holders[word]] += weight
        return (covered / total if total > 0 else covered).astype(np.float32)

    def of(self, words: Sequence[str], held: frozenset[str]) -> float:
        """Return the share of the information in `words` that a text with the words `held` covers."""
        weights = {word: self.weight(word) for word in words}
        total = sum(weights.values())
        return sum(weight for word, weight in weights.items() if word in held) / total if total > 0 else 0.0


class _Kind:
    """The owners that make a statement of one kind."""

    def __init__(self, statements: Sequence[Sequence[str]], encoder: Encoder, coverage: Coverage) -> None:
        self._encoder = encoder
        self._coverage = coverage
        self._owners = [owner for owner, texts in enumerate(statements) for _ in texts]
        documents = [text for texts in statements for text in texts]
        self._words = [frozenset(words) for words in tokenize(documents)]
        self._vectors: NDArray[np.float32] = encoder.encode(documents)

    def best(self, topic: str) -> int | None:
        """Return the owner of the statement nearest to `topic` by cosine plus shared information, None without any."""
        if not self._owners:
            return None
        words = tokenize([topic])[0]
        total = self._vectors @ self._encoder.encode([topic])[0]
        total = total + np.array([self._coverage.of(words, held) for held in self._words], dtype=np.float32)
        return self._owners[int(np.argmax(total))]


def _bigrams(words: Sequence[str]) -> list[str]:
    return [f"{first} {second}" for first, second in itertools.pairwise(words)]


def _whole(keys: Sequence[Sequence[str]], is_kind: Callable[[str], bool]) -> list[list[str]]:
    return [["\n".join(texts)] if any(map(is_kind, texts)) else [] for texts in keys]
