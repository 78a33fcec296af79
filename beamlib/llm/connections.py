"""Connections to one address: HTTP/2 where it is offered, else one per call. Bodies are read up to a bound.

A module of its own, for httpx is imported by it: reading a models file needs none.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import httpx2

ERROR_BYTES = 1 << 16
"""Bytes that are read of the body of an error."""
REPLY_BYTES: ContextVar[int] = ContextVar("REPLY_BYTES")
"""Bytes that are read of the body of a reply."""
_EARLY_SECONDS = 0.001
"""How long a new connection is watched for a reply that nobody has asked for."""
_WINDOW = 65_535
"""Bytes that a server takes at once of a connection of HTTP/2, unless it says otherwise."""
_CONNECTIONS = 16
"""The most connections of HTTP/2 to an address."""
_IDLE_SECONDS = 30.0

Connection = httpx2.AsyncHTTPTransport
"""One shared connection of HTTP/2, or any number that are used once."""
Known = asyncio.Future[None]


class Connections(httpx2.AsyncBaseTransport):
    """Shares connections of HTTP/2 or opens one per call; reads each body up to its bound, unpacked.

    Until it is known which, each connection gets one call and the others wait: at one that comes to be HTTP/1.1, httpx
    would send them one after the other, with a handshake before each.
    """

    def __init__(self, *, secure: bool, proxy: str | None) -> None:
        self._secure, self._proxy = secure, proxy
        # A context for each kind: the protocols that are offered are kept in it.
        self._contexts = {http2: httpx2.create_ssl_context() if secure else False for http2 in (False, True)}
        self._single = self._connection(http2=False)
        self._shared: list[Connection] = []
        self._sending = Counter[Connection]()
        """Bytes of requests that have no reply yet."""
        self._http2 = False
        self._known: Known | None = None

    def _connection(self, *, http2: bool) -> Connection:
        limits = httpx2.Limits(
            max_connections=None, max_keepalive_connections=1 if http2 else 0, keepalive_expiry=_IDLE_SECONDS
        )
        return Connection(verify=self._contexts[http2], http2=http2, proxy=self._proxy, limits=limits)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request over the connection that suits, and read its reply."""
        if not self._secure:
            return await self._send(request, self._single)
        learns = self._known is None or (self._known.done() and self._known.exception() is not None)
        if learns or self._known is None:
            self._known = asyncio.get_running_loop().create_future()
        size = int(request.headers["content-length"])
        chosen = self._with_room(size)
        self._sending[chosen] += size
        try:
            if not self._known.done():
                if learns or self._sending[chosen] == size:
                    return await self._learn(request, chosen, self._known)
                await asyncio.shield(self._known)
            return await self._send(request, chosen if self._http2 else self._single)
        finally:
            self._sending[chosen] -= size

    def _with_room(self, size: int) -> Connection:
        """Choose the first shared connection that has room for a request, or the one with most."""
        sending = self._sending
        for connection in self._shared:
            if not sending[connection] or sending[connection] + size <= _WINDOW:
                return connection
        if len(self._shared) < _CONNECTIONS:
            self._shared.append(self._connection(http2=True))
            return self._shared[-1]
        return min(self._shared, key=sending.__getitem__)

    async def _send(self, request: httpx2.Request, connection: Connection, *, learns: bool = False) -> httpx2.Response:
        if learns or not self._http2:
            request.extensions["trace"] = self._watch()
        return await _read_response(request, await connection.handle_async_request(request))

    async def _learn(self, request: httpx2.Request, connection: Connection, known: Known) -> httpx2.Response:
        """Send a first request; those that wait for it fail as it does where there is no connection."""
        try:
            return await self._send(request, connection, learns=True)
        except BaseException as error:
            if not known.done():
                cause = error if isinstance(error, httpx2.TransportError) else httpx2.ConnectTimeout("timed out")
                known.set_exception(cause)
                known.exception()  # nobody may wait
            raise

    def _watch(self) -> Callable[[str, Mapping[str, Any]], Awaitable[None]]:
        """Follow one request: learn the protocol, and refuse what comes before it was sent as an answer to it."""
        streams: list[Any] = []

        async def follow(event: str, facts: Mapping[str, Any]) -> None:
            if event.endswith(("connect_tcp.complete", "start_tls.complete")):
                streams.append(facts["return_value"])
                # A proxy may have a TLS of its own.
                if event.endswith("start_tls.complete") and (self._proxy is None) == event.startswith("connection."):
                    self._http2 = streams[-1].get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
                    if self._known is not None and not self._known.done():
                        self._known.set_result(None)
            elif event == "http11.send_request_headers.started" and streams:
                early = b""  # readable is not enough: over TLS it may be a ticket of the session
                with suppress(TimeoutError):
                    async with asyncio.timeout(_EARLY_SECONDS):
                        early = await streams[-1].read(1)
                if early:
                    raise httpx2.RemoteProtocolError("it answered before the request was sent")

        return follow

    async def aclose(self) -> None:
        """Close all connections."""
        for connection in (self._single, *self._shared):
            await connection.aclose()


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
