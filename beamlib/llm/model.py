"""The contract between this project and anything that answers prompts.

A model is whatever has a `name` and an `await complete(prompt)`: a served language model (`beamlib.llm.client`), the
offline stand-in (`beam_offline`), or a store that wraps either. Nothing here knows which.
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

from beamlib.llm.chat_turns import ChatTurn
from beamlib.llm.prompts import render
from beamlib.llm.tools import ToolDefinition

Value = TypeVar("Value")

OFFLINE_NAME = "offline stand-in, not a language model"
"""What stands for the name of a model in all that rests on `beam_offline`."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt file's id and the variables that fill it. Rendered only when a model asks for `messages`.

    `about` says what the call concerns (a probe's id, `messages 4-5`) and goes into messages to the user, never into
    the request. `repeat` tells independent repeats of the same call apart. `attempt` is 1 when a call is made a second
    time because its reply could not be used; `complaint` then says why and is appended to the request. `tools` may be
    called by the reply (`beamlib.llm.tools`). `turns` are a dialogue that goes before the last message.
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
        """The same call once more, saying what was wrong with its first reply."""
        return replace(self, attempt=self.attempt + 1, complaint=complaint)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, as the endpoint reports them. It had `cached_tokens` of the `input_tokens` in a cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model said. `latency` is in seconds; `finish_reason` follows the OpenAI names."""

    text: str
    usage: Usage = field(default_factory=Usage)
    latency: float = 0.0
    finish_reason: str = "stop"


MOST_REPLY_BYTES = 32 << 20
"""Bytes that any reply may have; what an archive of calls holds of one is never longer than its reply was."""


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
    FAILED = "failed"


TRANSIENT = frozenset({Outcome.UNAVAILABLE, Outcome.REDIRECTED})
"""Outcomes that may pass: a run that records asks again, where the others are final."""


class ModelError(Exception):
    """A call that gave no usable reply. Whatever asked becomes `unscored` with this text as its reason."""

    def __init__(self, message: str, outcome: Outcome = Outcome.FAILED) -> None:
        super().__init__(message)
        self.outcome = outcome

    @property
    def reason(self) -> str:
        """The outcome and the message, for records."""
        return str(self) if self.outcome is Outcome.FAILED else f"{self.outcome}: {self}"

    @property
    def transient(self) -> bool:
        """Whether the same call may succeed later."""
        return self.outcome in TRANSIENT


class Model(Protocol):
    """Anything that completes prompts."""

    @property
    def name(self) -> str:
        """Identifies the model in manifests and table captions."""
        ...

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer one prompt, or raise `ModelError`."""
        ...


_making = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    with _making:  # `cache` alone would let threads that come at the same time make a loop each
        return _made_loop()


@cache
def _made_loop() -> asyncio.AbstractEventLoop:
    # Notebooks already run an event loop in the main thread, so ours lives in a thread of its own.
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="beamlib-models", daemon=True).start()
    return loop


PATIENCE = 25.0
"""Seconds that replies under way get to arrive when a run is ended: they are paid for. Schedulers kill after 30."""

_in_flight: set[asyncio.Task[Any]] = set()
_stopping = threading.Event()
_withdrawn: list[Callable[[], bool]] = []
_ends = math.inf


def track(task: asyncio.Task[Any]) -> None:
    """Count `task`, a call that is being paid for, among those that `drain` waits for."""
    _in_flight.add(task)
    task.add_done_callback(_in_flight.discard)


def stop() -> None:
    """Let no call start any more, for the process is about to end, `PATIENCE` seconds from now at the latest."""
    global _ends
    _stopping.set()
    _ends = min(_ends, time.monotonic() + PATIENCE)


def stopping() -> bool:
    """Whether no new call should be made."""
    return _stopping.is_set() or any(one() for one in _withdrawn)


def stop_where(withdrawn: Callable[[], bool]) -> None:
    """Let no call start either where `withdrawn` says, each time before one, that this process may not any more."""
    _withdrawn[:] = [withdrawn]


async def nap(seconds: float) -> None:
    """Sleep for `seconds`, or until no new call should be made."""
    until = time.monotonic() + seconds
    while not stopping() and (left := until - time.monotonic()) > 0:
        await asyncio.sleep(min(left, 0.2))


def drain() -> None:
    """Let no new call start until those in flight have arrived and are stored, or `PATIENCE` seconds have passed."""
    if not _in_flight:
        return
    patience = min(PATIENCE, max(0.0, _ends - time.monotonic()))

    async def arrive() -> None:
        if tasks := list(_in_flight):
            await asyncio.wait(tasks, timeout=patience)

    _stopping.set()
    try:
        asyncio.run_coroutine_threadsafe(arrive(), _loop()).result()
    finally:
        if _ends == math.inf:  # a notebook's cell was interrupted, and the next one may call
            _stopping.clear()


def run(coroutine: Coroutine[Any, Any, Value]) -> Value:
    """Run a coroutine on the package's event loop and wait for its result; works in scripts and in notebooks.

    An interrupt while waiting ends it: what was not sent stays so, and replies under way are waited for (`drain`).
    """
    future = asyncio.run_coroutine_threadsafe(coroutine, _loop())
    try:
        return future.result()
    except (KeyboardInterrupt, SystemExit):
        future.cancel()
        drain()
        raise


async def gather_all(model: Model, prompts: Sequence[Prompt]) -> list[Completion | ModelError]:
    """Answer `prompts` concurrently; in order, the completion of each or the `ModelError` it ended with.

    Requests start in the order given, so prompts that share a long prefix should stand together. A model that wants to
    bound its concurrency does so itself. Any other exception (a `UserError`: nothing can be called) is raised once all
    calls have ended: what is in flight has been paid for and still reaches the store.
    """
    done = await asyncio.gather(*(model.complete(prompt) for prompt in prompts), return_exceptions=True)
    found: list[Completion | ModelError] = []
    for reply in done:
        if isinstance(reply, BaseException) and not isinstance(reply, ModelError):
            raise reply
        found.append(reply)
    return found


def attempt_all(model: Model, prompts: Sequence[Prompt]) -> list[Completion | ModelError]:
    """`gather_all`, waited for."""
    return run(gather_all(model, prompts))


def complete_all(model: Model, prompts: Sequence[Prompt]) -> list[Completion]:
    """Answer `prompts` concurrently and return the completions in order; raises the first `ModelError`."""
    found = attempt_all(model, prompts)
    for reply in found:
        if isinstance(reply, ModelError):
            raise reply
    return [reply for reply in found if isinstance(reply, Completion)]
