"""Requests over TLS: HTTP/2 where offered, else a connection per call, and errors that say the cure."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from beamlib.errors import UserError
from beamlib.llm import connections
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.faults import RetryableError
from beamlib.llm.model import Completion, ModelError, Prompt, attempt_all
from beamlib.llm.transport import Transport
from scripted_server import completion
from tls_server import TlsServer, number_asked, serving, write_certificate


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificate(tmp_path_factory.mktemp("tls") / "certificate.pem")


def ask(address: str, count: int = 40, **fields: Any) -> list[Completion | ModelError]:
    settings = {"model": "m", "base_url": address, "context_window": 32_000, "concurrency": 8} | fields
    prompts = [Prompt("answer", {"question": f"What about {n}?", "context": "Tea."}) for n in range(count)]
    return attempt_all(EndpointModel("reader", Endpoint(**settings)), prompts)


def texts(replies: list[Completion | ModelError]) -> list[str]:
    return [reply.text if isinstance(reply, Completion) else str(reply) for reply in replies]


@pytest.mark.parametrize("protocol", ["h2", "http/1.1"])
def test_http2_keeps_its_connections_and_http1_has_one_per_call(
    protocol: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = TlsServer(certificate, protocol, latency=0.5)  # longer than eight handshakes on a busy machine
    with serving(server) as address:
        replies = ask(address)
    assert texts(replies) == [str(number) for number in range(40)]
    assert server.peak == 8
    if protocol == "h2":
        assert server.connections == 8
        assert all("connection" not in headers for headers in server.headers)
    else:
        assert server.connections == 40


@pytest.mark.parametrize("protocol", ["h2", "http/1.1"])
def test_calls_do_not_wait_for_the_handshakes_of_others(
    protocol: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = TlsServer(certificate, protocol, latency=1.0)
    with serving(server, round_trip=0.4) as address:  # one after the other there would be two at once
        replies = ask(address, 16)
    assert all(isinstance(reply, Completion) for reply in replies)
    assert server.connections == (8 if protocol == "h2" else 16)
    assert server.peak >= 6


class UnevenServer(TlsServer):
    """Takes two seconds for the first two questions."""

    async def _reply(self, body: bytes) -> bytes:
        self.latency = 2.0 if b"about 0?" in body or b"about 1?" in body else 0.01
        return await super()._reply(body)


def test_a_reply_over_http2_waits_for_no_other_reply(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    order: list[str] = []

    def reply(body: dict[str, Any]) -> str:
        order.append(number_asked(body))
        return order[-1]

    with serving(UnevenServer(certificate, "h2", reply=reply)) as address:
        assert texts(ask(address, 24, concurrency=3)) == [str(number) for number in range(24)]
    assert {"0", "1"} <= set(order[-12:])


def test_a_server_that_restarts_loses_no_call(
    certificate: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = TlsServer(certificate, "h2", latency=0.01)
    with serving(server) as address:
        replies = ask(address, 24, concurrency=4)
        server.drop_connections()
        replies += ask(address, 24, concurrency=4)
    assert texts(replies) == [str(number) for number in range(24)] * 2
    assert server.connections == 8
    assert not capsys.readouterr().err


def test_a_certificate_that_is_not_accepted_says_how_to_give_its_authority(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with serving(TlsServer(certificate, "h2")) as address, pytest.raises(UserError, match="SSL_CERT_FILE"):
        ask(address, patience=0.2)


async def refuse_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Do what servers of plain HTTP do."""
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    writer.close()


def test_a_server_without_tls_says_so() -> None:
    plain = TlsServer(None, "http/1.1")
    plain.serve = refuse_tls  # type: ignore[method-assign]
    with serving(plain) as address, pytest.raises(UserError, match="http:// in base_url"):
        ask(address.replace("http:", "https:"), patience=0.2)


def test_an_error_behind_a_proxy_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with pytest.raises(UserError, match="https_proxy"):
        ask("https://models.invalid/v1", patience=0.2)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("first", [True, False], ids=["before the request", "after it"])
def test_a_reply_before_the_request_is_no_answer_to_it(
    first: bool, secure: bool, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_EARLY_SECONDS", 0.2 if first else 0.0)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    content = json.dumps(completion({"model": "m"}, "Of whom?")).encode()
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not first:
            await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        await writer.drain()
        await reader.read(65_536)
        writer.close()

    server = TlsServer(certificate if secure else None, "http/1.1")
    server.serve = serve  # type: ignore[method-assign]

    async def ask(address: str) -> bytes:
        way = Transport(address)
        try:
            for call in range(2):  # the first over TLS learns the protocol, the second knows it
                try:
                    received = await way.post("chat/completions", "none", b"{}", timeout=20, reply_bytes=9_999)
                except RetryableError:
                    if call:
                        raise
            return received.content
        finally:
            await way.close()

    with serving(server) as address:
        if first:
            with pytest.raises(RetryableError, match="it answered before the request was sent"):
                asyncio.run(ask(address))
        else:
            assert asyncio.run(ask(address)) == content
