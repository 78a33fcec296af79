"""Shared wording of the assistant's answers, and how the user's words are turned to `you`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache

from beamlib.errors import UserError
from beamlib.files import read_text
from beamlib.generate.author.bank import BANKS, bank

_SWAPS: Mapping[str, str] = {
    "i": "you", "i'm": "you're", "i've": "you've", "i'd": "you'd", "i'll": "you'll", "my": "your", "me": "you",
    "mine": "yours", "myself": "yourself", "we": "you", "our": "your", "us": "you", "am": "are",
}  # fmt: skip
_WORD = re.compile(r"[A-Za-z']+")
_I_WAS = re.compile(r"\bI was\b")
_INDIRECT = (
    (re.compile(r"^(how|what|where|when|which|who)\b(.*?) (?:should|can|could|do|would) (?:i|you|we) (.+)$", re.I), 1),
    (re.compile(r"^(?:should|shall|would) (?:i|you|we) (.+)$", re.I), 2),
)


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
    text = _I_WAS.sub("you were", text)
    return _WORD.sub(lambda word: _SWAPS.get(word[0].lower(), word[0]), text)


def indirect(question: str) -> str:
    """`how to ...` or `whether to ...` for a question of the user's, empty where no rule fits."""
    question = question.rstrip("?").strip()
    for pattern, groups in _INDIRECT:
        if found := pattern.match(question):
            head = f"{found[1].lower()}{found[2]} to " if groups == 1 else "whether to "
            rest = to_you(found[3 if groups == 1 else 1])
            return f"{head}{rest}" if rest and ", " not in rest and not rest.startswith(("you ", "not ")) else ""
    return ""


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
    found = {
        f"{table}.{name}": tuple(text for text in texts if not held.search(text))
        for table, lists in tables.items()
        for name, texts in lists.items()
    }
    for name, texts in found.items():
        if not texts:
            raise UserError(f"{path}: {name} has no phrase free of the kept words of {domain}; add one.")
    return found
