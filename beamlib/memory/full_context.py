"""The long-context baseline (paper section 4.1): the whole conversation, or the newest part that fits.

The released pruning returns nothing if a conversation ends up just below its limit (M8 of the reference: between 10,000
and 2,000 tokens under it), and it appends every earlier question to the next prompt (M9). Here the newest pair is
always present, and recalling changes nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from beamlib.data.conversations import Conversation, Pair
from beamlib.errors import UserError
from beamlib.llm.prompts import ChatTurn
from beamlib.memory.budget import JOINT_TOKENS, LEAST_TOKENS, RESERVE_TOKENS, newest_that_fit, passage_tokens, shorten
from beamlib.memory.declared import DeclaredMemory, Given
from beamlib.memory.protocol import Cuts, RetrievedContext, chat_turns, passage
from beamlib.text import WORDS, TokenCounter


class NoMemory(DeclaredMemory):
    """Recall an empty context: the floor, which measures what the reader knows or guesses by itself."""

    name = "none"
    order = 0
    joins = "always"

    @classmethod
    def build(cls, given: Given) -> NoMemory:
        return cls()

    def ingest(self, conversation: Conversation) -> None:
        """Ignore the conversation."""

    def recall(self, question: str) -> RetrievedContext:
        return RetrievedContext("")


_PART = "history"
MESSAGE_TOKENS = 4
"""What the chat form adds to the text of a message, by OpenAI's count."""
_PAIR_HEADER = re.compile(r"\[messages \d+-\d+\]\n")
_LEAST_OF_A_TEXT = LEAST_TOKENS + JOINT_TOKENS
_LEAST_OF_TURNS = 2 * (LEAST_TOKENS + MESSAGE_TOKENS)


class FullContext(DeclaredMemory):
    """Recall the newest pairs that fit into `window_tokens - reserve_tokens`, oldest first, each whole.

    A newest pair that does not fit alone loses its middle.

    Args:
        as_turns: Recall the pairs as chat turns too; each turn is charged for its message.
    """

    name = "full-context"
    label = "full context"
    order = 10
    joins = "always"
    uses = ("full_context_window", "token_counter")
    whole = True

    @classmethod
    def build(cls, given: Given) -> FullContext:
        return cls(given["full_context_window"], counter=given.counter, as_turns=given.as_turns)

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
        pairs = conversation.pairs
        sizes = [self._size(pair) for pair in pairs]
        start = min(newest_that_fit(sizes, self._tokens), max(len(pairs) - 1, 0))
        too_long = sum(sizes[start:]) > self._tokens
        passages = [passage(pair, _PART) for pair in pairs[start:]]
        turns: tuple[ChatTurn, ...] = ()
        if self._as_turns:
            dialogue: list[tuple[ChatTurn, ...]] = [chat_turns(pair) for pair in pairs[start:]]
            if too_long:  # of the two turns one that is below half the window stays whole
                room = self._tokens - 2 * MESSAGE_TOKENS
                shorter = min(self._counter.count(turn.text) for turn in dialogue[0])
                most = max(room - shorter, room // 2, LEAST_TOKENS)
                dialogue = [tuple(ChatTurn(turn.role, shorten(turn.text, most, self._counter)) for turn in dialogue[0])]
            texts = map(dialogue_text, dialogue)
            passages = [replace(item, text=text) for item, text in zip(passages, texts, strict=True)]
            turns = tuple(turn for pair_turns in dialogue for turn in pair_turns)
        elif too_long:
            text = shorten(passages[0].text, self._tokens - JOINT_TOKENS, self._counter)
            passages = [replace(passages[0], text=text)]
        cuts = Cuts(pairs_shortened=int(too_long), pairs_dropped=start)
        self._recollection = replace(RetrievedContext.of(passages, cuts), turns=turns)

    def _size(self, pair: Pair) -> int:
        if self._as_turns:
            return sum(self._counter.count(turn.text) + MESSAGE_TOKENS for turn in chat_turns(pair))
        return passage_tokens(passage(pair).text, self._counter)

    def recall(self, question: str) -> RetrievedContext:
        """Return the part chosen at ingestion."""
        if self._recollection is None:
            raise RuntimeError("FullContext.recall was called before ingest")
        return self._recollection


@lru_cache(maxsize=8)  # all questions about a conversation share its dialogue
def dialogue_text(turns: tuple[ChatTurn, ...]) -> str:
    """Write a dialogue as one text, speakers named, in the form of `beamlib.memory.protocol.passage`."""
    pieces = []
    for role, text in turns:
        header = _PAIR_HEADER.match(text)
        start = header.end() if header else 0
        pieces.append(f"\nASSISTANT: {text}" if role == "assistant" else f"\n\n{text[:start]}USER: {text[start:]}")
    return "".join(pieces).lstrip("\n")


@lru_cache(maxsize=8)
def dialogue_tokens(turns: tuple[ChatTurn, ...], counter: TokenCounter) -> int:
    """Count the tokens of a dialogue's texts, without what the chat form adds."""
    return sum(counter.count(turn.text) for turn in turns)
