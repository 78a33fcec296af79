import pytest

from beamlib.data.conversations import Conversation, Probe
from beamlib.memory.full_context import NoMemory
from beamlib.memory.oracle import Oracle
from beamlib.memory.protocol import RetrievedContext, passage


def test_none_recalls_nothing(bakery: Conversation) -> None:
    memory = NoMemory()
    memory.ingest(bakery)
    assert memory.name == "none"
    assert memory.recall("What is the starter called?") == RetrievedContext("")


def asked(probe_id: str) -> Probe:
    return Probe(probe_id, "100K-1", "the wording does not matter")


def test_oracle_recalls_the_cited_pairs_in_conversation_order(bakery: Conversation) -> None:
    memory = Oracle({"when?": (9, 2, 8), "who?": ()})
    memory.ingest(bakery)
    recollection = memory.recall_for(asked("when?"))
    assert recollection.message_ids == (2, 3, 8, 9)
    assert recollection.parts == {"evidence": (2, 3, 8, 9)}
    assert recollection.context == "\n\n".join(passage(bakery.pairs[i]).text for i in (1, 4))
    assert memory.recall_for(asked("who?")) == memory.recall_for(asked("not named")) == RetrievedContext("")


def test_oracle_refuses_evidence_that_is_not_there(bakery: Conversation) -> None:
    memory = Oracle({"when?": (2, 400)})
    with pytest.raises(RuntimeError, match="before ingest"):
        memory.recall_for(asked("when?"))
    memory.ingest(bakery)
    with pytest.raises(ValueError, match=r"messages \[400\]"):
        memory.recall_for(asked("when?"))
