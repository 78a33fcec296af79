"""A recursive phrase grammar: texts with choices and slots, expanded by a random generator.

`[a|b|]` is one of the alternatives (which nest; an empty one says nothing), `{name}` whatever the scope has under that
name, as it is, else one alternative of the grammar's list `name`, expanded in turn. `{Name}` begins with a capital
letter and `{a name}` has the article that fits. `<is|are>` agrees with the noun phrase that a slot of `NOUNS` gave
last. Articles, plurals and agreement are inflect's.
"""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

NOUNS = frozenset({"thing", "this", "topic", "ref", "other", "my_other", "full", "theme"})
"""Slots whose noun phrases verbs agree with."""
Value = str | Callable[[], str]
_Part = str | tuple[Any, ...]
_SLOT = re.compile(r"\{([aA] )?(\w+)\}")
_AGREEMENT = re.compile(r"<[^<>|]*\|[^<>|]*>")
_TOKEN = re.compile(rf"([\[\]|]|\{{[^{{}}]*\}}|{_AGREEMENT.pattern})")
_SPACE_BEFORE = re.compile(r" +([,.;:?!])")
_SWAPS: Mapping[str, str] = {
    "i": "you", "i'm": "you're", "i've": "you've", "i'd": "you'd", "i'll": "you'll", "my": "your", "me": "you",
    "mine": "yours", "myself": "yourself", "we": "you", "our": "your", "ours": "yours", "us": "you", "am": "are",
    "we're": "you're", "we've": "you've", "we'd": "you'd", "we'll": "you'll", "ourselves": "yourselves",
}  # fmt: skip
_BACK: Mapping[str, str] = {
    "your": "my", "yours": "mine", "yourself": "myself", "you": "I", "you're": "I'm", "you've": "I've",
    "you'll": "I'll", "you'd": "I'd",
}  # fmt: skip
_OBJECT = re.compile(r"(?<!-)\byou(?=$|[^\w' ]| (?:and|or|to|with|for|[io]n|a[ts]|from|about|into|by|most|the|an?)\b)")
_ARE = re.compile(r"\byou (are|were)\b")
_AFTER_HEAD = re.compile(
    r" (?:of|for|from|with|in|on|at|to|about|that|who|by|over|under|around|between|behind|before|after|near|during"
    r"|without|against)\b.*|,.*"
)
_PAIR = re.compile(r" and (?:the|my|your) ")
_ARTICLE = re.compile(  # passes over most articles that are right: this is asked of every phrase
    r" (a(?= [aeiouhAEFHILMNORSX])|an(?= [^aeioAEIO])) (?!(?:and|or|is|in|to|of)\b)([A-Za-z][\w'-]*)"
)
_WORD = re.compile(r"(?<!-)[A-Za-z']+")
_I_WAS = re.compile(r"\b(I|we) was(n't)?\b")
_WAS_I = re.compile(r"\bwas I\b")


@cache
def _inflect() -> Any:
    # inflect has its own argument checked by typeguard, whose instrumentation takes four seconds of every process.
    import typeguard

    checked: Any = typeguard.typechecked
    typeguard.typechecked = lambda target, *_, **__: target  # type: ignore[assignment]
    try:
        import inflect
    finally:
        typeguard.typechecked = checked
    return inflect.engine()


@cache
def plural(noun: str) -> str:
    """Return the plural of a noun or noun phrase."""
    return str(_inflect().plural_noun(noun) or noun)


@cache
def is_plural(phrase: str) -> bool:
    """Whether the head of a noun phrase is plural: `the mock papers from last year`, but not `the syllabus`."""
    if phrase in ("it", "them"):
        return phrase == "them"
    subject = _AFTER_HEAD.sub("", phrase)
    head = subject.rsplit(" ", 1)[-1]
    one = _inflect().singular_noun(head)  # the same where there is no other plural: luggage, a series
    known = head.endswith(("ss", "us", "is", "lens", "agenda", "news", "data"))
    return _PAIR.search(subject) is not None or (not known and one not in (False, head))


@cache
def with_article(phrase: str) -> str:
    """Put `a` or `an` before the phrase."""
    return str(_inflect().a(phrase))


def articles(text: str) -> str:
    """Correct every `a` and `an` in `text` by the sound of the next word."""
    return _ARTICLE.sub(lambda found: f" {with_article(found[2]).partition(' ')[0]} {found[2]}", f" {text}")[1:]


@cache
def in_words(number: int) -> str:
    """Write a number from 0 to 12 as a word, any other in digits."""
    return str(_inflect().number_to_words(number)) if number <= 12 else str(number)


def capital(text: str) -> str:
    """Capitalize the first letter of `text`."""
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """Turn `text` into a sentence: a capital first, a full stop where no mark ends it, no space before marks."""
    text = _SPACE_BEFORE.sub(r"\1", " ".join(text.split()))
    return capital(text if text.endswith((".", "?", "!", ":")) else f"{text.rstrip(',;')}.")


@lru_cache(maxsize=20_000)
def to_you(text: str) -> str:
    """Turn the user's words to the second person."""
    text = _WAS_I.sub("were you", _I_WAS.sub(lambda was: f"you were{was[2] or ''}", text))
    return _WORD.sub(lambda word: _SWAPS.get(word[0].lower(), word[0]), text)


def to_me(text: str) -> str:
    """Turn advice to the user's own words: `your` becomes `my`, and `you` becomes `I` before a verb, else `me`."""
    text = _ARE.sub(lambda verb: "I am" if verb[1] == "are" else "I was", _OBJECT.sub("me", text))
    return _WORD.sub(lambda word: _BACK.get(word[0], word[0]), text)


def series(parts: Sequence[str]) -> str:
    """Join parts as in `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


@cache
def compiled(text: str) -> tuple[_Part, ...]:
    """Parse a text into parts: a string, (capital, article, name) of a slot, (alternatives,) or (singular, plural)."""
    return _read(deque(filter(None, _TOKEN.split(text))), nested=False)[0]


def _read(tokens: deque[str], *, nested: bool) -> tuple[tuple[_Part, ...], ...]:
    """Read the alternatives up to the end of a choice (`nested`) or of the text."""
    options: list[list[_Part]] = [[]]
    while tokens:
        token = tokens.popleft()
        if token == "[":
            options[-1].append((_read(tokens, nested=True),))
        elif token == "]" and nested:
            return tuple(map(tuple, options))
        elif token == "|" and nested:
            options.append([])
        elif slot := _SLOT.fullmatch(token):
            article, name = slot.groups()
            options[-1].append((token[1].isupper(), bool(article), name[0].lower() + name[1:]))
        elif _AGREEMENT.fullmatch(token):
            options[-1].append(tuple(token[1:-1].split("|")))
        elif token == "]" or "{" in token or "}" in token:
            raise ValueError(f"{token!r} stands outside of its brackets")
        else:
            options[-1].append(token)
    if nested:
        raise ValueError("'[' is never closed")
    return tuple(map(tuple, options))


def slots(text: str) -> set[str]:
    """Return the names of all slots in a text, within choices too."""
    found: set[str] = set()
    todo = list(compiled(text))
    for part in todo:
        if isinstance(part, tuple):
            if len(part) == 3:
                found.add(part[2])
            elif len(part) == 1:
                todo += [inner for option in part[0] for inner in option]
    return found


class Grammar:
    """Lists of alternatives by name."""

    def __init__(self, lists: Mapping[str, Sequence[str]]) -> None:
        self._lists = {name: tuple(map(compiled, texts)) for name, texts in lists.items()}
        self._noun = ""

    @property
    def names(self) -> set[str]:
        """Return the names of the lists that texts may use."""
        return set(self._lists)

    def fill(self, text: str, scope: Mapping[str, Value], rng: random.Random) -> str:
        """Expand `text`. A name that neither the scope nor the grammar has is a `KeyError`."""
        out: list[str] = []
        self._expand(compiled(text), scope, rng.random, out)
        return articles("".join(out))

    def say(self, name: str, scope: Mapping[str, Value], rng: random.Random) -> str:
        """Draw one alternative of the list `name` and expand it."""
        out: list[str] = []
        options = self._lists[name]
        self._expand(options[int(rng.random() * len(options))], scope, rng.random, out)
        return articles("".join(out))

    def _expand(
        self, parts: Sequence[_Part], scope: Mapping[str, Value], draw: Callable[[], float], out: list[str]
    ) -> None:
        for part in parts:
            if isinstance(part, str):
                out.append(part)
            elif len(part) == 1:
                options = part[0]
                self._expand(options[int(draw() * len(options))], scope, draw, out)
            elif len(part) == 2:
                out.append(part[is_plural(self._noun)])
            else:
                large, article, name = part
                noun = name in NOUNS
                inner: list[str] = [] if large or article or noun else out
                value = scope.get(name)
                if value is None:
                    options = self._lists[name]
                    self._expand(options[int(draw() * len(options))], scope, draw, inner)
                else:
                    inner.append(value if isinstance(value, str) else value())
                if inner is not out:
                    text = "".join(inner)
                    if noun:
                        self._noun = text
                    text = with_article(text) if article else text
                    out.append(capital(text) if large else text)
