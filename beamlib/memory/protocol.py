"""The memory protocol: five lines are enough to plug in a system of one's own.

    class Newest:
        name = "newest"
        def ingest(self, conversation): self.last = conversation.pairs[-1]
        def recall(self, question): return Recollection.of([passage(self.last)])

Saved as `mine.py`, `./run_all.sh --data FOLDER --memory mine.py:Newest` puts it beside the others in every main table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from beamlib.data.conversations import Conversation, Pair
from beamlib.llm.chat_turns import ChatTurn


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of context and the ids of the messages it shows. `part` says which memory it came from."""

    text: str
    message_ids: tuple[int, ...]
    part: str = "retrieved"


@dataclass(frozen=True, slots=True)
class RetrievedContext:
    """What a memory hands to the reader.

    `context` is the text the reader sees, `message_ids` the messages surfaced in it (in order of appearance, without
    repeats), `parts` the ids surfaced by each part of the memory, by name. `gaps` counts the calls of the memory that
    gave nothing usable: what rests on them is missing here, and tables say so. `turns` are the same dialogue as chat
    turns, where the reader gets it so; `context` is then what is searched and counted.
    """

    context: str
    message_ids: tuple[int, ...] = ()
    parts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    gaps: int = 0
    turns: tuple[ChatTurn, ...] = ()

    @classmethod
    def of(cls, passages: Sequence[Passage]) -> RetrievedContext:
        """Join `passages` in order, a blank line between two."""
        parts: dict[str, dict[int, None]] = {}
        for item in passages:
            parts.setdefault(item.part, {}).update(dict.fromkeys(item.message_ids))
        ids = tuple(dict.fromkeys(i for item in passages for i in item.message_ids))
        text = "\n\n".join(item.text for item in passages)
        return cls(text, ids, {part: tuple(found) for part, found in parts.items()})


Recollection = RetrievedContext
"""Its earlier name, which memories of one's own may still import."""


class Memory(Protocol):
    """Reads a conversation once, then recalls what bears on a question. It never sees gold data."""

    @property
    def name(self) -> str:
        """Names the memory and its settings in tables, for example `light-k5`."""
        ...

    def ingest(self, conversation: Conversation) -> None:
        """Read the conversation, replacing whatever was read before."""
        ...

    def recall(self, question: str) -> RetrievedContext:
        """The context for answering `question`."""
        ...


def passage(pair: Pair, part: str = "retrieved") -> Passage:
    """A pair as the reader sees it: ids first, so that the order of mention can be read off the context."""
    return Passage(
        f"{_header(pair)}\nUSER: {pair.user.content}\nASSISTANT: {pair.assistant.content}", pair.message_ids, part
    )


def chat_turns(pair: Pair) -> tuple[ChatTurn, ChatTurn]:
    """A pair as chat turns; its header begins the user's, so that the order of mention can be read off here too."""
    return ChatTurn("user", f"{_header(pair)}\n{pair.user.content}"), ChatTurn("assistant", pair.assistant.content)


def _header(pair: Pair) -> str:
    return f"[messages {pair.user.id}-{pair.assistant.id}]"
