"""Extract keys and notes: what a model reads of each pair, and what happens if some of its calls fail (section 3).

The model reads a pair and its history. The history of a turn's first pair is the whole turn before it, none where a
plan begins; that of a later pair is the earlier pairs of its own turn. This is the released code's rule (M12 of the
reference).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from beamlib.data.conversations import Conversation, Pair
from beamlib.llm.model import Completion, Model, ModelError, Prompt, attempt_all
from beamlib.memory.budget import shorten
from beamlib.memory.protocol import passage
from beamlib.text import WORDS, TokenCounter

INPUT_TOKENS = 25_000
"""Pair and history together: a 32K extractor less its instructions and its reply."""

PAIR_TOKENS = 18_000
"""The pair alone. Only degenerate messages (one has 350,000 characters) are longer; their middle is left out."""

MOST_GAPS = 0.1
"""Share of a group's calls that may fail for good. Above it something is wrong with all of them."""

_MARK = re.compile(r"\A(?:[-*•+]|#{1,6}|\d{1,3}[.)])\s+")
_WORD = re.compile(r"[^\W_]")
_FENCE = re.compile(r"(?:```|~~~)\w*")
_PREAMBLE = re.compile(
    r"\W*+(?:sure|certainly|of course|okay|here(?:'s|’s| is| are)|below (?:is|are)|extracted facts)\b",
    re.IGNORECASE,
)
"""How chat models begin before the list itself, up to a colon; the last is the name that listing 41 gives its list."""
_LABEL = re.compile(r"^(?:said|summary):\s*", re.IGNORECASE)
_BOLD = re.compile(r"\A\*\*(.+?)\*\*")


def header(pair: Pair) -> str:
    """Return the first line of `passage(pair)`: notes name their source by it."""
    return f"[{pair_range(pair)}]"


def pair_range(pair: Pair) -> str:
    """Name a pair in messages to the user."""
    first, last = pair.message_ids
    return f"messages {first}-{last}"


def extraction_prompts(prompt_id: str, conversation: Conversation, counter: TokenCounter = WORDS) -> list[Prompt]:
    """Build a prompt per pair of a conversation, in order: `episodic_keys` (Listing 40) or `scratchpad_notes` (41)."""
    texts = {pair.user.id: passage(pair).text for pair in conversation.pairs}
    sizes = {message_id: counter.count(text) for message_id, text in texts.items()}
    turn_before, plan = tuple[Pair, ...](), None
    with_history: list[tuple[Pair, Sequence[Pair]]] = []
    for batch in conversation.batches:
        if batch.plan != plan:
            turn_before, plan = (), batch.plan
        for turn in batch.turns:
            pairs = turn.pairs
            with_history += [(pair, pairs[:place] if place else turn_before) for place, pair in enumerate(pairs)]
            turn_before = pairs
    prompts = []
    for pair, before in with_history:
        text, size = texts[pair.user.id], sizes[pair.user.id]
        if size > PAIR_TOKENS:
            text, size = shorten(text, PAIR_TOKENS, counter), PAIR_TOKENS
        history = "\n\n".join(texts[earlier.user.id] for earlier in before)
        if sum(sizes[earlier.user.id] for earlier in before) > INPUT_TOKENS - size:
            history = shorten(history, INPUT_TOKENS - size, counter)
        prompts.append(Prompt(prompt_id, {"history": history, "pair": text}, about=pair_range(pair)))
    return prompts


def extract(model: Model, prompts: Sequence[Prompt]) -> list[str]:
    """Send all prompts at once and return the replies in order; raise the group's `ModelError` if a call failed."""
    replies = attempt_all(model, prompts)
    if error := _group_error(prompts, replies):
        raise error
    return [reply.text for reply in replies if isinstance(reply, Completion)]


def fill_gaps(prompts: Sequence[Prompt], replies: Sequence[Completion | ModelError]) -> tuple[list[str], int]:
    """Return the replies' texts, empty for calls that failed for good, and the number of these.

    A content filter that refuses one pair of hundreds must not cost the conversation.

    Raises:
        ModelError: If a call may yet succeed, or more than `MOST_GAPS` of the calls failed.
    """
    gaps = sum(isinstance(reply, ModelError) and not reply.transient for reply in replies)
    too_many = gaps > MOST_GAPS * len(prompts)
    if error := _group_error(prompts, replies, only_transient=not too_many):
        raise error
    return [reply.text if isinstance(reply, Completion) else "" for reply in replies], gaps


def _group_error(
    prompts: Sequence[Prompt], replies: Sequence[Completion | ModelError], *, only_transient: bool = False
) -> ModelError | None:
    """Combine the failed calls of a group into one error; None without any.

    It names the step and the pair, and counts the other failures. A permanent failure comes before a transient one: the
    group can only succeed later if all of its failures are transient.
    """
    failed = [
        (prompt, reply)
        for prompt, reply in zip(prompts, replies, strict=True)
        if isinstance(reply, ModelError) and (reply.transient or not only_transient)
    ]
    if not failed:
        return None
    prompt, error = min(failed, key=lambda failure: failure[1].transient)  # the first of its kind: min keeps the order
    others = f" (and {len(failed) - 1} more failed calls of {len(prompts)})" if len(failed) > 1 else ""
    return ModelError(f"{prompt.id} for {prompt.about}: {error}{others}", error.outcome)


def read_pairs(
    model: Model, conversation: Conversation, counter: TokenCounter = WORDS
) -> tuple[list[str], list[str], int]:
    """Get every pair's replies to `episodic_keys` and to `scratchpad_notes`, all calls at once, and count the gaps.

    Both calls about a pair are neighbours. See `fill_gaps` for failed calls.
    """
    keys = extraction_prompts("episodic_keys", conversation, counter)
    prompts = [prompt for key_prompt in keys for prompt in (key_prompt, replace(key_prompt, id="scratchpad_notes"))]
    texts, gaps = fill_gaps(prompts, attempt_all(model, prompts))
    return texts[::2], texts[1::2], gaps


def keys_of_pairs(conversation: Conversation, replies: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Read each pair's keys from the reply to its `episodic_keys` prompt.

    A pair without a key could never be found: its user's words take their place.
    """
    pairs = zip(conversation.pairs, replies, strict=True)
    return tuple(read_keys(reply) or (pair.user.content,) for pair, reply in pairs)


def read_keys(reply: str) -> tuple[str, ...]:
    """Read keys from a reply: its lines without marks and repeats.

    The labels `said:` and `summary:` tell nothing about the subject and are removed; others stay.
    """
    lines = (_LABEL.sub("", _BOLD.sub(r"\1", line)).strip() for line in lines_of(reply))
    return tuple(dict.fromkeys(line for line in lines if line))


def lines_of(reply: str) -> list[str]:
    """Return the lines of a reply, none empty, without list and heading marks.

    Code fences, rules and a preamble ("Sure! Here are the notes:") are left out.
    """
    raw_lines = (raw.strip() for raw in reply.splitlines())
    stripped = (_MARK.sub("", raw, count=1).strip() for raw in raw_lines if not _FENCE.fullmatch(raw))
    lines = [line for line in stripped if _WORD.search(line)]
    if lines and (opening := _PREAMBLE.match(lines[0])):
        before, colon, after = lines[0].rpartition(":")
        if colon and opening.end() <= len(before) and not re.search(r"\w", after):
            return lines[1:]
    return lines
