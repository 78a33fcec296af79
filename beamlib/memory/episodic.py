"""LIGHT's episodic memory: pairs found by keys that a model extracted from them (paper section 3, listing 40)."""

from __future__ import annotations

from collections.abc import Sequence

from beamlib.data.conversations import Conversation, Pair
from beamlib.errors import UserError
from beamlib.retrieval import Document, Encoders, build_index
from beamlib.retrieval.base import Keys

_DEFAULT = Encoders()


class EpisodicIndex:
    """An index from extracted keys to the original pairs; it serves every retrieval budget.

    Args:
        keys: The lines of the model's reply for each pair of the conversation.
        one_vector: Join the keys of a pair and embed them as one text: the released index has the whole reply as one
            (M7 of the reference).
    """

    def __init__(
        self,
        conversation: Conversation,
        keys: Keys,
        retriever: str = "hybrid",
        encoders: Encoders = _DEFAULT,
        *,
        one_vector: bool = False,
    ) -> None:
        self.pairs = conversation.pairs
        self.retriever = retriever
        joined = [("\n".join(texts),) for texts in keys] if one_vector else keys
        self._index = build_index(episodic_documents(conversation, joined), retriever, encoders)

    def expect(self, questions: Sequence[str]) -> None:
        """Prepare for questions that are to come."""
        self._index.expect(questions)

    def search(self, question: str, k: int) -> list[Pair]:
        """Return the `k` pairs whose keys match the question best, best first."""
        return [self.pairs[hit.owner] for hit in self._index.search(question, k)]


def episodic_documents(conversation: Conversation, keys: Keys) -> list[Document]:
    """Build the searchable text of each pair: its keys, and for the hybrid retrievers the assistant's message."""
    pairs = conversation.pairs
    if len(pairs) != len(keys):
        raise UserError(f"an episodic index got keys for {len(keys)} pairs but {len(pairs)} pairs; give one each.")
    return [
        Document(texts, texts, pair.assistant.content, conversation.sessions[pair.user.id])
        for pair, texts in zip(pairs, keys, strict=True)
    ]
