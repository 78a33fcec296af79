"""The base of memories that are written to over time: settings, failed calls, and sessions in parts."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self, TypeVar

from beamlib.data.conversations import Conversation, Message, Pair
from beamlib.errors import UserError
from beamlib.llm.model import Model, ModelError, Prompt
from beamlib.memory.budget import RESERVE_TOKENS, most_pairs, passage_tokens, shorten
from beamlib.memory.declared import DeclaredMemory, Given
from beamlib.memory.extraction import MOST_GAPS
from beamlib.memory.protocol import RetrievedContext, passage
from beamlib.text import WORDS, TokenCounter


@dataclass(frozen=True, slots=True)
class SessionRead:
    """A session as these memories read it: its date as text (may be empty), and its messages."""

    number: int
    date: str
    messages: tuple[Message, ...]


def sessions_of(conversation: Conversation) -> Sequence[SessionRead]:
    """Return the batches of a conversation as sessions."""
    return [
        SessionRead(
            number, batch.time_anchor or "", tuple(message for turn in batch.turns for message in turn.messages)
        )
        for number, batch in enumerate(conversation.batches)
    ]


_Value = TypeVar("_Value")
_LEAST = 4_000


@dataclass(frozen=True, slots=True)
class EvolvingSettings:
    """Settings of these memories.

    Attributes:
        reader_window: Context window of the answering model in tokens.
        reserve_tokens: Tokens of it for question and answer.
        model_window: Context window of the memory's own model; sessions and files take two thirds of it.
        rounds: Rounds of a model with tools (section 1 of the fact sheet: five).
        k: Retrieved pairs.
        retriever: The retriever's name.
        counter: Counts all tokens.
    """

    reader_window: int = 32_768
    reserve_tokens: int = RESERVE_TOKENS
    model_window: int = 32_768
    rounds: int = 5
    k: int = 5
    retriever: str = "hybrid"
    counter: TokenCounter = WORDS

    def __post_init__(self) -> None:
        bounds = {"rounds": (self.rounds, 1), "k": (self.k, 1), "model_window": (self.model_window, _LEAST)}
        bounds |= {"reserve_tokens": (self.reserve_tokens, 0)}
        bounds |= {"reader_window": (self.reader_window, self.reserve_tokens + _LEAST)}
        for name, (value, least) in bounds.items():
            if value < least:
                raise UserError(f"memory settings: {name} is {value}; it has to be at least {least}.")
        if self.k > (most := most_pairs(self.context_tokens // 2)):
            raise UserError(f"memory settings: k is {self.k}; a reader_window of {self.reader_window} holds {most}.")

    @property
    def context_tokens(self) -> int:
        """Tokens that a retrieved context may have."""
        return self.reader_window - self.reserve_tokens

    @property
    def part_tokens(self) -> int:
        """Tokens of a session per call, and the same for files that the model has read."""
        return self.model_window // 3


class Gaps:
    """Count the calls of a reading, and those that failed permanently."""

    def __init__(self) -> None:
        self.made = 0
        self.lost = 0

    def attempt(self, work: Callable[[], _Value], prompt: Prompt) -> _Value | None:
        """Run `work`, a step by `prompt`; return None where its call failed permanently.

        Raises:
            ModelError: The failure is transient, or more than `MOST_GAPS` of all calls failed (one is always
                tolerated).
        """
        self.made += 1
        try:
            return work()
        except ModelError as error:
            self.lost += not error.transient
            if error.transient or self.lost > max(1, MOST_GAPS * self.made):
                raise ModelError(f"{prompt.id} for {prompt.about}: {error}", error.outcome) from None
            return None


class EvolvingMemory(DeclaredMemory, ABC):
    """Read sessions one after the other and update what is stored; `model` is called in the course of it.

    It is a `Memory` too: `ingest(conversation)` forgets everything, then reads each batch as a session, dated by its
    `time_anchor`, and finalises. `recall` changes nothing.
    """

    uses: ClassVar[tuple[str, ...]] = ("reader_window", "token_counter")
    # Records name the prompts of the whole family: a change of one makes the answers of all anew.
    prompts = ("dependency_notes", "file_memory_ingest", "file_memory_recall", "wiki_choose", "wiki_compile")
    roles = ("reader", "memory")
    code = ("beam_memories.evolving",)

    @classmethod
    def build(cls, given: Given) -> Self:
        settings = EvolvingSettings(
            given["reader_window"], k=given["k"], retriever=given["retriever"], counter=given.counter
        )
        return cls(given.models.memory, settings)

    def __init__(self, model: Model, settings: EvolvingSettings | None = None) -> None:
        self._model = model
        self.settings = settings or EvolvingSettings()
        self._gaps = Gaps()
        self._ids: list[int] = []
        self.reset()

    def ingest(self, conversation: Conversation) -> None:
        """Forget everything, read every session of `conversation`, and finalise. Raises `ModelError`."""
        self.reset()
        for session in sessions_of(conversation):
            self.read_session(session)
        self.finalise()

    def reset(self) -> None:
        """Forget everything."""
        self._gaps = Gaps()
        self._ids = []
        self._forget()

    def read_session(self, session: SessionRead) -> None:
        """Read one session. Raises `ModelError` for a transient failure, or after too many failures."""
        self._ids += [message.id for message in session.messages]
        self._read(session)

    def finalise(self) -> None:
        """Prepare for questions, where a memory has to."""
        return None

    @abstractmethod
    def _forget(self) -> None: ...

    @abstractmethod
    def _read(self, session: SessionRead) -> None: ...

    @abstractmethod
    def recall(self, question: str) -> RetrievedContext: ...

    @abstractmethod
    def snapshot(self) -> Mapping[str, str]: ...


_RANGE = re.compile(r"\[messages (\d{1,9})-(\d{1,9})\]")


@dataclass(frozen=True, slots=True)
class SessionPart:
    """Successive pairs of a session as one text."""

    text: str
    message_ids: tuple[int, ...]

    @property
    def about(self) -> str:
        """Name the messages, for messages to the user."""
        return f"messages {self.message_ids[0]}-{self.message_ids[-1]}"


def pairs_of(session: SessionRead) -> list[Pair]:
    """Return the session's pairs; `ValueError` where its messages do not come in pairs."""
    messages = session.messages
    return [Pair(user, assistant) for user, assistant in zip(messages[::2], messages[1::2], strict=True)]


def parts_of(
    session: SessionRead, tokens: int, counter: TokenCounter, *, user_only: bool = False
) -> Iterator[SessionPart]:
    """Split the session into parts of at most `tokens` tokens. A longer pair loses its middle."""
    texts: list[str] = []
    ids: list[int] = []
    left = tokens
    for pair in pairs_of(session):
        text = shorten(_said(pair) if user_only else passage(pair).text, tokens - 2, counter)
        size = passage_tokens(text, counter)
        if texts and size > left:
            yield SessionPart("\n\n".join(texts), tuple(ids))
            texts, ids, left = [], [], tokens
        texts.append(text)
        ids += pair.message_ids
        left -= size
    if texts:
        yield SessionPart("\n\n".join(texts), tuple(ids))


def _said(pair: Pair) -> str:
    first, last = pair.message_ids
    return f"[messages {first}-{last}]\n{pair.user.content}"


def named_messages(text: str, known: Sequence[int]) -> tuple[int, ...]:
    """Return the `known` message ids that the headers in `text` name, in order of mention."""
    ranges = [(int(one[1]), int(one[2])) for one in _RANGE.finditer(text)]
    return tuple(dict.fromkeys(i for first, last in ranges for i in known if first <= i <= last))
