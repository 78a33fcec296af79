"""Servers as they are in the field: what each refuses, in its own words, and what the client makes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from beamlib.errors import UserError
from beamlib.files import sha256, to_json
from beamlib.llm.call_store import CallStore
from beamlib.llm.client import EndpointModel
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.model import Completion, Outcome, Prompt, attempt_all, run
from beamlib.llm.prompts import ChatTurn
from beamlib.llm.retrying import RetryingModel
from beamlib.llm.stored_model import StoredModel
from scripted_server import Answer, ScriptedServer, body_text, completion, error_body

Reply = Callable[[dict[str, Any]], Any]
TURNS = (ChatTurn("user", "I like tea."), ChatTurn("assistant", "Noted."))


def model(server: ScriptedServer, role: str = "reader", **fields: Any) -> EndpointModel:
    settings = {"model": "m", "base_url": server.base_url, "context_window": 32_000, "attempts": 3} | fields
    return EndpointModel(role, Endpoint(**settings))


def prompts(number: int, **fields: Any) -> list[Prompt]:
    return [Prompt("answer", {"question": f"What about {n}?", "context": "Tea."}, **fields) for n in range(number)]


def dialogue(number: int) -> list[Prompt]:
    return [Prompt("answer_turns", {"question": f"What about {n}?"}, turns=TURNS) for n in range(number)]


def vllm_error(message: str, status: int = 400) -> Answer:
    return Answer(
        {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": status}, 400
    )


def refusing(name: str, answer: Answer) -> Reply:
    """Refuse requests that have a field, or, for `system`, a system message."""

    def reply(body: dict[str, Any]) -> Any:
        present = body["messages"][0]["role"] == "system" if name == "system" else name in body
        return answer if present else "Tea."

    return reply


FASTAPI = {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}
FIELDS: dict[str, tuple[str, Answer]] = {
    "OpenAI, reasoning": (
        "temperature",
        Answer(error_body("Unsupported value: 'temperature' does not support 0.", "unsupported_value"), 400),
    ),
    "Mistral": (
        "seed",
        Answer({"object": "error", "message": FASTAPI, "type": "invalid_request_error", "param": None}, 422),
    ),
    "FastAPI": ("seed", Answer(FASTAPI, 422)),
    "vLLM": ("guided_json", vllm_error("[{'type': 'extra_forbidden', 'loc': ('body', 'guided_json')}] not permitted")),
    "Groq": (
        "logit_bias",
        Answer({"error": {"message": "'logit_bias' is not supported with this model", "type": "invalid"}}, 400),
    ),
    "LiteLLM": (
        "seed",
        Answer(error_body("litellm.UnsupportedParamsError: m does not support parameters: ['seed'], for m."), 400),
    ),
    "Azure": (
        "response_format",
        Answer({"error": {"message": "Invalid parameter: 'response_format' of type 'json_object' is not supported with "
                "this model.", "type": "invalid_request_error", "param": "response_format", "code": None}}, 400),
    ),
    "Bedrock": ("top_p", Answer({"message": "temperature and top_p cannot both be specified; use only `top_p`"}, 400)),
    "OpenRouter": (
        "top_k",
        Answer({"error": {"code": 400, "message": "Provider returned error: top_k is not a recognized parameter: "
                "unknown field"}}),
    ),
    "llama.cpp": (
        "system",
        Answer({"error": {"code": 500, "message": "Error: Jinja Exception: System role not supported"}}, 500),
    ),
    "vLLM, Gemma": ("system", vllm_error("System role not supported")),
    "vLLM, Mistral": ("system", vllm_error("Conversation roles must alternate user/assistant/user/assistant/...")),
    "OpenAI, o1-mini": (
        "system",
        Answer(error_body("Unsupported value: 'messages[0].role' does not support 'system' with this model."), 400),
    ),
    "Gemini, Gemma": ("system", Answer([{"error": {"code": 400, "message": "Developer instruction is not enabled for "
                      "models/gemma-3-27b-it", "status": "INVALID_ARGUMENT"}}], 400)),
}  # fmt: skip
EXTRA = {"guided_json": {}, "logit_bias": {}, "response_format": {"type": "json_object"}, "top_p": 0.9, "top_k": 5}


@pytest.mark.parametrize(("field", "answer"), FIELDS.values(), ids=FIELDS)
def test_a_refused_optional_part_is_left_out_for_the_role_said_once_and_stays_in_the_key(
    field: str, answer: Answer, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    extra = {field: EXTRA[field]} if field in EXTRA else {}
    with ScriptedServer(refusing(field, answer)) as server:
        client = model(server, extra=extra, attempts=1, concurrency=2)
        asked = dialogue(12)
        configured = [client.request(prompt) for prompt in asked]
        store = CallStore(tmp_path / "1.sqlite")
        stored = StoredModel(client, store, "record", role="reader", conversation="1", command="again")
        replies = attempt_all(stored, asked)
        count = len(server.requests)
        sent = server.requests[-1].body
        replayed = attempt_all(
            StoredModel(client, store, "replay", role="reader", conversation="1", command="again"), asked
        )
        digests = {call.sent for call in store.calls()}
        store.close()
        assert len(server.requests) == count
    assert digests and digests <= {sha256(to_json(request.body)) for request in server.requests}
    assert not digests & {sha256(to_json(body)) for body in configured}, "what was sent is not what the key is of"
    assert [reply.text for reply in replies if isinstance(reply, Completion)] == ["Tea."] * 12 and replayed == replies
    assert [client.request(prompt) for prompt in asked] == configured, "the key's request is the configured one"
    assert count <= 12 + 2, "only requests that were on the way are refused too"
    said = capsys.readouterr().err
    assert said.count("this run now") == 1 and "reader model m" in said
    if field == "system":
        system, first, *_ = configured[0]["messages"]
        assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "user"]
        assert sent["messages"][0]["content"] == f"{system['content']}\n\n{first['content']}"
    else:
        assert sent.keys() == configured[0].keys() - {field} and field in said


def test_omit_leaves_fields_and_the_system_message_out_and_is_part_of_the_key() -> None:
    with ScriptedServer(lambda body: "Tea.") as server:
        client = model(server, omit=["seed", "temperature", "system"])
        run(client.complete(dialogue(1)[0]))
        assert server.requests[0].body == client.request(dialogue(1)[0])
    assert server.requests[0].body.keys() == {"model", "messages"}
    assert server.requests[0].body["messages"][0]["role"] == "user"


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_a_refused_limit_is_sent_in_its_other_field(limit: str) -> None:
    other = ({"max_tokens", "max_completion_tokens"} - {limit}).pop()
    words = f"Unsupported parameter: '{limit}' is not supported with this model. Use '{other}' instead."
    with ScriptedServer(refusing(limit, Answer(error_body(words, "unsupported_parameter"), 400))) as server:
        run(model(server, limit_field=limit, max_output_tokens=900).complete(prompts(1)[0]))
    assert server.requests[-1].body[other] == 900 and limit not in server.requests[-1].body


STOPS = {
    "unknown words": (vllm_error("the moon is not full"), r"moon.*5 different requests.*omit: \[seed\]"),
    "stream": (Answer(error_body("This model only supports streaming; set stream=true."), 400), "proxy"),
    "stream, DashScope": (Answer(error_body("This model only support stream mode, please enable it"), 400), "proxy"),
    "tools": (Answer(error_body("'max_tokens' and 'max_completion_tokens' are unsupported"), 400), "limit_field"),
    "Azure, deployment": (
        Answer({"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}}, 404),
        "base_url",
    ),
    "Ollama, model": (Answer(error_body("model 'm' not found, try pulling it first", None, "api_error"), 404), "model"),
    "OpenRouter, credits": (Answer({"error": {"code": 402, "message": "Insufficient credits"}}), "credit"),
    "OpenRouter, page": (Answer("<!doctype html><html></html>"), "base_url"),
    "LiteLLM, key": (Answer({"error": {"message": "Authentication Error", "code": "401"}}, 401), "key"),
    "Groq, day": (
        Answer(error_body("Rate limit reached on tokens per day (TPD). Please try again in 7h12m0s.", "limit"), 429),
        "7 hours",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "words"), STOPS.values(), ids=STOPS)
def test_a_server_that_takes_no_call_ends_the_run_with_one_sentence(answer: Answer, words: str) -> None:
    with ScriptedServer(lambda body: answer) as server:
        with pytest.raises(UserError, match=words):
            attempt_all(model(server, concurrency=2, max_output_tokens=900), prompts(60))
        assert len(server.requests) <= 20
    assert server.peak <= 2


def test_a_refusal_that_repeats_ends_the_run_even_after_an_answer() -> None:
    def reply(body: dict[str, Any]) -> str | Answer:
        return "Tea." if "What about 0?" in body_text(body) else vllm_error("the moon is not full")

    with ScriptedServer(reply) as server:
        with pytest.raises(UserError, match=r"moon.*5 different requests"):
            attempt_all(model(server, concurrency=1), prompts(12))
        assert len(server.requests) == 1 + 5


def test_refusals_of_some_calls_end_these_calls_only() -> None:
    def reply(body: dict[str, Any]) -> str | Answer:
        return "Tea." if re.search(r"What about \d*[05]\?", body_text(body)) else vllm_error("the moon is not full")

    with ScriptedServer(reply) as server:
        replies = attempt_all(model(server, concurrency=1), prompts(12))
    outcomes = [getattr(reply, "outcome", None) for reply in replies]
    assert outcomes == [None if number % 5 == 0 else Outcome.REFUSED for number in range(12)]


LONG = {
    "llama.cpp": Answer({"error": {"code": 400, "type": "exceed_context_size_error", "n_ctx": 4096,
        "message": "the request exceeds the available context size (4096 tokens), try increasing it"}}, 400),
    "vLLM": vllm_error("This model's maximum context length is 4096 tokens. However, you requested 9000 tokens (8000 "
        "in the messages, 1000 in the completion). Please reduce the length of the messages or max_tokens."),
    "OpenRouter": Answer({"error": {"code": 400, "message": "This endpoint's maximum context length is 4096 tokens."}}),
    "Azure": Answer({"error": {"message": "too long", "param": "messages", "code": "context_length_exceeded"}}, 400),
    "Groq": Answer(error_body("Please reduce the length of the messages.", "context_length_exceeded"), 400),
    "Groq, limit": Answer(error_body("Request too large for model `m` on tokens per minute (TPM): Limit 6000"), 413),
    "LiteLLM": Answer(error_body("litellm.ContextWindowExceededError: prompt is too long: 9000 tokens > 4096"), 400),
    "LM Studio": Answer({"error": "The number of tokens to keep from the initial prompt is greater than the context "
                         "length"}, 400),
}  # fmt: skip


@pytest.mark.parametrize("answer", LONG.values(), ids=LONG)
def test_a_prompt_that_is_too_long_ends_its_call_and_no_other(answer: Answer) -> None:
    def reply(body: dict[str, Any]) -> Any:
        return answer if len(body_text(body)) > 3_000 else "Tea."

    long = Prompt("answer", {"question": "Long?", "context": "tea " * 2_000})
    with ScriptedServer(reply) as server:
        replies = attempt_all(model(server, concurrency=1, max_output_tokens=900), [long] * 7 + prompts(1))
        assert len(server.requests) == 8, "nothing is sent twice"
    assert [getattr(reply, "outcome", None) for reply in replies] == [Outcome.CONTEXT_LENGTH] * 7 + [None]


def usage(body: dict[str, Any], reason: Any = "stop", **fields: Any) -> dict[str, Any]:
    reply = completion(body, "Tea.", reason)
    return reply | fields


def choices(body: dict[str, Any], *given: Any) -> dict[str, Any]:
    """A reply with a choice for each index and text; None is no index."""
    (usual,) = completion(body, "Tea.")["choices"]
    made = [{**usual, "index": index, "message": {"role": "assistant", "content": text}} for index, text in given]
    return completion(body, "Tea.") | {"choices": made}


REPLIES: dict[str, tuple[Reply, Any]] = {
    "Ollama without usage": (lambda body: usage(body, usage=None), "Tea."),
    "llama.cpp with timings": (lambda body: usage(body, timings={"prompt_n": 3}), "Tea."),
    "Azure with filter results": (lambda body: usage(body, prompt_filter_results=[{"prompt_index": 0}]), "Tea."),
    "Azure, withheld": (lambda body: usage(body, "content_filter"), Outcome.FILTERED),
    "OpenRouter, Gemini's reason": (lambda body: usage(body, "SAFETY"), Outcome.FILTERED),
    "OpenRouter, cut": (lambda body: usage(body, "MAX_TOKENS"), Outcome.TRUNCATED),
    "OpenRouter, failed": (lambda body: usage(body, "error"), Outcome.UNAVAILABLE),
    "Groq with its own field": (lambda body: usage(body, x_groq={"id": "req"}), "Tea."),
    "vLLM without a reason": (lambda body: usage(body, None), "Tea."),
    "any other reason": (lambda body: usage(body, "end"), "Tea."),
    "any other limit": (lambda body: usage(body, "TOKEN_LIMIT_REACHED"), Outcome.TRUNCATED),
    "another choice first": (lambda body: choices(body, (1, "Milk."), (0, "Tea.")), "Tea."),
    "choices without an index": (lambda body: choices(body, (None, "Tea."), (None, "Milk.")), "Tea."),
    "choices counted from one": (lambda body: choices(body, (2, "Milk."), (1, "Tea.")), "Tea."),
    "odd counts": (lambda body: usage(body, usage={"prompt_tokens": -3, "completion_tokens": "4"}), "Tea."),
}


@pytest.mark.parametrize(("reply", "expected"), REPLIES.values(), ids=REPLIES)
def test_replies_are_read_and_what_is_none_has_a_reason(reply: Reply, expected: str | Outcome) -> None:
    with ScriptedServer(lambda body: Answer(reply(body))) as server:
        (result,) = attempt_all(RetryingModel(model(server, attempts=2)), prompts(1))
        assert len(server.requests) <= 2
    assert (result.text if isinstance(result, Completion) else result.outcome) == expected
    if isinstance(result, Completion):
        assert min(result.usage.input_tokens, result.usage.output_tokens) >= 0


def test_azure_takes_its_version_in_the_address_and_its_key_in_a_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "invented-0123456789")
    with ScriptedServer(lambda body: "Tea.", api_version="2024-10-21", require_key="invented-0123456789") as server:
        address = server.base_url.removesuffix("/v1") + "/openai/deployments/nano?api-version=2024-10-21"
        client = model(server, base_url=address, key_variable="AZURE_OPENAI_API_KEY")
        assert run(client.complete(prompts(1)[0])).text == "Tea."
    assert server.requests[0].path == "/openai/deployments/nano/chat/completions?api-version=2024-10-21"
    assert server.requests[0].authorization == ""
    assert json.dumps(client.endpoint.settings).count("invented") == 0
