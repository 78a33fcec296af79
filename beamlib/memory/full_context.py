"""The long-context baseline (paper section 4.1): the whole conversation, or the newest part that fits.

The released pruning returns nothing if a conversation ends up just below its limit (M8 of the reference: between 10,000
and 2,000 tokens under it), and it appends every earlier question to the next prompt (M9). Here the newest pair is
always present, and recalling changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from beamlib.data.conversations import Conversation, Pair
from beamlib.errors import UserError
from beamlib.llm.chat_turns import MESSAGE_TOKENS, ChatTurn, dialogue_text
from beamlib.memory.budget import JOINT_TOKENS, LEAST_TOKENS, RESERVE_TOKENS, newest_that_fit, passage_tokens, shorten
from beamlib.memory.protocol import Cuts, Passage, RetrievedContext, chat_turns, passage
from beamlib.text import WORDS, TokenCounter


class NoMemory:
    """Recall an empty context: the floor, which measures what the reader knows or guesses by itself."""

    name = "none"

    def ingest(self, conversation: Conversation) -> None:
        """Ignore the conversation."""

    def recall(self, question: str) -> RetrievedContext:
        """Return an empty context."""
        return RetrievedContext("")


_PART = "history"
_LEAST_OF_A_TEXT = LEAST_TOKENS + JOINT_TOKENS
_LEAST_OF_TURNS = 2 * (LEAST_TOKENS + MESSAGE_TOKENS)


class FullContext:
    """Recall the newest pairs that fit into `window_tokens - reserve_tokens`, oldest first, each whole.

    A newest pair that does not fit alone loses its middle.

    Args:
        as_turns: Recall the pairs as chat turns too; each turn is charged for its message.
    """

    name = "full-context"

    def __init__(
        self,
        window_tokens: int,
        reserve_tokens: int = RESERVE_TOKENS,
        counter: TokenCounter = WORDS,
        *,
        as_turns: bool = False,
    ) -> None:
        self._counter = counter
        self._as_turns = as_turns
        self._tokens = window_tokens - reserve_tokens
        least = _LEAST_OF_TURNS if as_turns else _LEAST_OF_A_TEXT
        if self._tokens < least:
            raise UserError(
                f"full_context: a window of {window_tokens} tokens less a reserve of {reserve_tokens} leaves "
                f"{self._tokens}; give a window of at least {reserve_tokens + least}."
            )
        self._recollection: RetrievedContext | None = None

    def ingest(self, conversation: Conversation) -> None:
        """Choose the part that fits, the same for every question."""
        choose = self._newest_turns if self._as_turns else self._newest_passages
        self._recollection = choose(conversation.pairs)

    def _newest_passages(self, pairs: Sequence[Pair]) -> RetrievedContext:
        passages = [passage(pair, _PART) for pair in pairs]
        start = newest_that_fit([passage_tokens(item.text, self._counter) for item in passages], self._tokens)
        shown = passages[start:]
        cuts = Cuts(pairs_dropped=start)
        if passages and not shown:
            newest = passages[-1]
            text = shorten(newest.text, self._tokens - JOINT_TOKENS, self._counter)
            shown = [Passage(text, newest.message_ids, newest.part)]
            cuts = Cuts(pairs_shortened=1, pairs_dropped=len(passages) - 1)
        return RetrievedContext.of(shown, cuts)

    def _newest_turns(self, pairs: Sequence[Pair]) -> RetrievedContext:
        dialogue = [chat_turns(pair) for pair in pairs]
        sizes = [sum(self._counter.count(turn.text) + MESSAGE_TOKENS for turn in turns) for turns in dialogue]
        start = min(newest_that_fit(sizes, self._tokens), max(len(pairs) - 1, 0))
        shown = dialogue[start:]
        cuts = Cuts(pairs_shortened=int(sum(sizes[start:]) > self._tokens), pairs_dropped=start)
        if cuts.pairs_shortened:
            shown = [self._shorten_turns(shown[0])]
        passages = [
            Passage(dialogue_text(turns), pair.message_ids, _PART)
            for pair, turns in zip(pairs[start:], shown, strict=True)
        ]
        turns = tuple(turn for pair_turns in shown for turn in pair_turns)
        return replace(RetrievedContext.of(passages, cuts), turns=turns)

    def _shorten_turns(self, turns: tuple[ChatTurn, ChatTurn]) -> tuple[ChatTurn, ChatTurn]:
        """Shorten the two turns of a pair to the window; a turn that is below half of it stays whole."""
        room = self._tokens - 2 * MESSAGE_TOKENS
        shorter = min(self._counter.count(turn.text) for turn in turns)
        most = max(room - shorter, room // 2, LEAST_TOKENS)
        user, assistant = (ChatTurn(turn.role, shorten(turn.text, most, self._counter)) for turn in turns)
        return user, assistant

    def recall(self, question: str) -> RetrievedContext:
        """Return the part chosen at ingestion."""
        if self._recollection is None:
            raise RuntimeError("FullContext.recall was called before ingest")
        return self._recollection
