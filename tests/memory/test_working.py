from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from beamlib.data.conversations import Conversation
from beamlib.memory.budget import JOINT_TOKENS, LEAST_TOKENS
from beamlib.memory.light import working_memory
from beamlib.memory.protocol import Recollection, passage
from beamlib.text import WORDS


def test_holds_the_newest_pairs_oldest_first(bakery: Conversation) -> None:
    """The released code fills up from the old end and never shows the newest pair (M2)."""
    found = working_memory(bakery.pairs, 4, 10_000)
    assert [p.text for p in found] == [passage(pair).text for pair in bakery.pairs[-4:]]
    assert {p.part for p in found} == {"working"}


@given(st.integers(1, 12), st.integers(LEAST_TOKENS + JOINT_TOKENS, 900))
def test_the_newest_pair_is_there_under_any_budget(make_conversation: Any, count: int, tokens: int) -> None:
    conversation = make_conversation([[("ask " * (10 * i), "reply " * 30)] for i in range(12)])
    found = working_memory(conversation.pairs, count, tokens)
    ids = [i for p in found for i in p.message_ids]
    assert ids == list(range(ids[0], 24)) and len(found) <= count
    assert WORDS.count(Recollection.of(found).context) <= tokens


def test_none_and_more_than_there_are(bakery: Conversation) -> None:
    assert working_memory(bakery.pairs, 0, 10_000) == []
    assert len(working_memory(bakery.pairs, 99, 10_000)) == len(bakery.pairs)
    assert working_memory((), 4, 10_000) == []
