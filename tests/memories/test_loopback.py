"""The loopback endpoint against a real server: who may ask, what is stored, streams, vectors, faults."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import struct
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_memories.loopback import Loopback
from beamlib.evaluate.calling import open_models
from beamlib.llm import token_server
from beamlib.llm.call_store import CallStore
from beamlib.llm.token_server import LARGEST_REQUEST
from beamlib.params import load_parameters
from beamlib.run import Run
from scripted_server import Answer, Faults, ScriptedServer, completion, error_body

CALL = {"id": "call_1", "type": "function", "function": {"name": "note", "arguments": '{"text": "tea"}'}}

Reply = Callable[[dict[str, Any]], str | Answer]


def endpoint(server: ScriptedServer, **changes: Any) -> dict[str, Any]:
    return {"model": "scripted", "base_url": server.base_url, "context_window": 131_072, "attempts": 4, **changes}


@contextmanager
def opened(
    folder: Path,
    root: Path,
    memory: Mapping[str, Any],
    calls: str = "record",
    embedding: Mapping[str, Any] | None = None,
) -> Iterator[Loopback]:
    """The endpoint of an arm called mem0, in front of `memory`; what it calls goes into `folder/run/calls`."""
    roles = {role: dict(memory) for role in ("memory", "compressor", "judge", "aligner")}
    models = {"readers": {"one": dict(memory)}, **roles, **({"embedding": dict(embedding)} if embedding else {})}
    path = folder / "models.yaml"
    path.write_text(yaml.safe_dump(models))
    parameters = Run.of(
        load_parameters(
            root / "params/100k.yaml", run=str(folder / "run"), models=str(path), calls=calls, confirm_cost=True
        )
    )
    with ExitStack() as stack:
        roster = stack.enter_context(open_models(parameters, "100K-1"))
        yield stack.enter_context(Loopback(roster.outside, "mem0", (embedding or {}).get("dimensions", 0)))


def stored(folder: Path) -> list[Any]:
    with CallStore(folder / "run/calls/100k/100K-1.sqlite", read_only=True) as store:
        return list(store.calls())


def asked(served: Loopback, route: str, body: object, token: str | None = None) -> tuple[int, Any]:
    """Status and body of a bare request, as a program in any language might make it."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {served.token if token is None else token}",
    }
    request = urllib.request.Request(f"{served.base_url}/{route}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"{}") if error.code != 404 or route else {}


def chat(text: str = "hello", **more: Any) -> dict[str, Any]:
    return {"model": "scripted", "messages": [{"role": "user", "content": text}], **more}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(lambda body: f"said {len(str(body.get('messages', body.get('input'))))}") as one:
        yield one


def client(served: Loopback) -> openai.OpenAI:
    return openai.OpenAI(base_url=served.base_url, api_key=served.token, max_retries=0)


@pytest.mark.parametrize(
    ("route", "body", "token", "status", "code"),
    [
        ("chat/completions", chat(), "", 401, "invalid_api_key"),
        ("chat/completions", chat(), "beam-" + "0" * 32, 401, "invalid_api_key"),
        ("embeddings", {"model": "embedded-minilm-256", "input": "a"}, "é", 401, "invalid_api_key"),
        ("chat/completions", chat(model="gpt-4o"), None, 404, "model_not_found"),
        ("chat/completions", b"{", None, 400, "invalid_request"),
        ("chat/completions", b"[" * 100_000, None, 400, "invalid_request"),
        ("chat/completions", chat("\ud800"), None, 400, "invalid_request"),
        ("chat/completions", b" " * (LARGEST_REQUEST + 1), None, 413, "too_large"),
        ("embeddings", {"model": "embedded-minilm-256", "input": [[1, 2]]}, None, 400, "invalid_request"),
        ("embeddings", {"model": "embedded-minilm-256", "input": ["a"] * 2_049}, None, 400, "invalid_request"),
    ],
)
def test_what_is_refused_reaches_nobody(
    server: ScriptedServer, tmp_path: Path, repo_root: Path, route: str, body: object, token: str | None, status: int,
    code: str,
) -> None:  # fmt: skip
    with opened(tmp_path, repo_root, endpoint(server)) as served:
        if token == "é":
            token = "\xe9"
        found = asked(served, route, body, token)
    assert (found[0], found[1]["error"]["code"]) == (status, code)
    assert server.requests == []


def test_it_listens_on_the_loopback_alone_and_tokens_differ(
    server: ScriptedServer, tmp_path: Path, repo_root: Path
) -> None:
    with opened(tmp_path, repo_root, endpoint(server)) as one, Loopback(one.models, "other") as two:
        assert one.base_url.startswith("http://127.0.0.1:")
        assert one.token != two.token
        assert asked(one, "chat/completions", chat(), two.token)[0] == 401
        assert {model.id for model in client(one).models.list()} == {"scripted", "embedded-minilm-256"}


def test_a_call_is_made_once_and_replayed_without_the_server(tmp_path: Path, repo_root: Path) -> None:
    body = chat(
        tools=[{"type": "function", "function": {"name": "note"}}], logprobs=True, max_tokens=9, temperature=0.7
    )
    message = {"role": "assistant", "content": None, "tool_calls": [CALL]}

    def reply(asked: dict[str, Any]) -> Answer:
        whole = completion(asked, "")
        return Answer(
            {
                **whole,
                "choices": [
                    {"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": {"content": []}}
                ],
            }
        )

    with ScriptedServer(reply) as server:
        limits = {"max_output_tokens": 5, "limit_field": "max_completion_tokens", "extra": {"top_k": 1}}
        role = endpoint(server, **limits)
        with opened(tmp_path, repo_root, role) as served:
            first = asked(served, "chat/completions", body)
            assert asked(served, "chat/completions", body) == first
        (request,) = server.requests
    assert first[1]["choices"][0]["message"] == message
    assert first[1]["choices"][0]["logprobs"] == {"content": []}
    wanted = {"max_completion_tokens": 5, "temperature": 0.0, "seed": 0, "top_k": 1, "logprobs": True}
    assert {name: request.body[name] for name in wanted} == wanted
    assert "max_tokens" not in request.body
    (call,) = stored(tmp_path)
    assert (call.role, call.step, call.about, call.finish_reason) == ("memory", "mem0/chat", "mem0", "tool_calls")
    assert call.input_tokens > 0
    with opened(tmp_path, repo_root, role, "replay") as served:
        assert asked(served, "chat/completions", body) == first


@pytest.mark.parametrize("usage", [False, True])
def test_a_stream_is_the_whole_reply(server: ScriptedServer, tmp_path: Path, repo_root: Path, usage: bool) -> None:
    with opened(tmp_path, repo_root, endpoint(server)) as served:
        whole = client(served).chat.completions.create(**chat("tell"))
        more: dict[str, Any] = {"stream_options": {"include_usage": True}} if usage else {}
        chunks = list(client(served).chat.completions.create(**chat("tell"), stream=True, **more))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks if c.choices] == [None, "stop"]
    assert [c.usage for c in chunks if c.usage] == ([whole.usage] if usage else [])
    assert len(server.requests) == 1


def test_the_responses_interface_whole_and_as_a_stream(server: ScriptedServer, tmp_path: Path, repo_root: Path) -> None:
    with opened(tmp_path, repo_root, endpoint(server, max_output_tokens=7)) as served:
        whole = client(served).responses.create(model="scripted", input="tell")
        with client(served).responses.stream(model="scripted", input="tell") as stream:
            streamed = stream.get_final_response()
    assert whole.output_text == streamed.output_text != ""
    assert len(server.requests) == 1
    assert server.requests[0].body["max_output_tokens"] == 7
    assert stored(tmp_path)[0].step == "mem0/responses"


THOUGHTS = {
    "marks": ("<think>Is it <answer>?\nHe said \"no\".</think>\n\nTea.", "Tea.", "stop"),
    "the opening one in the prompt": ("So it is tea.\n</think>\nTea.", "Tea.", "stop"),
    "without an end": ("<think>So it may be", "", "length"),
    "channels": (
        "<|channel|>analysis<|message|>tea?<|end|><|start|>assistant<|channel|>final<|message|>Tea.", "Tea.", "stop"
    ),
    "none": ("Tea, as `<think>` shows.", "Tea, as `<think>` shows.", "stop"),
    "in JSON": ('{"note": "<think>tea</think>"}', '{"note": "<think>tea</think>"}', "stop"),
}  # fmt: skip


@pytest.mark.parametrize(("written", "text", "reason"), THOUGHTS.values(), ids=THOUGHTS)
def test_a_memory_gets_replies_without_thoughts_and_the_store_keeps_them_as_they_came(
    written: str, text: str, reason: str, tmp_path: Path, repo_root: Path
) -> None:
    with ScriptedServer(lambda body: written) as server, opened(tmp_path, repo_root, endpoint(server)) as served:
        choice = client(served).chat.completions.create(**chat(n=1, logprobs=True)).choices[0]
        assert (choice.message.content, choice.finish_reason) == (text, reason)
        streamed = client(served).chat.completions.create(**chat(n=1, logprobs=True), stream=True)
        assert "".join(part.choices[0].delta.content or "" for part in streamed) == text
    (call,) = {call.text for call in stored(tmp_path)}
    assert json.loads(call)["choices"][0]["message"]["content"] == written


def test_a_memory_gets_responses_without_thoughts(tmp_path: Path, repo_root: Path) -> None:
    def reply(asked: dict[str, Any]) -> Answer:
        texts = ("<think>tea?</think>Tea.", "<think>or not")
        parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
        message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": parts}
        fixed = {"id": "r", "object": "response", "created_at": 0, "tool_choice": "auto", "tools": []}
        said = {"model": asked["model"], "output": [message], "status": "completed", "parallel_tool_calls": True}
        return Answer({**fixed, **said})

    with ScriptedServer(reply) as server, opened(tmp_path, repo_root, endpoint(server)) as served:
        made = client(served).responses.create(model="scripted", input="hello")
        assert [part.text for part in made.output[0].content] == ["Tea.", ""]
        assert made.status == "incomplete" and made.incomplete_details.reason == "max_output_tokens"


def test_a_memory_is_told_where_thoughts_cannot_be_told_from_a_reply(tmp_path: Path, repo_root: Path) -> None:
    odd = "<|im_middle|>So it is tea.<|im_middle|>Tea.<|im_middle|>"
    with ScriptedServer(lambda body: odd) as server, opened(tmp_path, repo_root, endpoint(server)) as served:
        status, body = asked(served, "chat/completions", chat())
    assert (status, body["error"]["code"], served.failed) == (400, "no_usable_reply", 1)
    assert "thoughts cannot be told from the reply" in body["error"]["message"]


def test_vectors_of_the_shipped_table_cost_nothing(server: ScriptedServer, tmp_path: Path, repo_root: Path) -> None:
    with opened(tmp_path, repo_root, endpoint(server)) as served:
        body = {"model": served.embedding, "input": ["the cat sat", ""]}
        floats = asked(served, "embeddings", body)[1]["data"]
        coded = asked(served, "embeddings", {**body, "encoding_format": "base64"})[1]["data"]
        by_client = client(served).embeddings.create(**body).data
        assert served.dimensions == len(floats[0]["embedding"]) == 256
    unpacked = [list(struct.unpack("<256f", base64.b64decode(one["embedding"]))) for one in coded]
    assert unpacked == [one["embedding"] for one in floats] == [one.embedding for one in by_client]
    assert sum(x * x for x in unpacked[0]) == pytest.approx(1, abs=1e-4)
    assert unpacked[1] == [0.0] * 256
    assert not (tmp_path / "run").exists()


def test_vectors_of_an_endpoint_are_stored(server: ScriptedServer, tmp_path: Path, repo_root: Path) -> None:
    vectors = {**endpoint(server, model="vec", input_price=1_000_000.0), "dimensions": 32}
    with opened(tmp_path, repo_root, endpoint(server), embedding=vectors) as served:
        body = {"model": "vec", "input": ["a b", "c"]}
        first = asked(served, "embeddings", body)
        assert (served.dimensions, served.embedding) == (32, "vec")
        assert asked(served, "chat/completions", chat(model="vec"))[0] == 404
    with opened(tmp_path, repo_root, endpoint(server), "replay", vectors) as served:
        assert asked(served, "embeddings", body) == first
    (call,) = stored(tmp_path)
    assert (call.role, call.step, call.input_tokens) == ("embedding", "mem0/embeddings", 3)
    assert len(server.requests) == 1


@pytest.mark.usefixtures("short_pauses")
def test_faults_are_handled_as_everywhere(tmp_path: Path, repo_root: Path) -> None:
    faults = Faults(drop=0.1, throttle=0.1, error=0.1, garbage=0.1, retry_after=0.01)
    with ScriptedServer(lambda body: "fine", faults=faults, seed=3) as server:
        with opened(tmp_path, repo_root, endpoint(server, attempts=12)) as served:
            found = [asked(served, "chat/completions", chat(f"{n}")) for n in range(40)]
            assert (served.failed, served.passing) == (0, None)
        assert len(server.requests) > 45
        assert server.repeated() == []
    assert {(status, body["choices"][0]["message"]["content"]) for status, body in found} == {(200, "fine")}


def test_a_call_that_fails_for_good_is_counted_and_replayed(tmp_path: Path, repo_root: Path) -> None:
    error = Answer(error_body("too long", "context_length_exceeded"), 400)
    with ScriptedServer(lambda body: error) as server:
        role = endpoint(server)
        for calls in ("record", "replay"):
            with opened(tmp_path, repo_root, role, calls) as served:
                with pytest.raises(openai.BadRequestError, match="context length"):
                    client(served).chat.completions.create(**chat())
                assert (served.failed, served.passing, served.fatal) == (1, None, None)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "refusal",
    [
        error_body("Unsupported parameter: 'response_format'", "unsupported_parameter"),
        {"error": {"message": "response_format is not supported", "param": "response_format", "code": None}},
        {"error": {"message": "Extra inputs are not permitted: response_format"}},
        {"error": {"message": "tools are not supported by this model", "param": "tools"}},
    ],
)
def test_a_refusal_of_what_a_memory_wrote_is_that_calls_alone(
    refusal: dict[str, Any], tmp_path: Path, repo_root: Path
) -> None:
    with (
        ScriptedServer(lambda body: Answer(refusal, 400) if "response_format" in body else "fine") as server,
        opened(tmp_path, repo_root, endpoint(server)) as served,
    ):
        for n in range(7):  # more than the first calls that end a run where all are refused
            status, body = asked(served, "chat/completions", chat(f"{n}", response_format={"type": "json_object"}))
            assert status == 400 and "of the run" not in body["error"]["message"]
        assert asked(served, "chat/completions", chat("plain"))[0] == 200
        assert (served.failed, served.fatal) == (7, None)


def test_a_field_of_the_models_file_that_is_refused_is_left_out(tmp_path: Path, repo_root: Path) -> None:
    refusal = Answer(error_body("Unsupported parameter: 'seed'", "unsupported_parameter"), 400)
    with (
        ScriptedServer(lambda body: refusal if "seed" in body else "fine") as server,
        opened(tmp_path, repo_root, endpoint(server, seed=1)) as served,
    ):
        assert asked(served, "chat/completions", chat())[0] == 200


def test_connections_without_a_token_are_closed(
    server: ScriptedServer, tmp_path: Path, repo_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_server, "STRANGER_SECONDS", 0.2)
    with opened(tmp_path, repo_root, endpoint(server)) as served:
        place = urlsplit(served.base_url)
        silent = socket.create_connection((place.hostname, place.port), timeout=20)
        ours = http.client.HTTPConnection(str(place.hostname), place.port, timeout=20)
        for n in range(2):
            token = {"Authorization": f"Bearer {served.token}"}
            ours.request("POST", "/v1/chat/completions", json.dumps(chat(f"{n}")), token)
            assert ours.getresponse().read()
            assert n or silent.recv(1) == b"", "closed by the endpoint"


@pytest.mark.usefixtures("short_pauses")
def test_a_failure_that_may_pass_is_told_from_one_that_will_not(tmp_path: Path, repo_root: Path) -> None:
    with (
        ScriptedServer(lambda body: Answer(error_body("slow down"), 429)) as server,
        opened(tmp_path, repo_root, endpoint(server, attempts=2)) as served,
    ):
        assert asked(served, "chat/completions", chat())[0] == 400
        assert served.failed == 0
        assert served.passing is not None
        assert served.passing.transient


def test_what_a_replay_lacks_ends_the_run(server: ScriptedServer, tmp_path: Path, repo_root: Path) -> None:
    with opened(tmp_path, repo_root, endpoint(server), "replay") as served:
        assert asked(served, "chat/completions", chat())[1]["error"]["code"] == "run_ended"
        assert "mem0/chat" in str(served.fatal)
        assert "the call is not stored" in str(served.fatal)
    assert server.requests == []


FIELDS = st.dictionaries(
    st.sampled_from(
        ["top_p", "stop", "user", "metadata", "response_format", "x", "stream", "max_tokens", "temperature"]
    ),
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    ),
    max_size=5,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fields=FIELDS, content=st.text(max_size=40), said=st.text(min_size=1, max_size=40))
def test_equal_requests_are_one_call_whatever_is_in_them(
    tmp_path_factory: pytest.TempPathFactory, repo_root: Path, fields: dict[str, Any], content: str, said: str
) -> None:
    folder = tmp_path_factory.mktemp("loopback")
    fields = {name: value for name, value in fields.items() if name != "stream"}
    with ScriptedServer(lambda body: said) as server:
        with opened(folder, repo_root, endpoint(server)) as served:
            first = asked(served, "chat/completions", chat(content, **fields))
            again = asked(served, "chat/completions", chat(content, **{**fields, "temperature": 1, "stream": False}))
        requests = len(server.requests)
        with opened(folder, repo_root, endpoint(server), "replay") as served:
            assert asked(served, "chat/completions", chat(content, **fields)) == first == again
    assert requests == 1
    assert first[1]["choices"][0]["message"]["content"] == said.encode("utf-16", "surrogatepass").decode(
        "utf-16", "replace"
    )
