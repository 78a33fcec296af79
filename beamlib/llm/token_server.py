"""Serve HTTP to those who show a token: the loopback endpoint of a memory, and the door of a run."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import Any, Generic, Self, TypeVar

from aiohttp import web

from beamlib.files import sha256
from beamlib.llm.model import run

Client = TypeVar("Client")
LOCAL = "127.0.0.1"
LARGEST_REQUEST = 64 << 20
"""Bytes that the body of a request, or a message, may have."""
STRANGER_SECONDS = 15.0
"""A connection that shows no token is closed after this time, or twice it."""


class TokenServer(Generic[Client]):
    """A server on a free port of `host`: `with server: ...`.

    Args:
        tls: Where the connections leave this machine.

    Attributes:
        base_url: Where it is served, without a path, once it has begun.
    """

    def __init__(self, host: str = LOCAL, tls: ssl.SSLContext | None = None) -> None:
        self.base_url = ""
        self._host, self._tls = host, tls
        self._clients: dict[str, Client] = {}  # by the hash of the token: how long a look-up takes tells nothing
        self._runner: web.AppRunner | None = None
        self._admitted: set[Any] = set()
        """Connections that have shown a token."""

    def admit(self, client: Client) -> str:
        """Return a new token for `client`."""
        token = f"beam-{token_hex(16)}"
        self._clients[sha256(token)] = client
        return token

    def client_of(self, request: web.Request) -> Client | None:
        """Return whose token a request shows, None without one."""
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        client = self._clients.get(sha256(shown.encode("utf-8", "replace")))
        if client is not None:
            self._admitted.add(request.protocol)
        return client

    def routes(self) -> Mapping[tuple[str, str], Callable[[web.Request], Any]]:
        """Return the handler of each method and path."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        run(self._begin())
        return self

    def __exit__(self, *error: object) -> None:
        run(self._end())

    async def _begin(self) -> None:
        app = web.Application(client_max_size=LARGEST_REQUEST)
        for (method, path), handler in self.routes().items():
            app.router.add_route(method, path, handler)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, 0, ssl_context=self._tls).start()
        scheme = "https" if self._tls else "http"
        self.base_url = f"{scheme}://{self._host}:{self._runner.addresses[0][1]}"
        self._closing = asyncio.create_task(self._close_strangers())

    async def _end(self) -> None:
        assert self._runner is not None
        self._closing.cancel()
        await self._runner.cleanup()

    async def _close_strangers(self) -> None:
        """Close connections without a token after `STRANGER_SECONDS`: aiohttp would keep silent ones for ever."""
        assert self._runner is not None and self._runner.server is not None
        before: set[Any] = set()
        while True:
            await asyncio.sleep(STRANGER_SECONDS)
            connections = set(self._runner.server.connections)
            self._admitted &= connections
            for connection in before & connections - self._admitted:
                connection.force_close()
                if connection.transport is not None:
                    connection.transport.close()
            before = connections
