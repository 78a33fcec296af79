"""Keys for LIGHT's episodic index by rules: the offline stand-in, not a language model."""

from __future__ import annotations

import re
from collections.abc import Mapping

from beamlib.text import split_sentences

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_FIGURE = re.compile(
    rf"(?:{_MONTHS})\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,\s*\d{{4}})?"
    r"|[$€£]\s?\d[\d,.]*\d|[$€£]\s?\d|\bv?\d[\d.,:]*\d(?:\s?%|[a-zA-Z]{1,3}\b)?|\b\d(?:\s?%|[a-zA-Z]{1,3}\b)?"
)
_NAME = re.compile(r"(?<=[a-z,;:)] )[A-Z][\w.&'-]*\w(?: [A-Z][\w.&'-]*\w)*")
_NO_NAME = frozenset(("I", "I'm", "I've", "I'll", "I'd", *_MONTHS.split("|")))

MOST_SENTENCES = 80
"""Sentences of one user message that become keys; only pasted documents have more."""
MOST_CHARACTERS = 800
"""Of one key."""


def episodic_keys(variables: Mapping[str, str]) -> str:
    """Reply to the prompt `episodic_keys`, read from `variables["pair"]` ("USER: ...", then "ASSISTANT: ...").

    Lines: `said:` for each sentence of the user outside code, `names:` and `figures:` for the names, numbers and dates
    in them, and last `summary:` with the first sentence. The reply adds nothing: on the developers' conversations its
    headings, or the whole of it, found no more evidence than the user's words alone.
    """
    user = variables["pair"].partition("USER: ")[2].partition("\nASSISTANT: ")[0]
    text = _CODE.sub("\n", user)
    sentences = [_one_line(part) for part in split_sentences(text)[:MOST_SENTENCES]] or [_one_line(user)]
    lines = [f"said: {sentence}" for sentence in sentences]
    for label, found in (
        ("names", (name for name in _NAME.findall(text) if name not in _NO_NAME)),
        ("figures", _FIGURE.findall(text)),
    ):
        listed = "; ".join(dict.fromkeys(_one_line(item) for item in found))
        if listed:
            lines.append(f"{label}: {listed[: 4 * MOST_CHARACTERS]}")
    return "\n".join([*lines, f"summary: {sentences[0]}"])


def _one_line(text: str) -> str:
    return " ".join(text.split())[:MOST_CHARACTERS]
