"""Call models behind endpoints that speak OpenAI's HTTP interface: OpenAI, vLLM, Gemini's compatible address.

Requests go through the `openai` package (`beamlib.llm.transport`); what an endpoint makes of them is judged by
`beamlib.llm.reception`.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import math
import re
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import tenacity

from beamlib.errors import UserError
from beamlib.files import parse_json, sha256, to_json
from beamlib.llm.endpoints import RERANK, UNLIMITED_TOKENS, Endpoint, Route
from beamlib.llm.faults import Asker, RefusedField, RetryableError, error_text, excerpt, field_error, status_error
from beamlib.llm.keys import read_key, without_key
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt, Usage, drain, nap, run, stopping
from beamlib.llm.prompts import Prompts, render
from beamlib.llm.reception import Reception, Terms
from beamlib.llm.reply_body import (
    describe_tools,
    find_usage,
    message_text,
    other_model,
    read_count,
    read_usage,
    with_own_counts,
)
from beamlib.llm.retrying import POLICIES, is_truncated
from beamlib.llm.transport import Response, Transport

_WITHOUT_TEXT: tuple[Route, ...] = ("embeddings", RERANK)  # replies are numbers

_TEMPLATE_TOKENS = 2_000
"""What a chat template may add to the tokens of a request."""
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Request fields that limit the tokens of a reply."""
_RENAMED = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_FAILED = re.compile(r"error|abort|cancel|insufficient_system_resource", re.IGNORECASE)
"""Values of `finish_reason` of a reply that the server could not complete."""
_FILTERED = re.compile(r"filter|safety|recitation|sensitive|block|prohibited|spii|refus", re.IGNORECASE)
"""Values of `finish_reason` of a withheld reply."""
_EVENT = re.compile(r"(?:data|event|id|retry)?:")
"""How a stream of events begins: with one of its fields, or with a comment."""
_NO_KEY = "none"
_FIRST_TRIES = 2
"""Tries of a call that gets status 200 and no completion before any other was answered."""
_KEY_BYTES = 1 << 12
_LONGEST_REPLIES: dict[tuple[str, str], int] = {}
"""By address and model, the output tokens of the longest reply to this process."""


class _Slots:
    """Concurrency slots, first come first served; what is asked for again goes first, as it may end the run."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._waiting = deque[asyncio.Future[None]](), deque[asyncio.Future[None]]()

    @asynccontextmanager
    async def taken(self, prompt: Prompt) -> AsyncIterator[None]:
        """Wait for a slot, and take it within the block."""
        if self._free:
            self._free -= 1
        else:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[not prompt.attempt].append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._release()
                raise
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        for turns in self._waiting:
            while turns:
                if not (turn := turns.popleft()).done():
                    turn.set_result(None)
                    return
        self._free += 1


class _Service:
    """What all calls of one event loop to one address share: concurrency slots, terms, ledgers, HTTP clients."""

    def __init__(self, base_url: str, max_concurrency: int) -> None:
        self.transport = Transport(base_url)
        self.slots = _Slots(max_concurrency)
        self.terms = Terms()
        self._receptions: dict[tuple[str, str], Reception] = {}
        atexit.register(self._close)

    def reception(self, role: str, model: str) -> Reception:
        """Return the ledger of a role."""
        if (role, model) not in self._receptions:
            self._receptions[role, model] = Reception(self.terms)
        return self._receptions[role, model]

    def _close(self) -> None:
        drain()  # a script that ends by an exception has calls under way
        run(self.transport.close())


_SERVICES: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, int], _Service]] = WeakKeyDictionary()


@dataclass(eq=False)
class Call:
    """One call over all of its tries: where it goes, in which term it began, and what its failed tries cost."""

    prompt: Prompt
    service: _Service
    reception: Reception
    term: int
    lost: Usage = field(default_factory=Usage)

    @property
    def request(self) -> int:
        """Identify the request among those of its role; asking again after an unusable reply is the same request."""
        prompt = self.prompt
        return hash((prompt.id, tuple(sorted(prompt.variables.items())), prompt.turns, prompt.repeat))


class EndpointModel:
    """One role's model at its endpoint. A `Model`.

    Models with the same address and concurrency share one queue, first come first served.

    Args:
        role: Who asks, for messages to the user.
        endpoint: Where the model is served, and how it is asked.
        prompts: Those of the run; by default the project's own.
        unfit: The user lets it go on whatever its exam says: unusable replies end no run.
    """

    route: Route = "chat/completions"
    forwards = False

    def __init__(self, role: str, endpoint: Endpoint, *, prompts: Prompts | None = None, unfit: bool = False) -> None:
        self.role = role
        self.endpoint = endpoint
        self.prompts = prompts
        self.unfit = unfit
        self._term: int | None = None
        self._who = f"The {role} model {endpoint.model} at {endpoint.base_url}"

    @cached_property
    def _key(self) -> str:
        """The key, read where a call is to be made: a replay reads none."""
        return read_key(self.endpoint.key_variable) if self.endpoint.key_variable else _NO_KEY

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
        """Return the highest price of one call in US dollars, 0 if unknown. No text has more tokens than bytes.

        Where a reply was longer than its limit, as where reasoning stands beside it, others may be as long.
        """
        body, endpoint = self.request(prompt), self.endpoint
        request_bytes = len(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
        most = request_bytes if self.route in _WITHOUT_TEXT else min(request_bytes, endpoint.context_window)
        longest = _LONGEST_REPLIES.get((endpoint.base_url, endpoint.model), 0)
        return endpoint.dollars(most, 0, max(self._allowed_tokens(body), longest)) or 0.0

    async def complete(self, prompt: Prompt) -> Completion:
        """Send `prompt`, with retries, and return the reply as it came.

        Raises:
            ModelError: this call has no answer.
            UserError: no call can be answered (`beamlib.llm.reception`). Neither message ever contains the key.
        """
        self.check_key()
        service, reception = self._service()
        if self._term is None:
            self._term = service.terms.number
        if prompt.attempt:
            reception.check_repetition(self._term)
        call = Call(prompt, service, reception, service.terms.number)
        tries = tenacity.AsyncRetrying(
            # While the role waits, tries are probes on behalf of all its calls and are not counted.
            stop=lambda state: (
                state.attempt_number >= min(self.endpoint.attempts, _most_tries(state, reception))
                and (reception.overdue or not reception.open)
            ),
            wait=lambda state: 0.0 if reception.open else _pause(state),
            retry=tenacity.retry_if_exception_type(RetryableError),
            sleep=nap,
            reraise=True,
        )
        try:
            reply: Completion = await tries(self._attempt, call)
        except RetryableError as last:
            count = tries.statistics["attempt_number"]
            message = f"{self._who} gave no usable answer in {count} {'try' if count == 1 else 'tries'}, last: {last}"
            raise ModelError(message, Outcome.UNAVAILABLE, call.lost) from None
        except ModelError as error:
            error.usage += call.lost
            raise
        return replace(reply, usage=reply.usage + call.lost)

    async def report_reading(self, complaint: str | None, resend: Callable[[], None], *, of_value: bool) -> None:
        """Enter in the ledger what was made of a reply in the end: None where it could be used.

        Args:
            resend: Has the next run send the request again.
            of_value: It was read for what its prompt asks for. Of these, verdicts alone count: judges pass an exam.

        Raises:
            UserError: no reply to many requests in a row could be used.
        """
        if not self.unfit and (self.role == "judge" or not of_value):
            term = self._term or 0
            self._service()[1].record_reading(complaint, self._who, term, resend, of_value=of_value)

    def _service(self) -> tuple[_Service, Reception]:
        """Return what this loop's calls to the address share, and the ledger of the role."""
        services = _SERVICES.setdefault(asyncio.get_running_loop(), {})
        address = self.endpoint.base_url, self.endpoint.concurrency
        service = services.get(address) or services.setdefault(address, _Service(*address))
        return service, service.reception(self.role, self.endpoint.model)

    async def _attempt(self, call: Call) -> Completion:
        """Wait for a slot, and for the turn to probe while the role waits; then send once."""
        service, reception = call.service, call.reception
        while True:
            if reception.open:
                async with reception.probing:
                    service.terms.check(call.term)
                    if reception.open:
                        await nap(reception.pause)
                        async with service.slots.taken(call.prompt):
                            return await self._send(call)
            async with service.slots.taken(call.prompt):
                if not reception.open:
                    return await self._send(call)

    async def _send(self, call: Call) -> Completion:
        """Send once, or again at once without a refused field, and enter in the ledger what came."""
        terms, reception = call.service.terms, call.reception
        while True:
            # The wait for a slot can be long: the endpoint may be down by now, or the run interrupted.
            terms.check(call.term)
            if stopping():
                raise UserError("interrupted before this call was sent; run the same command again to continue.")
            # Rendered after the wait: thousands of calls may queue, each with a long text.
            request = self.request(call.prompt)
            body = _without(request, reception.refused, rename_limits=True)
            try:
                reply = await self._post(call, body)
            except RefusedField as refusal:
                reception.record_contact()
                try:
                    self._leave_out(refusal, body, reception.refused)
                except UserError as error:
                    self._end(call, error)
            except UserError as error:
                self._end(call, error)
            except (RetryableError, ModelError) as failure:
                terms.check(call.term)  # a try of an ended term says nothing about the next
                self._enter(call, failure)
                raise failure from None
            else:
                if call.term == terms.number:
                    self._enter_reply(call, reply)
                return reply if body == request else replace(reply, sent=sha256(to_json(body)))

    def _end(self, call: Call, error: UserError) -> NoReturn:
        """End the run: no call of this term can be answered."""
        call.service.terms.check(call.term)
        call.reception.record_contact()
        call.service.terms.end(str(error))
        raise error from None

    def _enter(self, call: Call, failure: RetryableError | ModelError) -> None:
        """Enter a failed try in the ledger of the role, which may end the run."""
        reception, asker = call.reception, self._asker(call)
        call.lost += failure.usage
        if isinstance(failure, RetryableError):
            if failure.structural and not reception.answered:
                reception.record_alike(call.request, f"{self._who}: {failure}", asker, 200)
            else:
                reception.record_passing(call.request, failure, asker, self.endpoint.patience)
        elif failure.outcome is Outcome.REDIRECTED or (
            failure.outcome is Outcome.REFUSED and self.counts_refusal(call.prompt, str(failure))
        ):
            status = re.search(r"answered with status (\d+)", str(failure))
            reception.record_alike(call.request, str(failure), asker, int(status[1]) if status else 0)
        else:  # refused for its length or content, or what another program wrote: this request alone
            reception.record_contact()

    def counts_refusal(self, prompt: Prompt, message: str) -> bool:
        """Tell whether a refusal says something about the endpoint: one of what another program wrote does not."""
        return not self.forwards

    def _enter_reply(self, call: Call, reply: Completion) -> None:
        """Enter a reply in the ledger. Only an empty one is of no use, and not where a prompt's reply may be empty."""
        policy = POLICIES.get(call.prompt.id)
        if reply.text.strip() or (policy and policy.may_be_empty and not reply.thoughts):
            call.reception.record_success()
        else:
            thoughts = " but thoughts, which stand in a field of their own" if reply.thoughts else ""
            message = f"{self._who} sends replies without text{thoughts} (finish_reason {reply.finish_reason!r})"
            call.reception.record_alike(call.request, message, self._asker(call), 200)

    def _asker(self, call: Call) -> Asker:
        return Asker(self._who, self.endpoint.key_variable, self._key, call.reception.answered)

    def _say_once(self, reception: Reception, about: str, sentence: str) -> None:
        if about not in reception.said:
            reception.said.add(about)
            print(f"{self._who} {sentence}", file=sys.stderr, flush=True)

    def _allowed_tokens(self, body: Mapping[str, Any]) -> int:
        """Return the most tokens that all replies to a request may have."""
        unlimited = min(self.endpoint.context_window, UNLIMITED_TOKENS)
        return (self._limit(body) or unlimited) * (body["n"] if isinstance(body.get("n"), int) else 1)

    def _limit(self, body: Mapping[str, Any]) -> int:
        """Return the limit of tokens that a request sets, 0 if none."""
        return min((body[name] for name in LIMITS if isinstance(body.get(name), int)), default=0)

    def _leave_out(self, refusal: RefusedField, body: Mapping[str, Any], refused: set[str]) -> None:
        """Leave the refused fields out of this role's requests from now on.

        The keys of stored calls keep them: a key must be known without the endpoint, or nothing could be replayed.
        """
        fields = set(refusal.fields)
        if fields & {"tools", "tool_choice", "max_output_tokens"} or refused & {_RENAMED.get(name) for name in fields}:
            raise field_error(str(refusal))
        if new := sorted(fields - refused):
            refused.update(new)
            changes = [
                "sends the system text in the first user message" if name == "system"
                else f"sends {_RENAMED[name]} in place of {name}" if name in _RENAMED
                else f"leaves out {name} ({json.dumps(body.get(name))[:60]})"
                for name in new
            ]  # fmt: skip
            print(f"{refusal}; this run now {' and '.join(changes)} for this role.", file=sys.stderr, flush=True)

    async def _post(self, call: Call, body: dict[str, Any]) -> Completion:
        """Send a request once and read the response."""
        endpoint, content = self.endpoint, json.dumps(body).encode()
        started = time.perf_counter()
        response = await call.service.transport.post(
            self.route, self._key, content, timeout=endpoint.timeout, reply_bytes=endpoint.reply_bytes
        )
        latency = time.perf_counter() - started
        if response.status >= 300:
            # A key at the end, cut in two, would not be recognised.
            shown = response.content if response.complete else response.content[:-_KEY_BYTES]
            raise self._status_error(call, response.status, response.headers, self._text(shown), body)
        tools = endpoint.tool_calls and bool(call.prompt.tools)
        usage = self._possible_usage(call.reception, body, len(content), len(response.content))
        if not response.complete:
            message = f"{self._who}: its reply is longer than {endpoint.reply_bytes:,} bytes, and was read no further"
            counted = with_own_counts(Completion("x" * self._allowed_tokens(body)), body).usage
            counted = replace(counted, output_tokens=self._allowed_tokens(body))
            raise ModelError(message, Outcome.TOO_LONG, usage(counted))
        try:
            reply = self._read(call, response, body, tools=tools)
        except (RetryableError, ModelError) as failure:  # what came was paid for, whatever it is good for
            if failure.usage != Usage() or (isinstance(failure, ModelError) and failure.outcome is Outcome.FILTERED):
                failure.usage = usage(with_own_counts(Completion("", failure.usage), body).usage)
            raise
        reply = with_own_counts(reply, body, writes=self.route not in _WITHOUT_TEXT)
        if reply.answered_by:
            self._say_once(call.reception, "model", f"names {reply.answered_by} as the model that answers.")
        reply = replace(reply, usage=usage(reply.usage), latency=latency)
        served = endpoint.base_url, endpoint.model
        _LONGEST_REPLIES[served] = max(_LONGEST_REPLIES.get(served, 0), reply.usage.output_tokens)
        return reply

    def _named(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return who a reply says has answered: another model than was asked, and a fingerprint."""
        fingerprint = body.get("system_fingerprint")
        return {
            "answered_by": excerpt(other_model(self.endpoint.model, body.get("model")), self._key),
            "fingerprint": excerpt(fingerprint, self._key) if isinstance(fingerprint, str) else "",
        }

    def _possible_usage(
        self, reception: Reception, body: Mapping[str, Any], sent: int, received: int
    ) -> Callable[[Usage], Usage]:
        """Return a function that bounds token counts by the bytes sent and by what a reply may have.

        No text has more tokens than bytes. Where reasoning stands beside the completion, the limit is the completion's
        alone, so a reply may have as many tokens as the window.
        """
        limited = any(isinstance(body.get(name), int) for name in LIMITS)
        window = max(self.endpoint.context_window, received)
        most_in, most_out = sent + _TEMPLATE_TOKENS, max(self._allowed_tokens(body), received) if limited else window

        def bounded(usage: Usage) -> Usage:
            if usage.input_tokens <= most_in and usage.output_tokens <= max(most_out, window):
                return usage
            possible = replace(
                usage,
                input_tokens=min(usage.input_tokens, most_in),
                output_tokens=min(usage.output_tokens, most_out),
                cached_tokens=min(usage.cached_tokens, most_in),
            )
            self._say_once(
                reception,
                "counts",
                f"counts {usage.input_tokens:,} tokens in a request of {sent:,} bytes and {usage.output_tokens:,} in "
                "its reply, which cannot be; this and every such reply of this role is counted as what was sent and "
                f"allowed, here {possible.input_tokens:,} and {possible.output_tokens:,}.",
            )
            return possible

        return bounded

    def _text(self, content: bytes) -> str:
        """Decode a body without the key, which is searched for before anything is cut off."""
        return without_key(content.decode("utf-8", "replace"), self._key)

    def _status_error(
        self, call: Call, status: int, headers: Mapping[str, str], text: str, request: Mapping[str, Any]
    ) -> Exception:
        sent = [*request, *(["system"] if _has_system_message(request) else [])]
        asker = self._asker(call)
        if call.service.transport.via and (status == 407 or status >= 502):
            asker = replace(asker, name=f"{asker.name}{call.service.transport.via}")
        return status_error(asker, status, headers, text, sent)

    def _json(self, call: Call, response: Response, request: Mapping[str, Any]) -> dict[str, Any]:
        """Parse a reply; an error that came with status 200 is what its code says, or no completion."""
        try:
            body = json.loads(response.content)
        except (ValueError, RecursionError):
            text = self._text(response.content).lstrip()
            kind = " but a web page" if text[:1] == "<" else " but an event-stream" if _EVENT.match(text) else ""
            shown = excerpt(text[:2_000], self._key) or "nothing"
            raise RetryableError(f"the answer is not JSON{kind}: {shown}", structural=True) from None
        body = body if isinstance(body, dict) else {}
        error = body.get("error") or (_choice(body.get("choices")) or {}).get("error")
        code = error.get("code") if isinstance(error, dict) else None
        if str(code).isdecimal() and 400 <= int(str(code)[:4]) < 600:
            text = self._text(json.dumps({"error": error}).encode())
            raise self._status_error(call, int(str(code)), response.headers, text, request)
        return body

    def _nothing(self, content: bytes, body: object, name: str) -> RetryableError:
        """Build the failure of an answer with status 200 that has no `choices` or the like, with its own words."""
        message = error_text(self._text(content)[:100_000])[0]
        usage = read_usage(find_usage(body)) if isinstance(body, dict) else Usage()
        return RetryableError(f"the answer has no {name}: {excerpt(message, self._key)}", structural=True, usage=usage)

    def _read(self, call: Call, response: Response, request: Mapping[str, Any], *, tools: bool) -> Completion:
        """Read the text of a completion. What is there counts, whatever reason to end it names but these kinds."""
        body = self._json(call, response, request)
        choice = _choice(body.get("choices"))
        if choice is None:
            raise self._nothing(response.content, body, "choices")
        usage, reason = read_usage(find_usage(body)), choice.get("finish_reason")
        reason = excerpt(reason, self._key) if isinstance(reason, str) and reason else "stop"
        if _FAILED.search(reason):
            raise RetryableError(f"the reply ended with finish_reason {reason!r}", usage=usage)
        message = choice.get("message")
        message = message if isinstance(message, dict) else {}
        refusal = message.get("refusal")
        if _FILTERED.search(reason) or (refusal and isinstance(refusal, str)):
            why = excerpt(refusal, self._key) if isinstance(refusal, str) else f"finish_reason {reason!r}"
            raise ModelError(f"{self._who} withheld its reply: {why}", Outcome.FILTERED, usage)
        text = message_text(message, tools=tools) if message else None
        if not isinstance(text, str):
            raise RetryableError("the answer contains no text", structural=True, usage=usage)
        if 0 < usage.output_tokens == self._limit(request) and not is_truncated(reason):
            self._say_once(
                call.reception,
                "limit",
                f"ends replies at the limit of {usage.output_tokens:,} tokens with finish_reason {reason!r}; such "
                "replies count as cut off.",
            )
            reason = "length"
        text = text.encode("utf-8", "replace").decode()  # unpaired surrogates cannot be stored
        thoughts = any(message.get(name) for name in ("reasoning_content", "reasoning"))
        text = without_key(text, self._key)
        return Completion(text, usage, 0.0, reason, **self._named(body), thoughts=thoughts)


class ForwardingModel(EndpointModel):
    """One route of a role's endpoint for requests that other programs wrote. A `Model`.

    The prompt's variable `body` is the JSON text of a request. The role's `temperature`, `seed` and `extra` replace
    the request's. A token limit goes into the field that the endpoint takes, and the smaller of two limits applies.
    Requests for a stream are sent without it. The reply is the whole body as JSON text, with tool calls, log
    probabilities and vectors.

    A refusal of what the other program wrote fails that call alone, and ends no run.
    """

    forwards = True

    def __init__(self, role: str, endpoint: Endpoint, route: Route) -> None:
        super().__init__(role, endpoint)
        self.route = route

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """Build the JSON body that is sent for `prompt`."""
        original = json.loads(prompt.variables["body"])
        dropped = {"stream", "stream_options", *LIMITS}
        body = {name: value for name, value in original.items() if name not in dropped}
        settings = self.endpoint
        body["model"] = settings.model
        if self.route in _WITHOUT_TEXT:
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

    def _leave_out(self, refusal: RefusedField, body: Mapping[str, Any], refused: set[str]) -> None:
        settings = {"temperature", "seed", "system", *LIMITS, *self.endpoint.extra}
        if not settings.issuperset(refusal.fields):
            raise ModelError(str(refusal), Outcome.REFUSED)
        super()._leave_out(refusal, body, refused)

    def _read(self, call: Call, response: Response, request: Mapping[str, Any], *, tools: bool) -> Completion:
        self._json(call, response, request)
        text = self._text(response.content)
        try:
            body = parse_json(text)
        except ValueError:
            shown = excerpt(text[:2_000], self._key) or "nothing"
            raise RetryableError(f"the answer is not JSON: {shown}", structural=True) from None
        name = {"responses": "output", "embeddings": "data", "rerank": "results"}.get(self.route, "choices")
        items = body.get(name) if isinstance(body, dict) else None
        if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
            raise self._nothing(response.content, body, name)
        choice = _choice(items) if self.route == "chat/completions" else None
        reason = choice.get("finish_reason") if choice else None
        reason = reason if isinstance(reason, str) else ""
        return Completion(to_json(body), read_usage(find_usage(body)), 0.0, reason, **self._named(body))


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


def _first(items: object) -> dict[str, Any] | None:
    return items[0] if isinstance(items, list) and items and isinstance(items[0], dict) else None


def _choice(choices: object) -> dict[str, Any] | None:
    """Return the choice of the lowest index, whatever the order; without indexes it is the first."""
    if not isinstance(choices, list) or not any(isinstance(choice, dict) for choice in choices):
        return None
    given = [choice for choice in choices if isinstance(choice, dict)]
    return min(given, key=lambda choice: read_count(choice.get("index")))


_JITTER = tenacity.wait_random_exponential(multiplier=0.5, max=60)
_THROTTLED_JITTER = tenacity.wait_random_exponential(multiplier=2, max=60)


def _most_tries(state: tenacity.RetryCallState, reception: Reception) -> float:
    """Return the tries that a failure is worth: an endpoint that has never answered rarely begins to after two."""
    failure = state.outcome.exception() if state.outcome else None
    structural = isinstance(failure, RetryableError) and failure.structural
    return _FIRST_TRIES if structural and not reception.answered else math.inf


def _pause(state: tenacity.RetryCallState) -> float:
    """Seconds until the next try: the wait that the endpoint asked for, plus a random share of a doubling bound."""
    failure = state.outcome.exception() if state.outcome else None
    wait = failure.wait if isinstance(failure, RetryableError) else None
    if wait is not None:
        return wait + _JITTER(state)
    throttled = isinstance(failure, RetryableError) and failure.throttled
    return (_THROTTLED_JITTER if throttled else _JITTER)(state)
