"""Serve an OpenAI-compatible endpoint on the loopback interface: a memory's own calls are stored and counted.

It implements chat completions, responses and embeddings, with streaming, and requires a random token per memory. The
models of `beamlib.llm.client` behind it use the call store: each call is stored, replayed without a network, priced,
counted and retried.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from aiohttp import web
from numpy.typing import NDArray

from beamlib.errors import UserError
from beamlib.files import parse_json, to_json
from beamlib.llm.endpoints import ROUTES, Route, forwarded_step
from beamlib.llm.model import Model, ModelError, Outcome, Prompt
from beamlib.llm.thoughts import CleanReply, clean_reply
from beamlib.llm.token_server import LARGEST_REQUEST, TokenServer
from beamlib.retrieval.encoder import EMBEDDED_NAME, embedded_encoder
from beamlib.text import WORDS

_MOST_TEXTS = 2_048  # of one request for vectors, as at OpenAI
_GRID = 2.0**20  # vectors are rounded, so that the order of a sum cannot move a byte of what rests on them
_CODES = {Outcome.CONTEXT_LENGTH: "context_length_exceeded", Outcome.FILTERED: "content_filter"}


class _Refused(Exception):
    """An error response: status, code and message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Loopback(TokenServer[str]):
    """An endpoint: `with Loopback(models, "mem0") as endpoint:` serves at `endpoint.base_url`.

    Without a model for `embeddings`, the shipped table serves vectors for free.

    Attributes:
        models: Models by route; their vectors have `dimensions` numbers.
        fatal: The `UserError` of a call that ends the run; `ended` is set with it, and the caller raises it.
        passing: The last transient failure.
        failed: Number of permanent failures.
    """

    def __init__(self, models: Mapping[str, Model], arm: str, dimensions: int = 0) -> None:
        super().__init__()
        self.models, self.arm = models, arm
        self.dimensions = dimensions or embedded_encoder().dim
        self.token = self.admit(arm)
        self.fatal: UserError | None = None
        self.passing: ModelError | None = None
        self.failed = 0
        self._under_way, self._since, self._waited = 0, 0.0, 0.0
        self.ended = asyncio.Event()

    @property
    def model(self) -> str:
        """Name of the language model that is served."""
        return self.models["chat/completions"].name

    @property
    def waited(self) -> float:
        """Seconds in which a call was pending; the memory's time limits exclude them."""
        return self._waited + (time.monotonic() - self._since if self._under_way else 0.0)

    async def settle(self) -> None:
        """Wait until no call is pending: what a lost process has asked for is paid for and stored."""
        while self._under_way and not self.ended.is_set():
            await asyncio.sleep(0.05)

    @contextmanager
    def _call(self) -> Iterator[None]:
        if not self._under_way:
            self._since = time.monotonic()
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._waited += time.monotonic() - self._since

    @property
    def embedding(self) -> str:
        """Name of the embedding model that is served."""
        return self.models["embeddings"].name if "embeddings" in self.models else EMBEDDED_NAME

    def routes(self) -> Mapping[tuple[str, str], Callable[[web.Request], Any]]:
        """Return the routes of OpenAI's interface."""
        return {("GET", "/v1/models"): self._list, **{("POST", f"/v1/{route}"): self._answer for route in ROUTES}}

    async def _begin(self) -> None:
        await super()._begin()
        self.base_url += "/v1"

    async def _list(self, request: web.Request) -> web.Response:
        if self.client_of(request) is None:
            return _error(_Refused(401, "invalid_api_key", "This endpoint asks for the token of its run."))
        names = dict.fromkeys((self.model, self.embedding))
        return _json({"object": "list", "data": [{"id": name, "object": "model"} for name in names]})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        route: Route = request.path.removeprefix("/v1/")  # type: ignore[assignment]
        try:
            if self.client_of(request) is None:
                raise _Refused(401, "invalid_api_key", "This endpoint asks for the token of its run.")
            body = await self._body(request)
            text = await (self._passed_on(route, body) if route in self.models else _vectors(body))
        except _Refused as error:
            return _error(error)
        if body.get("stream") is not True or route == "embeddings":
            return web.Response(text=text, content_type="application/json")
        return await _streamed(request, route, body, parse_json(text))

    async def _body(self, request: web.Request) -> dict[str, Any]:
        try:
            body = parse_json((await request.read()).decode())
            to_json(body).encode()  # fails for a lone surrogate, which no file can contain
        except web.HTTPRequestEntityTooLarge:
            raise _Refused(413, "too_large", f"A request may have {LARGEST_REQUEST:,} bytes.") from None
        except ValueError as error:
            raise _Refused(400, "invalid_request", f"The body is not JSON that can be read: {error}.") from None
        if not isinstance(body, dict):
            raise _Refused(400, "invalid_request", "The body is no JSON object.")
        served = self.embedding if request.path.endswith("/embeddings") else self.model
        if body.get("model") != served:
            raise _Refused(404, "model_not_found", f"The model {str(body.get('model'))[:80]!r} is not {served!r}.")
        return body

    async def _passed_on(self, route: Route, body: dict[str, Any]) -> str:
        prompt = Prompt(forwarded_step(self.arm, route), {"body": to_json(body)}, about=self.arm)
        try:
            with self._call():
                return _without_thoughts(route, (await self.models[route].complete(prompt)).text)
        except ModelError as error:
            if error.transient:
                self.passing = error
            else:
                self.failed += 1
            # 400 always: what could be tried again has been, and a client would do so after other codes.
            raise _Refused(400, _CODES.get(error.outcome, "no_usable_reply"), error.reason) from None
        except UserError as error:
            self.fatal = error
            self.ended.set()
            raise _Refused(400, "run_ended", str(error)) from None


def _without_thoughts(route: Route, reply: str) -> str:
    """Remove a model's thoughts from the texts of a reply, by the rule that holds for the replies to our own prompts.

    What ends within thoughts is cut off, as endpoints say it of a reply whose tokens were used up by reasoning.

    Raises:
        ModelError: It cannot be told what is thought.
    """
    if route == "embeddings":
        return reply
    body = parse_json(reply)
    if route == "chat/completions":
        for choice in body["choices"]:
            if isinstance(message := choice.get("message"), dict) and (clean := _cleaned(message, "content")):
                choice |= {"logprobs": None} if "logprobs" in choice else {}
                choice |= {"finish_reason": "length"} if clean.unfinished else {}
    else:
        for item in body["output"]:
            content = item.get("content") if item.get("type") == "message" else None
            for part in content if isinstance(content, list) else ():
                if isinstance(part, dict) and (clean := _cleaned(part, "text")) and clean.unfinished:
                    body |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    return to_json(body)


def _cleaned(part: dict[str, Any], name: str) -> CleanReply | None:
    """Remove thoughts from a text in place; None where it had none."""
    text = part.get(name)
    clean = clean_reply(text) if isinstance(text, str) else None
    if clean is None or clean.text == text:
        return None
    part[name] = clean.text
    return clean


async def _vectors(body: Mapping[str, Any]) -> str:
    """Answer a request for vectors from the shipped table."""
    given, wanted = body.get("input"), body.get("dimensions")
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts) or len(texts) > _MOST_TEXTS:
        raise _Refused(400, "invalid_request", f"'input' must be a text, or a list of at most {_MOST_TEXTS:,} texts.")
    encoder = embedded_encoder()
    if wanted not in (None, encoder.dim):
        raise _Refused(400, "invalid_request", f"'dimensions' can only be {encoder.dim}.")
    vectors = np.round((await asyncio.to_thread(encoder.encode, texts)) * _GRID) / _GRID
    as_text = body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": place, "embedding": _base64(one) if as_text else one.tolist()}
        for place, one in enumerate(vectors)
    ]
    tokens = sum(map(WORDS.count, texts))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return to_json({"object": "list", "model": EMBEDDED_NAME, "data": data, "usage": usage})


def _base64(vector: NDArray[np.float32]) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(text=to_json(value), status=status, content_type="application/json")


def _error(error: _Refused) -> web.Response:
    said = {"message": str(error), "type": "invalid_request_error", "code": error.code, "param": None}
    return _json({"error": said}, error.status)


async def _streamed(
    request: web.Request, route: Route, asked: Mapping[str, Any], reply: dict[str, Any]
) -> web.StreamResponse:
    """Send a complete reply as server-sent events, in the API's order."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    if route == "responses":
        for number, event in enumerate(_response_events(reply)):
            event["sequence_number"] = number
            await response.write(f"event: {event['type']}\ndata: {to_json(event)}\n\n".encode())
    else:
        for chunk in _chunks(asked, reply):
            await response.write(f"data: {to_json(chunk)}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


def _chunks(asked: Mapping[str, Any], reply: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    frame = {name: reply[name] for name in ("id", "created", "model", "system_fingerprint") if name in reply}
    frame["object"] = "chat.completion.chunk"
    for choice in reply["choices"]:
        message = choice.get("message")
        delta = {"role": "assistant", **(message if isinstance(message, dict) else {})}
        if isinstance(calls := delta.get("tool_calls"), list):
            delta["tool_calls"] = [{"index": n, **one} for n, one in enumerate(calls) if isinstance(one, dict)]
        whole = {name: value for name, value in choice.items() if name != "message"}
        yield {**frame, "choices": [{**whole, "delta": delta, "finish_reason": None}]}
        yield {**frame, "choices": [{"index": choice.get("index", 0), "delta": {}} | _reason(choice)]}
    options = asked.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        yield {**frame, "choices": [], "usage": reply.get("usage")}


def _reason(choice: Mapping[str, Any]) -> dict[str, Any]:
    return {"finish_reason": choice.get("finish_reason") or "stop"}


def _response_events(reply: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "response.created", "response": {**reply, "status": "in_progress", "output": []}}
    for place, item in enumerate(reply["output"]):
        at: dict[str, Any] = {"output_index": place}
        content = item.get("content") if item.get("type") == "message" else None
        parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
        yield {"type": "response.output_item.added", **at, "item": {**item, **({"content": []} if parts else {})}}
        for number, part in enumerate(parts):
            within = {**at, "item_id": item.get("id", ""), "content_index": number}
            yield {"type": "response.content_part.added", **within, "part": {**part, "text": ""}}
            if isinstance(text := part.get("text"), str):
                yield {"type": "response.output_text.delta", **within, "delta": text, "logprobs": []}
                yield {"type": "response.output_text.done", **within, "text": text, "logprobs": []}
            yield {"type": "response.content_part.done", **within, "part": part}
        if item.get("type") == "function_call":
            named = {**at, "item_id": item.get("id", ""), "arguments": item.get("arguments", "")}
            yield {"type": "response.function_call_arguments.done", "name": item.get("name", ""), **named}
        yield {"type": "response.output_item.done", **at, "item": item}
    yield {"type": "response.completed", "response": reply}
