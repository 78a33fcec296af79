"""Run a memory's process and exchange lines with it: the process protocol, version 2 (docs/memories.md).

Each request has an id, and a reply repeats it. So nothing else that the process writes, on whatever occasion, can be
taken for an answer: a line without an id is log, and a line with another id ends the process.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field

from beam_memories.loopback import Loopback
from beam_memories.own_process import GRACE, PROTOCOL
from beam_memories.programs import Program
from beamlib.errors import on_one_line
from beamlib.files import parse_json, sha256, to_json
from beamlib.llm.exchange import Exchange
from beamlib.llm.model import Outcome

LARGEST_REPLY = 16 * 2**20
"""Bytes of one recollection: four million tokens, more than any reader accepts."""
TAIL = 2_000
"""Characters of what a memory prints that are kept, its last."""
NAMELESS_SECONDS = 60.0
"""Silence after what looks like a reply but has no id, after which no reply is expected any more."""
_PARTS = 100
_SHOWN = 300  # characters of what a memory says, in a reason

# An error for each of four million wrong ids, or of a million wrong parts, would take gigabytes.
_Ids = Annotated[list[int], FailFast()]


def _few(parts: object) -> object:
    if isinstance(parts, dict) and len(parts) > _PARTS:
        raise ValueError(f"more than {_PARTS} of them")
    return parts


class Greeting(BaseModel):
    """The answer to `hello`: the version of the protocol and the memory's name, or why there will be no answers."""

    model_config = ConfigDict(extra="ignore", strict=True)

    id: str | None = None
    protocol: int = 0
    name: str | None = None
    error: str | None = None
    transient: bool = False


class Reply(BaseModel):
    """A reply to `ingest` or `recall`, validated strictly: it may be anything."""

    model_config = ConfigDict(extra="ignore", strict=True)

    id: str
    error: str | None = None
    transient: bool = False
    context: str | None = None
    message_ids: _Ids = []
    parts: Annotated[dict[str, _Ids], BeforeValidator(_few)] = {}
    gaps: int = Field(default=0, ge=0, le=1_000_000)


def shown(text: str, most: int = _SHOWN) -> str:
    """Escape what moves a cursor or changes the direction of writing, and shorten the text."""
    shortened = text if len(text) <= most else f"{text[:most]}..."
    return on_one_line(shortened)


class Ended(Exception):
    """The reason why the process gives no more replies."""

    def __init__(self, reason: str, outcome: Outcome = Outcome.LOST) -> None:
        super().__init__(reason)
        self.outcome = outcome


class _Lines:
    """Sort what a process writes to stdout: replies to the pending request, and log.

    It reads all the time, so a process that logs much is never held up. The first line that breaks the protocol
    ends the reading.

    Attributes:
        replies: The reply to the pending request, or the exception that ends the process, or None where stdout ended.
        nameless: When a line looked like a reply to the pending request but had no id (the loop's clock), or None.
        repeated: Whether the pending request's id came in what is no reply.
        log: The end of what was printed on stdout and stderr.
    """

    def __init__(self) -> None:
        self.replies: asyncio.Queue[str | Ended | None] = asyncio.Queue()
        self.nameless: float | None = None
        self.repeated = False
        self.log = b""
        self._id, self._method, self._request = "", "", b""

    def expect(self, request_id: str, method: str, request: bytes) -> None:
        """Make a request the pending one."""
        self._id, self._method, self._request = request_id, method, request
        self.nameless, self.repeated = None, False

    async def keep_log(self, stream: asyncio.StreamReader) -> None:
        """Keep the end of what comes in `stream`."""
        while piece := await stream.read(65_536):
            self._note(piece)

    async def sort(self, stdout: asyncio.StreamReader) -> None:
        """Sort all lines until stdout ends."""
        line = bytearray()
        try:
            while piece := await stdout.read(65_536):
                *ended, rest = piece.split(b"\n")
                for part in ended:
                    self._sort(bytes(line + part))
                    line.clear()
                line += rest
                self._note_id(rest)
                if len(line) > LARGEST_REPLY:
                    if line.lstrip()[:1] == b"{":
                        raise Ended(
                            f"its reply has more than {LARGEST_REPLY:,} bytes, and it was ended", Outcome.TOO_LONG
                        )
                    line[:-TAIL] = b"..."  # log, and never JSON
            if line:
                self._sort(bytes(line), whole=False)
            self.replies.put_nowait(None)
        except Ended as error:
            self.replies.put_nowait(error)

    def _note_id(self, text: bytes) -> None:
        self.repeated |= bool(self._id) and self._id.encode() in text

    def _note(self, text: bytes) -> None:
        self.log = (self.log + text)[-TAIL:]

    def _sort(self, line: bytes, *, whole: bool = True) -> None:
        """Take a line as the reply, as log, or as the end of the exchange."""
        value = _parsed(line)
        if value is None and self._id and line.lstrip()[:1] == b"{" and self._id.encode() in line and whole:
            raise Ended("its reply is no JSON that can be read")
        # What has a method is a request that the memory prints in its log; whole, if under the id that is awaited.
        answer = None if value is None or "method" in value else value
        given = None if answer is None else answer.get("id")
        if value is not None and answer is None and self._id and value.get("id") == self._id:
            request = _parsed(self._request) or {}
            if any(value.get(name) != content for name, content in request.items()):
                raise Ended(
                    f"its reply to {self._method} has a 'method', which only a request has; leave it out "
                    "(docs/memories.md)"
                )
        if self._method == "hello" and self._id and answer is not None and given in (None, self._id):
            greets = type(answer.get("protocol")) is int or given is not None
            if greets or ("error" in answer and answer.keys() <= Greeting.model_fields.keys()):
                given = self._id
        if given is None or not whole:
            self._note(line + b"\n")
            self._note_id(line)
            if self._resembles_reply(line):
                self.nameless = asyncio.get_running_loop().time()
        elif given != self._id:
            raise Ended("it answered what was not asked: a reply came twice, early, or with a wrong id")
        else:
            self._id = ""  # another line with this id is a second reply
            self.replies.put_nowait(line.decode())

    def _resembles_reply(self, line: bytes) -> bool:
        """Tell whether a line holds what would answer the pending request, had it the id and no method, alone."""
        if not self._id:
            return False
        value = _parsed(line[line.find(b"{") : line.rfind(b"}") + 1])
        if self._method == "recall":
            within = self._id.encode() in line and b'"context"' in line  # in an array, or below another field
            return within or (value is not None and "context" in value)
        return value is not None and value.keys() <= {"id", "protocol"}


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Parse a line as a JSON object; None if it is anything else."""
    try:
        value = parse_json(line.decode(), nan_as_null=True)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


class MemoryProcess:
    """The process of a memory, begun with the first request."""

    def __init__(self, program: Program, environment: Mapping[str, str], loopback: Loopback | None) -> None:
        self._program, self._environment, self._loopback = program, environment, loopback
        self._broken = loopback.ended if loopback else asyncio.Event()
        self._process: Process | None = None
        self._lines = _Lines()
        self._reading: list[asyncio.Task[None]] = []
        self._requests = 0

    @property
    def printed(self) -> str:
        """The end of what the memory printed, its log on stdout included."""
        return self._lines.log.decode(errors="replace").strip()

    async def exchange(self, request: Mapping[str, Any], seconds: float, allowed: float) -> Exchange:
        """Send a request under an id of its own, which is the exchange's key; its text is the line that repeats it.

        `seconds` remain of those `allowed` for the whole operation. Where there is no such line, the process has been
        ended, and the exchange has the outcome.
        """
        self._requests += 1
        # Known beforehand to nobody but equal in every replay, since a memory may show it to a model.
        request_id = sha256(f"{self._requests} {to_json(request)}")[:16]
        message = to_json({**request, "id": request_id})
        reply, failure = None, None
        try:
            async with asyncio.timeout(seconds) as limit:
                process = self._process or await self._begin()
                assert process.stdin is not None
                self._lines.expect(request_id, request["method"], message.encode())
                sending = asyncio.create_task(_send(process.stdin, message))  # it may end while it does not listen
                try:
                    reply = await self._reply(limit)
                finally:
                    sending.cancel()
        except TimeoutError:
            failure = Ended(f"it took more than {allowed:g} seconds (--memory-timeout) and was ended{self._hint()}")
        except Ended as error:
            failure = error
        except OSError as error:
            failure = Ended(f"its process could not begin ({error.strerror})")
        if reply is None and failure is None:
            failure = Ended(await self._end_of_it() + self._hint())
        sent = sha256(message)
        if failure is not None:
            await self.end(grace=0)
            return Exchange(key=request_id, sent=sent, outcome=failure.outcome, message=str(failure))
        return Exchange(key=request_id, sent=sent, text=reply)

    async def _begin(self) -> Process:
        # A new session: Ctrl-C is not for it, and what it starts can be ended with it.
        self._process = process = await asyncio.create_subprocess_exec(
            *self._program.command, stdin=PIPE, stdout=PIPE, stderr=PIPE,
            start_new_session=True, env=self._environment,
        )  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        readers = self._lines.sort(process.stdout), self._lines.keep_log(process.stderr)
        self._reading = [asyncio.create_task(reader) for reader in readers]
        return process

    async def _reply(self, limit: asyncio.Timeout) -> str | None:
        """Wait for the reply; None if the process, or a call of its own, has ended the exchange."""
        assert self._process is not None
        until, waited = limit.when() or 0.0, self._loopback.waited if self._loopback else 0.0
        reading = asyncio.ensure_future(self._lines.replies.get())
        broken = asyncio.ensure_future(self._broken.wait())
        try:
            ended = False
            while not reading.done() and not ended:  # what an ended process forked may keep the pipe open
                ended = self._process.returncode is not None or broken.done()
                await asyncio.wait([reading, broken], timeout=1, return_when=asyncio.FIRST_COMPLETED)
                if self._loopback:  # a call of its own takes the model's time, not the memory's
                    limit.reschedule(until + self._loopback.waited - waited)
                since = self._lines.nameless
                if since is not None and asyncio.get_running_loop().time() - since > NAMELESS_SECONDS:
                    raise Ended(f"it gave no reply{self._hint()}")
            reply = reading.result() if reading.done() else None
        finally:
            reading.cancel()
            broken.cancel()
        if isinstance(reply, Ended):
            raise reply
        return reply

    def _hint(self) -> str:
        if self._lines.nameless is None and not self._lines.repeated:
            return ""
        return (
            "; a line looked like a reply, but without the request's id on a line of its own, or with a 'method' "
            "(docs/memories.md)"
        )

    async def _end_of_it(self) -> str:
        assert self._process is not None
        if self._broken.is_set():
            return "a call of its own ended the run"
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), GRACE)
        code = self._process.returncode
        if code is None:
            return "its process closed the exchange"
        return f"its process ended ({signal.strsignal(-code) if code < 0 else f'exit code {code}'})"

    async def end(self, grace: float = GRACE) -> None:
        """End the process and its group, after `grace` seconds to exit by itself."""
        process = self._process
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        if grace:
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), grace)
        if process.returncode is None and self._program.kept:  # which ends what has left the group
            with suppress(ProcessLookupError, TimeoutError):
                process.terminate()
                await asyncio.wait_for(process.wait(), GRACE)
        with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group of the dead
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutError):  # a process that left the group may hold the pipes open
            await asyncio.wait_for(process.wait(), GRACE)
        await asyncio.wait(self._reading, timeout=0.2)  # for the last of its log
        for reading in self._reading:
            reading.cancel()


async def _send(stdin: asyncio.StreamWriter, message: str) -> None:
    stdin.write(message.encode() + b"\n")
    with suppress(ConnectionError):  # it ended without listening; why is seen by who waits for its reply
        await stdin.drain()


def refusal(protocol: int) -> str:
    """Say what a program must change that greets with another version of the protocol."""
    add = (
        'add one field to each of its replies: the request\'s "id", as it came; then greet with "protocol": 2'
        if protocol == 1 and PROTOCOL == 2
        else f'greet with "protocol": {PROTOCOL}'
    )
    return f"it speaks protocol {protocol}, and this version speaks {PROTOCOL}: {add} (docs/memories.md)"
