"""Which names mean the same subject, and which subjects a text speaks of: by the stems of their words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import Stemmer

_WORD = re.compile(r"[^\W_]+")
_BESIDE = re.compile(r"\s+(?:of|on|in|at|for|from|with|to|by|that|which|who|i|we)\b", re.IGNORECASE)
_STEMMER = Stemmer.Stemmer("english")
_EMPTY_WORDS = """
a an the my our your his her their its user users s of for to in on at with and or is are was were be been do does did
i we you he she it they that this these those what which who whom whose when where how why now currently current new old
any all about have has had will would can could should me us them tell
"""
_EMPTY = frozenset(_EMPTY_WORDS.split())
"""Words that name no subject."""


@lru_cache(maxsize=65_536)
def stems(text: str) -> tuple[str, ...]:
    """The stems of a text's words in order, without those that name nothing."""
    words = (word.lower() for word in _WORD.findall(text))
    return tuple(_STEMMER.stemWord(word) for word in words if word not in _EMPTY)


def name_stems(name: str) -> tuple[str, ...]:
    """The stems of a subject's name, those that say what kind of thing it is at the end.

    "recipient of the weekly report" gives the same as "weekly report recipient".
    """
    core, *rest = _BESIDE.split(name.strip(), maxsplit=1)
    return (*stems(" ".join(rest)), *stems(core)) if stems(core) else stems(name)


def same_subject(one: Sequence[str], other: Sequence[str]) -> float:
    """How surely two names, as stems, are of one subject: 1 for the same words, 0 for another subject.

    "lead" and "team lead" may be one, and so may "report recipient" and "weekly report recipient": the last word, which
    says what kind of thing it is, is the same, and the shorter name's words are all in the longer.
    """
    mine, theirs = frozenset(one), frozenset(other)
    if not mine or not theirs:
        return 0.0
    if mine == theirs:
        return 1.0
    if one[-1] != other[-1] or not (mine < theirs or theirs < mine):
        return 0.0
    return len(mine & theirs) / len(mine | theirs)


def spoken_of(name: Sequence[str], text: frozenset[str]) -> float:
    """Share of a name's stems that a text (its stems) holds."""
    return sum(stem in text for stem in name) / len(name) if name else 0.0


def same_value(one: str, other: str) -> bool:
    """Whether two values are the same but for case, punctuation and words around one of them."""
    mine, theirs = (" ".join(_WORD.findall(text.lower())) for text in (one, other))
    return f" {mine} " in f" {theirs} " or f" {theirs} " in f" {mine} "
