"""What a memory that is written to over time has beyond `beamlib.memory.Memory`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from beamlib.data.conversations import Conversation, Message
from beamlib.memory.protocol import RetrievedContext


@dataclass(frozen=True, slots=True)
class SessionRead:
    """One session as such a memory reads it: a date as text (may be empty), and messages with their global ids."""

    number: int
    date: str
    messages: tuple[Message, ...]


@runtime_checkable
class EvolvingMemory(Protocol):
    """Reads sessions one after the other and changes what it keeps as it goes.

    It is a `Memory` too: `ingest(conversation)` forgets everything, then reads each batch as a session (its
    `time_anchor` is the date) and finalises. `recall` never changes what is kept.
    """

    @property
    def name(self) -> str: ...

    def ingest(self, conversation: Conversation) -> None: ...

    def recall(self, question: str) -> RetrievedContext: ...

    def reset(self) -> None:
        """Forget everything."""
        ...

    def read_session(self, session: SessionRead) -> None:
        """Read one session."""
        ...

    def finalise(self) -> None:
        """What is to be done before questions are asked (the wiki compiles its pages)."""
        ...

    def snapshot(self) -> Mapping[str, str]:
        """What is kept, as texts by file name, for the record and for failure stages."""
        ...


def sessions_of(conversation: Conversation) -> Sequence[SessionRead]:
    """The batches of a conversation as sessions."""
    return [
        SessionRead(
            number, batch.time_anchor or "", tuple(message for turn in batch.turns for message in turn.messages)
        )
        for number, batch in enumerate(conversation.batches)
    ]
