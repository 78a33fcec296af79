"""The RAG baseline: pairs as documents, the best K as context (paper section 4; the released `pair_chunk`)."""

from __future__ import annotations

from beamlib.benchmark.model import Conversation, Pair
from beamlib.memory.base import Passage, Recollection, passage
from beamlib.memory.budget import LEAST_TOKENS, RESERVE_TOKENS, common_limit, shorten
from beamlib.retrieval import Index, document_index
from beamlib.text import count_tokens


class Rag:
    """Recalls the `k` pairs whose text suits the question best, best first.

    `duplicate_per_message` reproduces the released index, which holds every pair of a turn once per *message* of that
    turn (2, 4, 6... copies), so that the top k hold few distinct pairs.
    """

    def __init__(
        self,
        k: int = 5,
        retriever: str = "embedded",
        duplicate_per_message: bool = False,
        window_tokens: int = 32_768,
    ) -> None:
        self.k = k
        self.window_tokens = window_tokens
        self.retriever = retriever
        self.duplicate_per_message = duplicate_per_message
        self._documents: list[Pair] = []
        self._index: Index = document_index([], retriever)

    @property
    def name(self) -> str:
        return f"rag-{self.retriever}-k{self.k}" + ("-duplicates" if self.duplicate_per_message else "")

    def ingest(self, conversation: Conversation) -> None:
        """Index the conversation's pairs, replacing what was indexed before."""
        self._documents = [
            pair
            for turn in conversation.turns
            for pair in turn.pairs
            for _ in range(len(turn.messages) if self.duplicate_per_message else 1)
        ]
        self._index = document_index(
            [f"{pair.user.content}\n{pair.assistant.content}" for pair in self._documents], self.retriever
        )

    def search(self, question: str, k: int) -> list[Pair]:
        """The `k` best documents as pairs, best first (repeated where the index holds copies)."""
        return [self._documents[hit.owner] for hit in self._index.search(question, k)]

    def recall(self, question: str) -> Recollection:
        """The `k` best pairs in rank order; where they exceed the reader's window, the longest lose their middle."""
        found = [passage(pair) for pair in self.search(question, self.k)]
        limit = common_limit([count_tokens(item.text) for item in found], self.window_tokens - RESERVE_TOKENS)
        return Recollection.of(
            [Passage(shorten(item.text, max(limit, LEAST_TOKENS)), item.message_ids, item.part) for item in found]
        )
