"""Texts of ours and texts of the data: do they share a sentence?"""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_WORDS = 6
"""The longest run of words that a text of ours may share with the data: names, figures and dates, but no sentence."""


def runs(text: str) -> Iterator[tuple[str, ...]]:
    """Yield every run of `MOST_WORDS` + 1 words."""
    words = re.findall(r"[a-z0-9']+", text.lower().replace("’", "'"))
    return zip(*(words[first:] for first in range(MOST_WORDS + 1)), strict=False)


def texts(value: object) -> Iterator[str]:
    """Yield every text within a JSON value."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(inner)
