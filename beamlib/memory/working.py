"""Working memory (paper section 3): the newest pairs of the conversation.

The paper gives no z. The released code fills its budget from the oldest of the last hundred entries, each pair entered
once per message of its turn (M1, M2 of the reference): about four distinct pairs get in, some thirty before the end,
and the newest never does. Here the newest is chosen first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from beamlib.data.model import Pair
from beamlib.memory.budget import most_passages, shortened
from beamlib.memory.protocol import Passage, passage


def newest_pairs(pairs: Sequence[Pair], count: int, shown: Collection[int] = ()) -> list[Passage]:
    """The newest `count` of `pairs`, oldest first, as passages of the part "working".

    Pairs whose messages are in `shown` stand in the context already: they are left out, and no older ones take their
    place.
    """
    shown_ids = frozenset(shown)
    newest = pairs[max(0, len(pairs) - count) :]
    return [passage(pair, part="working") for pair in newest if shown_ids.isdisjoint(pair.message_ids)]


def working_memory(pairs: Sequence[Pair], count: int, tokens: int, shown: Collection[int] = ()) -> list[Passage]:
    """The `newest_pairs` in at most `tokens` tokens: where they do not fit, the longest lose their middle.

    Only where there are too many even for that are the oldest of them left out.
    """
    newest = newest_pairs(pairs, count, shown)
    return shortened(newest[max(0, len(newest) - most_passages(tokens)) :], tokens)
