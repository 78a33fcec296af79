"""Where an answer mentions a value, whatever the wording: case, hyphens, articles, inflection, numbers, short forms.

It knows few synonyms. What counts is the share of a value's words that stand together; names weigh double, numbers must
all be there, and words that the question or the rival value has too tell nothing. All of it takes time in proportion to
the answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from beam_offline.read_facts import NUMBER_WORDS, stem
from beamlib.text import split_sentences

ENOUGH = 0.7
"""Share of the weight of an everyday value that must be there for it to count as mentioned."""
ENOUGH_OF_A_NAME = 0.5
"""The same of a value of two words with a name ("Karvell" of "Karvell Pack"), or with parts that are joined."""
REVEALING = 0.4
"""Share of a value's letters from which on a part of it gives it away."""

_NUMBER_WEIGHT = 8  # of a number, whose digits are few and tell much
_FRAME_TEXT = "a an the of in on at to for with and my your our his her is are be by call name everi each"
_FRAME = frozenset(_FRAME_TEXT.split())
_DATES_TEXT = """
monday tuesday wednesday thursday friday saturday sunday
january february march april may june july august september october november december
"""
_DATES = frozenset(stem(name) for name in _DATES_TEXT.split())
_SPELT = (
    (re.compile(r"(?<=\d),(?=\d{3}\b)"), ""),
    (re.compile(r"\b([ap])\.\s?m\b\.?", re.IGNORECASE), r"\1m"),
    (re.compile(r"\b(col|fav|behavi|lab|neighb|harb|watercol)our", re.IGNORECASE), r"\1or"),
    (re.compile(r"(?<=col)our(?=s?\b|ed\b|ing\b)", re.IGNORECASE), "or"),
    (
        re.compile(r"\b(?:every (?:two weeks|2 weeks|other week|second week)|bi-?weekly)\b", re.IGNORECASE),
        "fortnightly",
    ),
    (re.compile(r"\b(?:daily|every day)\b", re.IGNORECASE), "day"),
    (re.compile(r"(?<=\d):00\b(?!:)"), ""),
    (re.compile(r"\btwice\b", re.IGNORECASE), "2 times"),
    (re.compile(r"\b(\d+)(?:st|nd|rd|th)\b", re.IGNORECASE), r"\1"),
)
_SAME = {
    **dict.fromkeys(("bike", "bicycl", "cyclist"), "cycl"),
    **dict.fromkeys(("min", "mins"), "minut"),
    **dict.fromkeys(("hr", "hrs", "h"), "hour"),
    **dict.fromkeys(("underground", "metro", "tube"), "subway"),
    "flat": "apart",
    "centr": "center",
    "programm": "program",
    "telephon": "phone",
}
_JOINED = re.compile(r"\w+(?:[-_./:#@]+\w+)+")
_TOKEN = re.compile(r"\d+|[^\W\d_]+(?:'s\b)?")
_CLAUSE = re.compile(
    r"[;()—–→|]|\s-+>?\s|,\s|:\s"
    r"|\b(?=(?:but|however|although|though|whereas|while|if|unless|because|since|until|so|depending|instead of|"
    r"rather than|in place of|and (?:now|will|would|may|might|could))\b)",
    re.IGNORECASE,
)


def spelt(text: str) -> str:
    """`text` with spellings that have more than one form in one of them; case and punctuation are kept."""
    text = unicodedata.normalize("NFKC", text).replace("’", "'")
    for pattern, form in _SPELT:
        text = pattern.sub(form, text)
    return text


@lru_cache(maxsize=65536)
def _word(token: str) -> str:
    if token in NUMBER_WORDS:
        return str(NUMBER_WORDS[token])
    found = stem(token) or token
    return _SAME.get(found, found)


def words(text: str) -> list[str]:
    """The comparable words of a text that `spelt` has read, in order; tens and units are one number."""
    found: list[str] = []
    previous = ""
    for token in (match.group().casefold() for match in _TOKEN.finditer(text)):
        if (joined := NUMBER_WORDS.get(f"{previous}-{token}")) is not None:
            found[-1] = str(joined)
        else:
            found.append(_word(token))
        previous = token
    return found


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of an answer between two commas, brackets or conjunctions, and the sentence that it stands in.

    `number` counts the clauses of the answer, `place` those of the sentence, `sentence_number` the sentences; `whole`
    is the sentence and `sentence` its clauses.
    """

    text: str
    number: int
    place: int
    sentence_number: int
    whole: str
    sentence: tuple[str, ...]

    @property
    def before(self) -> str:
        """The clause before it in its sentence, or nothing."""
        return self.sentence[self.place - 1] if self.place else ""

    @property
    def after(self) -> str:
        """The clause after it in its sentence, or nothing."""
        return self.sentence[self.place + 1] if self.place + 1 < len(self.sentence) else ""


def clauses(answer: str) -> list[Clause]:
    """The clauses of an answer that `spelt` has read."""
    found: list[Clause] = []
    for number, sentence in enumerate(split_sentences(answer)):
        parts = tuple(part.strip() for part in _CLAUSE.split(sentence) if part.strip(" *_`#.-"))
        start, whole = len(found), " ".join(parts)
        found += [Clause(part, start + place, place, number, whole, parts) for place, part in enumerate(parts)]
    return found


@dataclass(frozen=True, slots=True)
class Mention:
    """A mention of a value: the clause, and how far into it (in words) its weightiest word stands."""

    clause: Clause
    at: int

    @property
    def place(self) -> tuple[int, int]:
        """Orders the mentions of an answer."""
        return self.clause.number, self.at


def mark(number: int) -> str:
    """A word that stands for a value which an answer has to the letter."""
    return f"zzq{'b' * number}q"


def marked(answer: str, values: Sequence[str]) -> str:
    """The answer, spelt in one way, with a mark in place of every value that stands in it to the letter.

    So what the words of a value would mean ("walks before bed"), or its commas and full stops, plays no part.
    """
    text = spelt(answer)
    for number in sorted(range(len(values)), key=lambda number: -len(values[number])):
        value = r"\s+".join(re.escape(part) for part in spelt(values[number]).split())
        if value:
            text = re.sub(rf"(?<!\w){value}(?!\w)", mark(number), text, flags=re.IGNORECASE)
    return text


@dataclass(frozen=True, slots=True)
class Value:
    """A value as it is looked for: what each word weighs, and how many letters it has.

    `needed` are its numbers and the parts of what is joined (`#ember-watch`, `low-salt`), which must all be there.
    `lead` is its first word if that is a name: people and products are called by it. `mark` stands for all of it.
    """

    weights: dict[str, float]
    letters: dict[str, int]
    needed: frozenset[str]
    enough: float
    lead: str
    mark: str

    @classmethod
    def of(cls, text: str, number: int = 0, question: str = "", rival: str = "") -> Value:
        """The value `text`, which is `marked` with `number`.

        Words that `question` or `rival` has too weigh nothing unless it has no others.
        """
        text = spelt(text)
        own = list(dict.fromkeys(words(text))) or [text.casefold()]
        own = [word for word in own if word not in _FRAME] or own
        asked, other = words(spelt(question)), frozenset(words(spelt(rival)))
        telling = [word for word in own if word not in other and not _akin(word, asked)]
        telling = telling or [word for word in own if word not in other] or own
        names = _names(text)
        weights = {
            word: float(_NUMBER_WEIGHT if word.isdigit() else len(word) * (2 if word in names else 1))
            for word in telling
        }
        letters = {word: _NUMBER_WEIGHT if word.isdigit() else len(word) for word in telling}
        joined = {word for piece in _JOINED.findall(text) for word in words(piece)}
        needed = frozenset(word for word in telling if word.isdigit() or word in joined)
        named = len(telling) <= 2 and bool(names & set(telling))
        enough = ENOUGH_OF_A_NAME if named or joined & set(telling) else ENOUGH
        return cls(weights, letters, needed, enough, telling[0] if telling[0] in names else "", mark(number))

    def stands_in(self, found: frozenset[str] | set[str]) -> bool:
        """Whether these words mention it."""
        if self.mark in found:
            return True
        if not self.weights or not self.needed <= found:
            return False
        if self.lead in found:
            return True
        share = sum(weight for word, weight in self.weights.items() if word in found) / sum(self.weights.values())
        return share >= self.enough

    def shows_in(self, found: set[str]) -> bool:
        """Whether these words give enough of it away."""
        if self.mark in found:
            return True
        shown = sum(count for word, count in self.letters.items() if word in found)
        return bool(self.letters) and shown / sum(self.letters.values()) >= REVEALING

    def mentions(self, parts: list[Clause]) -> Iterator[Mention]:
        """Its mentions in order. One that stands in no single clause is looked for in the sentence."""
        sentences: dict[int, list[Clause]] = {}
        for clause in parts:
            sentences.setdefault(clause.sentence_number, []).append(clause)
        for own in sentences.values():
            read = [(clause, words(clause.text)) for clause in own]
            inside = [(clause, found) for clause, found in read if self.stands_in(set(found))]
            if not inside and self.stands_in({word for _, found in read for word in found}):
                inside = read
            for clause, found in inside:
                heaviest = max((word for word in self.weights if word in found), key=self._weight, default=None)
                telling = {self.mark, heaviest}
                yield from (Mention(clause, at) for at, word in enumerate(found) if word in telling)

    def _weight(self, word: str) -> float:
        return self.weights[word]


def _akin(word: str, asked: list[str]) -> bool:
    """Whether the question has the word, or another of the same root ("diet" and "dietary")."""
    return any(word == other or (len(word) > 3 and word[:5] == other[:5] and len(other) > 3) for other in asked) or any(
        len(word) == 4 and other.startswith(word) for other in asked
    )


def _names(text: str) -> frozenset[str]:
    """The words of a value that are names: capitals that no sentence's beginning explains, for values begin none."""
    found = frozenset(_word(name.casefold()) for name in re.findall(r"\b[A-Z][^\W\d_]{2,}", text))
    return found - _FRAME - _DATES
