"""Counts of the endpoint itself, against a real server on the loopback."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from beam_run.endpoint_counter import EndpointCounter
from beamlib.llm.endpoints import Endpoint
from scripted_server import ScriptedServer

MESSAGES = [{"role": "user", "content": "one two three"}]
Serve = Callable[..., str]


def endpoint(base_url: str, **fields: Any) -> Endpoint:
    return Endpoint(model="tiny", base_url=base_url, context_window=4_000, **fields)


def counts(target: Endpoint, *requests: Any) -> list[int | None]:
    async def ask() -> list[int | None]:
        async with EndpointCounter(target) as counter:
            return list(await asyncio.gather(*(counter.count(request) for request in requests)))

    return asyncio.run(ask())


class Handler(BaseHTTPRequestHandler):
    """Answers every POST with what the test wants, and notes what came."""

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
        """Say nothing."""


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


def test_counts_messages_and_text() -> None:
    with ScriptedServer(tokenize=True) as server:
        assert counts(endpoint(server.base_url), MESSAGES, "four words of text") == [3, 4]
        assert server.requests == []  # nothing that would be paid for


def test_many_counts_at_once_are_all_right() -> None:
    with ScriptedServer(tokenize=True) as server:
        wanted = list(range(1, 401))
        assert counts(endpoint(server.base_url, concurrency=8), *("word " * size for size in wanted)) == wanted
        assert server.connections <= 8


def test_an_endpoint_without_the_route_counts_nothing() -> None:
    with ScriptedServer(tokenize=False) as server:
        assert counts(endpoint(server.base_url), MESSAGES) == [None]


def test_an_endpoint_out_of_reach_counts_nothing() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        assert counts(endpoint(url), MESSAGES) == [None]


@pytest.mark.parametrize("status", [301, 401, 404, 405, 500])
def test_the_route_is_looked_for_once(serve: Serve, status: int) -> None:
    seen: list[Any] = []
    assert counts(endpoint(serve(status, b'{"count": 3}', seen) + "/v1"), *[MESSAGES] * 5) == [None] * 5
    assert len(seen) == 1


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"count": "3"}', b'{"count": -1}', b'{"count": true}', b"\xff\xfe"]
)
def test_garbage_is_no_count(serve: Serve, body: bytes) -> None:
    assert counts(endpoint(serve(200, body, []) + "/v1"), MESSAGES) == [None]


def test_what_is_sent(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTER_TEST_KEY", "sk-secret")
    extra = {"chat_template_kwargs": {"enable_thinking": False}, "top_k": 1}
    seen: list[tuple[str, str, bytes]] = []
    base = serve(200, b'{"count": 7}', seen)
    assert counts(endpoint(base + "/v1", key_variable="COUNTER_TEST_KEY", extra=extra), MESSAGES) == [7]
    assert counts(endpoint(base + "/proxy/v1beta"), "text") == [7]
    assert [path for path, _, _ in seen] == ["/tokenize"] * 2 + ["/proxy/v1beta/tokenize"] * 2
    assert [key for _, key, _ in seen] == ["Bearer sk-secret"] * 2 + [None] * 2
    assert b"enable_thinking" in seen[1][2] and b"top_k" not in seen[1][2]
    assert not any(b"sk-secret" in body for _, _, body in seen)


@pytest.mark.parametrize("key", ["sk-\nx", "sk-ü"])
def test_a_key_that_is_no_header_stops_nothing(serve: Serve, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("COUNTER_TEST_KEY", key)
    target = endpoint(serve(200, b'{"count": 7}', []) + "/v1", key_variable="COUNTER_TEST_KEY")
    assert counts(target, MESSAGES) == [None]
