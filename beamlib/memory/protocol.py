"""The memory protocol: five lines plug in a system of your own.

    class Newest:
        name = "newest"
        def ingest(self, conversation): self.last = conversation.pairs[-1]
        def recall(self, question): return Recollection.of([passage(self.last)])

Save this as `mine.py`; `./run_all.sh --data FOLDER --memory mine.py:Newest` adds it to every main table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from operator import add
from typing import Protocol

from beamlib.data.conversations import Conversation, Pair
from beamlib.llm.prompts import ChatTurn


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of context, the ids of the messages in it, and the part of the memory that it comes from."""

    text: str
    message_ids: tuple[int, ...]
    part: str = "retrieved"


@dataclass(frozen=True, slots=True)
class Cuts:
    """Counts of what did not fit into a context.

    Attributes:
        pairs_shortened: Retrieved pairs that are longer than their part's whole room and lost their middle.
        pairs_dropped: Retrieved pairs that are not in the context at all.
        newest_cut: Pairs of working memory that the context does not hold whole.
        chunks_dropped: Scratchpad chunks that the filter kept and the context does not hold whole.
    """

    pairs_shortened: int = 0
    pairs_dropped: int = 0
    newest_cut: int = 0
    chunks_dropped: int = 0

    def __add__(self, other: Cuts) -> Cuts:
        return Cuts(*map(add, astuple(self), astuple(other)))

    @property
    def labelled(self) -> dict[str, int]:
        """The counts under the names that tables show."""
        names = ("pairs shortened", "pairs dropped", "newest pairs cut", "chunks dropped")
        return dict(zip(names, astuple(self), strict=True))


NO_CUTS = Cuts()


@dataclass(frozen=True, slots=True)
class RetrievedContext:
    """The context that a memory gives to the reader.

    Attributes:
        context: The text that the reader sees.
        message_ids: Messages that the context is about, in order of appearance, without repeats.
        parts: The same ids by part of the memory.
        gaps: Calls of the memory that returned nothing usable; tables report them.
        cuts: What was recalled and did not fit.
        turns: The same dialogue as chat turns, if it is sent as such; `context` is then searched and counted.
    """

    context: str
    message_ids: tuple[int, ...] = ()
    parts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    gaps: int = 0
    cuts: Cuts = NO_CUTS
    turns: tuple[ChatTurn, ...] = ()

    @classmethod
    def of(cls, passages: Sequence[Passage], cuts: Cuts = NO_CUTS) -> RetrievedContext:
        """Join `passages` in order, a blank line between two."""
        parts: dict[str, dict[int, None]] = {}
        for item in passages:
            parts.setdefault(item.part, {}).update(dict.fromkeys(item.message_ids))
        ids = dict.fromkeys(message_id for item in passages for message_id in item.message_ids)
        text = "\n\n".join(item.text for item in passages)
        return cls(text, tuple(ids), {part: tuple(part_ids) for part, part_ids in parts.items()}, cuts=cuts)


Recollection = RetrievedContext
"""The earlier name, which users' memories may still import."""


def partly_shown(recollection: RetrievedContext, texts: Mapping[int, str]) -> tuple[int, ...]:
    """Return the `message_ids` whose whole text is not in the context: shortened, paraphrased, or the source of a note.

    Args:
        texts: The content of every message by its id.
    """
    return tuple(i for i in recollection.message_ids if texts[i] not in recollection.context)


class Memory(Protocol):
    """Reads a conversation once, then recalls what matters for a question. It never sees gold data."""

    @property
    def name(self) -> str:
        """The name of the memory and its settings in tables, for example `light-k5`."""

    def ingest(self, conversation: Conversation) -> None:
        """Read the conversation, replacing the one before."""

    def recall(self, question: str) -> RetrievedContext:
        """Return the context for answering `question`."""


def passage(pair: Pair, part: str = "retrieved") -> Passage:
    """Write a pair as the reader sees it: ids first, so that the context shows the order of mention."""
    return Passage(
        f"{_header(pair)}\nUSER: {pair.user.content}\nASSISTANT: {pair.assistant.content}", pair.message_ids, part
    )


def chat_turns(pair: Pair) -> tuple[ChatTurn, ChatTurn]:
    """Write a pair as chat turns; its header begins the user's turn."""
    return ChatTurn("user", f"{_header(pair)}\n{pair.user.content}"), ChatTurn("assistant", pair.assistant.content)


def _header(pair: Pair) -> str:
    return f"[messages {pair.user.id}-{pair.assistant.id}]"
