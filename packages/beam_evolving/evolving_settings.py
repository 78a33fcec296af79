"""What the memories of this package share: their settings, the count of calls that failed, and reading a conversation
session by session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from beam_evolving.evolving_memory import SessionRead, sessions_of
from beamlib.data.conversations import Conversation
from beamlib.errors import UserError
from beamlib.llm.model import Model, ModelError, Prompt
from beamlib.memory.budget import RESERVE_TOKENS, most_pairs
from beamlib.memory.extraction import MOST_GAPS
from beamlib.memory.protocol import RetrievedContext
from beamlib.text import WORDS, TokenCounter

Value = TypeVar("Value")
_LEAST = 4_000


@dataclass(frozen=True, slots=True)
class EvolvingSettings:
    """`reader_window` is the answering model's in tokens, `reserve_tokens` of it are left for question and answer.

    `model_window` is that of the model inside: what it is shown of sessions and files together keeps within two thirds
    of it. `rounds` bounds a model with tools (section 1 of the fact sheet: five). `k` pairs are retrieved by
    `retriever` where a memory retrieves. `counter` counts all tokens.
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
        """Tokens of a session that one call is shown, and again of what it has read of its files."""
        return self.model_window // 3


class Gaps:
    """Counts the calls of a reading, and those of them that ended for good without a usable reply."""

    def __init__(self) -> None:
        self.made = 0
        self.lost = 0

    def attempt(self, work: Callable[[], Value], prompt: Prompt) -> Value | None:
        """What `work`, a step by `prompt`, gives; None where its call failed for good, which is counted.

        Raises `ModelError`, naming the step, where the call may yet succeed, or more than `MOST_GAPS` of all failed
        (one is always let pass).
        """
        self.made += 1
        try:
            return work()
        except ModelError as error:
            self.lost += not error.transient
            if error.transient or self.lost > max(1, MOST_GAPS * self.made):
                raise ModelError(f"{prompt.id} for {prompt.about}: {error}", error.outcome) from None
            return None


class Evolving(ABC):
    """An `EvolvingMemory` but for what it keeps. `model` works inside it."""

    kind: str

    def __init__(self, model: Model, settings: EvolvingSettings | None = None) -> None:
        self._model = model
        self.settings = settings or EvolvingSettings()
        self._gaps = Gaps()
        self._ids: list[int] = []
        self.reset()

    @property
    def name(self) -> str:
        """The memory's kind."""
        return self.kind

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
        """Read one session. Raises `ModelError` where a call may yet succeed, or too many failed."""
        self._ids += [message.id for message in session.messages]
        self._read(session)

    def finalise(self) -> None:
        """What is to be done before questions are asked; nothing unless a memory says so."""
        return None

    @abstractmethod
    def _forget(self) -> None: ...

    @abstractmethod
    def _read(self, session: SessionRead) -> None: ...

    @abstractmethod
    def recall(self, question: str) -> RetrievedContext: ...

    @abstractmethod
    def snapshot(self) -> Mapping[str, str]: ...
