"""Words as the judge reads them: what each is (stem, kind of word, vector), found once and kept in tables."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from beam_offline.read_facts import NUMBER_WORDS, STOP_STEMS, stem
from beamlib.retrieval.encoder import embedded_encoder

WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|\d[\d,]*(?:\.\d+)*")
"""A word or a number; punctuation is neither."""

_MOST_KNOWN = 32_768
_LONGEST = 40  # letters of a word that are looked at

_KIND_WORDS: Final = {
    "article": "a an the this that these those my your his her its our their each every some any another",
    "preposition": "of in on at for with from by to as into over under about after before between through during "
    "within without across around against via per near until since toward towards upon",
    "auxiliary": "is are was were be been being am has have had do does did will would can could should may might must",
    "pronoun": "i you he she it we they me him them us yourself myself itself there",
    "joining": "and or but nor so because although though while if when where unless than plus",
    "negation": "not no never none nothing nobody neither nor cannot without",
    "asking": "which who whom whose what how why",
    "adverb": "also then now only just very more most still even already yet again first later finally too both all",
}
KINDS: Final = (*_KIND_WORDS, "number", "name", "-ing", "-ed", "-ly", "-s", "other")
"""Kinds of words. Function words by name, others by what they look like."""

NEGATION: Final = KINDS.index("negation")
PRONOUN: Final = KINDS.index("pronoun")
_KIND_OF: Final = {word: KINDS.index(kind) for kind, words in _KIND_WORDS.items() for word in words.split()}
_ENDINGS: Final = ("ing", "ed", "ly", "s")

_VAGUE_TEXT = """
implement implementation concern handle handling discuss discussion question initial feature aspect use usage
consideration process approach mention state suggest recommend include example specific detail improve improvement setup
set work plan planning related general basic enhance enhancement focus project explore explain help ask provide ensure
various key first next finally user contain describe acknowledge avoid clear information option emphasis
"""
VAGUE: Final = frozenset(stem(word) for word in _VAGUE_TEXT.split())
"""Stems of nuggets that say what kind of thing is meant rather than which."""


def kind_of(word: str) -> int:
    """The number of a word's kind in `KINDS`."""
    low = word.lower().replace("’", "'")
    known = _KIND_OF.get(low)
    if known is not None:
        return known
    if low.endswith("n't"):
        return NEGATION
    if low[0].isdigit() or low in NUMBER_WORDS:
        return KINDS.index("number")
    if word[0].isupper():
        return KINDS.index("name")
    for ending in _ENDINGS:
        if len(low) > len(ending) + 2 and low.endswith(ending):
            return KINDS.index(f"-{ending}")
    return len(KINDS) - 1


class Lexicon(dict[str, int]):
    """The words met so far by number, and by this number what they are.

    `stems` are texts; `content` is 1 for stems that carry content; `kinds` numbers in `KINDS`; `vectors` the
    encoder's sums, float32 of shape (words, 256). It forgets everything when it holds `_MOST_KNOWN` words, so what
    is read keeps copies and no numbers of words.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stems: list[str] = []
        self._content = np.zeros(1024, dtype=bool)
        self._kinds = np.zeros(1024, dtype=np.int64)
        self._vectors = np.zeros((1024, embedded_encoder().dim), dtype=np.float32)
        self._filled = 0

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self.stems)
        self.stems.append(stem(word[:_LONGEST].replace("’", "'")))
        return number

    def numbers(self, words: list[str]) -> NDArray[np.int64]:
        """The numbers of `words`."""
        if len(self.stems) > _MOST_KNOWN:
            self.clear()
            self.stems, self._filled = [], 0
        found = np.fromiter(map(self.__getitem__, words), dtype=np.int64, count=len(words))
        if len(self.stems) > self._filled:
            self._learn()
        return found

    def _learn(self) -> None:
        start, end = self._filled, len(self.stems)
        if end > len(self._kinds):
            room = max(end, 2 * len(self._kinds))
            self._content, self._kinds = np.resize(self._content, room), np.resize(self._kinds, room)
            grown = np.zeros((room, self._vectors.shape[1]), dtype=np.float32)
            grown[:start] = self._vectors[:start]
            self._vectors = grown
        new = list(self)[start:end]
        self._content[start:end] = [bool(one) and one not in STOP_STEMS for one in self.stems[start:end]]
        self._kinds[start:end] = [kind_of(word) for word in new]
        self._vectors[start:end] = embedded_encoder().sums([word[:_LONGEST] for word in new])
        self._filled = end

    def content(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the words carry content."""
        return self._content[numbers]

    def kinds(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The kinds of the words."""
        return self._kinds[numbers]

    def vectors(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors of the words, not of length 1: common words weigh little in the encoder's table."""
        return self._vectors[numbers]


@cache
def lexicon() -> Lexicon:
    """The lexicon of this process."""
    return Lexicon()
