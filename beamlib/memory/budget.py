"""Fit text into a number of tokens: keep whole, shorten or drop.

Sizes are counted per piece and summed. Real tokens do not quite add up over pieces, so every piece of a context is
charged `JOINT_TOKENS` more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from beamlib.memory.protocol import Cuts, Passage
from beamlib.text import TOKEN_COUNTER, WORDS, TokenCounter

RESERVE_TOKENS = 3_000
"""Tokens of a reader's window that a memory leaves for the instructions, the question and the answer. Also covers the
counter's error: on single messages the default one may be 5 % below a real tokenizer."""

LEAST_TOKENS = 64
"""No passage is shortened below this: room for its header, the mark and some words on either side."""

OVERSIZED_SHARE = 1 / 8
"""What a pair that is longer than all the room gets of it: with the default window, room for twenty others is left."""

JOINT_TOKENS = 2
"""Charged for the blank line between two passages, and for tokens that differ where they meet."""


def passage_tokens(text: str, counter: TokenCounter = WORDS) -> int:
    """Count the tokens of a text in a context, with its joint."""
    return counter.count(text) + JOINT_TOKENS


def exact_joint(counter: TokenCounter) -> int:
    """Return what a joint takes at most: nothing where white space is no token, so that sizes add up."""
    return 0 if counter.name == TOKEN_COUNTER else JOINT_TOKENS


def shorten(text: str, tokens: int, counter: TokenCounter = WORDS) -> str:
    """Shorten a text to `tokens` tokens, at least `LEAST_TOKENS`: a mark with a count replaces its middle."""
    if tokens < LEAST_TOKENS:
        raise ValueError(f"cannot shorten a text to {tokens} tokens, fewer than {LEAST_TOKENS}")
    if counter.count(text) <= tokens:
        return text
    spans = counter.spans(text)
    room = max(min(tokens, len(spans)) - counter.count(_mark(len(spans))), 2)
    while True:
        head, tail = text[: spans[room // 2 - 1][1]], text[spans[len(spans) - (room - room // 2)][0] :]
        short = f"{head}{_mark(len(spans) - room)}{tail}"
        excess = counter.count(short) - tokens
        if excess <= 0 or room == 2:
            return short
        room = max(room - excess, 2)  # the pieces beside the mark may count more than before


def newest_that_fit(sizes: Sequence[int], tokens: int) -> int:
    """Return the start of the longest tail of `sizes` whose sum is at most `tokens`; `len(sizes)` if none fits."""
    start, left = len(sizes), tokens
    while start > 0 and sizes[start - 1] <= left:
        start -= 1
        left -= sizes[start]
    return start


def fit_pairs(
    passages: Sequence[Passage],
    tokens: int,
    counter: TokenCounter = WORDS,
    *,
    longest: int | None = None,
    skip: bool = False,
    joint: int = JOINT_TOKENS,
) -> tuple[list[Passage], Cuts]:
    """Fit ranked pairs into a room: every pair whole, the lowest-ranked dropped if they do not fit.

    A pair of more than `longest` tokens, by default all the room, is shortened to `OVERSIZED_SHARE` of them, so that
    one message of 350,000 characters neither empties the context nor vanishes from it. The number of pairs makes no
    difference to it: a larger K shows all that a smaller one does.

    Args:
        passages: Best first.
        tokens: The room, joints included; at least `LEAST_TOKENS` and a joint.
        skip: Go on after a pair that does not fit, so that none is dropped that has room.
        joint: Charged for each pair.

    Returns:
        The passages that are shown, best first, and what was cut.
    """
    longest = tokens if longest is None else longest
    share = max(int(longest * OVERSIZED_SHARE) - JOINT_TOKENS, LEAST_TOKENS)
    fitted: list[Passage] = []
    left = tokens
    for item in passages:
        size = counter.count(item.text) + joint
        if size > longest:
            item = replace(item, text=shorten(item.text, share, counter))
            size = counter.count(item.text) + joint
        if size > left:
            if skip:
                continue
            break
        fitted.append(item)
        left -= size
    return fitted, pairs_cut(passages, fitted)


def pairs_cut(recalled: Sequence[Passage], shown: Sequence[Passage]) -> Cuts:
    """Count the `recalled` pairs that stand nowhere in a context, and those that stand in it only shortened."""
    whole = {(item.message_ids, item.text) for item in shown}
    in_part = {item.message_ids for item in shown}
    cut = [item.message_ids in in_part for item in recalled if (item.message_ids, item.text) not in whole]
    return Cuts(pairs_shortened=cut.count(True), pairs_dropped=cut.count(False))


def most_pairs(tokens: int) -> int:
    """Return how many pairs of the least size a room holds."""
    return tokens // (LEAST_TOKENS + JOINT_TOKENS)


def _mark(left_out: int) -> str:
    return f"\n[… {left_out} tokens left out …]\n"
