"""Rehearse a run to count its calls: the code of the real run, with models that call nobody.

A call in the call store gets its stored reply. A pending call is counted, and the offline stand-in replies. Where later
prompts contain the reply, it is padded to the expected length, so that these prompts have about the right size.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from beamlib.files import to_json
from beamlib.llm.client import EndpointModel
from beamlib.llm.embedding_model import EMBED, read_vector, write_vector
from beamlib.llm.model import Completion, Model, Prompt
from beamlib.llm.prompts import PromptFile, Prompts, prompt_file, render
from beamlib.llm.retrying import MEME_JUDGES
from beamlib.llm.stored_model import CallStore, StoredCall, call_key
from beamlib.memory.full_context import MESSAGE_TOKENS, dialogue_text, dialogue_tokens
from beamlib.plugins import plugins
from beamlib.retrieval.encoder import embedded_encoder
from beamlib.text import WORDS, TokenCounter

SHARED_TOKENS = 1_024
"""The shortest shared prefix that counts as cached, as at OpenAI. vLLM caches shorter ones, which cost little."""

BLOCK = 512
"""Characters by which shared prefixes are compared: about 128 tokens, OpenAI's step."""

REQUEST_TOKENS = 3
"""Tokens that the chat format adds per request, besides `MESSAGE_TOKENS` per message, by OpenAI's count."""

EXPECTED: Mapping[str, tuple[int, str]] = {
    "answer": (200, "the mean of forty answers of a language model on BEAM"),
    "answer_full": (200, "the mean of forty answers of a language model on BEAM"),
    "answer_full_released": (200, "the mean of forty answers of a language model on BEAM"),
    "answer_turns": (200, "the mean of forty answers of a language model on BEAM"),
    "episodic_keys": (250, "about ten lines of key and value, and a summary"),
    "scratchpad_notes": (200, "a handful of notes"),
    "scratchpad_filter": (2, "yes or no"),
    "filter_batch": (40, "a list of numbers"),
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
    "readagent_page": (3, "a number"),
    "readagent_gist": (130, "a page of up to 600 words in about a sixth of them, as its paper reports"),
    "readagent_lookup": (12, "a list of numbers"),
}
"""Expected output tokens of a step before twenty of its replies are stored, and where the number comes from."""

ELSE_EXPECTED = (200, "no expectation for this prompt")

_PADDED: Mapping[str, tuple[str, str]] = {
    "answer": ("context", " "),
    "answer_full": ("context", " "),
    "answer_full_released": ("context", " "),
    "answer_turns": ("context", " "),
    "scratchpad_notes": ("pair", "\n- "),
    "readagent_gist": ("page", " "),
}
"""Steps whose replies are part of later prompts: the variable whose text pads them, and the separator."""

_CHARACTERS = 4
"""Characters of a token, on average."""

CallStep = tuple[str, str]
"""Role and prompt id."""


@dataclass
class StepCalls:
    """Calls of one step: pending ones with their tokens, stored ones, and the longest pending request."""

    pending: int = 0
    held: int = 0
    input: int = 0
    cached: int = 0
    output: float = 0.0
    longest: tuple[int, str] = (0, "")
    """Its input tokens and its subject."""

    def add(self, other: StepCalls) -> None:
        """Add the calls of another conversation."""
        for name in ("pending", "held", "input", "cached", "output"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.longest = max(self.longest, other.longest)


class CallTally(defaultdict[CallStep, StepCalls]):
    """Calls of one or several rehearsals, by step."""

    def __init__(self, steps: Mapping[CallStep, StepCalls] | None = None) -> None:
        super().__init__(StepCalls, steps or {})

    def __reduce__(self) -> tuple[type[CallTally], tuple[dict[CallStep, StepCalls]]]:
        return CallTally, (dict(self),)

    def merge(self, other: CallTally) -> None:
        """Add the calls of another rehearsal."""
        for step, calls in other.items():
            self[step].add(calls)


class Prefixes:
    """Find the prefixes that an endpoint has read before, by chained hashes of blocks of text."""

    def __init__(self) -> None:
        self._known: dict[str, set[bytes]] = {}

    def shared(self, endpoint: str, text: str) -> float:
        """Return the fraction of `text` that is a prefix of an earlier text of `endpoint`, and remember `text`."""
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
    """State that the models of one conversation share.

    Attributes:
        expected: Mean output tokens of a step's stored replies.
        refresh: Treat the store as empty, as a run with `--calls refresh` does.
        counter: Counts the tokens of requests.
    """

    conversation: str
    store: CallStore
    expected: Mapping[CallStep, float] = field(default_factory=dict)
    refresh: bool = False
    counter: TokenCounter = WORDS
    tally: CallTally = field(default_factory=CallTally)
    prefixes: Prefixes = field(default_factory=Prefixes)
    keys: set[str] = field(default_factory=set)

    def held(self, key: str) -> StoredCall | None:
        """Return the stored call that a run would use; transient failures and refusals are called again."""
        found = None if self.refresh else self.store.get(key)
        return None if found is None or found.transient or found.refused else found


class EstimatingModel:
    """A `Model` that counts the calls of an endpoint and makes none."""

    def __init__(self, role: str, endpoint: EndpointModel, rehearsal: DryRun) -> None:
        self._role = role
        self._endpoint = endpoint
        self._rehearsal = rehearsal
        self._offline: Model = plugins().model()
        self._known: dict[tuple[object, ...], StoredCall | Completion] = {}

    @property
    def name(self) -> str:
        """The endpoint's model id."""
        return self._endpoint.name

    async def complete(self, prompt: Prompt) -> Completion:
        """Return the stored reply or raise the stored failure; else count the call once and let the stand-in reply."""
        asked = (prompt.id, prompt.repeat, prompt.complaint, *prompt.variables.values())
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
            self._rehearsal.tally[self._role, prompt.id].held += first
            return stored
        expected = self._expected(prompt)
        if first:
            self._count(prompt, request["messages"], expected)
        reply = await self._offline.complete(prompt)
        return Completion(pad_to_length(prompt, reply.text, expected, self._rehearsal.counter))

    def _expected(self, prompt: Prompt) -> float:
        """Return the mean output tokens of the step's stored replies, or else the expected ones."""
        known = self._rehearsal.expected.get((self._role, prompt.id))
        expected, limit = expected_output(prompt) if known is None else known, self._endpoint.endpoint.max_output_tokens
        return expected if limit is None else min(expected, limit)

    def _count(self, prompt: Prompt, messages: list[dict[str, str]], expected: float) -> None:
        endpoint, rehearsal = self._endpoint.endpoint, self._rehearsal
        share = rehearsal.prefixes.shared(
            f"{endpoint.base_url} {endpoint.model}", "\n".join(message["content"] for message in messages)
        )
        own = input_tokens(prompt, self._endpoint.prompts, rehearsal.counter)
        shared = int(own * share)
        cached = shared if shared >= SHARED_TOKENS else 0
        about = f"{rehearsal.conversation}, {prompt.id}{f', {prompt.about}' if prompt.about else ''}"
        call = StepCalls(pending=1, input=own, cached=cached, output=expected, longest=(own, about))
        rehearsal.tally[self._role, prompt.id].add(call)


class EstimatingEmbedding:
    """A `Model` that counts the texts that are to be embedded, and embeds none.

    Texts get their stored vectors if the first of them has one, and those without get the shipped encoder's, in the
    same width. If the first has none, all get the shipped encoder's.
    """

    def __init__(self, endpoint: EndpointModel, rehearsal: DryRun) -> None:
        self._endpoint = endpoint
        self._rehearsal = rehearsal
        self._width: int | None = None

    @property
    def name(self) -> str:
        """The endpoint's model id."""
        return self._endpoint.name

    async def complete(self, prompt: Prompt) -> Completion:
        """Return a vector, or raise the stored failure; count a text once."""
        request = self._endpoint.request(prompt)
        key = call_key(request, self._endpoint.endpoint.base_url, prompt.repeat)
        first, stored = key not in self._rehearsal.keys, self._rehearsal.held(key)
        self._rehearsal.keys.add(key)
        tally = self._rehearsal.tally[self._endpoint.role, EMBED]
        if stored is not None:
            tally.held += first
        elif first:
            tokens = self._rehearsal.counter.count(request["input"])
            tally.add(StepCalls(pending=1, input=tokens, longest=(tokens, self._rehearsal.conversation)))
        reply = stored.completion() if stored is not None else None
        if self._width is None:
            self._width = read_vector(reply).size if reply else 0
        if reply and self._width:
            return reply
        (vector,) = embedded_encoder().encode([request["input"]])
        # Resized for the sake of its shape: it is compared with vectors of another model.
        return Completion(write_vector(np.resize(vector, self._width) if self._width else vector))


class EstimatingReranker:
    """A `Model` that counts the queries that texts are to be ranked by, and ranks them as they come."""

    def __init__(self, endpoint: EndpointModel, rehearsal: DryRun) -> None:
        self._endpoint = endpoint
        self._rehearsal = rehearsal

    @property
    def name(self) -> str:
        """The endpoint's model id."""
        return self._endpoint.name

    async def complete(self, prompt: Prompt) -> Completion:
        """Return the stored reply, raise the stored failure, or count the call once."""
        request = self._endpoint.request(prompt)
        key = call_key(request, self._endpoint.endpoint.base_url, prompt.repeat)
        first, stored = key not in self._rehearsal.keys, self._rehearsal.held(key)
        self._rehearsal.keys.add(key)
        tally = self._rehearsal.tally[self._endpoint.role, prompt.id]
        if stored is not None:
            tally.held += first
            return stored.completion()
        if first:
            tokens = self._rehearsal.counter.count(to_json([request["query"], *request["documents"]]))
            tally.add(StepCalls(pending=1, input=tokens))
        ranked = [{"index": place, "relevance_score": -place} for place in range(len(request["documents"]))]
        return Completion(to_json({"results": ranked[: request["top_n"]]}))


def expected_output(prompt: Prompt) -> float:
    """Return the expected output tokens of a call whose step has too few stored replies for a mean."""
    if prompt.id == "scratchpad_compress":
        return float(prompt.variables["target_tokens"])
    return EXPECTED.get(prompt.id, ELSE_EXPECTED)[0]


def output_basis(prompt_id: str) -> str:
    """Say where the expected output tokens of a step come from."""
    if prompt_id == EMBED:
        return "vectors are not priced by output"
    if "/" in prompt_id:
        return "expected: a rule for this system, see packages/beam_commands/estimate.py"
    if prompt_id == "scratchpad_compress":
        return "expected: the length it is asked for"
    return f"expected: {EXPECTED.get(prompt_id, ELSE_EXPECTED)[1]}"


def pad_to_length(prompt: Prompt, reply: str, tokens: float, counter: TokenCounter = WORDS) -> str:
    """Pad the stand-in's `reply` to about `tokens` tokens with text of its prompt; it is never empty."""
    text = reply.strip() or "Nothing."  # an empty reply would be retried
    missing = int(tokens - counter.count(text))
    if prompt.id not in _PADDED or missing <= 0:
        return text
    source, separator = _PADDED[prompt.id]
    lender = dialogue_text(prompt.turns) if prompt.turns else prompt.variables[source]
    return text + separator + lender[: _CHARACTERS * missing]


def input_tokens(prompt: Prompt, prompts: Prompts | None, counter: TokenCounter) -> int:
    """Count the tokens of a request. Frame and variables are counted apart: counters cache texts."""
    return (
        _frame_tokens(prompts[prompt.id] if prompts else prompt_file(prompt.id), counter)
        + sum(counter.count(value) for value in prompt.variables.values())
        + dialogue_tokens(prompt.turns, counter)
        + MESSAGE_TOKENS * len(prompt.turns)
        + counter.count(prompt.complaint)
    )


@lru_cache(maxsize=64)
def _frame_tokens(prompt: PromptFile, counter: TokenCounter) -> int:
    empty = render(prompt.id, dict.fromkeys(prompt.variables, ""), Prompts({prompt.id: prompt}))
    return REQUEST_TOKENS + sum(MESSAGE_TOKENS + counter.count(message["content"]) for message in empty)
