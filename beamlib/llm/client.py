"""Call models behind endpoints that speak OpenAI's HTTP interface: OpenAI, vLLM, Gemini's compatible address.

Every call has a connection of its own. On a kept-alive connection a surplus reply, sent late by a server or a proxy in
between, cannot be told from the answer to the next request.
"""

from __future__ import annotations

import asyncio
import atexit
import io
import ipaddress
import json
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import tenacity

from beamlib.errors import UserError
from beamlib.files import parse_json, to_json
from beamlib.llm.endpoints import UNLIMITED_TOKENS, Endpoint
from beamlib.llm.faults import (
    CONTINUE,
    Breaker,
    RefusedField,
    RetryableError,
    error_text,
    excerpt,
    field_error,
    read_at_most,
    status_error,
)
from beamlib.llm.keys import read_key, without_key
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt, Usage, drain, nap, run, stopping
from beamlib.llm.prompts import Prompts, render
from beamlib.llm.reply_body import describe_tools, message_text, read_usage, with_own_counts

Route = Literal["chat/completions", "responses", "embeddings"]
ROUTES: tuple[Route, ...] = get_args(Route)
"""What requests of other programs are forwarded to, relative to the base URL."""

_TEMPLATE_TOKENS = 2_000
"""What a chat template may add to the tokens of a request."""
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Request fields that limit the tokens of a reply."""
_RENAMED = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
FAILED_REASONS = frozenset({"error", "network_error", "insufficient_system_resource", "abort"})
"""Values of `finish_reason`, in lower case, of a reply that the server could not complete."""
FILTERED_REASONS = (
    "content_filter", "safety", "recitation", "sensitive", "blocklist", "prohibited_content", "spii", "refusal",
)  # fmt: skip
"""How the `finish_reason` of a withheld reply begins, in lower case."""
_FIRST_REFUSALS = 5
"""Calls of a role, its first ones, that end the run if all of them are refused with one message."""
_NO_KEY = "none"
_CONNECT_SECONDS = 15.0
_ERROR_BYTES = 1 << 16
_KEY_BYTES = 1 << 12
_CHUNKED_BYTES = 1 << 19  # longer requests are sent in pieces, so that other calls go on meanwhile
_ACCOUNT = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}


@dataclass
class _Reception:
    """What the endpoint has made of a role's requests so far.

    Attributes:
        refused: Fields that it refused, left out of later requests; `system` stands for the system message.
        answered: Whether it has answered a request.
        refusals: How many requests in a row it refused with `message`.
        bounded: Whether it was said that its token counts are impossible.
    """

    refused: set[str] = field(default_factory=set)
    answered: bool = False
    refusals: int = 0
    message: str = ""
    bounded: bool = False


class _Service:
    """What all calls of one event loop to one address share: concurrency slots, circuit breaker, HTTP session."""

    def __init__(self, base_url: str, max_concurrency: int) -> None:
        import aiohttp
        import httpx2
        import yarl

        host, scheme = urlsplit(base_url).hostname or "", urlsplit(base_url).scheme
        try:
            base = yarl.URL(base_url)
            self.urls = {route: (base / route).with_query(base.query) for route in ROUTES}
        except ValueError as error:
            raise UserError(f"base_url is {base_url!r}, which is not an address ({error}); correct it.") from None
        # Loading the certificates takes longer than a call.
        tls = httpx2.create_ssl_context() if scheme == "https" else False
        self.slots = asyncio.Semaphore(max_concurrency)
        self.breaker = Breaker()
        self.receptions: defaultdict[tuple[str, str], _Reception] = defaultdict(_Reception)
        proxied = not (_is_local(host) or proxy_bypass(host))
        self.proxy = getproxies().get(scheme, getproxies().get("all")) if proxied else None
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True, ssl=tls), cookie_jar=aiohttp.DummyCookieJar()
        )
        atexit.register(self._close)

    def _close(self) -> None:
        drain()  # a script that ends by an exception has calls under way
        run(self.session.close())


_SERVICES: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, int], _Service]] = WeakKeyDictionary()


def _service(base_url: str, max_concurrency: int) -> _Service:
    services = _SERVICES.setdefault(asyncio.get_running_loop(), {})
    if (base_url, max_concurrency) not in services:
        services[base_url, max_concurrency] = _Service(base_url, max_concurrency)
    return services[base_url, max_concurrency]


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class EndpointModel:
    """One role's model at its endpoint. A `Model`.

    Models with the same address and concurrency share one queue, first come first served.

    Args:
        role: Who asks, for messages to the user.
        endpoint: Where the model is served, and how it is asked.
        prompts: Those of the run; by default the project's own.
        max_concurrency: Requests in flight, where several processes share the endpoint's `concurrency`.
    """

    route: Route = "chat/completions"
    forwards = False

    def __init__(
        self, role: str, endpoint: Endpoint, *, prompts: Prompts | None = None, max_concurrency: int | None = None
    ) -> None:
        self.role = role
        self.endpoint = endpoint
        self.prompts = prompts
        self.max_concurrency = max_concurrency or endpoint.concurrency
        self._who = f"The {role} model {endpoint.model} at {endpoint.base_url}"

    @cached_property
    def _key(self) -> str:
        """The key, read where a call is to be made: a replay reads none."""
        return read_key(self.endpoint.key_variable) if self.endpoint.key_variable else _NO_KEY

    @cached_property
    def _headers(self) -> dict[str, str]:
        # Azure's keys have a header of their own; a token of its directory (a JWT) is sent as everywhere.
        azure = "?api-version=" in self.endpoint.base_url and not self._key.startswith("eyJ")
        return {
            **({"api-key": self._key} if azure else {"Authorization": f"Bearer {self._key}"}),
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "gzip, deflate",
            "User-Agent": "beamlib",
            **{header: os.environ[name] for header, name in _ACCOUNT.items() if os.environ.get(name)},
        }

    @property
    def name(self) -> str:
        """The model's id at its endpoint."""
        return self.endpoint.model

    def check_key(self) -> None:
        """Raise a `UserError` if the key is missing or malformed. Replaying stored calls needs none."""
        variable = self.endpoint.key_variable
        if not self._key:
            raise UserError(
                f"{self._who} takes its key from the environment variable {variable}, which is not set; export it and "
                "run the same command again."
            )
        if not self._key.isascii() or not self._key.isprintable() or " " in self._key:
            raise UserError(f"{self._who}: the value of the environment variable {variable} is not a key; correct it.")

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """Build the JSON body that is sent for `prompt`. Each repeat has its own seed."""
        messages = [dict(message) for message in render(prompt.id, prompt.variables, self.prompts, prompt.turns)]
        settings = self.endpoint
        if prompt.tools and not settings.tool_calls:
            messages[-1]["content"] += f"\n\n{describe_tools(prompt.tools)}"
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
        return _without(body | settings.extra, settings.omit)

    def max_cost(self, prompt: Prompt) -> float:
        """Return the highest price of one call in US dollars, 0 if unknown. No text has more tokens than bytes."""
        body, endpoint = self.request(prompt), self.endpoint
        request_bytes = len(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
        most = request_bytes if self.route == "embeddings" else min(request_bytes, endpoint.context_window)
        return endpoint.dollars(most, 0, self._allowed_tokens(body)) or 0.0

    async def complete(self, prompt: Prompt) -> Completion:
        """Send `prompt`, with retries, and return the reply as it came.

        Raises:
            ModelError: this call has no answer.
            UserError: no call can be answered: no key, a refused key, an unknown model, no credit, an endpoint that is
                down. Neither message ever contains the key.
        """
        self.check_key()
        service = _service(self.endpoint.base_url, self.max_concurrency)
        breaker, term = service.breaker, service.breaker.term
        tries = tenacity.AsyncRetrying(
            # While the breaker is open, tries are probes on behalf of all calls and are not counted.
            stop=lambda state: state.attempt_number >= self.endpoint.attempts and not breaker.open,
            wait=lambda state: 0.0 if breaker.open else _pause(state),
            retry=tenacity.retry_if_exception_type(RetryableError),
            sleep=nap,
            reraise=True,
        )
        try:
            return await tries(self._attempt, service, term, prompt)
        except RetryableError as last:
            count = tries.statistics["attempt_number"]
            message = f"{self._who} gave no usable answer in {count} {'try' if count == 1 else 'tries'}, last: {last}"
            raise ModelError(message, Outcome.UNAVAILABLE) from None

    async def _attempt(self, service: _Service, term: int, prompt: Prompt) -> Completion:
        """Wait for a slot, and for the turn to probe while the breaker is open; then send once."""
        breaker = service.breaker
        while True:
            if breaker.open:
                async with breaker.probing:
                    breaker.check(term)
                    if breaker.open:
                        await nap(breaker.pause)
                        async with service.slots:
                            return await self._send(service, term, prompt)
            async with service.slots:
                if not breaker.open:
                    return await self._send(service, term, prompt)

    async def _send(self, service: _Service, term: int, prompt: Prompt) -> Completion:
        # The wait for a slot can be long: the endpoint may be down by now, or the run interrupted.
        service.breaker.check(term)
        if stopping():
            raise UserError("interrupted before this call was sent; run the same command again to continue.")
        reception = service.receptions[self.role, self.endpoint.model]
        while True:
            # Rendered after the wait: thousands of calls may queue, each with a long text.
            body = _without(self.request(prompt), reception.refused, rename_limits=True)
            try:
                reply = await self._post(service, term, body, tools=self.endpoint.tool_calls and bool(prompt.tools))
            except RefusedField as refusal:
                self._leave_out(refusal, body, reception.refused, service.breaker)
            except ModelError as error:
                if error.outcome is Outcome.REFUSED and not reception.answered:
                    self._count_refusal(service.breaker, reception, str(error))
                raise
            else:
                reception.answered = True
                return reply

    def _with_possible_usage(self, reply: Completion, body: Mapping[str, Any], sent: int, received: int) -> Completion:
        """Bound token counts by the bytes sent and by the reply's limit: no text has more tokens than bytes."""
        usage, limited = reply.usage, any(isinstance(body.get(name), int) for name in LIMITS)
        window = max(self.endpoint.context_window, received)
        most_in, most_out = sent + _TEMPLATE_TOKENS, max(self._allowed_tokens(body), received) if limited else window
        # Where reasoning stands beside the completion, the limit is the completion's alone.
        if usage.input_tokens <= most_in and usage.output_tokens <= max(most_out, window):
            return reply
        possible = Usage(
            min(usage.input_tokens, most_in), min(usage.output_tokens, most_out), min(usage.cached_tokens, most_in)
        )
        reception = _service(self.endpoint.base_url, self.max_concurrency).receptions[self.role, self.endpoint.model]
        if not reception.bounded:
            reception.bounded = True
            print(
                f"{self._who} counts {usage.input_tokens:,} tokens in a request of {sent:,} bytes and "
                f"{usage.output_tokens:,} in its reply, which cannot be; this and every such reply of this role is "
                f"counted as what was sent and allowed, here {possible.input_tokens:,} and {possible.output_tokens:,}.",
                file=sys.stderr, flush=True,
            )  # fmt: skip
        return replace(reply, usage=possible)

    def _allowed_tokens(self, body: Mapping[str, Any]) -> int:
        """Return the most tokens that all replies to a request may have."""
        limits = [body[name] for name in LIMITS if isinstance(body.get(name), int)]
        reply = min(limits, default=min(self.endpoint.context_window, UNLIMITED_TOKENS))
        return reply * (body["n"] if isinstance(body.get("n"), int) else 1)

    def _leave_out(self, refusal: RefusedField, body: Mapping[str, Any], refused: set[str], breaker: Breaker) -> None:
        """Leave the refused fields out of this role's requests from now on.

        The keys of stored calls keep them: a key must be known without the endpoint, or nothing could be replayed.
        """
        fields = set(refusal.fields)
        if fields & {"tools", "tool_choice", "max_output_tokens"} or refused & {_RENAMED.get(name) for name in fields}:
            error = field_error(str(refusal))
            breaker.end_term(str(error))
            raise error
        if new := sorted(fields - refused):
            refused.update(new)
            changes = [
                "sends the system text in the first user message" if name == "system"
                else f"sends {_RENAMED[name]} in place of {name}" if name in _RENAMED
                else f"leaves out {name} ({json.dumps(body.get(name))[:60]})"
                for name in new
            ]  # fmt: skip
            print(f"{refusal}; this run now {' and '.join(changes)} for this role.", file=sys.stderr, flush=True)

    def _count_refusal(self, breaker: Breaker, reception: _Reception, message: str) -> None:
        alike = re.sub(r"\d+", "0", message)
        reception.refusals = reception.refusals + 1 if alike == reception.message else 1
        reception.message = alike
        if reception.refusals >= _FIRST_REFUSALS:
            reception.refusals = 0
            breaker.end_term(
                f"{message}; the first {_FIRST_REFUSALS} calls of this role were all refused like this. If a field of "
                "the request is refused, leave it out by its name in the models file, for example omit: [seed], or "
                f"omit: [system] for the system message; else correct model and base_url; {CONTINUE}."
            )
            raise UserError(breaker.verdict) from None

    async def _post(self, service: _Service, term: int, body: dict[str, Any], *, tools: bool) -> Completion:
        import aiohttp

        endpoint, breaker = self.endpoint, service.breaker
        failure: RetryableError | ModelError | UserError
        reached = True
        content = json.dumps(body).encode()
        sent = len(content)
        payload = io.BytesIO(content) if sent > _CHUNKED_BYTES else content
        started = time.perf_counter()
        timeout = aiohttp.ClientTimeout(endpoint.timeout, sock_connect=min(endpoint.timeout, _CONNECT_SECONDS))
        try:
            # Redirects are not followed: the key would go along.
            async with service.session.post(
                service.urls[self.route], data=payload, headers=self._headers, timeout=timeout,
                proxy=service.proxy, allow_redirects=False,
            ) as response:  # fmt: skip
                failed = response.status >= 300
                limit = _ERROR_BYTES if failed else endpoint.reply_bytes
                content, complete = await read_at_most(response.content.iter_any(), limit)
            latency = time.perf_counter() - started
            if failed:
                # A key at the end, cut in two, would not be recognised.
                text = self._text(content if complete else content[:-_KEY_BYTES])
                raise self._status_error(response.status, response.headers, text, body)
            if not complete:
                message = f"{self._who}: its reply is longer than {limit:,} bytes, and was read no further"
                raise ModelError(message, Outcome.TOO_LONG)
            reply = self._read(content, latency, body, tools=tools)
            reply = with_own_counts(reply, body, writes=self.route != "embeddings")
            reply = self._with_possible_usage(reply, body, sent, len(content))
            breaker.record_answer()
            return reply
        except RefusedField:
            breaker.record_answer()
            raise
        except (RetryableError, ModelError, UserError) as error:
            failure = error
        except (aiohttp.ClientError, TimeoutError) as error:
            failure, reached = _connection_error(error, endpoint.timeout, self._key)
        if isinstance(failure, RetryableError) and failure.web_page:
            breaker.record_web_page(self._who, str(failure))
            breaker.check(term)
        elif isinstance(failure, RetryableError) and failure.silent:
            breaker.record_silence(term, self._who, str(failure), endpoint.patience, reached=reached)
            breaker.check(term)
        else:
            breaker.record_answer()
        if isinstance(failure, UserError):
            breaker.end_term(str(failure))
        raise failure from None

    def _text(self, content: bytes) -> str:
        """Decode a body without the key, which is searched for before anything is cut off."""
        return without_key(content.decode("utf-8", "replace"), self._key)

    def _status_error(
        self, status: int, headers: Mapping[str, str], text: str, request: Mapping[str, Any]
    ) -> Exception:
        sent = [*request, *(["system"] if _has_system_message(request) else [])]
        variable = self.endpoint.key_variable
        return status_error(self._who, variable, self._key, status, headers, text, sent, forwarded=self.forwards)

    def _json(self, content: bytes, request: Mapping[str, Any]) -> dict[str, Any]:
        """Parse a reply; an error that came with status 200 is what its code says."""
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            text = self._text(content)
            shown = excerpt(text[:2_000], self._key) or "nothing"
            raise RetryableError(f"the answer is not JSON: {shown}", web_page=text.lstrip()[:1] == "<") from None
        body = body if isinstance(body, dict) else {}
        error = body.get("error") or (_first(body.get("choices")) or {}).get("error")
        code = error.get("code") if isinstance(error, dict) else None
        if str(code).isdecimal() and 400 <= int(str(code)[:4]) < 600:
            text = self._text(json.dumps({"error": error}).encode())
            raise self._status_error(int(str(code)), {}, text, request)
        return body

    def _read(self, content: bytes, latency: float, request: Mapping[str, Any], *, tools: bool) -> Completion:
        body = self._json(content, request)
        choice = _first(body.get("choices"))
        if choice is None:
            shown = error_text(self._text(content)[:100_000])[0]
            raise RetryableError(f"the answer has no choices: {excerpt(shown, self._key)}")
        reason = choice.get("finish_reason")
        reason = excerpt(reason, self._key) if isinstance(reason, str) and reason else "stop"
        if reason.casefold() in FAILED_REASONS:
            raise RetryableError(f"the reply ended with finish_reason {reason!r}")
        message = choice.get("message")
        refusal = message.get("refusal") if isinstance(message, dict) else None
        filtered = reason.casefold().startswith(FILTERED_REASONS)
        if filtered or (refusal and isinstance(refusal, str)):
            why = excerpt(refusal, self._key) if isinstance(refusal, str) else f"finish_reason {reason!r}"
            raise ModelError(f"{self._who} withheld its reply: {why}", Outcome.FILTERED)
        text = message_text(message, tools=tools) if isinstance(message, dict) else None
        if not isinstance(text, str):
            raise RetryableError("the answer contains no text")
        text = text.encode("utf-8", "replace").decode()  # unpaired surrogates cannot be stored
        return Completion(without_key(text, self._key), read_usage(body.get("usage")), latency, reason)


def forwarded_step(arm: str, route: Route) -> str:
    """Name the step that a call of an arm's memory is stored as, for example `mem0/chat`."""
    return f"{arm}/{route.partition('/')[0]}"


class ForwardingModel(EndpointModel):
    """One route of a role's endpoint for requests that other programs wrote. A `Model`.

    The prompt's variable `body` is the JSON text of a request. The role's `temperature`, `seed` and `extra` replace
    the request's. A token limit goes into the field that the endpoint takes, and the smaller of two limits applies.
    Requests for a stream are sent without it. The reply is the whole body as JSON text, with tool calls, log
    probabilities and vectors.

    A refusal of what the other program wrote fails that call alone, and ends no run.
    """

    forwards = True

    def __init__(self, role: str, endpoint: Endpoint, route: Route, *, max_concurrency: int | None = None) -> None:
        super().__init__(role, endpoint, max_concurrency=max_concurrency)
        self.route = route

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """Build the JSON body that is sent for `prompt`."""
        original = json.loads(prompt.variables["body"])
        dropped = {"stream", "stream_options", *LIMITS}
        body = {name: value for name, value in original.items() if name not in dropped}
        settings = self.endpoint
        body["model"] = settings.model
        if self.route == "embeddings":
            return _without(body | settings.extra, settings.omit)
        body.pop("temperature", None)
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        if settings.seed is not None and self.route == "chat/completions":
            body["seed"] = settings.seed + prompt.repeat
        limits = [original[name] for name in LIMITS if isinstance(original.get(name), int)]
        limits += [settings.max_output_tokens] if settings.max_output_tokens else []
        if limits:
            limit_field = settings.limit_field if self.route == "chat/completions" else "max_output_tokens"
            body[limit_field] = min(limits)
        return _without(body | settings.extra, settings.omit)

    def _leave_out(self, refusal: RefusedField, body: Mapping[str, Any], refused: set[str], breaker: Breaker) -> None:
        settings = {"temperature", "seed", "system", *LIMITS, *self.endpoint.extra}
        if not settings.issuperset(refusal.fields):
            raise ModelError(str(refusal), Outcome.REFUSED)
        super()._leave_out(refusal, body, refused, breaker)

    def _count_refusal(self, breaker: Breaker, reception: _Reception, message: str) -> None:
        """Count nothing: requests that are refused alike may all have the other program's mistake."""

    def _read(self, content: bytes, latency: float, request: Mapping[str, Any], *, tools: bool) -> Completion:
        self._json(content, request)
        text = self._text(content)
        try:
            body = parse_json(text)
        except ValueError:
            raise RetryableError(f"the answer is not JSON: {excerpt(text[:2_000], self._key) or 'nothing'}") from None
        name = {"chat/completions": "choices", "responses": "output", "embeddings": "data"}[self.route]
        items = body.get(name) if isinstance(body, dict) else None
        if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
            message = error_text(text[:100_000])[0]
            raise RetryableError(f"the answer has no {name}: {excerpt(message, self._key)}")
        reason = items[0].get("finish_reason") if self.route == "chat/completions" else None
        return Completion(
            to_json(body), read_usage(body.get("usage")), latency, reason if isinstance(reason, str) else ""
        )


def _without(body: dict[str, Any], names: Collection[str], *, rename_limits: bool = False) -> dict[str, Any]:
    """Leave fields out of a request; `system` moves the system text to the start of the first user message.

    Args:
        rename_limits: Send a token limit in its other field instead.
    """
    if not names:
        return body
    kept = {name: value for name, value in body.items() if name not in names}
    for name in _RENAMED.keys() & set(names) & body.keys() if rename_limits else ():
        kept[_RENAMED[name]] = body[name]
    messages = kept.get("messages", [])
    if "system" in names and _has_system_message(body):
        system, *rest = messages
        if rest and rest[0]["role"] == "user":
            texts = [system["content"], rest[0]["content"]]
            if all(isinstance(text, str) for text in texts):
                content: Any = "\n\n".join(texts)
            else:  # other programs may send lists of parts
                content = [part for text in texts for part in _content_parts(text)]
            kept["messages"] = [{**rest[0], "content": content}, *rest[1:]]
        else:
            kept["messages"] = [{**system, "role": "user"}, *rest]
    return kept


def _has_system_message(body: Mapping[str, Any]) -> bool:
    return (_first(body.get("messages")) or {}).get("role") == "system"


def _content_parts(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _connection_error(error: Exception, timeout: float, key: str) -> tuple[RetryableError, bool]:
    """Classify a try without an answer, and tell whether there was a connection."""
    import aiohttp

    message = excerpt(str(getattr(error, "strerror", "") or error or type(error).__name__), key)
    if isinstance(error, aiohttp.ClientConnectorError):
        return RetryableError(f"no connection ({message})", silent=True), False
    if isinstance(error, TimeoutError):
        return RetryableError(f"no answer within {timeout:g} seconds", silent=True), True
    return RetryableError(f"the connection broke ({message})", silent=True), True


def _first(choices: object) -> dict[str, Any] | None:
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


_JITTER = tenacity.wait_random_exponential(multiplier=0.5, max=60)
_THROTTLED_JITTER = tenacity.wait_random_exponential(multiplier=2, max=60)


def _pause(state: tenacity.RetryCallState) -> float:
    """Seconds until the next try: the wait that the endpoint asked for, plus a random share of a doubling bound."""
    failure = state.outcome.exception() if state.outcome else None
    wait = failure.wait if isinstance(failure, RetryableError) else None
    if wait is not None:
        return wait + _JITTER(state)
    throttled = isinstance(failure, RetryableError) and failure.throttled
    return (_THROTTLED_JITTER if throttled else _JITTER)(state)
