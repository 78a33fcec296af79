"""Behaviours of the released code that a memory can reproduce, one flag each (section 6.2 of the reference).

`beamlib.params.RELEASED_FLAGS` has these names and the flags of the reader and the data.

No flag reproduces the deep indentation inside a pair's text, the absence of message ids (every variant shows them, see
`beamlib.memory.protocol.passage`), scratchpad thresholds by characters (M4), the compressor's type error (M5), and kept
chunks without a limit (M6): they stay within the reader's window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from beamlib.data.conversations import Conversation, Pair
from beamlib.errors import UserError
from beamlib.memory.budget import passage_tokens
from beamlib.memory.protocol import Passage
from beamlib.text import WORDS, TokenCounter

RAG_FLAGS = frozenset({"duplicate_per_message", "character_budgets"})
"""Flags that change what RAG recalls."""

LIGHT_FLAGS = RAG_FLAGS | {"oldest_working_memory", "plan_blind_ids", "one_vector_per_pair", "exact_yes"}
"""Flags that change what LIGHT recalls."""

LIGHT_ESTIMATE = 14_000
"""Retrieved pairs and working memory together, in estimated tokens (about 49,000 characters)."""

RAG_ESTIMATE = 29_000
"""RAG's pairs, in estimated tokens (about 101,500 characters)."""

CHARACTERS_PER_TOKEN = 3.5

WORKING_ENTRIES = 100
"""How many of the newest entries working memory is filled from."""


def check_flags(flags: frozenset[str], known: frozenset[str], owner: str) -> None:
    """Raise `UserError` for a flag that is not in `known`."""
    unknown = sorted(flags - known)
    if unknown:
        raise UserError(f"{owner}: released names {unknown[0]!r:.80}; the known ones are {', '.join(sorted(known))}.")


def flags_name(flags: frozenset[str], known: frozenset[str]) -> list[str]:
    """Return the parts of a memory's name for its flags: `released` for all of them, or each one."""
    if not flags:
        return []
    return ["released"] if flags == known else ["released", *(name.replace("_", "-") for name in sorted(flags))]


def entries(conversation: Conversation, flags: frozenset[str]) -> list[Pair]:
    """Return the pairs in order; with `duplicate_per_message` (M1) all pairs of a turn once per *message* of the turn.

    A turn of two pairs becomes a b a b a b a b. On the twenty evaluated 100K conversations the list is 3.33 times as
    long.
    """
    if "duplicate_per_message" not in flags:
        return list(conversation.pairs)
    return [pair for turn in conversation.turns for _ in turn.messages for pair in turn.pairs]


def pack(
    passages: Sequence[Passage], tokens: int, estimate: int | None = None, counter: TokenCounter = WORDS
) -> list[Passage]:
    """Pack the passages that fit, each tried in order and whole: a later, shorter passage may fit where one did not.

    Args:
        tokens: The room in the reader's window. With the estimates above it binds only for text of few characters per
            token: the released code would overflow the reader there.
        estimate: Upper bound of their characters // 3.5, as in the released code.
    """
    shown, characters, left = [], 0, tokens
    for item in passages:
        size = passage_tokens(item.text, counter)
        estimated = (characters + len(item.text)) // CHARACTERS_PER_TOKEN
        if size <= left and (estimate is None or estimated < estimate):
            shown.append(item)
            characters += len(item.text)
            left -= size
    return shown


def namesakes(conversation: Conversation) -> Mapping[int, tuple[Pair, ...]]:
    """Map every pair, by the id of its user message, to the pairs at its place in any plan (M3).

    A place is the position of the batch in its plan, of the turn in the batch and of the pair in the turn; the released
    index knows a pair by nothing else. Below 10M there is one plan and every pair is alone. The released order among
    namesakes is that in which calls finished; here it is that of the conversation.
    """
    groups: dict[tuple[int, int, int], list[Pair]] = {}
    batches_seen: dict[int, int] = {}
    for batch in conversation.batches:
        place = batches_seen.setdefault(batch.plan, 0)
        batches_seen[batch.plan] += 1
        for turn_place, turn in enumerate(batch.turns):
            for pair_place, pair in enumerate(turn.pairs):
                groups.setdefault((place, turn_place, pair_place), []).append(pair)
    return {pair.user.id: tuple(group) for group in groups.values() for pair in group}
