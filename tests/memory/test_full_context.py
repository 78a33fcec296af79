from collections.abc import Callable

import pytest

from beamlib.data.conversations import Conversation
from beamlib.errors import UserError
from beamlib.memory.budget import JOINT_TOKENS, LEAST_TOKENS, passage_tokens
from beamlib.memory.full_context import FullContext
from beamlib.memory.protocol import RetrievedContext, passage
from beamlib.text import count_tokens

LEAST = LEAST_TOKENS + JOINT_TOKENS


def _recalled(conversation: Conversation, window: int, reserve: int = 0) -> RetrievedContext:
    memory = FullContext(window, reserve)
    memory.ingest(conversation)
    return memory.recall("anything?")


def _sizes(conversation: Conversation) -> list[int]:
    return [passage_tokens(passage(pair).text) for pair in conversation.pairs]


def test_walks_across_the_boundary_without_a_gap(make_conversation: Callable[..., Conversation]) -> None:
    """The released pruning returns nothing for totals just under its limit (M8): here no window is without context."""
    conversation = make_conversation([[(f"word{i} " * (20 + 7 * i % 23), "fine " * (3 * i))] for i in range(12)])
    pairs, sizes = conversation.pairs, _sizes(conversation)
    seen = 0
    for window in range(LEAST, sum(sizes) + 10):
        recollection = _recalled(conversation, window)
        count = len(recollection.message_ids) // 2
        assert count >= max(seen, 1), f"window {window} shows less than a smaller one"
        assert count_tokens(recollection.context) <= window
        assert recollection.message_ids == tuple(i for pair in pairs[len(pairs) - count :] for i in pair.message_ids)
        if sizes[-1] <= window:
            assert sum(sizes[-count:]) == count_tokens(recollection.context) + count * JOINT_TOKENS
            assert count == len(pairs) or sum(sizes[-count - 1 :]) > window, "an older pair would have fitted"
        seen = count
    assert seen == len(pairs)


def test_a_newest_pair_too_long_is_cut_with_a_mark(make_conversation: Callable[..., Conversation]) -> None:
    conversation = make_conversation(
        [[("first", "reply")], [("The question. " + "x y " * 900, "z " * 900 + "The end.")]]
    )
    recollection = _recalled(conversation, 200)
    assert recollection.message_ids == (2, 3)
    assert recollection.context.startswith("[messages 2-3]\nUSER: The question.")
    assert recollection.context.endswith("The end.")
    assert "tokens left out" in recollection.context
    assert 188 <= count_tokens(recollection.context) <= 198


def test_shows_pairs_oldest_first_as_the_reader_expects(bakery: Conversation) -> None:
    recollection = _recalled(bakery, 100_000)
    assert recollection.context == "\n\n".join(passage(pair).text for pair in bakery.pairs)


def test_earlier_questions_do_not_leak(bakery: Conversation) -> None:
    """The released code appends every question to the next prompt (M9)."""
    memory = FullContext(50_000)
    memory.ingest(bakery)
    first = memory.recall("What is the starter called?")
    memory.recall("zebra zebra zebra")
    assert memory.recall("What is the starter called?") == first
    assert "zebra" not in memory.recall("Who delivers flour?").context


def test_a_new_conversation_replaces_the_old(
    make_conversation: Callable[..., Conversation], bakery: Conversation
) -> None:
    memory = FullContext(50_000)
    memory.ingest(bakery)
    memory.ingest(make_conversation([[("only this", "yes")]]))
    assert memory.recall("?").message_ids == (0, 1)
    memory.ingest(make_conversation([]))
    assert memory.recall("?") == RetrievedContext("")


def test_a_window_without_room_is_refused() -> None:
    with pytest.raises(UserError, match="full_context: a window of 3000 tokens less a reserve of 3000 leaves 0"):
        FullContext(3_000)
