"""Names in answers: whether one gives to somebody else what a nugget says of a name."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from beam_generate.read_facts import stem, without_dates
from beam_offline.judge.parsing import ParsedAnswer, ParsedNugget
from beam_offline.lexicon import NAME, WORD, WORD_KINDS, kind_of, lexicon

REACH: Final = 4
"""Words on either side of a name that its neighbour is looked for among, and of the neighbour for names."""

SHARED_WORDS: Final = 0.65
"""The share of a nugget's other words that a clause must hold before its names are compared."""

_DATED: Final = frozenset(map(stem, [*calendar.month_name[1:], *calendar.day_name]))
_NAME = re.compile(r"(?<=[\w,'’\"(] )[A-Z][a-z]{2,40}\b|^[A-Z][a-z]{2,40}(?=['’]s\b)")
_VERBS: Final = frozenset(map(WORD_KINDS.index, ("auxiliary", "-ed")))
_OTHER: Final = WORD_KINDS.index("other")
_OPENING: Final = frozenset('.!?:;"“([')


@lru_cache(maxsize=8)
def names_of(text: ParsedAnswer) -> tuple[frozenset[str], ...]:
    """Return the stems of the names in each clause: words with a capital within it, but no months and weekdays."""
    return tuple(frozenset(map(stem, _NAME.findall(clause))) - _DATED for clause in text.clauses)


class _Token(NamedTuple):
    stem: str
    content: bool
    name: bool


def _tokens(text: str) -> tuple[_Token, ...]:
    """The words of a clause. A capital there makes a name; at its beginning, only if a verb follows ("Ingrid has")."""
    matches, known = list(WORD.finditer(text)), lexicon()
    kinds = [kind_of(match[0].lower()) for match in matches]
    tokens = []
    for at, match in enumerate(matches):
        word, before = match[0], text[: match.start()].rstrip()[-1:]
        own = stem(word.replace("’", "'"))
        name = len(word) > 2 and word[0].isupper() and not word.isupper() and kind_of(word) == NAME
        if not before or before in _OPENING:
            name = name and kinds[at] == _OTHER and at + 1 < len(kinds) and kinds[at + 1] in _VERBS
        content = bool(known.stems[known[word]])
        tokens.append(_Token(own, content, name and content and own not in _DATED))
    return tuple(tokens)


@lru_cache(maxsize=8)
def _answer_tokens(answer: ParsedAnswer) -> tuple[tuple[_Token, ...], ...]:
    return tuple(map(_tokens, answer.clauses))


@lru_cache(maxsize=4096)
def _nugget_tokens(text: str) -> tuple[_Token, ...]:
    return _tokens(without_dates(text))


def _names_beside(clause: Sequence[_Token], neighbour: str, before: bool) -> Iterator[set[str]]:
    """Yield the names before, or after, each occurrence of `neighbour`, where there are any."""
    for at, token in enumerate(clause):
        if token.stem == neighbour:
            near = clause[max(at - REACH, 0) : at] if before else clause[at + 1 : at + 1 + REACH]
            if names := {other.stem for other in near if other.name}:
                yield names


def share_given_to_others(nugget: ParsedNugget, answer: ParsedAnswer) -> float:
    """Return the share of the nugget's names in whose place beside the same words the answer has other names.

    "Ingrid repaired the mower" and "You said that Casper repaired it" share "repaired", and the name before it differs.
    """
    wanted = _nugget_tokens(nugget.text)
    names = [at for at, token in enumerate(wanted) if token.name]
    if not names:
        return 0.0
    rest = {token.stem for token in wanted if token.content and not token.name}
    clauses = [
        clause
        for clause in _answer_tokens(answer)
        if len(rest.intersection(token.stem for token in clause)) >= SHARED_WORDS * len(rest)
    ]
    others = 0
    for at in names:
        sides = ((wanted[at + 1 : at + 1 + REACH], True), (wanted[max(at - REACH, 0) : at][::-1], False))
        beside = [
            found
            for side, before in sides
            if (neighbour := next((token.stem for token in side if token.content and not token.name), None))
            for clause in clauses
            for found in _names_beside(clause, neighbour, before)
        ]
        others += bool(beside) and not any(wanted[at].stem in found for found in beside)
    return others / len(names)
