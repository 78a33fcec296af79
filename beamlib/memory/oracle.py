"""The ceiling: recall what a question cites, which is handed in from outside; nothing here reads gold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from beamlib.data.conversations import Conversation, Pair, Probe
from beamlib.llm.model import ModelError
from beamlib.memory.declared import DeclaredMemory, Given
from beamlib.memory.protocol import RetrievedContext, passage


class Oracle(DeclaredMemory):
    """Recalls the pairs that hold the cited messages, in conversation order, as the part "evidence".

    `evidence` maps a probe's id to message ids of the conversation. A probe it does not name, or that cites nothing
    (abstention), gives an empty recollection. It goes by id and not by wording, unlike a memory, because two probes of
    a conversation may ask the same and rest on different messages.
    """

    name = "oracle"
    order = 100
    joins = "always"
    ceiling = True

    @classmethod
    def build(cls, given: Given) -> Oracle:
        return cls(given.evidence)

    def __init__(self, evidence: Mapping[str, tuple[int, ...]]) -> None:
        self._evidence = evidence
        self._pair_of: dict[int, Pair] | None = None

    def ingest(self, conversation: Conversation) -> None:
        """Note which pair each message belongs to."""
        self._pair_of = {i: pair for pair in conversation.pairs for i in pair.message_ids}

    def recall_probes(self, probes: Sequence[Probe]) -> list[RetrievedContext | ModelError]:
        """Return the evidence for each question."""
        return [self.recall_for(probe) for probe in probes]

    def recall_for(self, probe: Probe) -> RetrievedContext:
        """The evidence for `probe`; `ValueError` if it cites a message that the conversation does not have."""
        if self._pair_of is None:
            raise RuntimeError("Oracle.recall_for was called before ingest")
        cited = sorted(set(self._evidence.get(probe.id, ())))
        missing = [i for i in cited if i not in self._pair_of]
        if missing:
            raise ValueError(f"evidence cites messages {missing}, which the conversation does not have")
        pairs = {self._pair_of[i].user.id: self._pair_of[i] for i in cited}
        return RetrievedContext.of([passage(pair, part="evidence") for pair in pairs.values()])
