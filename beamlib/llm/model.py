"""Define the interface between this project and anything that answers prompts, and the event loop that calls run on.

A model has a `name` and an `await complete(prompt)`: a served language model (`beamlib.llm.client`), the offline
stand-in (`beam_offline`), or a store in front of either.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from beamlib.llm.prompts import ChatTurn, render

_Value = TypeVar("_Value")

OFFLINE_NAME = "offline stand-in, not a language model"
"""The model name in everything that `beam_offline` answered."""


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool that a reply may call. Its arguments, as (name, description), are all texts."""

    name: str
    about: str
    arguments: tuple[tuple[str, str], ...] = ()

    @property
    def openai(self) -> dict[str, Any]:
        """The definition as an entry of `tools` in a request."""
        properties = {name: {"type": "string", "description": about} for name, about in self.arguments}
        parameters = {"type": "object", "properties": properties, "required": list(properties)}
        function = {"name": self.name, "description": self.about, "parameters": parameters}
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt file's id and the variables that fill it. Rendered only when a model needs its messages.

    Args:
        about: What the call concerns (a probe's id, `messages 4-5`), for messages to the user. Never sent.
        repeat: Number of this repeat among independent repeats of the same call.
        attempt: 1 when the first reply could not be used; `complaint` then says why and is appended to the request.
        tools: What the reply may call.
        turns: A dialogue that goes before the last message.
    """

    id: str
    variables: Mapping[str, str]
    about: str = ""
    repeat: int = 0
    attempt: int = 0
    complaint: str = ""
    tools: tuple[ToolDefinition, ...] = ()
    turns: tuple[ChatTurn, ...] = ()

    @property
    def messages(self) -> list[dict[str, str]]:
        """Chat messages `{"role", "content"}` rendered from `prompts/<id>.md`."""
        return render(self.id, self.variables, turns=self.turns)

    def again(self, complaint: str) -> Prompt:
        """Return the same call with a complaint about its first reply."""
        return replace(self, attempt=self.attempt + 1, complaint=complaint)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call as the endpoint counts them; `cached_tokens` are part of `input_tokens`.

    `estimated` says that the endpoint left counts out and our own counter stands in.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's reply. `latency` is in seconds; `finish_reason` is the endpoint's, usually one of OpenAI's.

    `answered_by` is the model that the reply names where it is not the one that was asked, and `fingerprint` the
    serving configuration that it names. `thoughts` says that it had thoughts in a field of their own. `sent` is the
    SHA-256 of the request's body where it is not the one that the prompt gives: a refused field was left out.
    """

    text: str
    usage: Usage = field(default_factory=Usage)
    latency: float = 0.0
    finish_reason: str = "stop"
    answered_by: str = ""
    fingerprint: str = ""
    thoughts: bool = False
    sent: str = ""


MOST_REPLY_BYTES = 32 << 20
"""The most bytes of any reply, and so of any reply in an archive of calls."""


class Outcome(StrEnum):
    """Why a call gave no usable reply. The value begins the reason that tables count and records keep."""

    TRUNCATED = "truncated"
    EMPTY = "empty reply"
    FILTERED = "content filter"
    CONTEXT_LENGTH = "context length"
    TOO_LONG = "reply too long"
    REDIRECTED = "redirected"
    UNREADABLE = "unreadable reply"
    REFUSED = "refused"
    UNAVAILABLE = "endpoint unavailable"
    LOST = "memory lost"
    FAILED = "failed"


TRANSIENT = frozenset({Outcome.UNAVAILABLE, Outcome.REDIRECTED, Outcome.LOST})
"""Outcomes of calls that may end otherwise within the run."""

REFUSALS = frozenset({Outcome.REFUSED, Outcome.CONTEXT_LENGTH})
"""Outcomes that stay until the server or its settings change: the next recording run sends these calls again, once."""


class ModelError(Exception):
    """A call without a usable reply. The answer or verdict it was for is `unscored` with this text as its reason.

    `usage` is what it cost all the same.
    """

    def __init__(self, message: str, outcome: Outcome = Outcome.FAILED, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.usage = usage or Usage()

    @property
    def reason(self) -> str:
        """The outcome and the message, for records."""
        return str(self) if self.outcome is Outcome.FAILED else f"{self.outcome}: {self}"

    @property
    def transient(self) -> bool:
        """Whether the same call may succeed later in the run."""
        return self.outcome in TRANSIENT

    @property
    def resent(self) -> bool:
        """Whether the next recording run sends the call again. Records keep it as `transient`."""
        return self.outcome in TRANSIENT | REFUSALS


class Model(Protocol):
    """Anything that completes prompts."""

    @property
    def name(self) -> str:
        """Identify the model in manifests and table captions."""
        ...

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer one prompt, or raise `ModelError`."""
        ...


@dataclass(frozen=True, slots=True)
class ModelRoles:
    """The models of a run: reader (paper section 4.1), memory and compressor (3), judge and aligner (2.4).

    `methods` are the readers of methods that the backbone is served otherwise for, by the name of the memory.
    `outside` forwards the requests of other programs, by route (`beamlib.llm.client.ForwardingModel`). `embedding`
    embeds single texts (`beamlib.llm.embedding_model`); None where no endpoint does.
    """

    reader: Model
    memory: Model
    compressor: Model
    judge: Model
    aligner: Model
    methods: Mapping[str, Model] = field(default_factory=dict)
    outside: Mapping[str, Model] = field(default_factory=dict)
    embedding: Model | None = None

    def reader_of(self, memory: str) -> Model:
        """Return the model that answers from what `memory` recalls."""
        return self.methods.get(memory, self.reader)

    @classmethod
    def of(cls, model: Model) -> ModelRoles:
        """Use one model in every role."""
        return cls(model, model, model, model, model)


SHUTDOWN_SECONDS = 25.0
"""How long pending replies may take to arrive when a run is ended: they are paid for. Schedulers kill after 30."""

_pending: set[asyncio.Task[Any]] = set()
_stopping = threading.Event()
_stop_checks: list[Callable[[], bool]] = []
_deadline = math.inf
_loop_lock = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    with _loop_lock:  # `cache` alone would let threads that come at the same time create a loop each
        return _new_loop()


@cache
def _new_loop() -> asyncio.AbstractEventLoop:
    # Notebooks already run an event loop in the main thread, so ours has its own thread.
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="beamlib-models", daemon=True).start()
    return loop


def track(task: asyncio.Task[Any]) -> None:
    """Let `drain` wait for `task`, a call that is being paid for."""
    _pending.add(task)
    task.add_done_callback(_pending.discard)


def stop() -> None:
    """Start no more calls: the process ends within `SHUTDOWN_SECONDS`."""
    global _deadline
    _stopping.set()
    _deadline = min(_deadline, time.monotonic() + SHUTDOWN_SECONDS)


def stopping() -> bool:
    """Whether no new call may start."""
    return _stopping.is_set() or any(check() for check in _stop_checks)


def stop_if(check: Callable[[], bool]) -> None:
    """Start no more calls as soon as `check` returns True. It is called before each call."""
    _stop_checks[:] = [check]


async def nap(seconds: float) -> None:
    """Sleep for `seconds`, or until no new call may start."""
    until = time.monotonic() + seconds
    while not stopping() and (left := until - time.monotonic()) > 0:
        await asyncio.sleep(min(left, 0.2))


def drain() -> None:
    """Wait until pending replies are stored, at most `SHUTDOWN_SECONDS`; no new call starts meanwhile."""
    if not _pending:
        return
    timeout = min(SHUTDOWN_SECONDS, max(0.0, _deadline - time.monotonic()))

    async def wait() -> None:
        if tasks := list(_pending):
            await asyncio.wait(tasks, timeout=timeout)

    _stopping.set()
    try:
        asyncio.run_coroutine_threadsafe(wait(), _loop()).result()
    finally:
        if _deadline == math.inf:  # a notebook's cell was interrupted, and the next one may call
            _stopping.clear()


def run(coroutine: Coroutine[Any, Any, _Value]) -> _Value:
    """Run a coroutine on the package's event loop and wait for its result, in scripts and in notebooks.

    On an interrupt, requests that were not sent are dropped and pending replies are awaited (`drain`).
    """
    future = asyncio.run_coroutine_threadsafe(coroutine, _loop())
    try:
        return future.result()
    except (KeyboardInterrupt, SystemExit):
        future.cancel()
        drain()
        raise


async def gather_all(model: Model, prompts: Sequence[Prompt]) -> list[Completion | ModelError]:
    """Answer `prompts` concurrently; return completions and `ModelError`s in order.

    Requests start in the order of `prompts`: put prompts with a common prefix next to each other. The model limits
    its own concurrency.

    Raises:
        UserError: no call can be answered. Raised once all calls have ended, so that pending replies are stored.
    """
    results = await asyncio.gather(*(model.complete(prompt) for prompt in prompts), return_exceptions=True)
    replies: list[Completion | ModelError] = []
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, ModelError):
            raise result
        replies.append(result)
    return replies


def attempt_all(model: Model, prompts: Sequence[Prompt]) -> list[Completion | ModelError]:
    """Run `gather_all` and wait for it."""
    return run(gather_all(model, prompts))


def complete_all(model: Model, prompts: Sequence[Prompt]) -> list[Completion]:
    """Answer `prompts` concurrently and return the completions in order; raise the first `ModelError`."""
    replies = attempt_all(model, prompts)
    for reply in replies:
        if isinstance(reply, ModelError):
            raise reply
    return [reply for reply in replies if isinstance(reply, Completion)]


class Basis(StrEnum):
    """Who says that a value is so. A field's type carries it: `model: Annotated[str, Basis.COMPUTED]`."""

    COMPUTED = "computed here"
    """It follows from what is sent; a replay computes it again."""
    REPORTED = "reported by the server"
    MEASURED = "measured where it was recorded"
    CLAIMED = "claimed by a publisher"


def basis_of(kind: type[BaseModel]) -> dict[str, Basis]:
    """Return the basis of each field of a record. A field that says nothing is claimed: nobody has shown it."""
    return {
        name: next((mark for mark in field.metadata if isinstance(mark, Basis)), Basis.CLAIMED)
        for name, field in kind.model_fields.items()
    }


def unverified(kind: type[BaseModel]) -> tuple[str, ...]:
    """List the fields of a record that a replay does not compute again."""
    return tuple(name for name, basis in basis_of(kind).items() if basis is not Basis.COMPUTED)
