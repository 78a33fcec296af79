"""Counts of the endpoint itself, against a real server on the loopback."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from beam_costs.endpoint_counter import EndpointCounter
from beamlib.llm.endpoints import Endpoint
from scripted_server import ScriptedServer

MESSAGES = [{"role": "user", "content": "one two three"}]
Serve = Callable[..., str]


def counts(base_url: str, *requests: Any, **fields: Any) -> list[int | None]:
    async def ask() -> list[int | None]:
        endpoint = Endpoint(model="tiny", base_url=base_url, context_window=4_000, **fields)
        async with EndpointCounter(endpoint) as counter:
            return list(await asyncio.gather(*(counter.count(request) for request in requests)))

    return asyncio.run(ask())


class Handler(BaseHTTPRequestHandler):
    """Answers every POST with what the test wants, and records what came."""

    status, body = 200, b""
    seen: list[tuple[str, str | None, bytes]]

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((self.path, self.headers["Authorization"], sent))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers = []

    def start(status: int, body: bytes, seen: list[Any]) -> str:
        handler = type("Scripted", (Handler,), {"status": status, "body": body, "seen": seen})
        servers.append(HTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=servers[-1].serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_counts_messages_and_texts_many_at_once() -> None:
    with ScriptedServer(tokenize=True) as server:
        assert counts(server.base_url, MESSAGES, "four words of text") == [3, 4]
        sizes = list(range(1, 201))
        assert counts(server.base_url, *("word " * size for size in sizes), concurrency=8) == sizes
        assert server.connections <= 10
        assert server.requests == []  # nothing that would be paid for


def test_an_endpoint_without_the_route_or_out_of_reach_counts_nothing(serve: Serve) -> None:
    with ScriptedServer(tokenize=False) as server:
        assert counts(server.base_url, MESSAGES) == [None]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert counts(f"http://127.0.0.1:{free.getsockname()[1]}/v1", MESSAGES) == [None]
    for status in (301, 401, 404, 500):
        seen: list[Any] = []
        assert counts(serve(status, b'{"count": 3}', seen) + "/v1", *[MESSAGES] * 5) == [None] * 5
        assert len(seen) == 1, "the route is looked for once"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"count": "3"}', b'{"count": -1}', b"\xff\xfe"])
def test_garbage_is_no_count(serve: Serve, body: bytes) -> None:
    assert counts(serve(200, body, []) + "/v1", MESSAGES) == [None]


def test_what_is_sent(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTER_TEST_KEY", "sk-secret")
    extra = {"chat_template_kwargs": {"enable_thinking": False}, "top_k": 1}
    seen: list[tuple[str, str, bytes]] = []
    base = serve(200, b'{"count": 7}', seen)
    assert counts(base + "/v1", MESSAGES, key_variable="COUNTER_TEST_KEY", extra=extra) == [7]
    assert counts(base + "/proxy/v1beta", "text") == [7]
    assert [path for path, _, _ in seen] == ["/tokenize"] * 2 + ["/proxy/v1beta/tokenize"] * 2
    assert [key for _, key, _ in seen] == ["Bearer sk-secret"] * 2 + [None] * 2
    assert b"enable_thinking" in seen[1][2] and b"top_k" not in seen[1][2]
    for malformed in ("sk-\nx", "sk-ü"):
        monkeypatch.setenv("COUNTER_TEST_KEY", malformed)
        assert counts(base + "/v1", MESSAGES, key_variable="COUNTER_TEST_KEY") == [None]
