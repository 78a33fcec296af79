"""The floor: a memory that remembers nothing."""

from __future__ import annotations

from beamlib.data.model import Conversation
from beamlib.memory.protocol import Recollection


class NoMemory:
    """Recalls an empty context, so that what the reader knows or guesses by itself can be told apart."""

    name = "none"

    def ingest(self, conversation: Conversation) -> None:
        """Read nothing."""

    def recall(self, question: str) -> Recollection:
        """An empty recollection."""
        return Recollection("")
