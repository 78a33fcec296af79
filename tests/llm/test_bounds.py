"""What a server sends is read up to a bound: endless bodies, bombs, headers without end, redirects, wrong lengths."""

from __future__ import annotations

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
from beamlib.llm.exchange import MOST_REPLY_BYTES
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt, attempt_all
from scripted_server import Answer, ScriptedServer, completion

MIB = 1 << 20
GOOD = json.dumps(completion({}, "fine")).encode()
PIECE = b"x" * 65_536
Raw = Callable[[], Iterable[bytes]]


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


def ask(server: ScriptedServer, **fields: object) -> Completion | ModelError:
    model = EndpointModel("reader", endpoint(server, **fields))
    return attempt_all(model, [Prompt("answer", {"question": "What?", "context": "Ada likes tea."})])[0]


def serving(raw: Raw, drip: float = 0.0) -> ScriptedServer:
    return ScriptedServer(lambda body: Answer(raw=raw, drip=drip))


TOO_LONG: dict[str, Raw] = {
    "200 MB of a stated length": lambda: endless(head(Content_Length=200_000_000), PIECE),
    "no end": lambda: endless(head(Connection="close"), PIECE),
    "chunks without end": lambda: endless(head(Transfer_Encoding="chunked"), b"10000\r\n%b\r\n" % PIECE),
    "gzip": lambda: whole(bomb(100), Content_Encoding="gzip"),
    "deflate": lambda: whole(bomb(100, wbits=15), Content_Encoding="deflate"),
}


@pytest.mark.parametrize("name", TOO_LONG)
def test_a_reply_without_end_is_read_no_further_than_its_bound(name: str) -> None:
    with serving(lambda: [*whole(GOOD)]) as server:
        assert isinstance(ask(server), Completion)  # what is imported once is not counted
    with serving(TOO_LONG[name]) as server:
        tracemalloc.start()
        try:
            error = ask(server)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert isinstance(error, ModelError) and error.outcome is Outcome.TOO_LONG and not error.transient
        assert "longer than 1,048,576 bytes" in error.reason
        assert len(server.requests) == 1  # it would be as long again, and has been paid for
    assert server.sent < 32 * MIB  # the system's buffers between the two
    assert peak < 40 * MIB


def test_a_reply_within_the_bound_is_read_compressed_or_not() -> None:
    for raw in (lambda: whole(GOOD), lambda: whole(gzip.compress(GOOD), Content_Encoding="gzip")):
        with serving(raw) as server:
            reply = ask(server)
            assert isinstance(reply, Completion) and reply.text == "fine"
    longer = json.dumps(completion({}, "x" * MIB)).encode()
    with serving(lambda: whole(longer)) as server:
        assert isinstance(ask(server), ModelError)
        for fields in ({"max_output_tokens": 20_000}, {"max_output_tokens": None}, {"max_reply_bytes": 2 * MIB}):
            assert isinstance(ask(server, **fields), Completion)
        for tokens, bound in ((1, MIB), (16_385, 64 * 16_385), (None, 4 * MIB), (10**7, MOST_REPLY_BYTES)):
            assert endpoint(server, max_output_tokens=tokens).reply_bytes == bound
        assert "max_reply_bytes" not in endpoint(server, max_reply_bytes=5_000).settings
        for wrong in (0, 999, MOST_REPLY_BYTES + 1, 2.5e6):
            with pytest.raises(ValidationError):
                endpoint(server, max_reply_bytes=wrong)


@pytest.mark.parametrize("status", [300, 302, 304, 307])
def test_a_redirect_fails_its_call_and_no_other(status: int) -> None:
    with ScriptedServer() as elsewhere:
        target = elsewhere.base_url + "/chat/completions"
        away = Answer("", status, {"Location": f"{target}?key=hidden"})
        with ScriptedServer(lambda body: away if "What 1?" in str(body) else "fine") as server:
            model = EndpointModel("reader", endpoint(server))
            prompts = [Prompt("answer", {"question": f"What {n}?", "context": "Ada likes tea."}) for n in range(4)]
            replies = attempt_all(model, prompts)
    assert [isinstance(reply, Completion) for reply in replies] == [True, False, True, True]
    error = replies[1]
    assert isinstance(error, ModelError) and error.outcome is Outcome.REDIRECTED and error.transient
    assert f"status {status}" in error.reason and error.reason.endswith(f"a redirect to {target}")
    assert not elsewhere.requests


ODD: dict[str, Raw] = {
    "an error without end": lambda: endless(head(500, Connection="close"), PIECE),
    "headers without end": lambda: endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 5_000),
    "a header without end": lambda: endless(b"HTTP/1.1 200 OK\r\nX: ", PIECE),
    "trailers without end": lambda: endless(head(Transfer_Encoding="chunked") + b"0\r\n", b"X: y\r\n" * 5_000),
    "shorter than it says": lambda: [head(Content_Length=len(GOOD) + 10), GOOD],
    "a length below zero": lambda: [head(Content_Length=-1), GOOD],
    "gzip in gzip": lambda: whole(gzip.compress(bomb(100)), Content_Encoding="gzip, gzip"),
    "no gzip at all": lambda: whole(GOOD, Content_Encoding="gzip"),
    "an object in an object": lambda: whole(b'{"a":' * 150_000),
    "no content": lambda: [head(204)],
}


@pytest.mark.parametrize("name", ODD)
def test_odd_bytes_are_a_try_that_failed_and_cost_little(name: str) -> None:
    with serving(ODD[name]) as server:
        error = ask(server)
    assert isinstance(error, ModelError) and error.outcome is Outcome.UNAVAILABLE
    assert server.sent < 32 * MIB
    assert len(error.reason) < 600


@pytest.mark.parametrize(
    ("status", "most", "padded"), [(400, 1 << 16, " {}"), (200, 2_000, " {}"), (200, 100_000, '["{} "]')]
)
def test_a_key_where_a_reply_is_cut_is_not_shown_in_part(
    status: int, most: int, padded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", key := "wq-Zk7/Qp9+mB2xV4tR8nL0sD6fH3jK5")
    body = padded.format(" " * (most - 20 - padded.index("{")) + f"Bearer {key} ").encode()
    with serving(lambda: whole(body, status=status)) as server:
        error = ask(server, key_variable="SOME_KEY")
    assert isinstance(error, ModelError) and key[:6] not in str(error)


@pytest.mark.parametrize("charset", ["hex", "undefined", "utf-7", "none-such"])
def test_an_error_in_an_unusable_charset_is_read(charset: str) -> None:
    body = b'{"error": {"message": "bad request \xff"}}'
    with serving(lambda: whole(body, status=400, Content_Type=f"application/json; charset={charset}")) as server:
        error = ask(server)
    assert isinstance(error, ModelError) and error.outcome is Outcome.REFUSED and "bad request" in str(error)


@pytest.mark.parametrize(
    "raw",
    [
        lambda: endless(head(Content_Length=10**6), b"x"),
        lambda: endless(b"HTTP/1.1 200 OK\r\nX: ", b"x"),
        lambda: itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
)
def test_a_reply_that_drips_ends_at_the_timeout(raw: Raw) -> None:
    with serving(raw, drip=0.02) as server:
        error = ask(server, timeout=0.4)
    assert isinstance(error, ModelError) and "no answer within 0.4 seconds" in error.reason
