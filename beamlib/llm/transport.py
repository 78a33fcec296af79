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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import getproxies, proxy_bypass

from beamlib.errors import UserError
from beamlib.llm.faults import RetryableError, excerpt

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

_CONNECT_SECONDS = 15.0
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

        from beamlib.llm.connections import REPLY_BYTES

        REPLY_BYTES.set(reply_bytes)
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

    from beamlib.llm.connections import Connections

    try:
        httpx2.URL(base_url)
        connections = Connections(secure=urlsplit(base_url).scheme == "https", proxy=proxy)
    except (httpx2.InvalidURL, ValueError) as error:
        raise UserError(f"base_url is {base_url!r}, or its proxy, is not an address ({error}); correct it.") from None
    return httpx2.AsyncClient(transport=connections, trust_env=False, follow_redirects=False)


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
