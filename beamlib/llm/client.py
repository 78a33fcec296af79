"""A model behind any endpoint that speaks OpenAI's chat completions: OpenAI, vLLM, Gemini's compatible address.

One try is bounded in time, tries are repeated with jitter, the requests in flight are bounded, and an endpoint that is
down is noticed (`beamlib.llm.faults`). Calls run on the package's event loop (`beamlib.llm.model.run`).
"""

from __future__ import annotations

import asyncio
import atexit
import ipaddress
import json
import os
import ssl
import time
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import tenacity

from beamlib.errors import UserError
from beamlib.llm.endpoints import UNLIMITED_TOKENS, Endpoint
from beamlib.llm.faults import Breaker, TryAgain, bounded, brief, error_text, status_error
from beamlib.llm.keys import without_key
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt, Usage, drain, nap, run, stopping
from beamlib.llm.prompts import render
from beamlib.llm.tools import called, in_words

if TYPE_CHECKING:  # openai and httpx2 take half a second to import, and most commands call nothing
    import httpx2
    import openai

LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Fields of a request that limit the tokens of its reply."""
_NO_KEY = "none"  # openai insists on one; endpoints that need no key ignore it
_MOST: ContextVar[int] = ContextVar("_MOST")  # bytes that the reply to the call at hand may have
_MOST_OF_AN_ERROR = 1 << 16
_ROOM_FOR_A_KEY = 1 << 12
# What speaks of the body as it came. The type may name a codec that turns no bytes into text, or raises on any.
_OF_THE_BODY = frozenset({"content-encoding", "content-length", "content-type", "transfer-encoding"})


class _TooLong(Exception):
    """A reply goes on beyond what its call allows."""


class _Service:
    """What the calls of one event loop to one address share: how many at once, breaker and connections."""

    def __init__(self, base_url: str, max_concurrency: int) -> None:
        self.base_url = base_url
        self.max_concurrency = asyncio.Semaphore(max_concurrency)
        self.breaker = Breaker()
        self._http = _http_client(base_url, max_concurrency)
        self._clients: dict[str, openai.AsyncOpenAI] = {}

    def client(self, key: str) -> openai.AsyncOpenAI:
        """The openai client that sends `key`."""
        import openai

        if key not in self._clients:
            self._clients[key] = openai.AsyncOpenAI(
                api_key=key, base_url=self.base_url, max_retries=0, http_client=self._http
            )
        return self._clients[key]


_SERVICES: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, int], _Service]] = WeakKeyDictionary()


def _service(base_url: str, max_concurrency: int) -> _Service:
    services = _SERVICES.setdefault(asyncio.get_running_loop(), {})
    if (base_url, max_concurrency) not in services:
        services[base_url, max_concurrency] = _Service(base_url, max_concurrency)
    return services[base_url, max_concurrency]


def _http_client(base_url: str, max_concurrency: int) -> httpx2.AsyncClient:
    """The client that carries openai's requests: over aiohttp, which takes a third less time per call than httpcore.

    Redirects are not followed: a key goes to the address that was named and to no other. A proxy of the environment is
    used, but not for this machine.
    """
    import httpx2
    import openai

    parts = urlsplit(base_url)
    try:
        httpx2.URL(base_url)
        _ = parts.port  # beyond 65535 it raises
    except (httpx2.InvalidURL, ValueError) as error:
        raise UserError(f"base_url is {base_url!r}, which is no address ({error}); correct it.") from None
    # Loading the certificates takes longer than a call, and an http address has no use for them.
    context = httpx2.create_ssl_context() if parts.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    class Direct(openai.DefaultAioHttpClient):
        def build_request(self, method: str, url: Any, *, timeout: Any = None, **parts: Any) -> httpx2.Request:
            # openai hands over a whole address and all headers; merging them with the client's own, which are none of
            # ours, would take as long as sending the request.
            extensions = {"timeout": httpx2.Timeout(timeout).as_dict()}
            return httpx2.Request(method, url, extensions=extensions, **parts)

        async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
            # Read by ourselves, for openai would read a reply of any size, and a small one can unpack to gigabytes.
            response = await super().send(request, stream=True, **options)
            failed = response.status_code >= 300
            most = _MOST_OF_AN_ERROR if failed else _MOST.get()
            try:
                content, whole = await bounded(response.aiter_bytes(), most)
            finally:
                await response.aclose()
            if not whole and not failed:
                raise _TooLong(f"its reply is longer than {most:,} bytes, and was read no further")
            if not whole:  # a key that the server repeats could stand at the end, cut in two and so not be found
                content = content[:-_ROOM_FOR_A_KEY]
            headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_BODY]
            return httpx2.Response(response.status_code, headers=headers, content=content, request=request)

    client = Direct(
        follow_redirects=False,
        # 8: probes beside the calls
        limits=httpx2.Limits(max_connections=max_concurrency + 8, max_keepalive_connections=max_concurrency),
        trust_env=not _is_local(parts.hostname or ""),
        verify=context,
    )
    atexit.register(_close, client)
    return client


def _close(client: httpx2.AsyncClient) -> None:
    drain()  # a script that ends by an exception has calls under way
    run(client.aclose())


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class EndpointModel:
    """One role's model at its endpoint. A `Model`.

    `prompts` is a folder of prompt files that override the project's own. `max_concurrency` bounds the
    requests in flight where the endpoint's `concurrency` is shared out over several processes; models with the same
    address and the same bound share one queue, first come first served.

    `complete` raises `ModelError` where this call has no answer and `UserError` where no call can have one: no key, a
    refused key, an unknown model, no credit, an endpoint that is down. Neither ever holds the key.
    """

    route = "/chat/completions"

    def __init__(
        self, role: str, endpoint: Endpoint, *, prompts: Path | None = None, max_concurrency: int | None = None
    ) -> None:
        self.role = role
        self.endpoint = endpoint
        self.prompts = prompts
        self.max_concurrency = max_concurrency or endpoint.concurrency
        self._who = f"The {role} model {endpoint.model} at {endpoint.base_url}"
        self._key = os.environ.get(endpoint.key_variable, "").strip() if endpoint.key_variable else _NO_KEY

    @property
    def name(self) -> str:
        """The model's id at its endpoint."""
        return self.endpoint.model

    def ready(self) -> None:
        """Raise the `UserError` of a missing or impossible key; a model that only replays a store needs none."""
        variable = self.endpoint.key_variable
        if not self._key:
            raise UserError(
                f"{self._who} takes its key from the environment variable {variable}, which is not set; export it and "
                "run the same command again."
            )
        if not self._key.isascii() or not self._key.isprintable() or " " in self._key:
            raise UserError(f"{self._who}: what the environment variable {variable} holds cannot be a key; correct it.")

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """The JSON body that is sent for `prompt`. Each repeat has a seed of its own."""
        messages = render(prompt.id, prompt.variables, self.prompts, prompt.turns)
        settings = self.endpoint
        if prompt.tools and not settings.tool_calls:
            messages[-1]["content"] += f"\n\n{in_words(prompt.tools)}"
        if prompt.complaint:
            messages[-1]["content"] += f"\n\n{prompt.complaint}"
        body: dict[str, Any] = {"model": settings.model, "messages": messages}
        if prompt.tools and settings.tool_calls:
            body["tools"] = [tool.openai for tool in prompt.tools]
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        if settings.seed is not None:
            body["seed"] = settings.seed + prompt.repeat
        if settings.max_output_tokens is not None:
            body[settings.limit_field] = settings.max_output_tokens
        return body | settings.extra

    def most(self, prompt: Prompt) -> float:
        """US dollars that the call for `prompt` can cost at most, once; no text has more tokens than bytes."""
        body, endpoint = self.request(prompt), self.endpoint
        asked = len(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
        limits = [body[name] for name in LIMITS if isinstance(body.get(name), int)]
        reply = min(limits, default=min(endpoint.context_window, UNLIMITED_TOKENS))
        times = body["n"] if isinstance(body.get("n"), int) else 1
        return endpoint.dollars(min(asked, endpoint.context_window), 0, reply * times)

    async def complete(self, prompt: Prompt) -> Completion:
        """Send `prompt`, trying again where that may help; `finish_reason` "length" is returned, not judged."""
        self.ready()
        service = _service(self.endpoint.base_url, self.max_concurrency)
        breaker, term = service.breaker, service.breaker.term
        failed: list[TryAgain] = []

        async def attempt() -> Completion:
            if failed:  # the try made below
                raise failed.pop()
            return await self._attempt(service, term, prompt)

        try:
            # Nearly every call succeeds at once, and the machinery of trying again costs more than the store.
            return await self._attempt(service, term, prompt)
        except TryAgain as first:
            failed.append(first)
        tries = tenacity.AsyncRetrying(
            # While the breaker is open, tries are probes on behalf of everybody and cost the call nothing.
            stop=lambda state: state.attempt_number >= self.endpoint.attempts and not breaker.open,
            wait=lambda state: 0.0 if breaker.open else _pause(state),
            retry=tenacity.retry_if_exception_type(TryAgain),
            sleep=nap,
            reraise=True,
        )
        try:
            return await tries(attempt)
        except TryAgain as last:
            count = tries.statistics["attempt_number"]
            message = f"{self._who} gave no usable answer in {count} {'try' if count == 1 else 'tries'}, last: {last}"
            raise ModelError(message, Outcome.UNAVAILABLE) from None

    async def _attempt(self, service: _Service, term: int, prompt: Prompt) -> Completion:
        while True:
            async with service.breaker.passage(term) as probing, service.max_concurrency:
                # The wait for a lane can be long; the endpoint may have gone down meanwhile, or the run been ended.
                service.breaker.check(term)
                if stopping():
                    raise UserError("interrupted before this call was made; the same command goes on from there.")
                if probing or not service.breaker.open:
                    # Rendered here and not while queueing: thousands of calls may wait, each with a long text.
                    return await self._try(service, term, self.request(prompt))

    async def _try(self, service: _Service, term: int, body: dict[str, Any]) -> Completion:
        import aiohttp
        import httpx2
        import openai

        endpoint, breaker = self.endpoint, service.breaker
        began = time.perf_counter()
        tools = endpoint.tool_calls and "tools" in body
        failure: TryAgain | ModelError | UserError
        reached = True
        _MOST.set(endpoint.reply_bytes)
        try:
            # httpx bounds each read; the outer bound ends a server that sends a byte now and then.
            async with asyncio.timeout(endpoint.timeout):
                # The typed method would build pydantic objects of the whole reply: a third of a call's cost.
                response = await service.client(self._key).post(
                    self.route,
                    cast_to=httpx2.Response,
                    body=body,
                    options={"timeout": httpx2.Timeout(endpoint.timeout, connect=min(endpoint.timeout, 15.0))},
                )
            breaker.answered()
            return self._read(response.content, time.perf_counter() - began, tools=tools)
        except openai.APIStatusError as error:
            failure = status_error(
                self._who, endpoint.key_variable, self._key, error.status_code, error.response.headers,
                error.response.text,
            )  # fmt: skip
        except _TooLong as error:
            failure = ModelError(f"{self._who}: {error}", Outcome.TOO_LONG)
        except (openai.APIConnectionError, TimeoutError, aiohttp.ClientError) as error:
            # openai's timeouts are connection errors; what is not HTTP reaches us as aiohttp's own error.
            failure, reached = _lost(error, endpoint.timeout, self._key)
        if isinstance(failure, TryAgain) and failure.silent:
            breaker.silent(term, self._who, str(failure), endpoint.patience, reached=reached)
            breaker.check(term)
        else:
            breaker.answered()
        if isinstance(failure, UserError):
            breaker.end(str(failure))
        raise failure from None

    def _said(self, content: bytes) -> str:
        """The text of a body without the key, which is looked for before anything is cut off."""
        return without_key(content.decode("utf-8", "replace"), self._key)

    def _read(self, content: bytes, latency: float, *, tools: bool) -> Completion:
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            text = brief(self._said(content)[:2_000], self._key)
            raise TryAgain(f"the answer is not JSON: {text or 'nothing'}") from None
        choice = _first(body.get("choices")) if isinstance(body, dict) else None
        if choice is None:
            said = error_text(self._said(content)[:100_000])[0]
            raise TryAgain(f"the answer has no choices: {brief(said, self._key)}")
        reason = choice.get("finish_reason")
        reason = brief(reason, self._key) if isinstance(reason, str) else "stop"  # it is stored, as the text is
        message = choice.get("message")
        refusal = message.get("refusal") if isinstance(message, dict) else None
        if reason.startswith("content_filter") or (refusal and isinstance(refusal, str)):
            said = brief(refusal, self._key) if isinstance(refusal, str) else "no reason given"
            raise ModelError(f"{self._who} kept its reply back: {said}", Outcome.FILTERED)
        found = _text_of(message, tools=tools) if isinstance(message, dict) else None
        if not isinstance(found, str):
            raise TryAgain("the answer holds no text")
        text = found.encode("utf-8", "replace").decode()  # halves of surrogate pairs cannot be stored
        return Completion(without_key(text, self._key), _usage(body.get("usage")), latency, reason)


def _lost(error: Exception, timeout: float, key: str) -> tuple[TryAgain, bool]:
    """What a try without an answer means, and whether anybody was there.

    Told by the first cause: the layers between turn a refused connection into a timeout.
    """
    import aiohttp

    causes: list[BaseException] = [error]
    while (deeper := causes[-1].__cause__) is not None:
        causes.append(deeper)
    said = brief(str(causes[-1]) or type(causes[-1]).__name__, key)
    if any(isinstance(cause, aiohttp.ClientConnectorError) for cause in causes):
        return TryAgain(f"no connection ({said})", silent=True), False
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return TryAgain(f"no answer within {timeout:g} seconds", silent=True), True
    return TryAgain(f"the connection broke ({said})", silent=True), True


def _first(choices: object) -> dict[str, Any] | None:
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


def _text_of(message: dict[str, Any], *, tools: bool) -> object:
    """The text of a reply's message. Where tools were offered it is the calls as JSON, none where it says nothing."""
    if not tools:
        return _joined(message.get("content"))
    return called(message) or _joined(message.get("content")) or '{"calls": []}'


def _joined(content: object) -> object:
    """A reply's content as it came, null as no text; some endpoints write a list of parts, of which text is wanted."""
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        texts = (part.get("text") for part in content if part.get("type") == "text")
        return "".join(text for text in texts if isinstance(text, str))
    return content or ""


def _usage(usage: object) -> Usage:
    def count(holder: object, name: str) -> int:
        value = holder.get(name) if isinstance(holder, dict) else None
        return value if isinstance(value, int) and value > 0 else 0

    details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
    return Usage(count(usage, "prompt_tokens"), count(usage, "completion_tokens"), count(details, "cached_tokens"))


_JITTER = tenacity.wait_random_exponential(multiplier=0.5, max=60)
_THROTTLED_JITTER = tenacity.wait_random_exponential(multiplier=2, max=60)


def _pause(state: tenacity.RetryCallState) -> float:
    """Seconds until the next try: what the endpoint asked for, and a random share of a bound that doubles each time."""
    failure = state.outcome.exception() if state.outcome else None
    asked = failure.wait if isinstance(failure, TryAgain) else None
    if asked is not None:
        return asked + _JITTER(state)
    throttled = isinstance(failure, TryAgain) and failure.throttled
    return (_THROTTLED_JITTER if throttled else _JITTER)(state)
