"""How many tokens a request has by the count of the endpoint itself, where it serves one (vLLM's tokenize route)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import httpx2

from beamlib.llm.endpoints import Endpoint
from beamlib.llm.faults import bounded

ENDPOINT_COUNTER = "endpoint"
"""Name of this counter, recorded with every result."""

TIMEOUT = 5.0
"""Seconds a count may take. Nothing depends on it, so nobody waits longer."""

_MOST_AT_ONCE = 64
_LEAST_REPLY, _PER_CHARACTER = 1 << 20, 16
"""Bytes that a reply may have: vLLM's also lists the number of each token, and a character is one token at most."""

_TEMPLATE_FIELDS = ("chat_template", "chat_template_kwargs")
"""What of a request's further fields changes the text that its messages become."""


class EndpointCounter:
    """Counts by `POST {root}/tokenize`, the root being the base URL without its final `/v1`.

    Whether the endpoint has that route is found out once, with a prompt of one word; an endpoint without it, with an
    error or out of reach counts nothing, and that is no failure of a run. Use it with `async with`, on one event loop.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._url = endpoint.base_url.removesuffix("/v1") + "/tokenize"
        self._client = httpx2.AsyncClient(timeout=TIMEOUT)
        # Here, not in the client's pool: there a request that waits for its turn would time out.
        self._turn = asyncio.Semaphore(min(endpoint.concurrency, _MOST_AT_ONCE))
        self._detecting = asyncio.Lock()
        self._available: bool | None = None

    async def __aenter__(self) -> EndpointCounter:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def available(self) -> bool:
        """Whether the endpoint counts; asked once, then remembered."""
        async with self._detecting:
            if self._available is None:
                self._available = await self._ask({"prompt": "word"}) is not None
        return self._available

    async def count(self, messages: str | Sequence[Mapping[str, str]]) -> int | None:
        """Tokens of chat messages as the endpoint's template writes them, or of a plain text; None where it cannot say.

        None from an endpoint that is `available` means that this one request failed.
        """
        if not await self.available():
            return None
        if isinstance(messages, str):
            return await self._ask({"prompt": messages})
        extra = {name: self._endpoint.extra[name] for name in _TEMPLATE_FIELDS if name in self._endpoint.extra}
        return await self._ask({"messages": [dict(message) for message in messages], **extra})

    async def _ask(self, body: Mapping[str, Any]) -> int | None:
        key = os.environ.get(self._endpoint.key_variable, "").strip() if self._endpoint.key_variable else ""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        asked = json.dumps({"model": self._endpoint.model, **body})
        most = _LEAST_REPLY + _PER_CHARACTER * len(asked)
        headers["Content-Type"] = "application/json"
        sending = self._client.stream("POST", self._url, content=asked, headers=headers)
        try:
            async with self._turn, asyncio.timeout(TIMEOUT), sending as reply:
                content, whole = await bounded(reply.aiter_bytes(), most)
            found = json.loads(content) if whole and reply.status_code == 200 else None
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, ValueError, RecursionError):
            return None  # the error's text may hold the key: not passed on
        count = found.get("count") if isinstance(found, dict) else None
        return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None
