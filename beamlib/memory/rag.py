"""The RAG baseline: pairs are documents, the best K are the context (paper section 4; the released `pair_chunk`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from beamlib.data.conversations import Conversation, Pair, Probe
from beamlib.errors import UserError
from beamlib.llm.model import Model, ModelError
from beamlib.memory.budget import JOINT_TOKENS, LEAST_TOKENS, RESERVE_TOKENS, fit_pairs, pairs_cut
from beamlib.memory.declared import DeclaredMemory, Given
from beamlib.memory.protocol import RetrievedContext, passage
from beamlib.memory.released_memory import RAG_ESTIMATE, RAG_FLAGS, check_flags, entries, flags_name, pack
from beamlib.retrieval import Document, Encoders, Index, build_index
from beamlib.settings import FaissIndex
from beamlib.text import WORDS, TokenCounter, split_sentences

_DEFAULT = Encoders()


class Rag(DeclaredMemory):
    """Recall the `k` pairs whose text matches the question best, best first, in `window_tokens - reserve_tokens`.

    That only the first 512 tokens of a pair are embedded (M7) is a property of the released encoder: `dense` with that
    model has it.

    Args:
        encoder: The model of the retriever `dense`, which searches by `faiss_index`; `splade` is that of `splade`.
        embedding: The model that embeds where `encoder` is `embedding`.
        released: Behaviours of the released code (`released_memory.RAG_FLAGS`). `duplicate_per_message` (M1) indexes
            every pair of a turn once per *message* of that turn (2, 4, 6... copies), so that the top k repeat pairs.
            `character_budgets` packs whole pairs in rank order under 29,000 estimated tokens.
    """

    name = "rag"
    label = "RAG"
    order = 20
    joins = "always"
    uses = ("retriever", "encoder", "splade", "faiss_index", "k", "reader_window", "token_counter")
    searched = "RAG searches pairs"
    released_flags = RAG_FLAGS

    @classmethod
    def build(cls, given: Given) -> Rag:
        return cls(
            k=given["k"],
            retriever=given["retriever"],
            window_tokens=given["reader_window"],
            encoder=given["encoder"],
            splade=given["splade"],
            faiss_index=given["faiss_index"],
            embedding=given.models.embedding,
            released=given.flags & RAG_FLAGS,
            counter=given.counter,
        )

    def __init__(
        self,
        k: int = 5,
        retriever: str = "hybrid",
        window_tokens: int = 131_072,
        *,
        reserve_tokens: int = RESERVE_TOKENS,
        encoder: str = _DEFAULT.dense,
        splade: str = _DEFAULT.splade,
        faiss_index: FaissIndex = "flat",
        embedding: Model | None = None,
        released: frozenset[str] = frozenset(),
        counter: TokenCounter = WORDS,
    ) -> None:
        check_flags(released, RAG_FLAGS, "RAG settings")
        self.k = k
        self.retriever = retriever
        self.window_tokens = window_tokens
        self.released = released
        self._counter = counter
        self._encoders = Encoders(encoder, splade, embedding, faiss_index)
        self._tokens = window_tokens - reserve_tokens
        least = k * (LEAST_TOKENS + JOINT_TOKENS)
        if k < 1 or self._tokens < least:
            raise UserError(
                f"RAG settings: k is {k} in a window of {window_tokens} tokens less a reserve of {reserve_tokens}; "
                f"give a k of at least 1 and a window of at least {reserve_tokens + max(least, 0)}."
            )
        self._documents: list[Pair] = []
        self._index: Index = build_index([], "bm25")

    @property
    def full_name(self) -> str:
        """`rag-<retriever>-k<k>`, then models and flags other than the defaults."""
        models = [
            PurePath(name).name
            for name, default in ((self._encoders.dense, _DEFAULT.dense), (self._encoders.splade, _DEFAULT.splade))
            if name != default
        ]
        index = ["hnsw"] if self._encoders.faiss_index == "hnsw" else []
        return "-".join(["rag", self.retriever, f"k{self.k}", *models, *index, *flags_name(self.released, RAG_FLAGS)])

    def ingest(self, conversation: Conversation) -> None:
        """Index the conversation's pairs, replacing the index before."""
        self._documents = entries(conversation, self.released)
        documents = [pair_document(pair, conversation) for pair in self._documents]
        self._index = build_index(documents, self.retriever, self._encoders)

    def search(self, question: str, k: int) -> list[Pair]:
        """Return the pairs of the `k` best documents, best first (repeated if the index has copies)."""
        return [self._documents[hit.owner] for hit in self._index.search(question, k)]

    def expect(self, questions: Sequence[str]) -> None:
        """Have an endpoint embed questions together that are searched for one by one."""
        self._index.expect(questions)

    def recall_probes(self, probes: Sequence[Probe]) -> list[RetrievedContext | ModelError]:
        """Recall for each question, all of which an endpoint embeds together."""
        self.expect([probe.question for probe in probes])
        return super().recall_probes(probes)

    def recall(self, question: str) -> RetrievedContext:
        """Return the `k` best pairs in rank order, each whole; the last are dropped if the window is too small."""
        passages = [passage(pair) for pair in self.search(question, self.k)]
        if "character_budgets" in self.released:
            shown = pack(passages, self._tokens, RAG_ESTIMATE, self._counter)
            return RetrievedContext.of(shown, pairs_cut(passages, shown))
        return RetrievedContext.of(*fit_pairs(passages, self._tokens, self._counter))


def pair_document(pair: Pair, conversation: Conversation) -> Document:
    """Build the searchable text of a pair: its whole text for the plain retrievers; for the hybrid ones the user's
    sentences and the answer."""
    user, assistant = pair.user.content, pair.assistant.content
    return Document((f"{user}\n{assistant}",), split_sentences(user), assistant, conversation.sessions[pair.user.id])
