"""Small turns of phrase the reader shares: speaking to the user, cutting to length, saying that nothing is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from beam_offline.context import ContextHit

MISSING = "Based on the provided chat, there is no information related to this question."

_PERSON = {
    "i'm": "you're",
    "i've": "you've",
    "i'd": "you'd",
    "i'll": "you'll",
    "i am": "you are",
    "i was": "you were",
    "i": "you",
    "my": "your",
    "me": "you",
    "mine": "yours",
    "myself": "yourself",
    "we": "you",
    "our": "your",
}
_FIRST_PERSON = re.compile(r"\b(" + "|".join(sorted(_PERSON, key=len, reverse=True)) + r")\b", re.IGNORECASE)
_OPENING = re.compile(
    r"^(?:(?:hmm|hey|hi|ok|okay|well|yeah|yes|no|sure|and|but|so|also|thanks)\b[,.! ]*)*"
    r"(?:I'm (?:kinda |really |currently |just )?(?:trying to|looking to|struggling (?:with|to)|stuck on|"
    r"wondering (?:if|about|how)|thinking (?:about|of)|worried (?:about|that)|working on|"
    r"having (?:some )?trouble (?:with )?)"
    r"|I (?:want|need|would like|wanted|have) to|I'd like to|can you (?:please )?(?:help me )?(?:with |to )?)\s*",
    re.IGNORECASE,
)


def to_user(text: str) -> str:
    """What the user said in the first person, said to the user: "I've lost my key" becomes "you've lost your key"."""
    return _FIRST_PERSON.sub(lambda match: _PERSON[match[1].lower()], text)


def cut(text: str, words: int) -> str:
    """The first `words` words of `text`, with an ellipsis where something was left off."""
    parts = text.split()
    return " ".join(parts) if len(parts) <= words else " ".join(parts[:words]).rstrip(",;:") + " ..."


def plain(text: str) -> str:
    """`text` without Markdown decoration and list marks at its beginning."""
    return re.sub(r"^\s*(?:[-*•#>]+\s+|\d+[.)]\s+)+", "", text.replace("**", "")).strip()


def label(text: str, words: int) -> str:
    """A short name for what a user's statement is about: without its opening ("I'm trying to"), cut to `words`."""
    short = _OPENING.sub("", plain(text)).strip(" ,.")
    return cut(short[:1].upper() + short[1:], words)


def pick(hits: Iterable[ContextHit], words: int, novelty: float = 0.4) -> list[ContextHit]:
    """The best hits within `words` words whose content is new by at least the share `novelty`, best first."""
    chosen: list[ContextHit] = []
    seen: set[str] = set()
    left = words
    for hit in hits:
        size = len(hit.unit.text.split())
        fresh = len(hit.unit.stems - seen) / len(hit.unit.stems)
        if size <= left and fresh >= novelty:
            chosen.append(hit)
            seen |= hit.unit.stems
            left -= size
    return chosen


def in_order(hits: Sequence[ContextHit]) -> list[ContextHit]:
    """Hits by order of mention: by message id, within a message as written."""
    return sorted(hits, key=lambda hit: (hit.block.first, hit.block.units.index(hit.unit)))


def opens_point(text: str) -> bool:
    """Whether a line of an answer opens a point: a heading, a numbered item, a list item in bold."""
    return re.match(r"\s*(?:#+ |\d+[.)] |[-*•] \*\*|\*\*)", text) is not None
