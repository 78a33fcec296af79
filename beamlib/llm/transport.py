"""Send requests by the `openai` package, over a transport of httpx that bounds what is read.

Over https it is HTTP/2 where the server offers it: there a reply belongs to its stream. Over HTTP/1.1 every call has a
connection of its own, because on a kept-alive one a surplus reply, sent late by a server or a proxy in between, cannot
be told from the answer to the next request. Redirects are not followed: the key would go along.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import ssl
import zlib
from collections import Counter
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import getproxies, proxy_bypass

from beamlib.errors import UserError
from beamlib.llm.faults import RetryableError, excerpt

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

ERROR_BYTES = 1 << 16
"""Bytes that are read of the body of an error."""
_CONNECT_SECONDS = 15.0
_EARLY_SECONDS = 0.001
"""How long a new connection is watched for a reply that nobody has asked for."""
_WINDOW = 65_535
"""Bytes that a server takes at once of a connection of HTTP/2, unless it says otherwise."""
_CONNECTIONS = 16
"""The most connections of HTTP/2 to an address."""
_IDLE_SECONDS = 30.0
_REPLY_BYTES: ContextVar[int] = ContextVar("_REPLY_BYTES")
_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "gzip, deflate",
    "Content-Type": "application/json",
    "Connection": "close",  # HTTP/2 has no such header, and leaves it out
    "User-Agent": "beamlib",
}
_ABOUT_US = ("Lang", "Package-Version", "OS", "Arch", "Runtime", "Runtime-Version", "Async")
"""Ends of the headers in which `openai` describes the machine: nobody needs them, and they cost time."""


@dataclass(frozen=True, slots=True)
class Response:
    """The response to a request. `complete` says whether all of its body is in `content`."""

    status: int
    headers: Any
    content: bytes
    complete: bool


class Transport:
    """The way to one address: proxy, certificates, an HTTP client, and a client of `openai` per key.

    Attributes:
        via: Names the proxy's environment variable for messages; empty without a proxy.
    """

    def __init__(self, base_url: str) -> None:
        self.base_url, query = base_url.partition("?")[0], urlsplit(base_url).query
        self.api_version = parse_qs(query).get("api-version", [""])[0]
        self.via, proxy = _proxy(base_url)
        self._http = _http_client(base_url, proxy)
        self._clients: dict[str, AsyncOpenAI] = {}

    async def post(self, route: str, key: str, body: bytes, *, timeout: float, reply_bytes: int) -> Response:
        """Send `body` once and return the response, whatever its status.

        Raises:
            RetryableError: there was none.
        """
        import httpx2
        import openai

        _REPLY_BYTES.set(reply_bytes)
        client = self._clients.get(key) or self._clients.setdefault(key, self._client(key))
        try:
            async with asyncio.timeout(timeout):  # each read has its own timeout, and a reply may drip
                options: Any = {"timeout": httpx2.Timeout(timeout, connect=min(timeout, _CONNECT_SECONDS))}
                found = await client.post(f"/{route}", cast_to=httpx2.Response, content=body, options=options)
        except openai.APIStatusError as error:
            found = error.response
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError) as error:
            raise _connection_error(error, timeout, key, self.via) from None
        return Response(found.status_code, found.headers, found.content, found.extensions["complete"])

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    def _client(self, key: str) -> AsyncOpenAI:
        from openai import AsyncAzureOpenAI, AsyncOpenAI, Omit

        headers = _HEADERS | {f"X-Stainless-{name}": Omit() for name in _ABOUT_US}
        common: dict[str, Any] = {"base_url": self.base_url, "http_client": self._http, "default_headers": headers}
        if not self.api_version:
            return AsyncOpenAI(api_key=key, max_retries=0, **common)
        # Azure's keys have a header of their own; a token of its directory (a JWT) is sent as everywhere.
        token = key.startswith("eyJ")
        return AsyncAzureOpenAI(
            api_version=self.api_version, max_retries=0, api_key=None if token else key,
            azure_ad_token=key if token else None, **common,
        )  # fmt: skip


def _http_client(base_url: str, proxy: str | None) -> httpx2.AsyncClient:
    import httpx2

    secure = urlsplit(base_url).scheme == "https"

    @cache
    def verified(http2: bool) -> ssl.SSLContext | bool:  # a context for each: the protocols offered are kept in it
        return httpx2.create_ssl_context() if secure else False

    def connections(http2: bool) -> httpx2.AsyncHTTPTransport:
        kept = 1 if http2 else 0
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=kept, keepalive_expiry=_IDLE_SECONDS)
        return httpx2.AsyncHTTPTransport(verify=verified(http2), http2=http2, proxy=proxy, limits=limits)

    class Bounded(httpx2.AsyncBaseTransport):
        """Shares connections of HTTP/2 or opens one per call; reads each body up to its bound, unpacked.

        Until it is known which, each connection gets one call and the others wait: at one that comes to be HTTP/1.1,
        httpx would send them one after the other, with a handshake before each.
        """

        def __init__(self) -> None:
            self.single = connections(http2=False)
            self.shared: list[httpx2.AsyncHTTPTransport] = []  # each has one connection
            self.sending = Counter[httpx2.AsyncHTTPTransport]()
            self.http2 = False
            self.known: asyncio.Future[None] | None = None

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if not secure:
                return await self.send(request, self.single)
            learns = self.known is None or (self.known.done() and self.known.exception() is not None)
            if learns or self.known is None:
                self.known = asyncio.get_running_loop().create_future()
            size = int(request.headers["content-length"])
            chosen = self.shared_connection(size)
            self.sending[chosen] += size
            try:
                if not self.known.done():
                    if learns or self.sending[chosen] == size:
                        return await self.learn(request, chosen, self.known)
                    await asyncio.shield(self.known)
                return await self.send(request, chosen if self.http2 else self.single)
            finally:
                self.sending[chosen] -= size

        def shared_connection(self, size: int) -> httpx2.AsyncHTTPTransport:
            """Choose the first connection that has room for a request, or the one with most."""
            room = (one for one in self.shared if not self.sending[one] or self.sending[one] + size <= _WINDOW)
            chosen = next(room, None)
            if chosen is None and len(self.shared) < _CONNECTIONS:
                self.shared.append(chosen := connections(http2=True))
            return chosen or min(self.shared, key=self.sending.__getitem__)

        async def send(
            self, request: httpx2.Request, connection: httpx2.AsyncHTTPTransport, *, learns: bool = False
        ) -> httpx2.Response:
            if learns or not self.http2:
                request.extensions["trace"] = self.watch()
            return await read_response(request, await connection.handle_async_request(request))

        async def learn(
            self, request: httpx2.Request, connection: httpx2.AsyncHTTPTransport, known: asyncio.Future[None]
        ) -> httpx2.Response:
            """Send a first request; those that wait for it fail as it does where there is no connection."""
            try:
                return await self.send(request, connection, learns=True)
            except BaseException as error:
                if not known.done():
                    cause = error if isinstance(error, httpx2.TransportError) else httpx2.ConnectTimeout("timed out")
                    known.set_exception(cause)
                    known.exception()  # nobody may wait
                raise

        def watch(self) -> Callable[[str, Mapping[str, Any]], Awaitable[None]]:
            """Follow one request: learn the protocol, and refuse what comes before it was sent as an answer to it."""
            streams: list[Any] = []

            async def follow(event: str, facts: Mapping[str, Any]) -> None:
                if event.endswith(("connect_tcp.complete", "start_tls.complete")):
                    streams.append(facts["return_value"])
                    # A proxy may have a TLS of its own.
                    if event.endswith("start_tls.complete") and (proxy is None) == event.startswith("connection."):
                        self.http2 = streams[-1].get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
                        if self.known is not None and not self.known.done():
                            self.known.set_result(None)
                elif event == "http11.send_request_headers.started" and streams:
                    # Readable is not enough: over TLS it may be a ticket of the session.
                    early = b""
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_EARLY_SECONDS):
                            early = await streams[-1].read(1)
                    if early:
                        raise httpx2.RemoteProtocolError("it answered before the request was sent")

            return follow

        async def aclose(self) -> None:
            for connection in (self.single, *self.shared):
                await connection.aclose()

    async def read_response(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        try:
            limit = ERROR_BYTES if response.status_code >= 300 else _REPLY_BYTES.get()
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

    try:
        httpx2.URL(base_url)
        bounded = Bounded()
    except (httpx2.InvalidURL, ValueError) as error:
        raise UserError(f"base_url is {base_url!r}, or its proxy, is not an address ({error}); correct it.") from None
    return httpx2.AsyncClient(transport=bounded, trust_env=False, follow_redirects=False)


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


def _proxy(base_url: str) -> tuple[str, str | None]:
    """Return the proxy of an address and how messages name it; a local address is reached past any proxy."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    try:
        local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    if local or proxy_bypass(host):
        return "", None
    for scheme in (parts.scheme, "all"):
        if proxy := getproxies().get(scheme):
            names = (f"{scheme}_proxy", f"{scheme}_proxy".upper())
            variable = next((name for name in names if os.environ.get(name)), "the system's settings")
            return f", by the proxy that {variable} names", proxy
    return "", None


def _connection_error(error: BaseException, timeout: float, key: str, via: str) -> RetryableError:
    """Classify a try without a response by what is at the root of it, and name the cure that its kind has."""
    import httpx2

    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    text = next((str(getattr(cause, "strerror", "") or cause) for cause in causes[::-1] if str(cause)), "")
    message = excerpt(text or type(error).__name__, key)
    reached = not any(isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout) for cause in causes)
    reached = reached and not any(isinstance(cause, httpx2.ProxyError) for cause in causes)
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes) or "certificate" in message.lower():
        cure = "give the certificate of its authority as a file in SSL_CERT_FILE, or correct the name in base_url"
        return RetryableError(f"its certificate is refused{via} ({message})", silent=True, reached=False, cure=cure)
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        cure = "write http:// in base_url if the server speaks no TLS, or correct its port"
        return RetryableError(f"no TLS connection{via} ({message})", silent=True, reached=False, cure=cure)
    cure = "correct the proxy or the address" if via else "start the server or correct base_url"
    if not reached:
        return RetryableError(f"no connection{via} ({message})", silent=True, reached=False, cure=cure)
    timeouts = (TimeoutError, httpx2.TimeoutException)
    if any(isinstance(cause, timeouts) for cause in causes):
        return RetryableError(f"no answer within {timeout:g} seconds{via}", silent=True, timed_out=True, cure=cure)
    return RetryableError(f"the connection broke{via} ({message})", silent=True, cure=cure)
