"""Requests over TLS: HTTP/2 where offered, else a connection per call, and errors that say the cure."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from beamlib.errors import UserError
from beamlib.llm import transport
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.faults import RetryableError
from beamlib.llm.model import Completion, ModelError, Prompt, attempt_all
from scripted_server import completion


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that signs itself, and its key, in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    built = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
    signed = built.add_extension(names, False).sign(key, hashes.SHA256())
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    path.write_bytes(key.private_bytes(pem, *form) + signed.public_bytes(pem))
    return path


class TlsServer:
    """Answers chat completions over TLS with the number in the question, by HTTP/2 or by HTTP/1.1."""

    def __init__(self, certificate: Path, protocol: str, latency: float = 0.05) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        context.set_alpn_protocols([protocol])
        self.context: ssl.SSLContext | None = context
        self.latency, self.connections, self.peak, self.streams = latency, 0, 0, 0
        self.headers: list[dict[str, str]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        chosen = writer.get_extra_info("ssl_object").selected_alpn_protocol()
        try:
            await (self._http2(reader, writer) if chosen == "h2" else self._http1(reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _reply(self, body: bytes) -> bytes:
        self.streams += 1
        self.peak = max(self.peak, self.streams)
        await asyncio.sleep(self.latency)
        self.streams -= 1
        request = json.loads(body)
        text = str(request["messages"][-1]["content"]).partition("What about ")[2].partition("?")[0]
        return json.dumps(completion(request, text)).encode()

    async def _http1(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        self.headers.append(headers)
        content = await self._reply(await reader.readexactly(int(headers["content-length"])))
        # Kept open with a surplus reply, which must answer no request.
        reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content)
        writer.write(reply + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        await reader.read(1)

    async def _http2(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import h2.config
        import h2.connection
        import h2.events

        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        bodies: dict[int, bytes] = {}
        tasks = set()

        async def answer(stream: int) -> None:
            content = await self._reply(bodies.pop(stream))
            connection.send_headers(stream, [(":status", "200"), ("content-length", str(len(content)))])
            connection.send_data(stream, content, end_stream=True)
            writer.write(connection.data_to_send())

        while data := await reader.read(65_536):
            for event in connection.receive_data(data):
                match event:
                    case h2.events.RequestReceived():
                        self.headers.append({str(name): str(value) for name, value in event.headers or ()})
                        bodies[event.stream_id or 0] = b""
                    case h2.events.DataReceived():
                        bodies[event.stream_id or 0] += event.data or b""
                        connection.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
                    case h2.events.StreamEnded():
                        tasks.add(asyncio.create_task(answer(event.stream_id or 0)))
            writer.write(connection.data_to_send())


@contextmanager
def serving(server: TlsServer) -> Iterator[str]:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    start = asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=server.context)
    listening = asyncio.run_coroutine_threadsafe(start, loop).result()
    yield f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    loop.call_soon_threadsafe(loop.stop)


def ask(address: str, count: int = 40, **fields: Any) -> list[Completion | ModelError]:
    settings = {"model": "m", "base_url": address, "context_window": 32_000, "concurrency": 8} | fields
    prompts = [Prompt("answer", {"question": f"What about {n}?", "context": "Tea."}) for n in range(count)]
    return attempt_all(EndpointModel("reader", Endpoint(**settings)), prompts)


@pytest.mark.parametrize("protocol", ["h2", "http/1.1"])
def test_http2_shares_a_connection_and_http1_has_one_per_call(
    protocol: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = TlsServer(certificate, protocol, latency=0.5)  # longer than eight handshakes on a busy machine
    with serving(server) as address:
        replies = ask(address)
    assert [reply.text if isinstance(reply, Completion) else str(reply) for reply in replies] == [
        str(number) for number in range(40)
    ]
    assert server.peak == 8
    if protocol == "h2":
        assert server.connections <= 2
        assert all("connection" not in headers for headers in server.headers)
    else:
        assert server.connections == 40


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


def test_a_server_without_tls_says_so(certificate: Path) -> None:
    plain = TlsServer(certificate, "http/1.1")
    plain.context = None
    plain.serve = refuse_tls  # type: ignore[method-assign]
    with serving(plain) as address, pytest.raises(UserError, match="http:// in base_url"):
        ask(address, patience=0.2)


def test_an_error_behind_a_proxy_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with pytest.raises(UserError, match="https_proxy"):
        ask("https://models.invalid/v1", patience=0.2)


@pytest.mark.parametrize("first", [True, False], ids=["before the request", "after it"])
def test_a_reply_before_the_request_is_no_answer_to_it(first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_EARLY_SECONDS", 0.2 if first else 0.0)
    content = json.dumps(completion({"model": "m"}, "Of whom?")).encode()
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not first:
            await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        await writer.drain()
        await reader.read(65_536)
        writer.close()

    async def ask() -> bytes:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        way = transport.Transport(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        try:
            return (await way.post("chat/completions", "none", b"{}", timeout=20, reply_bytes=9_999)).content
        finally:
            await way.close()
            server.close()

    if first:
        with pytest.raises(RetryableError, match="it answered before the request was sent"):
            asyncio.run(ask())
    else:
        assert asyncio.run(ask()) == content
