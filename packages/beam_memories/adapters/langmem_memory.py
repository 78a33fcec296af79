"""LangMem 0.0.30: a language model keeps memories up to date with each pair, by calls of tools; in this process."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

NEEDS = ("langmem", "langchain-openai")
CALLS = {"calls": 1, "tokens": 400, "output": 200, "vectors": 2}
"""Counted with the version in pyproject.toml against a scripted server that finds two facts in a pair."""
_NAMESPACE = ("memories",)
TOP = 20


def notes(versions: dict[str, str]) -> list[str]:
    """What a table says of it."""
    return [
        f"langmem: langmem {versions['langmem']}, memories in LangGraph's InMemoryStore, top {TOP} or K; it carries no "
        "ids of messages, so its evidence recall is not measured."
    ]


class Adapter:
    """One user's memory, empty at first."""

    def __init__(self, api: dict[str, Any], folder: str, top: int = TOP) -> None:
        self._top = top
        os.environ.update(LANGSMITH_TRACING="false", LANGCHAIN_TRACING_V2="false")
        from langchain_openai import ChatOpenAI, OpenAIEmbeddings
        from langgraph.store.memory import InMemoryStore
        from langmem import create_memory_store_manager

        served = {"base_url": api["base_url"], "api_key": api["api_key"]}
        # Other endpoints take texts, not OpenAI's tokens, which the check of lengths would send.
        vectors = OpenAIEmbeddings(
            model=api["embedding_model"], check_embedding_ctx_length=False, max_retries=0, **served
        )
        self._store = InMemoryStore(index={"dims": api["dimensions"], "embed": vectors})
        self._manager = create_memory_store_manager(
            ChatOpenAI(model=api["model"], max_retries=0, **served), namespace=_NAMESPACE, store=self._store
        )

    def add(self, messages: list[dict[str, Any]], when: datetime) -> None:
        """Have the store brought up to date with a pair. The clock stands at `when`."""
        self._manager.invoke({"messages": [{"role": one["role"], "content": one["content"]} for one in messages]})

    def recall(self, question: str) -> tuple[str, list[int]]:
        """The memories that the store finds, best first, a line each."""
        found = self._store.search(_NAMESPACE, query=question, limit=self._top)
        return "\n".join(str(one.value.get("content", one.value).get("content", "")) for one in found), []
