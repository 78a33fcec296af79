"""The long-context baseline (paper section 4.1): the whole conversation, or its newest part where it does not fit.

The released pruning returns nothing when a conversation ends up just below its limit (M8 of the reference: between
10,000 and 2,000 tokens under it), and it appends every earlier question to the next prompt (M9). Here the newest pair
is always there, and recalling leaves no trace.
"""

from __future__ import annotations

from beamlib.data.conversations import Conversation
from beamlib.errors import UserError
from beamlib.memory.budget import JOINT_TOKENS, LEAST_TOKENS, RESERVE_TOKENS, newest_that_fit, passage_tokens, shorten
from beamlib.memory.protocol import Cuts, Passage, RetrievedContext, passage
from beamlib.text import WORDS, TokenCounter


class NoMemory:
    """Recalls an empty context, so that what the reader knows or guesses by itself can be told apart."""

    name = "none"

    def ingest(self, conversation: Conversation) -> None:
        """Read nothing."""

    def recall(self, question: str) -> RetrievedContext:
        """An empty recollection."""
        return RetrievedContext("")


_LEAST = LEAST_TOKENS + JOINT_TOKENS


class FullContext:
    """The newest pairs that fit into `window_tokens - reserve_tokens`, oldest first, each of them whole.

    A newest pair that does not fit alone is shown with its middle left out and a mark in its place.
    """

    name = "full-context"

    def __init__(self, window_tokens: int, reserve_tokens: int = RESERVE_TOKENS, counter: TokenCounter = WORDS) -> None:
        self._counter = counter
        self._tokens = window_tokens - reserve_tokens
        if self._tokens < _LEAST:
            raise UserError(
                f"full_context: a window of {window_tokens} tokens less a reserve of {reserve_tokens} leaves "
                f"{self._tokens}; give a window of at least {reserve_tokens + _LEAST}."
            )
        self._recollection: RetrievedContext | None = None

    def ingest(self, conversation: Conversation) -> None:
        """Choose the part that fits; it is the same for every question."""
        passages = [passage(pair, part="history") for pair in conversation.pairs]
        start = newest_that_fit([passage_tokens(item.text, self._counter) for item in passages], self._tokens)
        shown = passages[start:]
        cuts = Cuts(pairs_dropped=start)
        if passages and not shown:
            newest = passages[-1]
            text = shorten(newest.text, self._tokens - JOINT_TOKENS, self._counter)
            shown = [Passage(text, newest.message_ids, newest.part)]
            cuts = Cuts(pairs_shortened=1, pairs_dropped=len(passages) - 1)
        self._recollection = RetrievedContext.of(shown, cuts)

    def recall(self, question: str) -> RetrievedContext:
        """The part chosen at ingestion, whatever the question."""
        if self._recollection is None:
            raise RuntimeError("FullContext.recall was called before ingest")
        return self._recollection
