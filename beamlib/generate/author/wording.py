"""Shared wording of the assistant's answers, and how the user's words are turned to `you`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache

from beamlib.errors import UserError
from beamlib.files import read_text
from beamlib.generate.author.bank import BANKS, SLOT, bank, fill
from beamlib.generate.author.facts import Thing

_SWAPS: Mapping[str, str] = {
    "i": "you", "i'm": "you're", "i've": "you've", "i'd": "you'd", "i'll": "you'll", "my": "your", "me": "you",
    "mine": "yours", "myself": "yourself", "we": "you", "our": "your", "ours": "yours", "us": "you", "am": "are",
    "we're": "you're", "we've": "you've", "we'd": "you'd", "we'll": "you'll", "ourselves": "yourselves",
}  # fmt: skip
_WORD = re.compile(r"[A-Za-z']+")
_I_WAS = re.compile(r"\bI was(n't)?\b")
_TAIL = re.compile(r" (?:from|in|with|at|out of|by|near|on|for|to|of|between|behind|along)\b[^{]*\{.*$")
_SLOTS = frozenset((
    "about", "action", "also", "amount", "because", "check", "count", "day", "days", "direct", "dislikes", "each",
    "field", "first", "goal", "label", "likes", "mention", "name", "next", "other", "parts", "reason", "risk",
    "rule", "share", "sum", "thing", "times", "tip", "to", "to_also", "to_check", "to_next", "today", "told", "value",
    "weekday", "weeks", "why", "you",
))  # fmt: skip
"""What a phrase may ask for."""


class Words(dict[str, str]):
    """Slots of a phrase; a name with a capital gets its text with a capital."""

    def __missing__(self, name: str) -> str:
        low = name[:1].lower() + name[1:]
        if low == name:
            raise KeyError(name)
        return capital(self[low])


def capital(text: str) -> str:
    """`text` with a capital first letter."""
    return text[:1].upper() + text[1:]


def infinitive(action: str) -> str:
    """`to compare ...` or `not to pay ...` for an imperative."""
    for negation in ("do not ", "don't ", "never "):
        if action.startswith(negation):
            return f"{'never' if negation == 'never ' else 'not'} to {action.removeprefix(negation)}"
    return f"to {action}"


def to_you(text: str) -> str:
    """The user's words in the second person; empty where they address the assistant."""
    if re.search(r"\byou(r|rs|rself)?\b", text, re.IGNORECASE):
        return ""
    text = _I_WAS.sub(lambda was: f"you were{was[1] or ''}", text)
    return _WORD.sub(lambda word: _SWAPS.get(word[0].lower(), word[0]), text)


def short_name(thing: Thing) -> str:
    """The thing's noun without what makes its name unique: `the kayak hire` of `the kayak hire from Ito Rentals`."""
    pattern = _TAIL.sub("", thing.template.name)
    # A slot filled by a proper name goes too, where a noun stays.
    proper = [slot for slot in SLOT.findall(pattern) if thing.slots.get(slot, "")[:1].isupper()]
    bare = pattern
    for slot in proper:
        bare = re.sub(rf"\{{{slot}\}}(?:'s)? (?:[A-Z]\w+ )*", "", bare)
    if bare in ("the", "a", "an", "my") or any(f"{{{slot}}}" in bare for slot in proper):
        return thing.name
    return fill(bare, thing.slots.__getitem__)


@cache
def _common_words(domain: str) -> frozenset[str]:
    """Words that the domain's topics also write with a small letter: no proper names."""
    lists = (
        texts
        for topic in bank(domain).topics
        for texts in (topic.actions, topic.reasons, topic.risks, topic.checks, topic.tips, topic.direct, topic.brief)
    )
    return frozenset(word for texts in lists for text in texts for word in _WORD.findall(text) if word.islower())


def small(text: str, domain: str) -> str:
    """`text` as it goes on after a colon, empty where its first word might be a name or it has a colon."""
    first = _WORD.match(text)
    if (
        first is None
        or ":" in text.split(". ", 1)[0]
        or first[0].lower() not in _common_words(domain)
        or first[0].startswith("I'")
    ):
        return ""
    return text[:1].lower() + text[1:]


@cache
def phrases(domain: str) -> Mapping[str, tuple[str, ...]]:
    """Phrases by `table.list`, without those that hold a word the domain's bank keeps for abstention."""
    path = BANKS / "phrases.toml"
    try:
        tables = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML ({error}); correct it.") from None
    kept = [absent.keyword for subject in bank(domain).subjects for absent in subject.absent]
    held = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in kept), re.IGNORECASE)
    found: dict[str, tuple[str, ...]] = {}
    for table, lists in tables.items():
        for name, texts in lists.items():
            check_slots(f"{path}: {table}.{name}", texts)
            found[f"{table}.{name}"] = tuple(text for text in texts if not held.search(text))
    for name, texts in found.items():
        if not texts:
            raise UserError(f"{path}: {name} has no phrase free of the kept words of {domain}; add one.")
    return found


def check_slots(place: str, texts: list[str]) -> None:
    """A phrase that asks for a slot nobody fills is a `UserError`."""
    for text in texts:
        for slot in SLOT.findall(text):
            if slot[:1].lower() + slot[1:] not in _SLOTS:
                raise UserError(
                    f"{place}: unknown slot {{{slot}}} in {text!r:.80}; use one of {', '.join(sorted(_SLOTS))}."
                )
