"""A memory from outside this package: a class in a file of one's own, in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, ValidationError

from beam_own.own_process import CONVERSATION, GRACE
from beamlib.data.conversations import Conversation
from beamlib.errors import UserError
from beamlib.files import sha256_of_file, to_json
from beamlib.llm.model import ModelError, Outcome, run
from beamlib.memory import RetrievedContext
from beamlib.text import WORDS, TokenCounter

LARGEST_REPLY = 16 * 2**20
"""Bytes of one recollection: four million tokens, more than any reader accepts."""
_START = 60.0
_PARTS = 100
_SHOWN = 300  # characters of what a memory says, in a reason
_TAIL = 2_000  # characters of what it prints that are kept, its last


def _parts(target: str) -> tuple[Path, str]:
    file, colon, name = target.rpartition(":")
    if not colon or not file.endswith(".py") or not name.isidentifier():
        raise UserError(f"own memory: {target!r} is not of the form file.py:Class, for example mine.py:Newest.")
    if not Path(file).is_file():
        raise UserError(f"own memory: the file {file} does not exist; give its path, for example ./mine.py:{name}.")
    return Path(file), name


def own_memory_hash(target: str) -> str:
    """Hash of the file that holds the memory, so that its answers are made again when it changes."""
    return sha256_of_file(_parts(target)[0])


def check_own_memory(target: str, seconds: float) -> None:
    """`UserError` unless the class named by `file.py:Class` can be made, within `seconds`, and has all of the protocol.

    Its file is executed, in a process of its own.
    """
    try:
        with OwnMemory(target, seconds, window=0) as memory:
            memory.begin()
    except ModelError as error:
        raise UserError(f"own memory: {target} could not be made: {error}.") from None


# An error for each of four million wrong ids, or of a million wrong parts, would take gigabytes.
_Ids = Annotated[list[int], FailFast()]


def _few(parts: object) -> object:
    if isinstance(parts, dict) and len(parts) > _PARTS:
        raise ValueError(f"more than {_PARTS} of them")
    return parts


class _Reply(BaseModel):
    """What came out of the memory's process: anything may, so nothing is taken on trust."""

    model_config = ConfigDict(extra="ignore", strict=True)

    error: str | None = None
    context: str | None = None
    message_ids: _Ids = []
    parts: Annotated[dict[str, _Ids], BeforeValidator(_few)] = {}
    gaps: int = Field(default=0, ge=0, le=1_000_000)


class OwnMemory:
    """Someone else's memory: whatever it does is a `ModelError` with a reason, and the run goes on.

    Its process begins with the first request and ends with the `with` block, with all processes that it began and did
    not take out of its group. Once it has ended, every request fails. Each may take `seconds`; making the class has a
    minute, if that is longer, since on a busy machine a process takes its time to begin. A recalled context may have
    `window` tokens by `counter`, as many as the reader accepts.
    """

    def __init__(self, target: str, seconds: float, window: int, counter: TokenCounter = WORDS) -> None:
        self._target = _parts(target)
        self._seconds, self._window, self._counter = seconds, window, counter
        self._process: _Process | None = None
        self._ids: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        """The class's."""
        return self._target[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None:
            run(self._process.end())
            if lines := self._process.printed.splitlines():
                said = "\n".join(f"  {_shown(line, _TAIL)}" for line in lines)
                print(f"What {self.name} printed last:\n{said}", file=sys.stderr)

    def begin(self) -> None:
        """Start the process and make the class."""
        self._process = _Process()
        self._ask({"method": "begin"}, max(self._seconds, _START))

    def ingest(self, conversation: Conversation) -> None:
        """Hand over a copy of the conversation."""
        self._ids = frozenset(message.id for message in conversation)
        request = {"method": "ingest", "conversation": CONVERSATION.dump_python(conversation, mode="json")}
        self._ask(request, self._seconds)

    def recall(self, question: str) -> RetrievedContext:
        """What the memory says, as far as it is a recollection of this conversation."""
        found = self._ask({"method": "recall", "question": question}, self._seconds)
        if found.context is None:
            raise ModelError(f"{self.name}: recall gave no context")
        if (tokens := self._counter.count(found.context)) > self._window:
            raise ModelError(
                f"{self.name}: recall's context has {tokens:,} tokens, and the reader accepts {self._window:,}",
                Outcome.CONTEXT_LENGTH,
            )
        parts = {part: tuple(dict.fromkeys(ids)) for part, ids in found.parts.items()}
        if not all(part.isprintable() and len(part) <= 60 for part in parts):
            raise ModelError(f"{self.name}: recall names a part that is no short text of one line")
        unknown = set(found.message_ids).union(*parts.values()) - self._ids
        if unknown:
            which = _shown(str(min(unknown)), 20)
            raise ModelError(f"{self.name}: recall names message {which}, which the conversation does not have")
        return RetrievedContext(found.context, tuple(dict.fromkeys(found.message_ids)), parts, found.gaps)

    def _ask(self, request: dict[str, Any], seconds: float) -> _Reply:
        if self._process is None:
            self.begin()
        assert self._process is not None
        try:
            line = run(self._process.exchange(self._target, to_json(request).encode() + b"\n", seconds))
            reply = _Reply.model_validate_json(line)
        except _Ended as error:
            raise ModelError(f"{self.name}: {request['method']}: {error}") from None
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ModelError(_shown(f"{self.name}: {request['method']} returned {where}: {first['msg']}")) from None
        if reply.error is not None:
            raise ModelError(_shown(f"{self.name}: {reply.error or 'an error without a reason'}"))
        return reply


def _shown(text: str, most: int = _SHOWN) -> str:
    """`text` as it can be shown: nothing that moves a cursor or turns the direction of writing, and not too long."""
    held = text if len(text) <= most else f"{text[:most]}..."
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in held)


class _Ended(Exception):
    """Why the process gives no more replies."""


class _Process:
    """The process, and the exchange of lines with it."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._printing: asyncio.Task[None] | None = None
        self._ended = ""
        self._tail = b""

    @property
    def printed(self) -> str:
        """The last of what the memory printed."""
        return self._tail.decode(errors="replace").strip()

    async def exchange(self, target: tuple[Path, str], line: bytes, seconds: float) -> bytes:
        """Send a line and wait for the line that answers it; `_Ended` where there is none, now and ever after."""
        if self._ended:
            raise _Ended(self._ended)
        reply = b""
        try:
            async with asyncio.timeout(seconds):
                process = self._process or await self._begin(target)
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write(line)
                with suppress(ConnectionError):  # it ended without listening; why is seen below
                    await process.stdin.drain()
                reply = await self._line(process.stdout)
        except TimeoutError:
            self._ended = f"it took more than {seconds:g} seconds (--memory-timeout) and was ended"
        except ValueError:
            self._ended = f"its reply has more than {LARGEST_REPLY:,} bytes, and it was ended"
        except OSError as error:
            self._ended = f"its process could not begin ({error.strerror})"
        if not reply.endswith(b"\n") and not self._ended:
            self._ended = await self._end_of_it()
        if self._ended:
            await self.end(grace=0)
            raise _Ended(self._ended)
        return reply

    async def _begin(self, target: tuple[Path, str]) -> Process:
        # A new session: Ctrl-C is not for it, and what it starts can be ended with it. -P: no module of the user's
        # folder stands in for another's; -B: nothing is left beside the user's file.
        command = [sys.executable, "-P", "-B", "-u", "-m", "beam_own.own_process", *map(str, target)]
        self._process = process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=LARGEST_REPLY, start_new_session=True
        )
        self._printing = asyncio.create_task(self._keep_tail(process))
        return process

    async def _line(self, stdout: asyncio.StreamReader) -> bytes:
        assert self._process is not None
        reading = asyncio.ensure_future(stdout.readline())
        try:
            ended = False
            while not reading.done() and not ended:  # what an ended process forked may keep the pipe open
                ended = self._process.returncode is not None
                await asyncio.wait([reading], timeout=1)
            return reading.result() if reading.done() else b""
        finally:
            reading.cancel()

    async def _keep_tail(self, process: Process) -> None:
        assert process.stderr is not None
        while piece := await process.stderr.read(65_536):
            self._tail = (self._tail + piece)[-_TAIL:]

    async def _end_of_it(self) -> str:
        assert self._process is not None
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), GRACE)
        code = self._process.returncode
        if code is None:
            return "its process closed the exchange"
        return f"its process ended ({signal.strsignal(-code) if code < 0 else f'exit code {code}'})"

    async def end(self, grace: float = GRACE) -> None:
        """End the process and its group; one that is asked nothing more gets `grace` seconds to end by itself."""
        process = self._process
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        if grace:
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), grace)
        with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group of the dead
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutError):  # a process that left the group may hold the pipes open
            await asyncio.wait_for(process.wait(), GRACE)
        if self._printing is not None:
            self._printing.cancel()
