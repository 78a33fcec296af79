"""The ceiling: a memory that is told which messages hold the evidence.

It stands with the evaluation, which alone knows the evidence, and not with the memories, none of which may. It is
handed plain message ids and never sees a rubric or a reference answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from beamlib.data.model import Conversation, Pair, Probe
from beamlib.memory.protocol import Recollection, passage


class Oracle:
    """Recalls the pairs that hold the cited messages, in conversation order, as the part "evidence".

    `evidence` maps a probe's id to message ids of the conversation. A probe it does not name, or that cites nothing
    (abstention), gives an empty recollection. It goes by id and not by wording, unlike a memory, because two probes of
    a conversation may ask the same and rest on different messages.
    """

    name = "oracle"

    def __init__(self, evidence: Mapping[str, tuple[int, ...]]) -> None:
        self._evidence = evidence
        self._pair_of: dict[int, Pair] | None = None

    def ingest(self, conversation: Conversation) -> None:
        """Note which pair each message belongs to."""
        self._pair_of = {i: pair for pair in conversation.pairs for i in pair.message_ids}

    def recall_for(self, probe: Probe) -> Recollection:
        """The evidence for `probe`; `ValueError` if it cites a message that the conversation does not have."""
        if self._pair_of is None:
            raise RuntimeError("Oracle.recall_for was called before ingest")
        cited = sorted(set(self._evidence.get(probe.id, ())))
        missing = [i for i in cited if i not in self._pair_of]
        if missing:
            raise ValueError(f"evidence cites messages {missing}, which the conversation does not have")
        pairs = {self._pair_of[i].user.id: self._pair_of[i] for i in cited}
        return Recollection.of([passage(pair, part="evidence") for pair in pairs.values()])
