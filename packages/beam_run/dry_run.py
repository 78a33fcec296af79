"""A run rehearsed: the code of the real one, with models that look into the call store and call nobody.

A call that the store holds gives its reply, so whatever follows from it is exact. A pending call is counted and
answered by the offline stand-in, its reply drawn out to the expected length where later prompts hold it: so these are
of about the right number and size.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from beam_run.endpoint_counter import EndpointCounter
from beamlib.llm.client import EndpointModel
from beamlib.llm.model import Completion, Model, Prompt
from beamlib.llm.prompts import prompt_file, render
from beamlib.llm.retrying import MEME_JUDGES
from beamlib.llm.stored_model import CallStore, StoredCall, call_key
from beamlib.plugins import plugins
from beamlib.text import WORDS, TokenCounter, split_sentences

SHARED_TOKENS = 1_024
"""The shortest shared prefix that counts as cached: OpenAI's rule. vLLM caches shorter ones, but those cost little."""

BLOCK = 512
"""Characters by which shared prefixes are compared, about 128 tokens: OpenAI's step."""

MESSAGE_TOKENS, REQUEST_TOKENS = 4, 3
"""What the chat form adds to a text, per message and per request, by OpenAI's count."""

EXPECTED: Mapping[str, tuple[int, str]] = {
    "answer": (200, "the mean of forty answers of a language model on BEAM"),
    "answer_full": (200, "the mean of forty answers of a language model on BEAM"),
    "answer_full_released": (200, "the mean of forty answers of a language model on BEAM"),
    "episodic_keys": (250, "about ten lines of key and value, and a summary"),
    "scratchpad_notes": (200, "a handful of notes"),
    "scratchpad_filter": (2, "yes or no"),
    "judge_nugget": (60, "a score with its reason"),
    "align_events": (2, "yes or no"),
    "align_batch": (60, "a list of numbers"),
    **dict.fromkeys(
        ("memorycode_instruction", "memorycode_session", "memorycode_alone"),
        (300, "between the published answers of two models, 150 and 440 words and marks"),
    ),
    **dict.fromkeys(
        ("memorycode_history", "memorycode_chain", "memorycode_recalled"),
        (350, "between the published answers of two models, 190 and 520 words and marks"),
    ),
    "meme_answer": (40, "a sentence or a short list"),
    **dict.fromkeys(MEME_JUDGES, (60, "a verdict with its reason")),
    "dependency_notes": (250, "a dozen notes of a session, as JSON"),
    "file_memory_ingest": (250, "a dozen calls of tools, as JSON"),
    "wiki_compile": (400, "pages, as calls of tools"),
    "file_memory_recall": (60, "the call that reads the file, then nothing more"),
    "wiki_choose": (30, "a few names of pages"),
}
"""Output tokens expected of a step before twenty of its replies are stored, and why."""

ELSE_EXPECTED = (200, "no expectation for this prompt")

_DRAWN_OUT: Mapping[str, tuple[str, str]] = {
    "answer": ("context", " "),
    "answer_full": ("context", " "),
    "answer_full_released": ("context", " "),
    "scratchpad_notes": ("pair", "\n- "),
}
"""Steps whose replies stand in later prompts: the variable that lends them sentences, and what goes before each."""

_LENT = 8
"""Characters that a variable lends per missing token, from its beginning: twice what a token has."""

COUNTS_AT_ONCE = 8
"""Requests that one conversation has an endpoint count at a time."""

Step = tuple[str, str]
"""Role and prompt id."""


@dataclass
class Counts:
    """The calls of one step; tokens are those of the pending ones, by our counter and by the endpoint's own.

    `counted` is how many of the pending ones the endpoint has counted.
    """

    pending: int = 0
    held: int = 0
    input: int = 0
    cached: int = 0
    endpoint_input: int = 0
    endpoint_cached: int = 0
    counted: int = 0
    output: float = 0.0

    def add(self, other: Counts) -> None:
        """Add the calls of another conversation."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass(frozen=True)
class Largest:
    """The longest pending request of a role: its input tokens, and what it is about."""

    tokens: int = 0
    endpoint_tokens: int = 0
    about: str = ""


@dataclass
class CallTally:
    """What the rehearsal of one conversation, or of several, came to."""

    steps: dict[Step, Counts] = field(default_factory=dict)
    largest: dict[str, Largest] = field(default_factory=dict)

    def of(self, step: Step) -> Counts:
        """The counts of a step."""
        return self.steps.setdefault(step, Counts())

    def seen(self, role: str, request: Largest) -> None:
        """Keep `request` if it is the longest of its role so far."""
        known = self.largest.get(role, Largest())
        if (request.tokens, request.about) > (known.tokens, known.about):
            self.largest[role] = request

    def add(self, other: CallTally) -> None:
        """Add what the rehearsal of another conversation came to."""
        for step, counts in other.steps.items():
            self.of(step).add(counts)
        for role, request in other.largest.items():
            self.seen(role, request)


class Prefixes:
    """Which beginnings of requests an endpoint has read, by chained hashes of blocks of their text."""

    def __init__(self) -> None:
        self._known: dict[str, set[bytes]] = {}

    def shared(self, endpoint: str, text: str) -> float:
        """The fraction of `text` that begins an earlier one of `endpoint`; it is then one of the earlier itself."""
        known = self._known.setdefault(endpoint, set())
        chain, shared, new = hashlib.blake2b(digest_size=12), 0, False
        data = text.encode("utf-8", "surrogatepass")
        for start in range(0, len(data) - BLOCK + 1, BLOCK):
            chain.update(data[start : start + BLOCK])
            block = chain.digest()
            new = new or block not in known
            shared += 0 if new else BLOCK
            known.add(block)
        return shared / max(1, len(data))


@dataclass
class DryRun:
    """What the models of one conversation share. `expected` maps a step to the mean output of its stored replies,
    `counter` counts their requests.

    `refresh` takes the store for empty, as a run that calls everything anew does.
    """

    conversation: str
    store: CallStore
    expected: Mapping[Step, float] = field(default_factory=dict)
    refresh: bool = False
    counter: TokenCounter = WORDS
    tally: CallTally = field(default_factory=CallTally)
    prefixes: Prefixes = field(default_factory=Prefixes)
    keys: set[str] = field(default_factory=set)

    def held(self, key: str) -> StoredCall | None:
        """The stored call that a run would take for final; a failure that may pass is asked for again."""
        found = None if self.refresh else self.store.get(key)
        return None if found is None or found.transient else found


class EstimatingModel:
    """A `Model` in the place of a stored endpoint: it counts what would be called, and calls nobody.

    `counter` is the endpoint's own token counter where it has one; that one request it does make.
    """

    def __init__(
        self, role: str, endpoint: EndpointModel, rehearsal: DryRun, counter: EndpointCounter | None = None
    ) -> None:
        self._role = role
        self._endpoint = endpoint
        self._rehearsal = rehearsal
        self._counter = counter
        self._lanes = asyncio.Semaphore(COUNTS_AT_ONCE)
        self._offline: Model = plugins().model()
        self._known: dict[bytes, StoredCall | Completion] = {}

    @property
    def name(self) -> str:
        """The endpoint's model id."""
        return self._endpoint.name

    async def complete(self, prompt: Prompt) -> Completion:
        """The stored reply or stored failure, else the stand-in's reply to a call that is counted as pending once."""
        asked = _digest(prompt)
        if asked not in self._known:  # every variant of LIGHT puts the same questions to the noise filter
            self._known[asked] = await self._ask(prompt)
        found = self._known[asked]
        return found.completion() if isinstance(found, StoredCall) else found

    async def _ask(self, prompt: Prompt) -> StoredCall | Completion:
        request = self._endpoint.request(prompt)
        key = call_key(request, self._endpoint.endpoint.base_url, prompt.repeat)
        first = key not in self._rehearsal.keys
        self._rehearsal.keys.add(key)
        stored = self._rehearsal.held(key)
        if stored is not None:
            self._rehearsal.tally.of((self._role, prompt.id)).held += first
            return stored
        expected = self._expected(prompt)
        if first:
            await self._count(prompt, request["messages"], expected)
        reply = await self._offline.complete(prompt)
        return Completion(pad_to_length(prompt, reply.text, expected, self._rehearsal.counter))

    def _expected(self, prompt: Prompt) -> float:
        """Output tokens: the mean of the step's stored replies, or what is expected of it."""
        known = self._rehearsal.expected.get((self._role, prompt.id))
        expected, limit = expected_output(prompt) if known is None else known, self._endpoint.endpoint.max_output_tokens
        return expected if limit is None else min(expected, limit)

    async def _count(self, prompt: Prompt, messages: list[dict[str, str]], expected: float) -> None:
        endpoint, rehearsal = self._endpoint.endpoint, self._rehearsal
        share = rehearsal.prefixes.shared(
            f"{endpoint.base_url} {endpoint.model}", "\n".join(message["content"] for message in messages)
        )
        own = input_tokens(prompt, self._endpoint.prompts, rehearsal.counter)
        counts = rehearsal.tally.of((self._role, prompt.id))
        counts.pending += 1
        counts.input += own
        counts.cached += _cached(own, share)
        counts.output += expected
        # Whatever depends on the order of requests is done by now: counting by the endpoint lets others go first.
        async with self._lanes:
            counted = await self._counter.count(messages) if self._counter is not None else None
        if counted is not None:
            counts.counted += 1
            counts.endpoint_input += counted
            counts.endpoint_cached += _cached(counted, share)
        about = f"{rehearsal.conversation}, {prompt.id}{f', {prompt.about}' if prompt.about else ''}"
        rehearsal.tally.seen(self._role, Largest(own, counted or 0, about))


def _digest(prompt: Prompt) -> bytes:
    """Tells prompts apart without rendering them."""
    digest = hashlib.blake2b(f"{prompt.id} {prompt.repeat} {prompt.complaint}".encode(), digest_size=16)
    for name, value in prompt.variables.items():
        data = value.encode("utf-8", "surrogatepass")
        digest.update(f"\0{name} {len(data)} ".encode() + data)
    return digest.digest()


def _cached(tokens: int, share: float) -> int:
    shared = int(tokens * share)
    return shared if shared >= SHARED_TOKENS else 0


def expected_output(prompt: Prompt) -> float:
    """Output tokens expected of a call whose step has too few stored replies to tell."""
    if prompt.id == "scratchpad_compress":
        return float(prompt.variables["target_tokens"])
    return EXPECTED.get(prompt.id, ELSE_EXPECTED)[0]


def pad_to_length(prompt: Prompt, reply: str, tokens: float, counter: TokenCounter = WORDS) -> str:
    """The stand-in's `reply`, never empty, with sentences of what it was given until it has about `tokens` tokens."""
    text = reply.strip() or "Nothing."  # an empty reply would be asked for once more
    if prompt.id not in _DRAWN_OUT:
        return text
    source, mark = _DRAWN_OUT[prompt.id]
    size = counter.count(text)
    for sentence in split_sentences(prompt.variables[source][: int(_LENT * tokens)]):
        if size >= tokens:
            break
        text += mark + sentence
        size += counter.count(sentence)
    return text


def input_tokens(prompt: Prompt, folder: Path | None, counter: TokenCounter) -> int:
    """Tokens of a request by our own counter: frame and variables apart, so that a shared context is counted once."""
    return (
        _frame_tokens(prompt.id, folder, counter)
        + sum(counter.count(value) for value in prompt.variables.values())
        + counter.count(prompt.complaint)
    )


@lru_cache(maxsize=64)
def _frame_tokens(prompt_id: str, folder: Path | None, counter: TokenCounter) -> int:
    empty = render(prompt_id, dict.fromkeys(prompt_file(prompt_id, folder).variables, ""), folder)
    return REQUEST_TOKENS + sum(MESSAGE_TOKENS + counter.count(message["content"]) for message in empty)
