"""Mem0 (mem0ai 2.2): facts that a language model draws from each pair, in Qdrant on a path. Nothing else is needed."""

from __future__ import annotations

import os
from datetime import datetime
from importlib.util import find_spec
from typing import Any

NEEDS = ("mem0ai",)
CALLS = {"calls": 1, "tokens": 5_400, "output": 200, "vectors": 2}
"""Counted with the version in pyproject.toml against a scripted server that finds two facts in a pair."""
_USER = "user"
TOP = 20  # Mem0's own default


def notes(versions: dict[str, str]) -> list[str]:
    """What a table says of it."""
    absent = [said for module, said in (("fastembed", "BM25"), ("spacy", "entities")) if find_spec(module) is None]
    without = f", without its extras for {' and '.join(absent)}, which the hosted product has" if absent else ""
    return [
        f"mem0: mem0ai {versions['mem0ai']}, facts of each pair in Qdrant on a path, top {TOP} or K{without}; its "
        "evidence recall counts the messages that recalled facts were drawn from."
    ]


class Adapter:
    """One user's memory, empty at first."""

    def __init__(self, api: dict[str, Any], folder: str, top: int = TOP) -> None:
        self._top = top
        os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=folder)
        from mem0 import Memory

        served = {"openai_base_url": api["base_url"], "api_key": api["api_key"]}
        self._memory = Memory.from_config(
            {
                "llm": {"provider": "openai", "config": {"model": api["model"], **served}},
                "embedder": {"provider": "openai", "config": {"model": api["embedding_model"], **served}},
                "vector_store": {
                    "provider": "qdrant",
                    "config": {"path": f"{folder}/qdrant", "embedding_model_dims": api["dimensions"]},
                },
                "history_db_path": f"{folder}/history.db",
            }
        )

    def add(self, messages: list[dict[str, Any]], when: datetime) -> None:
        """Have the facts of a pair found; they carry the ids of its messages. The clock stands at `when`."""
        told = [{"role": one["role"], "content": one["content"]} for one in messages]
        self._memory.add(told, user_id=_USER, metadata={"message_ids": [one["id"] for one in messages]})

    def recall(self, question: str) -> tuple[str, list[int]]:
        """The facts that Mem0 finds, best first, a line each."""
        found = self._memory.search(question, filters={"user_id": _USER}, top_k=self._top)["results"]
        lines, ids = [], list[int]()
        for one in found:
            from_messages = one["metadata"]["message_ids"]
            lines.append(f"[messages {from_messages[0]}-{from_messages[-1]}] {one['memory']}")
            ids += from_messages
        return "\n".join(lines), ids
