"""Learn how a model marks its thoughts, from its stored replies to questions whose answers are known.

`beamlib.commands.admission` asks them before a run. What is learnt follows from the store alone, so that a replay and a
worker know it without a call. A run without such a store has learnt nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from beamlib.llm.call_store import CallStore, StoredCall
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.thoughts import LearntMark

ADMISSION = "admission"
"""The name of the store beside those of conversations, and what its calls are of."""
WORDS = ("lantern", "harbour")
"""What the known questions ask for, one each: the answers have to differ."""
_MARK = re.compile(r"\S*[^\W\d_]\S*(?=\s*\Z)")
_SYMBOL = re.compile(r"[^\w\s.,;:!?'\"()*`#/’“”–—-]")
"""A sign that prose and Markdown do not put around a word."""
_LEAST_THOUGHT = 3
"""Words before a mark from which on they are thoughts and no polite beginning."""


def admission_calls(folder: Path) -> list[StoredCall]:
    """Return the stored calls of an admission; none where there was no admission."""
    path = folder / f"{ADMISSION}.sqlite"
    if not path.exists():
        return []
    with CallStore(path, read_only=True) as store:
        return list(store.calls())


def learnt_marks(calls: Sequence[StoredCall], endpoint: Endpoint) -> tuple[LearntMark, ...]:
    """Return the marks of an endpoint's thoughts that its stored answers to the known questions show."""
    answers = [
        (call.text, call.about)
        for call in calls
        if (call.model, call.base_url) == (endpoint.model, endpoint.base_url) and call.about in WORDS and call.text
    ]
    mark = learn_mark(answers)
    return (mark,) if mark else ()


def learn_mark(answers: Sequence[tuple[str, str]]) -> LearntMark | None:
    """Learn a mark from replies that end in the word that was asked for: what recurs around texts that vary.

    Args:
        answers: Replies as they came, each with its word.
    """
    befores = []
    for text, word in answers:
        head, found, tail = text.casefold().rpartition(word)
        if found and not re.search(r"\w", tail):
            befores.append(text[: len(head)])
    if len({word for _, word in answers}) < 2 or len(befores) < len(answers):
        return None
    prefix = _shared_start(befores)
    suffix = _shared_start([before[::-1] for before in befores])[::-1]
    closing = _MARK.search(suffix)
    if closing is None or not _SYMBOL.search(closing[0]):
        return None
    opening = re.match(r"\s*(\S+)", prefix)
    first = opening[1] if opening and _SYMBOL.search(opening[1]) else ""
    thoughts = [before.rpartition(closing[0])[0].strip().removeprefix(first).split() for before in befores]
    return (first, closing[0]) if all(len(words) >= _LEAST_THOUGHT for words in thoughts) else None


def _shared_start(texts: Sequence[str]) -> str:
    columns = zip(*texts, strict=False)
    return "".join(signs[0] for signs in takewhile(lambda signs: len(set(signs)) == 1, columns))
