"""EndpointModel against a real server on the loopback: requests, faults, keys, lanes, an endpoint that is down."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tenacity

from beamlib.errors import UserError
from beamlib.llm.client import EndpointModel, _pause
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt, Usage, attempt_all, gather_all, run
from beamlib.llm.retrying import RetryingModel
from scripted_server import FINAL, Answer, Faults, ScriptedServer, completion, error_body

KEY = "sk-invented-0123456789"
KINDS = Faults.KINDS


def prompt(number: int = 0, **fields: Any) -> Prompt:
    return Prompt("answer", {"question": f"What about {number}?", "context": "Ada likes tea."}, **fields)


def model(
    where: ScriptedServer | str, *, max_concurrency: int | None = None, role: str = "reader", **fields: Any
) -> EndpointModel:
    address = where if isinstance(where, str) else where.base_url
    settings = {"model": "m", "base_url": address, "context_window": 32_000} | fields
    return EndpointModel(role, Endpoint(**settings), max_concurrency=max_concurrency)


def told(body: dict[str, Any]) -> str:
    """A reply that says which question it answers."""
    return body["messages"][-1]["content"].partition("What about ")[2].partition("?")[0]


def in_turn(*answers: str | Answer) -> Callable[[dict[str, Any]], str | Answer]:
    left = list(answers)
    return lambda body: left.pop(0) if len(left) > 1 else left[0]


def end_of(asked: EndpointModel, what: Prompt | None = None) -> Completion | ModelError | UserError:
    try:
        return run(asked.complete(what or prompt()))
    except (ModelError, UserError) as error:
        return error


def test_the_request_is_exactly_what_request_says() -> None:
    extra = {"top_p": 0.9, "chat_template_kwargs": {"enable_thinking": False}}
    with ScriptedServer(told) as server:
        limit = {"limit_field": "max_completion_tokens", "max_output_tokens": 1024}
        asked = model(server, **limit, seed=7, temperature=0.5, extra=extra)
        again = prompt(3, repeat=2, about="never sent").again("Shorter.")
        reply = run(asked.complete(again))
        assert server.requests[0].body == asked.request(again)
    assert server.requests[0].authorization == "Bearer none"
    text = again.messages[0]["content"] + "\n\nShorter."
    assert asked.request(again) == {
        "model": "m", "messages": [{"role": "user", "content": text}], "temperature": 0.5, "seed": 9,
        "max_completion_tokens": 1024, **extra,
    }  # fmt: skip
    words = len(text.split())
    assert (reply.text, reply.finish_reason) == ("3", "stop")
    assert reply.usage == Usage(words, 1, words // 4) and reply.latency > 0
    assert asked.name == "m"


def test_unset_temperature_seed_and_limit_are_not_sent() -> None:
    body = model("http://127.0.0.1:9/v1", temperature=None, seed=None).request(prompt(repeat=1))
    assert set(body) == {"model", "messages"}


def test_a_folder_of_ones_own_prompts_is_used(tmp_path: Path) -> None:
    header = "---\nlisting: 44\nrole: reader\nvariables: [question, context]\noutput: text\n---\n"
    (tmp_path / "answer.md").write_text(header + "Own words: {{ question }} {{ context }}", encoding="utf-8")
    own = EndpointModel("reader", model("http://127.0.0.1:9/v1").endpoint, prompts=tmp_path)
    assert own.request(prompt())["messages"][0]["content"].startswith("Own words: What about 0?")


@pytest.mark.parametrize(("number", "longest"), [(1, 0.5), (2, 1.0), (5, 8.0), (30, 60.0)])
def test_pauses_are_drawn_below_a_bound_that_doubles_to_a_minute(number: int, longest: float) -> None:
    async def never() -> None:
        raise AssertionError("the call is not made")

    state = tenacity.RetryCallState(tenacity.AsyncRetrying(), never, (), {})
    state.attempt_number = number
    drawn = [_pause(state) for _ in range(400)]
    assert 0 <= min(drawn) < longest / 4
    assert 3 * longest / 4 < max(drawn) <= longest


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("kind", ["delay", "drop", "throttle", "error", "garbage"])
def test_each_passing_fault_is_survived(kind: str) -> None:
    faults = Faults(**{kind: 0.4}, delay_seconds=0.05, retry_after=0.02)
    with ScriptedServer(told, faults=faults) as server:
        found = attempt_all(model(server), [prompt(number) for number in range(8)])
        assert [reply.text if isinstance(reply, Completion) else reply.reason for reply in found] == list("01234567")
        assert kind in {request.outcome for request in server.requests}
        assert server.repeated() == []


@pytest.mark.parametrize(
    ("kind", "words"),
    [("drop", "connection broke"), ("throttle", "429"), ("error", "stumbled"), ("garbage", "no choices|not JSON")],
)
def test_a_fault_that_stays_ends_the_call_after_its_attempts(kind: str, words: str) -> None:
    with ScriptedServer(faults=Faults(**{kind: 1.0}, retry_after=0.0)) as server:
        found = end_of(model(server, attempts=2))
        assert isinstance(found, ModelError) and found.outcome is Outcome.UNAVAILABLE and found.transient
        assert "in 2 tries" in str(found)
        assert len(server.requests) == 2
    assert re.search(words, str(found))


def test_truncated_and_empty_replies_are_passed_on_and_filtered_ones_named() -> None:
    with ScriptedServer(lambda body: "abcdef", faults=Faults(truncate=1.0)) as server:
        reply = run(model(server).complete(prompt()))
        assert (reply.text, reply.finish_reason) == ("abc", "length")
    with ScriptedServer(faults=Faults(empty=1.0)) as server:
        assert run(model(server).complete(prompt())).text == ""
    with ScriptedServer(faults=Faults(filtered=1.0)) as server:
        found = attempt_all(model(server), [prompt(number) for number in range(8)])
        assert {reply.outcome for reply in found if isinstance(reply, ModelError)} == {Outcome.FILTERED}
        assert len(found) == len(server.requests) == 8, "asked once each"


@pytest.mark.usefixtures("short_pauses")
def test_twenty_calls_with_a_tenth_of_every_fault() -> None:
    faults = Faults(**dict.fromkeys(KINDS, 0.1), delay_seconds=0.05, retry_after=0.02)
    with ScriptedServer(told, faults=faults, seed=1) as server:
        found = attempt_all(RetryingModel(model(server, timeout=10)), [prompt(number) for number in range(20)])
        seen = {request.outcome for request in server.requests}
        assert server.repeated() == []
    for number, reply in enumerate(found):
        if isinstance(reply, Completion):
            assert reply.text == str(number)
        else:
            assert reply.outcome in {Outcome.FILTERED, Outcome.TRUNCATED, Outcome.EMPTY}, reply.reason
    assert sum(isinstance(reply, Completion) for reply in found) >= 12
    assert len(seen & (set(KINDS) | FINAL)) >= 7


@pytest.mark.parametrize("headers", [{"Retry-After": "0.4"}, {"Retry-After-Ms": "400", "Retry-After": "60"}])
def test_retry_after_is_kept_to(headers: dict[str, str]) -> None:
    seen: dict[str, int] = {}

    def busy_once(body: dict[str, Any]) -> str | Answer:
        seen[told(body)] = seen.get(told(body), 0) + 1
        return Answer(error_body("slow"), 429, headers) if seen[told(body)] == 1 else "fine"

    with ScriptedServer(busy_once) as server:
        # Many calls, since a pause drawn at random may be long enough by chance.
        attempt_all(model(server, concurrency=24), [prompt(number) for number in range(24)])
        assert set(seen.values()) == {2}
        for number in seen:
            first, second = (request for request in server.requests if told(request.body) == number)
            assert second.started - first.ended >= 0.39


def test_a_call_that_waits_for_its_next_try_holds_no_lane() -> None:
    busy = Answer(error_body("slow"), 429, {"Retry-After": "0.3"})
    with ScriptedServer(in_turn(busy, "fine")) as server:
        found = attempt_all(model(server, concurrency=1), [prompt(0), prompt(1)])
        assert all(isinstance(reply, Completion) for reply in found)
        assert [told(request.body) for request in server.requests] == ["0", "1", "0"]


def test_requests_in_flight_are_bounded_and_start_in_order() -> None:
    with ScriptedServer(told, latency=0.02) as server:
        attempt_all(model(server, max_concurrency=4), [prompt(number) for number in range(24)])
        assert server.peak == 4
    with ScriptedServer(told) as server:
        attempt_all(model(server, concurrency=1), [prompt(number) for number in range(12)])
        assert [told(request.body) for request in server.requests] == [str(number) for number in range(12)]


def test_models_at_one_address_share_its_lanes() -> None:
    with ScriptedServer(told, latency=0.02) as server:
        readers = [model(server, concurrency=3, model=name) for name in ("a", "b", "c")]

        async def everything() -> None:
            await asyncio.gather(*(gather_all(reader, [prompt(n) for n in range(6)]) for reader in readers))

        run(everything())
        assert server.peak == 3
        assert len(server.requests) == 18


def test_several_event_loops_can_call() -> None:
    with ScriptedServer(told) as server:
        asked = model(server, concurrency=1)
        for number in range(2):

            async def both(base: int = number * 2) -> list[Completion | ModelError]:
                return await gather_all(asked, [prompt(base), prompt(base + 1)])

            assert all(isinstance(reply, Completion) for reply in asyncio.run(both()))
        gc.collect()


def test_a_server_that_drips_bytes_cannot_hang_a_call() -> None:
    with ScriptedServer(lambda body: Answer(completion(body, "slow"), drip=0.02)) as server:
        found = end_of(model(server, timeout=0.3, attempts=1))
        assert isinstance(found, ModelError) and found.outcome is Outcome.UNAVAILABLE
        assert "no answer within 0.3 seconds" in str(found) and "1 try" in str(found)


def test_odd_bodies_are_tried_again_and_odd_fields_are_not_believed() -> None:
    def chat(**message: Any) -> dict[str, Any]:
        return {"choices": [{"message": message, "finish_reason": None}], "usage": {"prompt_tokens": "many"}}

    odd: list[str | dict[str, Any]] = [
        "", "[" * 50_000, "[]", "null", '{"choices": []}', '{"choices": [7]}', {"choices": [{"finish_reason": "stop"}]},
        chat(content=[1]), {"error": {"message": "upstream", "code": 502}},
    ]  # fmt: skip
    for body in odd:
        with ScriptedServer(in_turn(Answer(body), Answer(chat(content="fine\ud800")))) as server:
            reply = run(model(server).complete(prompt()))
            assert (reply.text, reply.finish_reason, reply.usage) == ("fine?", "stop", Usage())
            assert len(server.requests) == 2
    with ScriptedServer(lambda body: Answer(chat(content=None))) as server:
        assert run(model(server).complete(prompt())).text == ""
    for kept_back in (chat(content=None, refusal="I will not."), {"choices": [{"finish_reason": "content_filter: X"}]}):
        with ScriptedServer(lambda body, kept=kept_back: Answer(kept)) as server:  # type: ignore[misc]
            found = end_of(model(server))
            assert isinstance(found, ModelError) and found.outcome is Outcome.FILTERED


def test_context_length_is_named_and_not_tried_again() -> None:
    full = Answer(error_body("This model's maximum context length is 10 tokens.", "context_length_exceeded"), 400)
    with ScriptedServer(lambda body: full) as server:
        found = end_of(model(server))
        assert isinstance(found, ModelError) and found.outcome is Outcome.CONTEXT_LENGTH
        assert len(server.requests) == 1


@pytest.mark.parametrize("variable", [None, "", "two words", "sk-\u00e4\u00f6\u00fc-umlaut"])
def test_a_missing_or_impossible_key_is_told_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, variable: str | None
) -> None:
    monkeypatch.delenv("BEAM_TEST_KEY", raising=False)
    if variable is not None:
        monkeypatch.setenv("BEAM_TEST_KEY", variable)
    with ScriptedServer() as server:
        asked = model(server, role="judge", key_variable="BEAM_TEST_KEY")
        assert asked.request(prompt())["model"] == "m", "replaying needs no key"
        found = end_of(asked)
        assert isinstance(found, UserError)
        assert "judge" in str(found) and "BEAM_TEST_KEY" in str(found)
        assert not variable or variable not in str(found)
        assert server.requests == []


def test_the_key_is_sent_and_stray_line_ends_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEAM_TEST_KEY", KEY + "\r\n")
    with ScriptedServer(told, require_key=KEY) as server:
        assert run(model(server, key_variable="BEAM_TEST_KEY").complete(prompt(5))).text == "5"


def test_a_refused_key_stops_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEAM_TEST_KEY", KEY)
    with ScriptedServer(told, require_key="another", latency=0.01) as server:
        asked = model(server, key_variable="BEAM_TEST_KEY", concurrency=2)
        with pytest.raises(UserError, match=r"The reader model m at http://127.* BEAM_TEST_KEY .*401") as caught:
            attempt_all(asked, [prompt(number) for number in range(40)])
        assert len(server.requests) <= 4
        assert KEY not in "".join(traceback.format_exception(caught.value))
        server.require_key = KEY
        assert run(asked.complete(prompt(1))).text == "1", "the next command is not held back"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(error_body("Bad header $AUTHORIZATION in " + "x" * 300), 400),
        Answer("$AUTHORIZATION", 422),
        Answer(error_body("$AUTHORIZATION"), 404),
        Answer(error_body("$AUTHORIZATION"), 402),
        Answer(error_body("$AUTHORIZATION"), 401),
        Answer(error_body("$AUTHORIZATION"), 500),
        Answer("$AUTHORIZATION"),
        Answer({"error": "$AUTHORIZATION"}),
        Answer({"choices": [{"message": {"refusal": "$AUTHORIZATION"}}]}),
    ],
)
def test_a_server_that_echoes_the_key_gets_it_into_no_message(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    monkeypatch.setenv("BEAM_TEST_KEY", KEY)
    with ScriptedServer(lambda body: answer) as server:
        asked = model(server, key_variable="BEAM_TEST_KEY", attempts=1)
        found = end_of(asked)
        assert server.requests[0].authorization == f"Bearer {KEY}"
    assert isinstance(found, ModelError | UserError)
    shown = "".join(traceback.format_exception(found)) + repr(asked) + repr(found) + str(getattr(found, "reason", ""))
    assert KEY not in shown and "\n" not in str(found) and len(str(found)) < 600


def test_a_completion_that_holds_the_key_is_cleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEAM_TEST_KEY", KEY)
    with ScriptedServer(lambda body: "you sent $AUTHORIZATION") as server:
        assert run(model(server, key_variable="BEAM_TEST_KEY").complete(prompt())).text == "you sent Bearer [key]"
    choice = '{"choices": [{"message": {"content": "fine"}, "finish_reason": "$AUTHORIZATION"}]}'
    with ScriptedServer(lambda body: Answer(choice)) as server:
        reply = run(model(server, key_variable="BEAM_TEST_KEY").complete(prompt()))
        assert (reply.text, reply.finish_reason) == ("fine", "Bearer [key]")


def test_a_reply_in_parts_is_their_text_and_is_not_asked_for_twice() -> None:
    parts = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "Ada "},
        {"type": "text", "text": "it is"},
    ]
    with ScriptedServer(lambda body: Answer({"choices": [{"message": {"content": parts}}]})) as server:
        assert run(model(server).complete(prompt())).text == "Ada it is"
        assert len(server.requests) == 1


@pytest.mark.parametrize("header", [{"No colon\r\nhere": "x"}, {"Long": "x" * 100_000}, {"Content-Length": "-5"}])
def test_what_is_not_http_is_tried_again_and_shows_no_key(
    monkeypatch: pytest.MonkeyPatch, header: dict[str, str]
) -> None:
    monkeypatch.setenv("BEAM_TEST_KEY", KEY)
    broken = Answer("$AUTHORIZATION", headers={**header, "X-Echo": KEY})
    with ScriptedServer(in_turn(broken, "fine")) as server:
        assert run(model(server, key_variable="BEAM_TEST_KEY").complete(prompt())).text == "fine"
    with ScriptedServer(lambda body: broken) as server:
        found = end_of(model(server, key_variable="BEAM_TEST_KEY", attempts=2))
        assert isinstance(found, ModelError) and found.outcome is Outcome.UNAVAILABLE
        assert KEY not in "".join(traceback.format_exception(found)) and len(str(found)) < 600


def test_a_redirect_is_not_followed_with_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEAM_TEST_KEY", KEY)
    with ScriptedServer() as other:
        away = Answer("", 307, {"Location": other.base_url + "/chat/completions"})
        with ScriptedServer(lambda body: away) as server:
            found = end_of(model(server, key_variable="BEAM_TEST_KEY"))
        assert isinstance(found, ModelError) and "307" in str(found) and "base_url" in str(found)
        assert other.requests == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(error_body("No such model", "model_not_found"), 404), "model"),
        (Answer(error_body("You exceeded your current quota", "insufficient_quota"), 429), "credit"),
        (Answer(error_body("Payment required"), 402), "credit"),
    ],
)
def test_what_no_call_can_mend_stops_the_run(answer: Answer, words: str) -> None:
    with ScriptedServer(lambda body: answer) as server:
        found = end_of(model(server))
        assert isinstance(found, UserError) and words in str(found) and server.base_url in str(found)
        assert len(server.requests) == 1


def test_a_loopback_address_is_reached_past_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with ScriptedServer(told) as server:
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
        assert "418" in str(end_of(model("http://models.invalid/v1")))
        thread.join(5)
    assert lines == [b"POST http://models.invalid/v1/chat/completions HTTP/1.1"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        return int(holder.getsockname()[1])


def test_nobody_at_the_address_ends_all_calls_with_one_sentence_and_the_next_run_may_succeed() -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}/v1"
    asked = model(address, patience=0.3, concurrency=4)
    with pytest.raises(UserError) as caught:
        attempt_all(asked, [prompt(number) for number in range(30)])
    text = str(caught.value)
    assert address in text and "stored" in text and "same command" in text and text.count(". ") == 0
    with ScriptedServer(told, port=port):
        found = attempt_all(asked, [prompt(number) for number in range(3)])
        assert [reply.text for reply in found if isinstance(reply, Completion)] == ["0", "1", "2"]


def test_a_call_with_few_attempts_still_ends_with_the_sentence_about_the_endpoint() -> None:
    found = end_of(model(f"http://127.0.0.1:{free_port()}/v1", patience=0.1, attempts=1))
    assert isinstance(found, UserError) and "has not answered" in str(found)


def test_what_cannot_be_an_address_is_told_as_such() -> None:
    found = end_of(model("http://\u2603/v1"))
    assert isinstance(found, UserError) and "base_url" in str(found) and "\n" not in str(found)


def test_calls_wait_for_a_server_that_comes_back() -> None:
    port = free_port()
    ends: list[list[Completion | ModelError]] = []
    asked = model(f"http://127.0.0.1:{port}/v1", patience=30, attempts=1)
    waiting = threading.Thread(target=lambda: ends.append(attempt_all(asked, [prompt(n) for n in range(9)])))
    waiting.start()
    time.sleep(0.4)
    with ScriptedServer(told, port=port) as server:
        waiting.join(20)
        texts = [reply.text if isinstance(reply, Completion) else reply.reason for reply in ends[0]]
        # One attempt each, and still all nine: tries made while nobody answers are probes and do not count.
        assert texts == [str(number) for number in range(9)]
        assert server.repeated() == []


def test_importing_the_client_imports_no_http_library() -> None:
    script = "import sys, beamlib.llm.client; print('openai' in sys.modules, 'aiohttp' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["False", "False"]


def test_the_server_as_a_process_writes_its_log(repo_root: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    command = [sys.executable, str(repo_root / "tests/scripted_server.py"), "--log", str(log), "--truncate", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert run(model(address).complete(prompt())).finish_reason == "length"
        process.terminate()
    (line,) = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert line["outcome"] == "truncate" and line["answered"] and line["body"]["model"] == "m"
