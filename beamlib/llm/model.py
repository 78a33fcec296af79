"""Define the interface between this project and anything that answers prompts, and the event loop that calls run on.

A model has a `name` and an `await complete(prompt)`: a served language model (`beamlib.llm.client`), the offline
stand-in (`beam_offline`), or a store in front of either.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Protocol, TypeVar

from beamlib.llm.exchange import OFFLINE_NAME, REFUSALS, TRANSIENT, ModelError, Outcome, Usage
from beamlib.llm.prompts import ChatTurn, render

__all__ = [
    "OFFLINE_NAME", "REFUSALS", "SHUTDOWN_SECONDS", "TRANSIENT", "Completion", "Model", "ModelError", "ModelRoles",
    "Outcome", "Prompt", "ToolDefinition", "Usage", "attempt_all", "complete_all", "drain", "gather_all", "nap",
    "no_new_calls", "run", "stop", "stopping", "track",
]  # fmt: skip

_Value = TypeVar("_Value")


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
class Completion:
    """A model's reply. `latency` is in seconds; `finish_reason` is the endpoint's, usually one of OpenAI's.

    `answered_by` is the model that the reply names where it is not the one that was asked, and `fingerprint` the
    serving configuration that it names. `thoughts` says that it had thoughts in a field of their own. `sent` is the
    SHA-256 of the request's body where it is not the one that the prompt gives: a refused field was left out. `fresh`
    says that it was paid for now: it is not from a call store.
    """

    text: str
    usage: Usage = field(default_factory=Usage)
    latency: float = 0.0
    finish_reason: str = "stop"
    answered_by: str = ""
    fingerprint: str = ""
    thoughts: bool = False
    sent: str = ""
    fresh: bool = field(default=False, compare=False)


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
    return _stopping.is_set()


@contextmanager
def no_new_calls() -> Iterator[None]:
    """Start no call within the block; whoever asks for one gets a `UserError`."""
    _stopping.set()
    try:
        yield
    finally:
        if _deadline == math.inf:  # a notebook's cell was interrupted or failed, and the next one may call
            _stopping.clear()


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

    with no_new_calls():
        asyncio.run_coroutine_threadsafe(wait(), _loop()).result()


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
