"""LIGHT's episodic memory: pairs found by keys that a model extracted from them (paper section 3, listing 40)."""

from __future__ import annotations

import re

from beamlib.data.conversations import Conversation, Pair
from beamlib.errors import UserError
from beamlib.memory.group_calls import lines_of
from beamlib.retrieval import Document, Encoders, build_index
from beamlib.retrieval.base import Keys

_LABEL = re.compile(r"^(?:said|summary):\s*", re.IGNORECASE)
_BOLD = re.compile(r"\A\*\*(.+?)\*\*")
_DEFAULT = Encoders()


class EpisodicIndex:
    """An index whose keys are a model's and whose values are the original pairs.

    `keys[i]` are the keys of the conversation's pair i, the lines of the model's reply. The hybrid retrievers also
    look at the assistant's message, which the pair holds anyway. The number of pairs wanted is given with each search,
    so one index serves every retrieval budget. `one_vector` joins the keys of a pair, so that they are embedded as one
    text: the released index has the whole reply as one (M7 of the reference).
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

    def search(self, question: str, k: int) -> list[Pair]:
        """The `k` pairs whose keys suit the question best, best first."""
        return [self.pairs[hit.owner] for hit in self._index.search(question, k)]


def episodic_documents(conversation: Conversation, keys: Keys) -> list[Document]:
    """What the retrievers see of each pair: its keys, and the hybrid ones the assistant's message.

    As many entries of `keys` as pairs, or a `UserError`.
    """
    pairs = conversation.pairs
    if len(pairs) != len(keys):
        raise UserError(f"an episodic index got keys for {len(keys)} pairs but {len(pairs)} pairs; give one each.")
    return [
        Document(texts, texts, pair.assistant.content, conversation.sessions[pair.user.id])
        for pair, texts in zip(pairs, keys, strict=True)
    ]


def read_keys(reply: str) -> tuple[str, ...]:
    """Keys from a model's reply to the prompt `episodic_keys`: its lines without marks, none empty, no repeats.

    The labels `said:` and `summary:` tell nothing about the subject and are taken off; others stay.
    """
    lines = (_LABEL.sub("", _BOLD.sub(r"\1", line)).strip() for line in lines_of(reply))
    return tuple(dict.fromkeys(line for line in lines if line))
