"""What a server sends is read up to a bound: endless bodies, bombs, headers without end, redirects, lying lengths."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache

import pytest
from pydantic import ValidationError

from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.faults import bounded
from beamlib.llm.model import MOST_REPLY_BYTES, Completion, ModelError, Outcome, Prompt, attempt_all
from scripted_server import Answer, ScriptedServer, completion

MIB = 1 << 20
GOOD = json.dumps(completion({}, "fine")).encode()
PIECE = b"x" * 65_536


def endpoint(server: ScriptedServer, **fields: object) -> Endpoint:
    settings = {"model": "m", "base_url": server.base_url, "context_window": 32_000, "attempts": 1, "timeout": 20.0}
    return Endpoint.model_validate(settings | {"max_output_tokens": 100} | fields)


def head(status: int = 200, **headers: object) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Raw\r\n{lines}\r\n".encode()


def whole(body: bytes, status: int = 200, **headers: object) -> list[bytes]:
    return [head(status, Content_Length=len(body), **headers), body]


@cache
def bomb(megabytes: int, wbits: int = 31) -> bytes:
    packer = zlib.compressobj(1, wbits=wbits)
    parts = [packer.compress(b'{"choices": "')]
    parts += [packer.compress(b"x" * 1_000_000) for _ in range(megabytes)]
    return b"".join([*parts, packer.flush()])


def endless(first: bytes, piece: bytes) -> Iterator[bytes]:
    return itertools.chain([first], itertools.repeat(piece))


TOO_LONG: dict[str, Callable[[], Iterable[bytes]]] = {
    "200 MB of a stated length": lambda: endless(head(Content_Length=200_000_000), PIECE),
    "no end": lambda: endless(head(Connection="close"), PIECE),
    "chunks without end": lambda: endless(head(Transfer_Encoding="chunked"), b"10000\r\n%b\r\n" % PIECE),
    "spaces without end": lambda: endless(head(Connection="close"), b" " * 65_536),
    "gzip": lambda: whole(bomb(300), Content_Encoding="gzip"),
    "deflate": lambda: whole(bomb(100, wbits=15), Content_Encoding="deflate"),
    "gzip in gzip": lambda: whole(gzip.compress(bomb(300)), Content_Encoding="gzip, gzip"),
}


def asked(server: ScriptedServer, **fields: object) -> Completion | ModelError:
    model = EndpointModel("reader", endpoint(server, **fields))
    return attempt_all(model, [Prompt("answer", {"question": "What?", "context": "Ada likes tea."})])[0]


def served(raw: Callable[[], Iterable[bytes]], drip: float = 0.0) -> ScriptedServer:
    return ScriptedServer(lambda body: Answer(raw=raw, drip=drip))


@pytest.mark.parametrize("name", TOO_LONG)
def test_a_reply_without_end_is_read_no_further_than_its_bound(name: str) -> None:
    with served(lambda: [*whole(GOOD)]) as server:
        assert isinstance(asked(server), Completion)  # what is imported once is not counted
    with served(TOO_LONG[name]) as server:
        tracemalloc.start()
        try:
            found = asked(server)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert isinstance(found, ModelError) and found.outcome is Outcome.TOO_LONG and not found.transient
        assert "longer than 1,048,576 bytes" in found.reason
        assert len(server.requests) == 1  # it would be as long again, and has been paid for
    assert server.sent < 32 * MIB  # what the system's buffers hold between the two
    assert peak < 40 * MIB


def test_a_reply_within_the_bound_is_read_however_it_is_packed() -> None:
    for body, packing in ((GOOD, {}), (gzip.compress(GOOD), {"Content_Encoding": "gzip"})):
        with served(lambda body=body, packing=packing: whole(body, **packing)) as server:  # type: ignore[misc]
            found = asked(server)
            assert isinstance(found, Completion) and found.text == "fine"
    nearly = json.dumps(completion({}, "x" * (MIB - 1_000))).encode()
    with served(lambda: whole(nearly)) as server:
        assert isinstance(asked(server), Completion)
        refused = asked(server, max_reply_bytes=MIB - 1_000)
        assert isinstance(refused, ModelError) and refused.outcome is Outcome.TOO_LONG
    longer = json.dumps(completion({}, "x" * MIB)).encode()
    with served(lambda: whole(longer)) as server:
        assert isinstance(asked(server), ModelError)
        assert isinstance(asked(server, max_output_tokens=20_000), Completion)
        assert isinstance(asked(server, max_output_tokens=None), Completion)
        assert isinstance(asked(server, max_reply_bytes=2 * MIB), Completion)


def test_the_bound_is_64_bytes_for_each_requested_token() -> None:
    usual = {"model": "m", "base_url": "http://127.0.0.1:9/v1", "context_window": 32_000}
    for tokens, wanted in ((1, MIB), (16_384, MIB), (16_385, 64 * 16_385), (None, 4 * MIB), (10**7, MOST_REPLY_BYTES)):
        assert Endpoint.model_validate(usual | {"max_output_tokens": tokens}).reply_bytes == wanted
    own = Endpoint.model_validate(usual | {"max_reply_bytes": 5_000})
    assert own.reply_bytes == 5_000 and "max_reply_bytes" not in own.settings
    for wrong in (0, 999, MOST_REPLY_BYTES + 1, 2.5e6):
        with pytest.raises(ValidationError):
            Endpoint.model_validate(usual | {"max_reply_bytes": wrong})


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
def test_a_redirect_fails_its_call_and_no_other(status: int) -> None:
    with ScriptedServer() as elsewhere:
        target = elsewhere.base_url + "/chat/completions"
        away = Answer("", status, {"Location": f"{target}?key=hidden"})
        with ScriptedServer(lambda body: away if "What 1?" in str(body) else "fine") as server:
            model = EndpointModel("reader", endpoint(server))
            prompts = [Prompt("answer", {"question": f"What {n}?", "context": "Ada likes tea."}) for n in range(4)]
            found = attempt_all(model, prompts)
    assert [isinstance(reply, Completion) for reply in found] == [True, False, True, True]
    error = found[1]
    assert isinstance(error, ModelError) and error.outcome is Outcome.REDIRECTED and error.transient
    assert f"status {status}" in error.reason and f"a redirect to {target};" in error.reason
    assert not elsewhere.requests


ODD: dict[str, Callable[[], Iterable[bytes]]] = {
    "an error without end": lambda: endless(head(500, Connection="close"), PIECE),
    "headers without end": lambda: endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 5_000),
    "a header without end": lambda: endless(b"HTTP/1.1 200 OK\r\nX: ", PIECE),
    "trailers without end": lambda: endless(head(Transfer_Encoding="chunked") + b"0\r\n", b"X: y\r\n" * 5_000),
    "shorter than it says": lambda: [head(Content_Length=len(GOOD) + 10), GOOD],
    "a length below zero": lambda: [head(Content_Length=-1), GOOD],
    "no gzip at all": lambda: whole(GOOD, Content_Encoding="gzip"),
    "nothing but brackets": lambda: whole(b"[" * 900_000),
    "an object in an object": lambda: whole(b'{"a":' * 150_000),
    "no content": lambda: [head(204)],
}


@pytest.mark.parametrize("name", ODD)
def test_odd_bytes_are_a_try_that_failed_and_cost_little(name: str) -> None:
    with served(ODD[name]) as server:
        found = asked(server)
    assert isinstance(found, ModelError) and found.outcome is Outcome.UNAVAILABLE
    assert server.sent < 32 * MIB
    assert len(found.reason) < 600


@pytest.mark.parametrize(
    ("status", "most", "padded"), [(400, 1 << 16, " {}"), (200, 2_000, " {}"), (200, 100_000, '["{} "]')]
)
def test_a_key_that_stands_where_a_reply_is_cut_is_not_told_in_part(
    status: int, most: int, padded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", key := "wq-Zk7/Qp9+mB2xV4tR8nL0sD6fH3jK5")
    before = most - 20 - padded.index("{")
    body = padded.format(" " * before + f"Bearer {key} ").encode()
    with served(lambda: whole(body, status=status)) as server:
        found = asked(server, key_variable="SOME_KEY")
    assert isinstance(found, ModelError) and key[:6] not in str(found)


@pytest.mark.parametrize("charset", ["hex", "zip", "undefined", "idna", "punycode", "rot13", "utf-7", "none-such"])
def test_an_error_in_a_charset_that_is_none_is_read_all_the_same(charset: str) -> None:
    body = b'{"error": {"message": "bad request \xff"}}'
    with served(lambda: whole(body, status=400, Content_Type=f"application/json; charset={charset}")) as server:
        found = asked(server)
    assert isinstance(found, ModelError) and found.outcome is Outcome.REFUSED and "bad request" in str(found)


@pytest.mark.parametrize(
    "raw",
    [
        lambda: endless(head(Content_Length=10**6), b"x"),
        lambda: endless(b"HTTP/1.1 200 OK\r\nX: ", b"x"),
        lambda: itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
)
def test_a_reply_that_drips_ends_at_the_timeout(raw: Callable[[], Iterable[bytes]]) -> None:
    with served(raw, drip=0.02) as server:
        found = asked(server, timeout=0.4)
    assert isinstance(found, ModelError) and "no answer within 0.4 seconds" in found.reason


def test_reading_stops_where_the_bound_is_passed() -> None:
    taken = []

    async def pieces() -> object:
        for number in range(100):
            taken.append(number)
            yield bytes(10)

    async def read(limit: int) -> tuple[bytes, bool]:
        return await bounded(pieces(), limit)  # type: ignore[arg-type]

    assert asyncio.run(read(25)) == (bytes(25), False) and taken == [0, 1, 2]
    assert asyncio.run(read(1_000)) == (bytes(1_000), True)
