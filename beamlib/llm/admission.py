"""Learn from a model's stored replies to known questions how it marks its thoughts and how fast its server is.

`beam_commands.admission` asks them before a run. What is learnt follows from the stored calls alone, so that a
replay and a worker know it without a call. A run without such a store has learnt nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from statistics import fmean, median

from beamlib.llm.call_store import CallStore, StoredCall
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.model import Completion, ModelError, Outcome
from beamlib.llm.retrying import is_truncated
from beamlib.llm.thoughts import LearntMark, clean_reply

ADMISSION = "admission"
"""The name of the store beside those of conversations, and what its calls are of."""
WORDS = ("lantern", "harbour")
"""What the known questions ask for, one each: the answers have to differ."""
COUNTING, TEXT, LONG = "counting", "known text", "long"
"""What other calls of an admission are of: a reply of which the length is limited, a text to embed, a long request."""
COUNT_LIMIT = 24
"""Output tokens that a counting request allows."""
AT_ONCE = 8
"""Counting requests that are sent together, after one alone."""
_MARK = re.compile(r"\S*[^\W\d_]\S*(?=\s*\Z)")
_SYMBOL = re.compile(r"[^\w\s.,;:!?'\"()*`#/’“”–—-]")
"""A sign that prose and Markdown do not put around a word."""
_LEAST_WAIT = 0.5
"""Seconds below which waiting is noise, and changes nothing that matters."""
_LEAST_THOUGHT = 3
"""Words before a mark from which on they are thoughts and no polite beginning."""


def admission_calls(root: Path) -> list[StoredCall]:
    """Return the stored calls of the admissions in `root` and its folders; none where there was no admission."""
    calls: list[StoredCall] = []
    for path in sorted([*root.glob(f"{ADMISSION}.sqlite"), *root.glob(f"*/{ADMISSION}.sqlite")]):
        with CallStore(path, read_only=True) as store:
            calls += store.calls()
    return calls


@dataclass(frozen=True)
class Speed:
    """How a server works, by the latencies of stored calls; None for what was not measured.

    Attributes:
        tokens_per_second: Of one reply at a time.
        slots: Requests that it works on at once, at most `AT_ONCE`.
        waiting: Seconds that half of as many requests wait for others, at least.
        obeys_limit: Whether a limit of output tokens ended a reply.
        reads_per_second: Tokens of a long request.
        texts_per_second: Of an encoder.
    """

    tokens_per_second: float | None = None
    slots: int | None = None
    waiting: float = 0.0
    obeys_limit: bool | None = None
    reads_per_second: float | None = None
    texts_per_second: float | None = None

    @property
    def queues(self) -> bool:
        """Whether requests clearly wait for one another: latencies of a busy API vary as those of twice the slots."""
        return self.slots is not None and self.slots <= AT_ONCE / 4 and self.waiting >= _LEAST_WAIT


def measured_speed(calls: Sequence[StoredCall], endpoint: Endpoint) -> Speed:
    """Compute the speed of an endpoint from the stored calls of admissions."""
    own = [
        call
        for call in calls
        if (call.model, call.base_url) == (endpoint.model, endpoint.base_url) and call.text and call.latency > 0
    ]
    alone = next((call for call in own if call.about == COUNTING), None)
    together = [call.latency for call in own if call.about.startswith(f"{COUNTING} ")]
    long = [call.input_tokens / call.latency for call in own if call.about.startswith(LONG)]
    texts = [call.latency for call in own if call.about.startswith(TEXT)]
    slots, waiting = None, 0.0
    if alone and len(together) == AT_ONCE:
        # With s slots, n equal requests end after 1, 2 ... n/s times one's time: their median is (n/s + 1) / 2.
        service = max(alone.latency, min(together))
        waits, waiting = 2 * median(together) / service - 1, median(together) - service
        slots = max(1, min(AT_ONCE, round(AT_ONCE / max(1.0, waits))))
    return Speed(
        tokens_per_second=alone.output_tokens / alone.latency if alone else None,
        slots=slots,
        waiting=waiting,
        obeys_limit=(is_truncated(alone.finish_reason) or alone.output_tokens <= COUNT_LIMIT) if alone else None,
        reads_per_second=max(long) if long else None,
        texts_per_second=1 / fmean(texts) if texts else None,
    )


def read_reply(call: StoredCall, marks: Sequence[LearntMark]) -> Completion | ModelError:
    """Return a stored reply without thoughts, or the error that the call ended with."""
    try:
        return without_thoughts(call.completion(), marks)
    except ModelError as error:
        return error


def without_thoughts(reply: Completion, marks: Sequence[LearntMark]) -> Completion | ModelError:
    """Remove the thoughts of a reply; one without text is no answer."""
    try:
        text = clean_reply(reply.text, marks).text
    except ModelError as error:
        return error
    return replace(reply, text=text) if text.strip() else ModelError("gave a reply without text", Outcome.EMPTY)


def answers_another(text: str, word: str) -> bool:
    """Tell whether a reply says what another known question asked for, which only who has seen that one can know."""
    return word not in text.casefold() and any(other in text.casefold() for other in WORDS)


def learnt_marks(calls: Sequence[StoredCall], endpoint: Endpoint) -> tuple[LearntMark, ...]:
    """Return the marks of an endpoint's thoughts that its stored answers to the known questions show."""
    answers = [
        (call.text, call.about)
        for call in calls
        if (call.model, call.base_url) == (endpoint.model, endpoint.base_url)
        and call.about in WORDS
        and call.text
        and not answers_another(call.text, call.about)
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
