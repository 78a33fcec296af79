"""Connections to one address, one request at a time on each. Bodies are read up to a bound.

A connection of HTTP/2 is kept for later requests. It could carry many at once, but in httpcore one whose reply was
read may wait until another's comes: a second round trip. They would also share the 64 KB that many servers take of a
connection before they say more.

A module of its own, for httpx is imported by it: reading a models file needs none.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

import httpx2

ERROR_BYTES = 1 << 16
"""Bytes that are read of the body of an error."""
REPLY_BYTES: ContextVar[int] = ContextVar("REPLY_BYTES")
"""Bytes that are read of the body of a reply."""
_EARLY_SECONDS = 0.001
"""How long a new connection is watched for a reply that nobody has asked for."""
_IDLE_SECONDS = 4.0
"""How long a connection is kept. Many servers close theirs after 5 seconds; a request at that moment would be lost."""


class Connections(httpx2.AsyncBaseTransport):
    """Sends each request over an idle connection or a new one; reads each body up to its bound, unpacked."""

    def __init__(self, *, secure: bool, proxy: str | None) -> None:
        context = httpx2.create_ssl_context() if secure else False
        limits = httpx2.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=_IDLE_SECONDS)
        self._connection = partial(httpx2.AsyncHTTPTransport, verify=context, http2=secure, proxy=proxy, limits=limits)
        self._idle: list[httpx2.AsyncHTTPTransport] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and read its reply."""
        connection = self._idle.pop() if self._idle else self._connection()
        request.extensions["trace"] = _refuse_early_replies()
        try:
            response = await _read_response(request, await connection.handle_async_request(request))
        except BaseException:
            self._idle.append(connection)
            await self.aclose()  # a server that restarts has lost the idle ones too
            raise
        self._idle.append(connection)  # of HTTP/1.1 it has closed, as the request's headers ask
        return response

    async def aclose(self) -> None:
        """Close all idle connections."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.aclose()


def _refuse_early_replies() -> Callable[[str, Mapping[str, Any]], Awaitable[None]]:
    """Follow one request of HTTP/1.1: refuse what comes before it was sent as an answer to it."""
    streams: list[Any] = []

    async def follow(event: str, facts: Mapping[str, Any]) -> None:
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            streams.append(facts["return_value"])
        elif event == "http11.send_request_headers.started" and streams:
            early = b""  # readable is not enough: over TLS it may be a ticket of the session
            with suppress(TimeoutError):
                async with asyncio.timeout(_EARLY_SECONDS):
                    early = await streams[-1].read(1)
            if early:
                raise httpx2.RemoteProtocolError("it answered before the request was sent")

    return follow


async def _read_response(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    try:
        limit = ERROR_BYTES if response.status_code >= 300 else REPLY_BYTES.get()
        encoding = response.headers.get("content-encoding", "").strip().lower()
        pieces: Any = response.stream
        content, complete = await read_at_most(pieces, limit, encoding)
    except zlib.error as error:
        raise httpx2.DecodingError(f"its body is not what its Content-Encoding says: {error}") from None
    finally:
        await response.aclose()
    dropped = ("content-encoding", "content-length", "transfer-encoding")
    headers = {name: value for name, value in response.headers.items() if name not in dropped}
    if "content-type" in headers:  # a charset may be one that cannot be decoded
        headers["content-type"] = headers["content-type"].partition(";")[0]
    extensions = {**response.extensions, "complete": complete}
    return httpx2.Response(
        response.status_code, headers=headers, content=content, extensions=extensions, request=request
    )


async def read_at_most(pieces: AsyncIterable[bytes], limit: int, encoding: str = "") -> tuple[bytes, bool]:
    """Read the first `limit` bytes of a body, unpacked; also tell whether that was all of it.

    Raises:
        zlib.error: The body is not packed as `encoding` says, or in a way that was not asked for.
    """
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise zlib.error(f"{encoding[:40]!r} was not asked for")
    unpacker = zlib.decompressobj(wbits=47) if encoding not in ("", "identity") else None
    content = bytearray()
    async for piece in pieces:
        # Piece by piece: a few bytes can unpack to gigabytes.
        content += unpacker.decompress(piece, limit + 1 - len(content)) if unpacker else piece
        if len(content) > limit:
            return bytes(content[:limit]), False
    if unpacker and not unpacker.eof:
        raise zlib.error("it ends early")
    return bytes(content), True
