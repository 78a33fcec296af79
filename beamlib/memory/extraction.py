"""What the extracting model reads of each pair: the pair and the talk just before it (paper section 3).

The history of a turn's first pair is the whole turn before it, none where a plan begins; that of a later pair is the
earlier pairs of its own turn. This is the released code's rule (M12 of the reference).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from beamlib.data.conversations import Conversation, Pair
from beamlib.llm.model import Model, Prompt, attempt_all
from beamlib.memory.budget import shorten
from beamlib.memory.episodic import read_keys
from beamlib.memory.group_calls import replies_to, with_gaps
from beamlib.memory.protocol import passage
from beamlib.text import WORDS, TokenCounter

INPUT_TOKENS = 25_000
"""Pair and history together: a 32K extractor less its instructions and its reply."""

PAIR_TOKENS = 18_000
"""The pair alone. Only degenerate messages (one has 350,000 characters) are longer; their middle is left out."""


def header(pair: Pair) -> str:
    """The first line of `passage(pair)`: the mark by which notes say where they come from."""
    return f"[{about(pair)}]"


def about(pair: Pair) -> str:
    """What a call on `pair` concerns, in messages to the user."""
    first, last = pair.message_ids
    return f"messages {first}-{last}"


def extraction_prompts(prompt_id: str, conversation: Conversation, counter: TokenCounter = WORDS) -> list[Prompt]:
    """One prompt per pair of the conversation, in order: `episodic_keys` (Listing 40) or `scratchpad_notes` (41)."""
    texts = {pair.user.id: passage(pair).text for pair in conversation.pairs}
    sizes = {message_id: counter.count(text) for message_id, text in texts.items()}
    prompts = []
    for pair, before in _with_history(conversation):
        text, size = texts[pair.user.id], sizes[pair.user.id]
        if size > PAIR_TOKENS:
            text, size = shorten(text, PAIR_TOKENS, counter), PAIR_TOKENS
        history = "\n\n".join(texts[earlier.user.id] for earlier in before)
        if sum(sizes[earlier.user.id] for earlier in before) > INPUT_TOKENS - size:
            history = shorten(history, INPUT_TOKENS - size, counter)
        prompts.append(Prompt(prompt_id, {"history": history, "pair": text}, about=about(pair)))
    return prompts


def extract(model: Model, prompts: Sequence[Prompt]) -> list[str]:
    """The replies to extraction prompts, in order, all asked at once.

    Raises `ModelError` if a call failed: it says which pair's and keeps the outcome.
    """
    return replies_to(model, prompts)


def read_pairs(
    model: Model, conversation: Conversation, counter: TokenCounter = WORDS
) -> tuple[list[str], list[str], int]:
    """Every pair's replies to `episodic_keys` and to `scratchpad_notes`; no call waits for another.

    Both calls about a pair stand together. The third value counts gaps: calls that failed for good, whose reply is
    empty. Raises `ModelError` where calls may yet succeed, or too many failed.
    """
    keys = extraction_prompts("episodic_keys", conversation, counter)
    prompts = [asked for prompt in keys for asked in (prompt, replace(prompt, id="scratchpad_notes"))]
    texts, gaps = with_gaps(prompts, attempt_all(model, prompts))
    return texts[::2], texts[1::2], gaps


def episodic_keys(conversation: Conversation, replies: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Each pair's keys from the reply to its `episodic_keys` prompt.

    A pair without a single key could never be found: its user's words stand in for them.
    """
    pairs = zip(conversation.pairs, replies, strict=True)
    return tuple(read_keys(reply) or (pair.user.content,) for pair, reply in pairs)


def _with_history(conversation: Conversation) -> Iterator[tuple[Pair, Sequence[Pair]]]:
    turn_before: tuple[Pair, ...] = ()
    plan = None
    for batch in conversation.batches:
        if batch.plan != plan:
            turn_before, plan = (), batch.plan
        for turn in batch.turns:
            for position, pair in enumerate(turn.pairs):
                yield pair, turn.pairs[:position] if position else turn_before
            turn_before = turn.pairs
