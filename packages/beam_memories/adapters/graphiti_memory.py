"""Graphiti (graphiti-core 0.31): a graph of entities and facts with times, an episode per pair.

The graph lies in FalkorDB Lite, which is part of this process's folder and needs Python 3.12. A request at a time: what
would come back in another order would change prompts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from datetime import datetime
from typing import Any

NEEDS = ("graphiti-core", "httpx", "falkordblite")
CALLS = {"calls": 5, "tokens": 900, "output": 120, "vectors": 4}
"""Counted with the version in pyproject.toml against a scripted server that finds two facts in a pair."""
_GROUP = "chat"
TOP = 20


def notes(versions: dict[str, str]) -> list[str]:
    """What a table says of it."""
    return [
        f"graphiti: graphiti-core {versions['graphiti-core']}, an episode per pair in FalkorDB Lite "
        f"{versions['falkordblite']} without stop words, hybrid search of edges by reciprocal ranks, top {TOP} or K, "
        "no communities, no cross-encoder; the hosted product (Zep) puts contexts together otherwise; its evidence "
        "recall counts the messages that recalled facts were drawn from."
    ]


def _driver(folder: str) -> Any:
    from graphiti_core.driver.falkordb import STOPWORDS
    from graphiti_core.driver.falkordb_driver import FalkorDriver
    from redislite.async_falkordb_client import AsyncFalkorDB

    # An entity called by a stop word ("Will") kills FalkorDB Lite 0.11 where it is looked up by its name.
    STOPWORDS.clear()
    # The database is called as the group: else Graphiti makes another driver for each episode, which builds indexes
    # while the graph is asked.
    return FalkorDriver(falkor_db=AsyncFalkorDB(dbfilename=f"{folder}/graph.db"), database=_GROUP)


class Adapter:
    """One conversation's graph, empty at first."""

    def __init__(self, api: dict[str, Any], folder: str, top: int = TOP) -> None:
        self._top = top
        os.environ.update(GRAPHITI_TELEMETRY_ENABLED="false", SEMAPHORE_LIMIT="1", EMBEDDING_DIM=str(api["dimensions"]))
        from graphiti_core import Graphiti
        from graphiti_core.cross_encoder.openai_reranker_client import OpenAIRerankerClient
        from graphiti_core.embedder.openai import OpenAIEmbedder, OpenAIEmbedderConfig
        from graphiti_core.llm_client.config import LLMConfig
        from graphiti_core.llm_client.openai_generic_client import OpenAIGenericClient
        from graphiti_core.nodes import EpisodeType

        served = {"api_key": api["api_key"], "base_url": api["base_url"]}
        config = LLMConfig(model=api["model"], small_model=api["model"], **served)
        vectors = OpenAIEmbedderConfig(
            embedding_model=api["embedding_model"], embedding_dim=api["dimensions"], **served
        )
        self._messages: dict[str, list[int]] = {}
        self._kind = EpisodeType.message
        self._loop = asyncio.new_event_loop()
        self._graph = Graphiti(
            graph_driver=_driver(folder),
            llm_client=OpenAIGenericClient(config),
            embedder=OpenAIEmbedder(vectors),
            cross_encoder=OpenAIRerankerClient(config),  # never asked; without it one would look for OpenAI's key
            max_coroutines=1,
        )
        self._wait(self._graph.build_indices_and_constraints())

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    def add(self, messages: list[dict[str, Any]], when: datetime) -> None:
        """Add a pair as an episode of that time, and note which messages it stands for."""
        ids = [one["id"] for one in messages]
        added = self._wait(
            self._graph.add_episode(
                name=f"messages {ids[0]}-{ids[-1]}",
                episode_body="\n".join(f"{one['role']}: {one['content']}" for one in messages),
                source_description="a chat of a user with an assistant",
                reference_time=when,
                source=self._kind,
                group_id=_GROUP,
            )
        )
        self._messages[added.episode.uuid] = ids

    def recall(self, question: str) -> tuple[str, list[int]]:
        """The facts that Graphiti finds, best first, a line each, with the times that it gives them."""
        lines, ids = [], list[int]()
        for edge in self._wait(self._graph.search(question, group_ids=[_GROUP], num_results=self._top)):
            came = [found for episode in edge.episodes for found in self._messages.get(episode, ())]
            since = f" (from {edge.valid_at:%Y-%m-%d})" if edge.valid_at else ""
            until = f" (until {edge.invalid_at:%Y-%m-%d})" if edge.invalid_at else ""
            lines.append(f"{f'[messages {min(came)}-{max(came)}] ' if came else ''}{edge.fact}{since}{until}")
            ids += came
        return "\n".join(lines), ids
