"""Sessions for the tests of memories that are written to over time; what is told in them is made up here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from beam_memories.evolving.evolving_memory import EvolvingMemory, EvolvingSettings, SessionRead
from beamlib.data.conversations import Batch, Conversation, Message, Seed, Turn
from beamlib.llm.model import Model
from beamlib.memory.declared import memory_kind

TALKS = (
    (
        "2023/03/01 (Wed) 09:00",
        "Our team lead is Ines Okoro.",
        "We use Tarn as our package manager. Any tips?",
        "My badge code is QX-7714-B.",
    ),
    (
        "2023/03/04 (Sat) 10:00",
        "Our code reviewer is Mio Varga, which depends on the team lead.",
        "The weekly report recipient is Pell Aske, and that depends on the team lead.",
        "If the team lead changes, the weekly report recipient will be Juno Brandt.",
        'My motto, word for word: "Row slowly; count the gulls; keep one lamp lit for the late boat."',
    ),
    ("2023/03/09 (Thu) 11:00", "We switched our package manager to Sedge.", "What goes well with soup?"),
    (
        "2023/03/12 (Sun) 12:00",
        "Our team lead is now Abel Quist.",
        "Please delete my badge code, QX-7714-B, from your memory.",
    ),
)


def make(name: str, model: Model, reader_window: int = 32_768, **settings: Any) -> EvolvingMemory:
    """Create a memory for facts that change, empty; `settings` are those of `EvolvingSettings`."""
    kind = memory_kind(name)
    assert issubclass(kind, EvolvingMemory)
    return kind(model, EvolvingSettings(reader_window, **settings))


def session_of(number: int, talk: Sequence[str], first: int) -> SessionRead:
    """A session of a date and what the user says; the assistant says little."""
    date, *said = talk
    pairs = [(f"[{date}]\n{text}", "Noted, thank you.") for text in said]
    texts = [text for pair in pairs for text in pair]
    messages = tuple(
        Message(first + place, "assistant" if place % 2 else "user", text) for place, text in enumerate(texts)
    )
    return SessionRead(number, date, messages)


def sessions_told(talks: Sequence[Sequence[str]] = TALKS) -> list[SessionRead]:
    """`talks` as sessions with successive message ids."""
    found: list[SessionRead] = []
    for number, talk in enumerate(talks):
        found.append(session_of(number, talk, sum(len(one.messages) for one in found)))
    return found


def conversation_told(talks: Sequence[Sequence[str]] = TALKS) -> Conversation:
    """`talks` as a conversation, a batch per session."""
    batches = []
    for session in sessions_told(talks):
        pairs = zip(session.messages[::2], session.messages[1::2], strict=True)
        batches.append(Batch(session.number, tuple(Turn(pair) for pair in pairs), session.date))
    return Conversation("told", "MEME", Seed("any", "told"), tuple(batches))
