"""The benchmark as typed data: conversations and probes. Nothing exported here reaches gold."""

from beamlib.data.conversations import (
    SIZES,
    Batch,
    ChatVariant,
    Conversation,
    Marker,
    Message,
    MessageKind,
    Pair,
    Probe,
    Role,
    Seed,
    Size,
    Treatment,
    Turn,
)
from beamlib.data.sources import Source, find_conversations, parse_size

__all__ = [
    "SIZES",
    "Batch",
    "ChatVariant",
    "Conversation",
    "Marker",
    "Message",
    "MessageKind",
    "Pair",
    "Probe",
    "Role",
    "Seed",
    "Size",
    "Source",
    "Treatment",
    "Turn",
    "find_conversations",
    "parse_size",
]
