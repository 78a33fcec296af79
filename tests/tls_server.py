"""Serve chat completions over TLS by HTTP/2 or HTTP/1.1, or plainly, at the end of a network with a round trip."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from scripted_server import completion


def write_certificate(path: Path) -> Path:
    """Write a certificate for 127.0.0.1 that signs itself, and its key, into one file."""
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
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    path.write_bytes(key.private_bytes(pem, *form) + signed.public_bytes(pem))
    return path


def number_asked(body: dict[str, Any]) -> str:
    """Reply with the number in the question."""
    return str(body["messages"][-1]["content"]).partition("What about ")[2].partition("?")[0]


class TlsServer:
    """Serves at `base_url` in a block of `serving`.

    Args:
        certificate: File of `write_certificate`; None serves without TLS.
        protocol: `h2` or `http/1.1`, the only one that is offered.
        latency: Seconds between a request and its reply.
        reply: Maps a request's body to its text.
        surplus: Whether a connection of HTTP/1.1 stays open with a surplus reply, which must answer no request.

    Attributes:
        requests, peak, connections: How many there were, the most at once, and how many connections they took.
    """

    def __init__(
        self,
        certificate: Path | None,
        protocol: str,
        latency: float = 0.05,
        reply: Callable[[dict[str, Any]], str] = number_asked,
        *,
        surplus: bool = True,
    ) -> None:
        self.context: ssl.SSLContext | None = None
        if certificate:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(certificate)
            self.context.set_alpn_protocols([protocol])
        self.latency, self.reply, self.surplus = latency, reply, surplus
        self.connections = self.peak = self.pending = self.requests = 0
        self.headers: list[dict[str, str]] = []
        self._open = set[asyncio.StreamWriter]()

    def drop_connections(self) -> None:
        """Break every connection, as a server does that restarts."""
        for writer in list(self._open):  # which the server's thread changes meanwhile
            self._loop.call_soon_threadsafe(writer.transport.abort)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._loop = asyncio.get_running_loop()
        self._open.add(writer)
        tls = writer.get_extra_info("ssl_object")
        http2 = tls is not None and tls.selected_alpn_protocol() == "h2"
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):  # it ends with the block
            await (self._http2(reader, writer) if http2 else self._http1(reader, writer))
        self._open.discard(writer)
        writer.close()

    async def _reply(self, body: bytes) -> bytes:
        self.requests += 1
        self.pending += 1
        self.peak = max(self.peak, self.pending)
        if self.latency:
            await asyncio.sleep(self.latency)
        self.pending -= 1
        request = json.loads(body)
        return json.dumps(completion(request, self.reply(request))).encode()

    async def _http1(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        self.headers.append(headers)
        content = await self._reply(await reader.readexactly(int(headers["content-length"])))
        reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content)
        writer.write(reply + (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" if self.surplus else b""))
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


async def _start(server: TlsServer, round_trip: float) -> int:
    """Listen, behind a relay where there is a round trip; return the port."""
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=server.context, backlog=512)
    port: int = listening.sockets[0].getsockname()[1]
    if not round_trip:
        return port
    loop = asyncio.get_running_loop()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, since: float) -> None:
        """Deliver each piece half a round trip after it came, and none that came before `since`."""

        def deliver(piece: bytes) -> None:
            if not writer.is_closing():
                writer.write(piece) if piece else writer.close()

        piece, at = b"first", 0.0
        while piece:
            try:
                piece = await reader.read(1 << 18)
            except ConnectionError:
                piece = b""
            at = max(max(loop.time(), since) + round_trip / 2, at + 1e-6)  # timers of one moment have no order
            loop.call_at(at, deliver, piece)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        since = loop.time() + round_trip  # a connection over such a network begins after one
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        with suppress(asyncio.CancelledError):
            await asyncio.gather(carry(reader, far_writer, since), carry(far_reader, writer, 0.0))

    far = await asyncio.start_server(relay, "127.0.0.1", 0, backlog=512)
    return int(far.sockets[0].getsockname()[1])


@contextmanager
def serving(server: TlsServer, round_trip: float = 0.0) -> Iterator[str]:
    """Serve in a thread, `round_trip` seconds away: a connection, a handshake of TLS and a reply take one each."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    port = asyncio.run_coroutine_threadsafe(_start(server, round_trip), loop).result(10)
    yield f"http{'s' if server.context else ''}://127.0.0.1:{port}/v1"

    async def end() -> None:
        for _ in range(3):  # a task that is cancelled may begin to wait for another
            if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks, timeout=2)
        loop.stop()

    asyncio.run_coroutine_threadsafe(end(), loop)
    thread.join(10)
