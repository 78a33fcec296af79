"""Run a memory from outside this package in its own process: a class in a file, an adapter, or any command."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import ValidationError

from beam_memories.loopback import Loopback
from beam_memories.memory_process import TAIL, Greeting, MemoryProcess, Reply, refusal, shown
from beam_memories.own_process import CONVERSATION, GRACE, PROTOCOL
from beam_memories.programs import batches, identify_memory, program
from beamlib.data.conversations import Conversation
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm
from beamlib.files import make_folder, temporary_folder
from beamlib.llm.endpoints import ModelsFile
from beamlib.llm.model import ModelError, ModelRoles, Outcome, run
from beamlib.memory import RetrievedContext
from beamlib.memory.declared import kind_of
from beamlib.memory.outside import label_of, listed_memories, with_label
from beamlib.run import Run
from beamlib.settings import PLAIN_NAME
from beamlib.text import WORDS, TokenCounter

_Value = TypeVar("_Value")
_Answer = TypeVar("_Answer", Greeting, Reply)

_ELSEWHERE = ("OPENAI_", "OPENROUTER_")
_START = 60.0
_MOST_LOSSES = 4
"""Lost processes without a reply in between, after which the rest of a conversation's questions are not asked."""


def check_own_memory(target: str, seconds: float, models: ModelsFile | None = None) -> str | None:
    """Return the name that the memory `target` gives itself, if any.

    A class's file and a command are executed, in their own process. An adapter is only looked up; it needs a models
    file. A models file that has the role `embedding` must say how wide its vectors are.

    Raises:
        UserError: It does not start within `seconds`, or does not implement the protocol.
    """
    resolved = program(target)
    if models:
        _vector_width(models)
    if resolved.adapter:
        if not models:
            raise _no_models(target)
        return None
    try:
        with OwnMemory(target, seconds, window=0) as memory:
            memory.begin()
            return memory.called
    except ModelError as error:
        raise UserError(f"own memory: {target} could not be made: {error}.") from None


def greeted_name(target: str) -> str | None:
    """Return the name that a memory gives itself, asked of its process once; None where it has none or cannot start."""
    try:
        return _greeted_name(target, identify_memory(target)[0])
    except UserError:
        return None


@cache
def _greeted_name(target: str, code: str) -> str | None:
    return check_own_memory(target, _START)


def available_memories(memory: str, seconds: float, models: ModelsFile | None = None, *, alone: bool = True) -> str:
    """Check the memories of `own_memory`, print why one of several cannot run, and return the others.

    One that gives itself a name comes with it, so that nobody has to ask its process again.

    Raises:
        UserError: None of them can run and there is nothing else to run (`alone`); see `check_own_memory`.
    """
    available, errors = [], []
    for target in listed_memories(memory):
        try:
            called = None
            if kind_of(target).outside or not kind_of(target).name:
                called = check_own_memory(target, seconds, models)
            available.append(with_label(target, label_of(memory) or called))
        except UserError as error:
            errors.append(error)
    if errors and alone and not available:
        raise errors[0]
    for reason in errors:
        print(f"Left out: {reason}")
    return ",".join(available)


def _no_models(target: str) -> UserError:
    return UserError(
        f"--memory {target}: it has a language model find what it keeps, and the offline stand-in is none; name "
        "models with --models or --base-url."
    )


def _vector_width(models: ModelsFile) -> int:
    """Return `embedding.dimensions` of a models file, 0 if it has no such role."""
    role = models.embedding
    if role is not None and role.dimensions is None:
        raise UserError(
            f"{models.origin}: 'embedding.dimensions' is missing; add how many numbers a vector of {role.model} has, "
            "which memories from outside this package need before the first vector."
        )
    return (role and role.dimensions) or 0


@contextmanager
def open_memory(arm: Arm, parameters: Run, roster: ModelRoles) -> Iterator[OwnMemory]:
    """Open the memory of `arm`, with an empty folder for its files and an endpoint for its calls."""
    target, place = arm.target or "", Path(parameters.run)
    with ExitStack() as stack:
        loopback, hidden = None, frozenset[str]()
        if roster.outside:
            models = parameters.models_file
            width = _vector_width(models) if models else 0
            loopback = stack.enter_context(Loopback(roster.outside, arm.name, width))
            hidden = models.key_variables if models else hidden
        elif program(target).adapter:
            raise _no_models(target)
        make_folder(place)
        folder = stack.enter_context(temporary_folder(".memory-", place))
        seconds, window = parameters.memory_timeout, parameters.context.full_context_window
        yield stack.enter_context(
            OwnMemory(
                target, seconds, window, parameters.counter, k=parameters["adapter_k"], loopback=loopback,
                folder=folder, hidden=hidden, code=parameters.identity_of(target)[0],
            )
        )  # fmt: skip


class OwnMemory:
    """A memory in its own process; whatever goes wrong becomes a `ModelError` with a reason.

    The process starts with the first request and ends with the `with` block, including processes that it started. A
    request may take `seconds`, excluding pending calls of its own; creating the class may take a minute if that is
    longer. A recalled context may have `window` tokens by `counter`. An adapter recalls `k` entries, or as many as
    it usually does where that is 0.

    A process that dies, takes too long or loses a connection raises `Outcome.LOST`. It is replaced: the new one reads
    the conversation again, its calls come from the store, and the request is repeated once.

    With a `loopback`, OPENAI_BASE_URL and OPENAI_API_KEY in its process refer to it, and the variables `hidden`, which
    hold the endpoints' keys, are removed: every call is seen. A transient failure of such a call raises a transient
    `ModelError`; a permanent one is counted in `gaps`.

    `code` is the hash that records state (`identify_memory`). A process that has begun with other code, as its file was
    edited during the run, is asked nothing: `Outcome.LOST`, too.
    """

    def __init__(
        self,
        target: str,
        seconds: float,
        window: int,
        counter: TokenCounter = WORDS,
        *,
        k: int = 0,
        loopback: Loopback | None = None,
        folder: Path | None = None,
        hidden: frozenset[str] = frozenset(),
        code: str = "",
    ) -> None:
        self._program, self._target, self._code = program(target), target, code
        self._seconds, self._window, self._counter = seconds, window, counter
        self._k, self._loopback, self._folder, self._hidden = k, loopback, folder, hidden
        self._process: MemoryProcess | None = None
        self._conversation: Conversation | None = None
        self._ids: frozenset[int] = frozenset()
        self._gaps = 0  # of the reading
        self._losses = 0  # since the last reply to `recall`
        self._loss = ""
        self.called: str | None = None

    @property
    def name(self) -> str:
        """Name of the class, the adapter or the command."""
        return self._program.name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def _end(self, grace: float = GRACE) -> None:
        process, self._process = self._process, None
        if process is not None:
            run(process.end(grace))
            if lines := process.printed.splitlines():
                output = "\n".join(f"  {shown(line, TAIL)}" for line in lines)
                print(f"What {self.name} printed last:\n{output}", file=sys.stderr)

    def begin(self) -> None:
        """Start the process and create the memory."""
        self._process = MemoryProcess(self._program, self._environment(), self._loopback)
        hello = {"method": "hello", "protocol": PROTOCOL, "folder": str(self._folder or ""), "api": self._api()}
        hello |= {"k": self._k} if self._k and self._program.adapter else {}
        greeting = self._exchange(hello, max(self._seconds, _START), Greeting)
        if greeting.protocol != PROTOCOL:
            self._discard()
            raise ModelError(f"{self.name}: {refusal(greeting.protocol)}")
        if self._code and identify_memory(self._target)[0] != self._code:
            self._discard()
            raise ModelError(f"{self.name}: its code was edited after the run began; run again", Outcome.LOST)
        self.called = greeting.name if greeting.name and re.fullmatch(PLAIN_NAME, greeting.name) else None

    def _api(self) -> dict[str, Any] | None:
        if (served := self._loopback) is None:
            return None
        return {
            "base_url": served.base_url, "api_key": served.token, "model": served.model,
            "embedding_model": served.embedding, "dimensions": served.dimensions,
        }  # fmt: skip

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in self._hidden}
        if self._loopback:
            # Whatever else would lead a client past the endpoint, a proxy too, is taken out.
            kept = {name: value for name, value in kept.items() if not name.startswith(_ELSEWHERE)}
            kept |= {"OPENAI_BASE_URL": self._loopback.base_url, "OPENAI_API_KEY": self._loopback.token}
            kept |= dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
        # The order of a set can reach a prompt, and with it the key that a call is stored under.
        return kept | {"PYTHONHASHSEED": "0"}

    def ingest(self, conversation: Conversation) -> None:
        """Send a copy of the conversation: whole to a class, in batches of messages to a program."""
        self._conversation, self._ids = conversation, frozenset(message.id for message in conversation)
        self._repeat_if_lost(self._read)

    def recall(self, question: str) -> RetrievedContext:
        """Return what the memory recalls, validated against this conversation."""
        context = self._repeat_if_lost(lambda: self._recall(question))
        self._losses = 0
        return context

    def _repeat_if_lost(self, request: Callable[[], _Value]) -> _Value:
        if self._losses >= _MOST_LOSSES:
            raise ModelError(f"{self.name}: not asked, {self._losses} processes were lost ({self._loss})", Outcome.LOST)
        try:
            return self._request(request)
        except ModelError as error:
            if error.outcome is not Outcome.LOST:
                raise
        return self._request(request)

    def _request(self, request: Callable[[], _Value]) -> _Value:
        """Make a request of a process that has read the conversation."""
        try:
            if self._process is None and self._conversation is not None and request != self._read:
                self._read()
            return request()
        except ModelError as error:
            if error.outcome is Outcome.LOST:
                self._losses, self._loss = self._losses + 1, str(error)
            raise

    def _discard(self) -> None:
        """End the process and remove its files; wait for its pending calls, which its successor finds stored."""
        self._end(grace=0)
        if self._loopback is not None:
            run(self._loopback.settle())
            self._loopback.passing = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(exist_ok=True)

    def _read(self) -> None:
        assert self._conversation is not None
        before, until = self._failed(), time.monotonic() + self._seconds - self._waited()
        if self._program.whole:
            self._ask({"method": "ingest", "conversation": CONVERSATION.dump_python(self._conversation, mode="json")})
        else:
            for messages in batches(self._conversation):
                left = until + self._waited() - time.monotonic()
                self._ask({"method": "ingest", "messages": messages}, max(0.0, left))
        self._gaps = self._failed() - before

    def _recall(self, question: str) -> RetrievedContext:
        before = self._failed()
        reply = self._ask({"method": "recall", "question": question})
        if reply.context is None:
            raise ModelError(f"{self.name}: recall gave no context")
        if (tokens := self._counter.count(reply.context)) > self._window:
            raise ModelError(
                f"{self.name}: recall's context has {tokens:,} tokens, and the reader accepts {self._window:,}",
                Outcome.CONTEXT_LENGTH,
            )
        parts = {part: tuple(dict.fromkeys(ids)) for part, ids in reply.parts.items()}
        if not all(part.isprintable() and len(part) <= 60 for part in parts):
            raise ModelError(f"{self.name}: recall names a part that is no short text of one line")
        unknown = set(reply.message_ids).union(*parts.values()) - self._ids
        if unknown:
            which = shown(str(min(unknown)), 20)
            raise ModelError(f"{self.name}: recall names message {which}, which the conversation does not have")
        gaps = reply.gaps + self._gaps + self._failed() - before
        return RetrievedContext(reply.context, tuple(dict.fromkeys(reply.message_ids)), parts, gaps)

    def _waited(self) -> float:
        return self._loopback.waited if self._loopback else 0.0

    def _failed(self) -> int:
        return self._loopback.failed if self._loopback else 0

    def _ask(self, request: dict[str, Any], seconds: float | None = None) -> Reply:
        if self._process is None:
            self.begin()
        return self._exchange(request, self._seconds if seconds is None else seconds, Reply)

    def _exchange(self, request: dict[str, Any], seconds: float, kind: type[_Answer]) -> _Answer:
        assert self._process is not None
        exchange = run(self._process.exchange(request, seconds, self._seconds))
        self._raise_failure()
        try:
            reply = kind.model_validate_json(exchange.received())
        except ModelError as error:
            self._discard()
            raise ModelError(f"{self.name}: {request['method']}: {error}", error.outcome) from None
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ModelError(shown(f"{self.name}: {request['method']} returned {where}: {first['msg']}")) from None
        if reply.error is not None:
            if reply.transient:
                self._discard()
            outcome = Outcome.LOST if reply.transient else Outcome.FAILED
            raise ModelError(shown(f"{self.name}: {reply.error or 'an error without a reason'}"), outcome)
        return reply

    def _raise_failure(self) -> None:
        """Raise the failure of a call of the memory's own, which precedes the memory's reply."""
        if self._loopback is None:
            return
        if self._loopback.fatal is not None:
            raise self._loopback.fatal
        passing, self._loopback.passing = self._loopback.passing, None
        if passing is not None:
            raise ModelError(f"{self.name}: {passing}", passing.outcome)
