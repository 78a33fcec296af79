"""EndpointModel against a real server on the loopback: requests, faults, keys, tools, slots, a server that is down."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import socketserver
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from beamlib.errors import UserError
from beamlib.llm.call_store import CallStore, call_key
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.model import (
    Completion,
    ModelError,
    Outcome,
    Prompt,
    ToolDefinition,
    Usage,
    attempt_all,
    gather_all,
    run,
)
from beamlib.llm.prompts import Prompts
from beamlib.llm.reply_body import describe_tools, tool_calls_json
from beamlib.llm.stored_model import StoredModel
from scripted_server import Answer, Faults, ScriptedServer, completion, error_body, free_port

KEY = "sk-invented-0123456789"
NOWHERE = "http://127.0.0.1:9/v1"


def prompt(number: int = 0, **fields: Any) -> Prompt:
    return Prompt("answer", {"question": f"What about {number}?", "context": "Ada likes tea."}, **fields)


def model(where: ScriptedServer | str, *, role: str = "reader", **fields: Any) -> EndpointModel:
    address = where if isinstance(where, str) else where.base_url
    settings = {"model": "m", "base_url": address, "context_window": 32_000} | fields
    return EndpointModel(role, Endpoint(**settings))


def number_of(body: dict[str, Any]) -> str:
    """A reply that says which question it answers."""
    return body["messages"][-1]["content"].partition("What about ")[2].partition("?")[0]


def in_turn(*answers: str | Answer) -> Callable[[dict[str, Any]], str | Answer]:
    left = list(answers)
    return lambda body: left.pop(0) if len(left) > 1 else left[0]


def result_of(client: EndpointModel, what: Prompt | None = None) -> Completion | ModelError | UserError:
    try:
        return run(client.complete(what or prompt()))
    except (ModelError, UserError) as error:
        return error


def texts(replies: list[Completion | ModelError]) -> list[str]:
    return [reply.text if isinstance(reply, Completion) else reply.reason for reply in replies]


def test_the_request_is_exactly_what_request_says(tmp_path: Path) -> None:
    extra = {"top_p": 0.9, "chat_template_kwargs": {"enable_thinking": False}}
    with ScriptedServer(number_of) as server:
        limit = {"limit_field": "max_completion_tokens", "max_output_tokens": 1024}
        client = model(server, **limit, seed=7, temperature=0.5, extra=extra)
        again = prompt(3, repeat=2, about="never sent").again("Shorter.")
        reply = run(client.complete(again))
        assert server.requests[0].body == client.request(again)
    assert server.requests[0].authorization == "Bearer none"
    text = again.messages[0]["content"] + "\n\nShorter."
    assert client.request(again) == {
        "model": "m", "messages": [{"role": "user", "content": text}], "temperature": 0.5, "seed": 9,
        "max_completion_tokens": 1024, **extra,
    }  # fmt: skip
    words = len(text.split())
    assert (reply.text, reply.finish_reason) == ("3", "stop")
    assert reply.usage == Usage(words, 1, words // 4) and reply.latency > 0
    assert set(model(NOWHERE, temperature=None, seed=None).request(prompt(repeat=1))) == {"model", "messages"}
    header = "---\nlisting: 44\nrole: reader\nvariables: [question, context]\noutput: text\n---\n"
    (tmp_path / "answer.md").write_text(header + "Own words: {{ question }} {{ context }}", encoding="utf-8")
    own = EndpointModel("reader", client.endpoint, prompts=Prompts.read(tmp_path))
    assert own.request(prompt())["messages"][0]["content"].startswith("Own words: What about 0?")


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("kind", ["delay", "drop", "throttle", "error", "garbage"])
def test_each_passing_fault_is_survived(kind: str) -> None:
    faults = Faults(**{kind: 0.4}, delay_seconds=0.05, retry_after=0.02)
    with ScriptedServer(number_of, faults=faults) as server:
        assert texts(attempt_all(model(server), [prompt(number) for number in range(8)])) == list("01234567")
        assert kind in {request.outcome for request in server.requests}
        assert server.repeated() == []


@pytest.mark.parametrize(
    ("kind", "words"),
    [("drop", "connection broke"), ("throttle", "429"), ("error", "stumbled"), ("garbage", "no choices|not JSON")],
)
def test_a_fault_that_stays_ends_the_call_after_its_attempts(kind: str, words: str) -> None:
    with ScriptedServer(faults=Faults(**{kind: 1.0}, retry_after=0.0)) as server:
        error = result_of(model(server, attempts=2))
        assert isinstance(error, ModelError) and error.outcome is Outcome.UNAVAILABLE and error.transient
        assert "in 2 tries" in str(error) and re.search(words, str(error))
        assert len(server.requests) == 2


@pytest.mark.parametrize("headers", [{"Retry-After": "0.4"}, {"Retry-After-Ms": "400", "Retry-After": "60"}])
def test_retry_after_is_kept_to(headers: dict[str, str]) -> None:
    seen: dict[str, int] = {}

    def busy_once(body: dict[str, Any]) -> str | Answer:
        number = number_of(body)
        seen[number] = seen.get(number, 0) + 1
        return Answer(error_body("slow"), 429, headers) if seen[number] == 1 else "fine"

    with ScriptedServer(busy_once) as server:
        # Many calls, since a random pause may be long enough by chance.
        attempt_all(model(server, concurrency=24), [prompt(number) for number in range(24)])
        assert set(seen.values()) == {2}
        for number in seen:
            first, second = (request for request in server.requests if number_of(request.body) == number)
            assert second.started - first.ended >= 0.39


def test_a_call_that_waits_for_its_next_try_takes_no_slot() -> None:
    busy = Answer(error_body("slow"), 429, {"Retry-After": "0.3"})
    with ScriptedServer(in_turn(busy, "fine")) as server:
        assert texts(attempt_all(model(server, concurrency=1), [prompt(0), prompt(1)])) == ["fine", "fine"]
        assert [number_of(request.body) for request in server.requests] == ["0", "1", "0"]


def test_requests_in_flight_are_bounded_over_models_and_start_in_order() -> None:
    with ScriptedServer(number_of) as server:
        attempt_all(model(server, concurrency=1), [prompt(number) for number in range(12)])
        assert [number_of(request.body) for request in server.requests] == [str(number) for number in range(12)]
    with ScriptedServer(number_of, latency=0.02) as server:
        readers = [model(server, concurrency=3, model=name) for name in ("a", "b", "c")]

        async def everything() -> None:
            await asyncio.gather(*(gather_all(reader, [prompt(n) for n in range(6)]) for reader in readers))

        run(everything())
        assert (server.peak, len(server.requests)) == (3, 18)


def test_several_event_loops_can_call() -> None:
    with ScriptedServer(number_of) as server:
        client = model(server, concurrency=1)
        for _ in range(2):
            assert texts(asyncio.run(gather_all(client, [prompt(0), prompt(1)]))) == ["0", "1"]


def chat(**message: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": None}], "usage": {"prompt_tokens": "many"}}


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize(
    "body",
    [
        "", "[" * 50_000, "[]", "null", '{"choices": []}', '{"choices": [7]}', {"choices": [{"finish_reason": "stop"}]},
        chat(content=[1]), {"error": {"message": "upstream", "code": 502}}, {"error": {"message": "no code"}},
        {"error": {"code": 429, "message": "slow"}}, completion({}, "You picked the", "error"),
        {**completion({}, "You picked"), "error": {"code": 502, "message": "Upstream provider died"}},
        completion({}, "You picked the", "network_error"),
    ],
)  # fmt: skip
def test_odd_bodies_and_broken_replies_are_retried(body: Any) -> None:
    with ScriptedServer(in_turn(Answer(body), Answer(chat(content="fine\ud800")))) as server:
        reply = run(model(server).complete(prompt()))
        assert (reply.text, reply.finish_reason) == ("fine?", "stop")
        assert reply.usage.estimated and reply.usage.input_tokens > 9 and reply.usage.output_tokens > 0
        assert len(server.requests) == 2


def test_an_error_with_status_200_asks_for_a_wait_by_its_header() -> None:
    error = Answer({"error": {"message": "slow", "code": 429}}, headers={"Retry-After": "7200"})
    with ScriptedServer(lambda body: error) as server, pytest.raises(UserError, match="asks to wait 2 hours"):
        run(model(server).complete(prompt()))


def test_a_reply_of_as_many_tokens_as_allowed_is_cut_off_whatever_its_reason_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, reason in ((4, "length"), (3, "stop"), (5, "stop")):
        with ScriptedServer(lambda body, words=words: " ".join(["tea"] * words)) as server:
            reply = run(model(server, max_output_tokens=4).complete(prompt()))
            assert reply.finish_reason == reason
    assert capsys.readouterr().err.count("ends replies at the limit of 4 tokens with finish_reason 'stop'") == 1


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (chat(content=None), ""),
        (chat(content=[{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Ada "}]), "Ada "),
        (chat(content=[{"type": "reasoning", "text": "hm"}, {"type": "output_text", "text": "Ada "}]), "Ada "),
        (chat(content=["Ada", " "]), "Ada "),
        (chat(content=None, refusal="I will not."), Outcome.FILTERED),
        ({"choices": [{"finish_reason": "content_filter: X"}]}, Outcome.FILTERED),
        ({"error": {"code": 402, "message": "Insufficient credits"}}, "credit"),
        ({"error": {"code": 401, "message": "User not found."}}, "without a key"),
        ({"error": {"code": 404, "message": "No endpoints found for m"}}, "base_url"),
        ({"error": {"code": 403, "message": "Your input was flagged by moderation"}}, Outcome.FILTERED),
        ({"error": {"code": 400, "message": "maximum context length is 32768 tokens"}}, Outcome.CONTEXT_LENGTH),
    ],
)
def test_odd_replies_and_errors_with_status_200_are_read_once(body: Any, text: str | Outcome) -> None:
    with ScriptedServer(lambda _: Answer(body)) as server:
        result = result_of(model(server))
        assert len(server.requests) == 1
    match result:
        case Completion():
            assert result.text == text
        case ModelError():
            assert result.outcome is text
        case UserError():
            assert text in str(result)


def test_web_pages_end_the_run_with_a_sentence_about_the_address() -> None:
    with ScriptedServer(lambda body: Answer("<!doctype html><title>Welcome</title>")) as server:
        with pytest.raises(UserError, match=r"a web page: .*Welcome.* different requests .*correct base_url"):
            attempt_all(model(server, concurrency=4), [prompt(number) for number in range(30)])
        assert len(server.requests) < 20


@pytest.mark.parametrize("value", [None, "", "two words", "sk-\u00e4\u00f6\u00fc-umlaut"])
def test_a_missing_or_malformed_key_is_an_error_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("BEAM_TEST_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("BEAM_TEST_KEY", value)
    with ScriptedServer() as server:
        client = model(server, role="judge", key_variable="BEAM_TEST_KEY")
        assert client.request(prompt())["model"] == "m", "replaying needs no key"
        error = result_of(client)
        assert isinstance(error, UserError)
        assert "judge" in str(error) and "BEAM_TEST_KEY" in str(error)
        assert not value or value not in str(error)
        assert server.requests == []


def test_a_refused_key_stops_the_queue_and_stray_line_ends_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEAM_TEST_KEY", KEY + "\r\n")
    with ScriptedServer(number_of, require_key="another", latency=0.01) as server:
        client = model(server, key_variable="BEAM_TEST_KEY", concurrency=2)
        with pytest.raises(
            UserError, match=r"reader model m at .*401: Incorrect API key provided.* BEAM_TEST_KEY "
        ) as caught:
            attempt_all(client, [prompt(number) for number in range(40)])
        assert len(server.requests) <= 4
        assert KEY not in "".join(traceback.format_exception(caught.value))
        server.require_key = KEY
        assert run(client.complete(prompt(1))).text == "1", "the next command is not held back"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(error_body("Bad header $AUTHORIZATION in " + "x" * 300), 400),
        *(Answer(error_body("$AUTHORIZATION"), status) for status in (401, 402, 404, 500)),
        Answer("$AUTHORIZATION", 422),
        Answer("$AUTHORIZATION"),
        Answer({"error": "$AUTHORIZATION"}),
        Answer({"error": {"code": 400, "message": "$AUTHORIZATION"}}),
        Answer({"choices": [{"message": {"refusal": "$AUTHORIZATION"}}]}),
    ],
)
def test_a_server_that_echoes_the_key_gets_it_into_no_message(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    monkeypatch.setenv("BEAM_TEST_KEY", KEY)
    with ScriptedServer(lambda body: answer) as server:
        client = model(server, key_variable="BEAM_TEST_KEY", attempts=1)
        error = result_of(client)
        assert server.requests[0].authorization == f"Bearer {KEY}"
    assert isinstance(error, ModelError | UserError)
    shown = "".join(traceback.format_exception(error)) + repr(client) + repr(error) + str(getattr(error, "reason", ""))
    assert KEY not in shown and "\n" not in str(error) and len(str(error)) < 600


def test_a_completion_that_contains_the_key_is_cleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEAM_TEST_KEY", KEY)
    choice = '{"choices": [{"message": {"content": "sent $AUTHORIZATION"}, "finish_reason": "$AUTHORIZATION"}]}'
    with ScriptedServer(lambda body: Answer(choice)) as server:
        reply = run(model(server, key_variable="BEAM_TEST_KEY").complete(prompt()))
        assert (reply.text, reply.finish_reason) == ("sent Bearer [key]", "Bearer [key]")


class TwoReplies(socketserver.StreamRequestHandler):
    """Sends the answer to each request, and `pause` seconds later a reply that answers nothing."""

    pause: float

    def handle(self) -> None:
        while self.rfile.readline():
            length = 0
            while (line := self.rfile.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            body = json.loads(self.rfile.read(length))
            time.sleep(0.02)  # longer than a late reply takes, so that it can come first
            right, surplus = (self.reply(body, text) for text in (number_of(body), "surplus"))
            try:
                if not self.pause:
                    self.wfile.write(right + surplus)
                    continue
                self.wfile.write(right)
                time.sleep(self.pause)
                self.wfile.write(surplus)
            except ConnectionError:
                return

    @staticmethod
    def reply(body: dict[str, Any], text: str) -> bytes:
        content = json.dumps(completion(body, text)).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        return head.encode() + content


class RawServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 128


@contextmanager
def raw_server(pause: float) -> Iterator[str]:
    with RawServer(("127.0.0.1", 0), type("Handler", (TwoReplies,), {"pause": pause})) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()


@pytest.mark.parametrize("pause", [0.0, 0.001, 0.01])
@pytest.mark.parametrize("concurrency", [1, 16])
def test_a_surplus_reply_answers_no_question(pause: float, concurrency: int) -> None:
    with raw_server(pause) as address:
        replies = attempt_all(model(address, concurrency=concurrency), [prompt(number) for number in range(48)])
    assert texts(replies) == [str(number) for number in range(48)]


def test_a_loopback_address_is_reached_past_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with ScriptedServer(number_of) as server:
        assert run(model(server).complete(prompt(4))).text == "4"


def test_a_proxy_from_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def refuse() -> None:
            connection, _ = proxy.accept()
            with connection:
                lines.append(connection.recv(4096).partition(b"\r\n")[0])
                connection.sendall(b"HTTP/1.1 418 Teapot\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        thread = threading.Thread(target=refuse, daemon=True)
        thread.start()
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        assert "418" in str(result_of(model("http://models.invalid/v1")))
        thread.join(60)
    assert lines == [b"POST http://models.invalid/v1/chat/completions HTTP/1.1"]


def test_nobody_at_the_address_ends_all_calls_with_one_sentence_and_the_next_run_may_succeed() -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}/v1"
    client = model(address, patience=0.3, concurrency=4)
    with pytest.raises(UserError) as caught:
        attempt_all(client, [prompt(number) for number in range(30)])
    text = str(caught.value)
    assert address in text and "stored" in text and "same command" in text and text.count(". ") == 0
    with ScriptedServer(number_of, port=port):
        assert texts(attempt_all(client, [prompt(number) for number in range(3)])) == ["0", "1", "2"]
    error = result_of(model(f"http://127.0.0.1:{free_port()}/v1", patience=0.1, attempts=1))
    assert isinstance(error, UserError) and "has not answered" in str(error), "however few attempts a call has"
    error = result_of(model("http://\u2603/v1", patience=0.1))
    assert isinstance(error, UserError) and "base_url" in str(error) and "\n" not in str(error)


def test_calls_wait_for_a_server_that_comes_back() -> None:
    port = free_port()
    results: list[list[Completion | ModelError]] = []
    client = model(f"http://127.0.0.1:{port}/v1", patience=30, attempts=1)
    waiting = threading.Thread(target=lambda: results.append(attempt_all(client, [prompt(n) for n in range(9)])))
    waiting.start()
    time.sleep(0.4)
    with ScriptedServer(number_of, port=port) as server:
        waiting.join(120)
        # One attempt each, and still all nine: tries made while nobody answers are probes and do not count.
        assert texts(results[0]) == [str(number) for number in range(9)]
        assert server.repeated() == []


APPEND = ToolDefinition("append", "Adds a line.", (("text", "the line"),))
LIST = ToolDefinition("list", "Names the files.")
OFFERED = Prompt("answer", prompt().variables, tools=(APPEND, LIST))
CALL = {"name": "append", "arguments": '{"text": "tea"}'}
CALLS = '{"calls": [{"arguments": "{\\"text\\": \\"tea\\"}", "tool": "append"}]}'


def with_calls(body: dict[str, Any], content: str | None, *functions: Any) -> Answer:
    reply = completion(body, content, "tool_calls")
    calls = [{"id": "c", "type": "function", "function": function} for function in functions]
    reply["choices"][0]["message"]["tool_calls"] = calls
    return Answer(reply)


@pytest.mark.parametrize("tool_calls", [True, False])
def test_tools_are_sent_in_a_field_or_as_text_and_their_calls_stored_as_json(tool_calls: bool, tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> str | Answer:
        return with_calls(body, None, CALL) if "tools" in body else CALLS

    with ScriptedServer(reply) as server, CallStore(tmp_path / "calls.sqlite") as store:
        client = model(server, tool_calls=tool_calls)
        stored = StoredModel(client, store, "record", role="memory", conversation="1", command="again")
        assert [run(stored.complete(OFFERED)).text for _ in range(2)] == [CALLS] * 2
        assert (stored.made, stored.replayed) == (1, 1)
        sent = server.requests[0].body
    plain = client.request(prompt())["messages"]
    assert sent == client.request(OFFERED)
    if tool_calls:
        assert [tool["function"]["name"] for tool in sent["tools"]] == ["append", "list"]
        assert sent["tools"][0]["function"]["parameters"]["properties"]["text"]["description"] == "the line"
        assert sent["messages"] == plain
    else:
        assert "tools" not in sent
        text = sent["messages"][-1]["content"]
        assert text == plain[-1]["content"] + "\n\n" + describe_tools(OFFERED.tools)
        assert "- append: Adds a line. Arguments: text: the line." in text and '{"calls": []}' in text


@pytest.mark.parametrize(
    ("content", "functions", "expected"),
    [
        (None, (), '{"calls": []}'),
        ("All is stored.", (), "All is stored."),
        ("Here goes.", (CALL,), CALLS),
        ("Here goes.", ({"name": 7}, "append", None), "Here goes."),
        (None, ({"name": "list"},), '{"calls": [{"arguments": "", "tool": "list"}]}'),
    ],
)
def test_a_reply_where_tools_were_offered(content: Any, functions: Any, expected: str) -> None:
    with ScriptedServer(lambda body: with_calls(body, content, *functions)) as server:
        assert run(model(server, tool_calls=True).complete(OFFERED)).text == expected
        if not functions:
            assert run(model(server, tool_calls=True).complete(prompt())).text == (content or "")
    for calls in (None, 3, [], [1], [{"function": {"name": "a", "arguments": float("nan")}}]):
        assert tool_calls_json({"tool_calls": calls}) is None


def test_requests_and_settings_without_tools_have_the_keys_that_they_always_had() -> None:
    offering, plain = (model(NOWHERE, tool_calls=on, context_window=9_000) for on in (True, False))
    assert offering.request(prompt()) == plain.request(prompt()) and "tools" not in plain.request(prompt())
    question = Prompt("answer", {"question": "What?", "context": "Ada likes tea."})
    assert call_key(plain.request(question), NOWHERE, 0) == (
        "8dccae4846a8246728ba5611f0171eeb262886788208023b096db3df4eb31335"
    )
    assert "tool_calls" not in plain.endpoint.settings
    assert offering.endpoint.settings == {**plain.endpoint.settings, "tool_calls": True}


def test_importing_the_client_imports_no_http_library() -> None:
    script = "import sys, beamlib.llm.client; print('openai' in sys.modules, 'aiohttp' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("write", [int, float, str])
def test_the_choice_of_the_lowest_index_is_the_reply_however_it_is_written(write: Callable[[int], Any]) -> None:
    def reply(body: dict[str, Any]) -> Answer:
        choices = [
            {"index": write(n), "message": {"content": f"choice {n}"}, "finish_reason": "stop"} for n in (2, 1, 0)
        ]
        return Answer({"choices": choices})

    with ScriptedServer(reply) as server:
        (first,) = attempt_all(model(server), [prompt()])
    assert isinstance(first, Completion) and first.text == "choice 0"
