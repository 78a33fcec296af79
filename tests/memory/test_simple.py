import ast
from pathlib import Path
from typing import Any

import pytest

from beamlib.data.conversations import Conversation, Probe
from beamlib.evaluate.answering import Oracle
from beamlib.memory.full_context import NoMemory
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


@pytest.mark.parametrize("area", ["beamlib/memory", "beamlib/retrieval", "beamlib/llm", "packages/beam_offline"])
def test_nothing_that_remembers_imports_what_knows_the_answers(repo_root: Path, area: str) -> None:
    files = sorted((repo_root / area).rglob("*.py"))
    assert files
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[Any] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            for name in names:
                forbidden = ("beamlib.data.gold", "beamlib.scoring", "beamlib.evaluate", "beamlib.report")
                assert not name.startswith(forbidden), f"{path}: imports {name}"
