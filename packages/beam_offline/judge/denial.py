"""Find the clauses of an answer that are denied or doubted, by words for it or by the shape of the sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from beam_generate.read_facts import STOP_STEMS, stem
from beam_offline.judge.cues import DENIAL, SHAPE
from beam_offline.judge.parsing import ParsedAnswer, Vectors
from beam_offline.lexicon import WORD

Part = tuple[int, int]
"""Where in each list of words to begin and how far to step: (0, 1) is all of them."""

EDGE: Final = 9
"""Words at the beginning and at the end of a sentence that can turn the rest of it round."""

BARE: Final = 3
"""Content words of a sentence that says little by itself."""

_NEGATIONS, _POINTS, _ALL, _BE, _SPEAKERS, _CONFLICT, _SUBJECTS, _PREPOSITIONS = (
    frozenset(SHAPE[name].split())
    for name in ("negations", "points", "everything", "be", "speakers", "conflict", "subjects", "prepositions")
)
_DEMONSTRATIVES: Final = _POINTS - {"it"}
_PLAIN: Final = frozenset(map(stem, SHAPE["plain"].split()))


def _phrase(entry: str) -> tuple[str, ...]:
    words = WORD.findall(entry.replace("-", " "))
    return tuple(stem(word) or word for word in words)


class Wordings(NamedTuple):
    """Stems of phrases by their first, for denial and for doubt; stems of claims; of what affirms a statement."""

    denials: Mapping[str, frozenset[tuple[str, ...]]]
    doubts: Mapping[str, frozenset[tuple[str, ...]]]
    claims: frozenset[str]
    affirmed: Mapping[str, frozenset[tuple[str, ...]]]


def _by_first(entries: Iterable[str]) -> dict[str, frozenset[tuple[str, ...]]]:
    phrases: dict[str, set[tuple[str, ...]]] = {}
    for entry in entries:
        phrase = _phrase(entry)
        phrases.setdefault(phrase[0], set()).add(phrase)
    return {first: frozenset(found) for first, found in phrases.items()}


@cache
def wordings(part: Part = (0, 1)) -> Wordings:
    """Compile the lists of `wordings.toml`, or a part of them, as training does to meet words that it does not know."""
    lists = {name: entries[part[0] :: part[1]] for name, entries in DENIAL.items()}
    return Wordings(
        _by_first([*lists["verbs"], *lists["adjectives"], *lists["adverbs"]]),
        _by_first([*lists["doubts"], *lists["claimed"]]),
        frozenset(_phrase(entry)[0] for entry in lists["claims"]),
        _by_first(DENIAL["affirmed"]),
    )


def _has(phrases: Mapping[str, frozenset[tuple[str, ...]]], words: list[str]) -> bool:
    for at, word in enumerate(words):
        for phrase in phrases.get(word, ()):
            if tuple(words[at : at + len(phrase)]) == phrase:
                return True
    return False


class DenialSentence(NamedTuple):
    """How much one sentence turns round: 0 or 1 each.

    Attributes:
        denied: A word for denial, or a negated one for truth, at an edge that holds a statement or points at one.
        doubted: A word for doubt at an edge.
        framed: A statement put into a sentence whose words neither deny nor plainly hand it on.
        points: It says little by itself and points at what stands before it.
        everything: It points at all that stands before it.
    """

    denied: float
    doubted: float
    framed: float
    points: bool
    everything: bool

    @property
    def turned(self) -> bool:
        """Whether the sentence does not stand as it is."""
        return bool(self.denied or self.doubted or self.framed)


_TAG = re.compile(
    r"(?:[,;–—(]|\s-)\s*"
    r"((?:(?:or so|which (?:is|was)|though|although|but|a|an)\b[^,;–—(]{2,60}|\w+ly)(?:,\s*[^,;–—(]{2,40})?"
    r"|[^,;–—( ]+!)$",
    re.IGNORECASE,
)


def _content(words: Iterable[str]) -> list[str]:
    return [word for word in words if word not in STOP_STEMS and not word[0].isdigit()]


def read_sentence(text: str, known: Wordings) -> DenialSentence:
    """Read one sentence, whose clauses are joined."""
    raw = [word.lower() for word in WORD.findall(text[:400] + " " + text[-200:] if len(text) > 600 else text)]
    words = [stem(word) or word for word in raw]
    lead = WORD.findall(text[: text.find(":")].lower()) if ":" in text[:60] else raw
    head, edges = words[:EDGE], words if len(words) <= 2 * EDGE else [*words[:EDGE], "|", *words[-EDGE:]]
    clause = _embeds(WORD.findall(text[:120])[:EDGE], words, known)
    points, everything = (False, False) if clause else _points(lead)
    tag = _tag(text) if len(words) > 5 else []
    untrue = any(
        (points or clause or word in _ALL or not _ALL.isdisjoint(raw[at + 1 : at + 3]) or word == "nobody")
        and _has(known.affirmed, words[at + 1 : at + EDGE])
        for at, word in enumerate(raw)
        if word in _NEGATIONS or word.endswith("n't")
    )
    lexical = _has(known.denials, edges)
    says = not _SPEAKERS.isdisjoint(raw[:2])
    said = clause or points or _has(known.denials, tag) or (says and _has(known.denials, head[:4]))
    odd = (
        points
        and (everything or (len(lead) <= EDGE and not _DEMONSTRATIVES.isdisjoint(lead)))
        and not _has(known.affirmed, words[: len(lead)])
        and _SPEAKERS.isdisjoint(lead[2:])
        and not any(word[0].isdigit() for word in lead)
    )
    adverb = raw[:1] and text[len(raw[0]) :].lstrip("\"'*").startswith(",") and _has(known.doubts, words[:1])
    last = words[-3:] if any(mark in text[-40:] for mark in ",–—") else []
    return DenialSentence(
        float((lexical and said) or untrue or "no longer" in " ".join(raw[: EDGE + 3])),
        float(adverb or _has(known.doubts, last) or (_has(known.doubts, edges) and clause)),
        float((clause or bool(tag) or odd) and not (lexical or untrue)),
        points,
        everything,
    )


def denies(text: str) -> bool:
    """Return whether `text` has a word for denial."""
    return _has(wordings().denials, [stem(word) or word for word in WORD.findall(text.lower())])


def _points(raw: list[str]) -> tuple[bool, bool]:
    """Whether a sentence says little and points at the one before, or after it; and whether at everything there."""
    content = len(_content(map(stem, raw)))
    if content > BARE + 2 or not _CONFLICT.isdisjoint(raw):
        return False, False
    at_all = any(
        word in _ALL and not (_BE | _POINTS).isdisjoint(raw[at + 1 : at + 3]) for at, word in enumerate(raw[:8])
    )
    subject = any(word in _POINTS and not _BE.isdisjoint(raw[at + 1 : at + 4]) for at, word in enumerate(raw[:5]))
    direct_object = len(raw) > 1 and raw[-1] in _POINTS and raw[-2] not in _PREPOSITIONS
    return at_all or (content <= BARE and (subject or direct_object)), at_all


def _tag(text: str) -> list[str]:
    """Return the stems of what is hung onto a sentence: ", which is …", ", or so it was …"."""
    match = _TAG.search(text.rstrip(" .?)*\"'"))
    words = [stem(word) or word for word in WORD.findall(match[1])] if match else []
    return words if len(_content(words)) <= BARE and not any(word[0].isdigit() for word in words) else []


def _embeds(raw: list[str], words: list[str], known: Wordings) -> bool:
    """Whether a sentence begins by saying something about a statement: "You … the idea that", "It is … that"."""
    for at, (word, after) in enumerate(pairwise(raw)):
        if word.lower() == "that" and at > 0 and (after.lower() in _SUBJECTS or not after[0].islower()):
            before = _content(words[:at])
            return bool(before) and (before[-1] not in _PLAIN or before[-1] in known.claims)
    return False


@lru_cache(maxsize=8)
def reach(text: ParsedAnswer, part: Part = (0, 1)) -> tuple[Vectors, float]:
    """Return for each clause whether it is denied or doubted (0 or 1), and whether the answer as a whole is.

    A sentence reaches its own clauses. One that says little and points ("That is a myth.") reaches the sentence before
    it, too, and one that points at everything ("None of this is so:") all sentences before it, or after it if it is
    the first.
    """
    known = wordings(part)
    spans: dict[int, tuple[int, int]] = {}
    at = 0
    numbers = text.sentences[: len(text.clauses)].tolist()
    for clause, number in zip(text.clauses, numbers, strict=True):
        at = max(text.body.find(clause, at), at)
        spans[number] = (spans.get(number, (at, at))[0], at + len(clause))
    turned = np.zeros(len(text.negated), dtype=np.float32)
    order = sorted(spans)
    taken_back = 0.0
    for place, number in enumerate(order):
        sentence = read_sentence(text.body[slice(*spans[number])], known)
        if not sentence.turned or (len(order) == 1 and sentence.points and sentence.framed and ":" not in text.body):
            continue
        reached = {number}
        if sentence.everything:
            reached.update(order[:place] if place else order)
        elif sentence.points:
            reached.update(order[max(place - 1, 0) : place])
        turned[np.isin(text.sentences[: len(turned)], list(reached))] = 1
        if sentence.denied and sentence.points and place in (0, len(order) - 1) and len(order) > 1:
            taken_back = 1.0
    return turned, taken_back
