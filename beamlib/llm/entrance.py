"""Ask for calls at the door of a run (`beamlib.llm.door`), from a worker process that has neither keys nor call store.

A connection carries requests and replies as JSON, each with a number, in any order. When it breaks it is opened again
and what was not answered is asked again. The door sends no call twice, so nothing is paid for again.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

from beamlib.errors import SpendingLimit, UserError
from beamlib.llm.keys import close_process
from beamlib.llm.model import Completion, Model, ModelError, Outcome, Prompt, ToolDefinition, Usage, nap, run, stopping
from beamlib.llm.prompts import ChatTurn

PATH = "/calls"
ENDED = 4000
"""The code by which the door closes a connection for good."""
RECONNECT_SECONDS = 30.0
"""How long a lost connection is opened again."""
_PAUSE = 0.5
_MOST, _TOGETHER = 4_096, 64
"""Requests of a worker that wait at the door at a time, and that share a message: as many as texts of an embedding."""
_HEARTBEAT = 30.0  # seconds, on a connection between machines: one that is gone says nothing


@dataclass(frozen=True)
class Entrance:
    """Where and how one worker asks for calls. It can be pickled.

    Attributes:
        url: The door's address.
        token: Names the call stores and models that the worker may ask. It ends with its job.
        certificate: The door's own, as PEM; empty on this machine, where nothing is encrypted.
    """

    url: str
    token: str
    certificate: str = ""

    @contextmanager
    def open(self, store: str) -> Iterator[Callable[[str, str], Model]]:
        """Yield a function from the name of a model at the door and the name it has in records to the model."""
        close_process()  # a memory of somebody's own must not find the token in this process
        line = _Line(self, store)
        try:
            yield lambda name, shown: DoorModel(line, name, shown)
        finally:
            run(line.close())


class DoorModel:
    """A model behind the door. A `Model`."""

    def __init__(self, line: _Line, role: str, name: str) -> None:
        self.name = name
        self._line, self._role = line, role

    async def complete(self, prompt: Prompt) -> Completion:
        """Have the door answer one prompt; raise what the call ended with there."""
        return await self._line.ask({"role": self._role, "prompt": prompt_fields(prompt)})

    async def report_reading(self, complaint: str | None, prompts: Sequence[Prompt]) -> None:
        """Tell the door what was made of a reply, and of which prompts if it is unusable; raise what ends the run."""
        unusable = [] if complaint is None else [prompt_fields(prompt) for prompt in prompts]
        await self._line.ask({"role": self._role, "complaint": complaint, "prompts": unusable})


class _Line:
    """The connection of a worker for one call store."""

    def __init__(self, entrance: Entrance, store: str) -> None:
        self._entrance, self._store = entrance, store
        self._numbers = count()
        self._places = asyncio.Semaphore(_MOST)
        self._pending: dict[int, tuple[dict[str, Any], asyncio.Future[Completion]]] = {}
        self._unsent: list[int] = []
        self._news = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    async def ask(self, fields: Mapping[str, Any]) -> Completion:
        """Send a request and wait for the reply of its number."""
        async with self._places:
            number, future = next(self._numbers), asyncio.get_running_loop().create_future()
            asked = {"id": number, "store": self._store, **fields}
            self._pending[number] = asked, future
            self._unsent.append(number)
            self._news.set()
            if self._serving is None or self._serving.done():
                self._serving = asyncio.create_task(self._serve())
            try:
                reply: Completion = await future
            finally:
                del self._pending[number]
            return reply

    async def close(self) -> None:
        """Close the connection."""
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)

    async def _serve(self) -> None:
        """Keep a connection while something is asked, and tell everybody who waits when there is none any more."""
        error: Exception = UserError("the run that asked for this has ended; the same command goes on from there.")
        try:
            await self._connect()
        except Exception as problem:  # of any kind: nobody else would tell them
            error = problem
        for _, future in self._pending.values():
            if not future.done():
                future.set_exception(error)

    async def _connect(self) -> None:
        """Exchange requests and replies until the door ends that, over connections that may break.

        Raises:
            UserError: there was no connection for `RECONNECT_SECONDS`.
        """
        import aiohttp  # takes a fifth of a second, and most processes ask nobody

        context = ssl.create_default_context(cadata=self._entrance.certificate) if self._entrance.certificate else None
        if context:
            context.check_hostname = False  # it is the door's by its certificate, whatever its address
        options: dict[str, Any] = {"ssl": context, "heartbeat": _HEARTBEAT} if context else {}
        headers = {"Authorization": f"Bearer {self._entrance.token}"}
        connected = time.monotonic()
        async with aiohttp.ClientSession(headers=headers, trust_env=False) as session:
            while not stopping():
                try:
                    async with session.ws_connect(self._entrance.url, max_msg_size=0, **options) as socket:
                        await self._exchange(socket)
                        connected = time.monotonic()
                        if socket.close_code == ENDED:
                            return
                except aiohttp.WSServerHandshakeError:  # the token is nobody's any more
                    return
                except (aiohttp.ClientError, OSError) as problem:
                    if time.monotonic() - connected > RECONNECT_SECONDS:
                        where = "the process that makes the calls of this run"
                        raise UserError(f"{where} is out of reach ({problem}); run again where it can be.") from None
                await nap(_PAUSE)

    async def _exchange(self, socket: Any) -> None:
        """Send what is asked and hand out replies until the connection is closed."""
        self._unsent = sorted(self._pending)  # on another connection: what was not answered
        self._news.set()
        sending = asyncio.create_task(self._send(socket))
        try:
            async for message in socket:
                reply = json.loads(message.data)
                _, future = self._pending.get(reply.pop("id"), (None, None))
                if future is not None and not future.done():
                    settle(future, reply)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send(self, socket: Any) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(0)  # what is asked together comes in one step of the event loop
            now, self._unsent = self._unsent[:_TOGETHER], self._unsent[_TOGETHER:]
            if not self._unsent:
                self._news.clear()
            await socket.send_str(json.dumps([self._pending[number][0] for number in now if number in self._pending]))


def prompt_fields(prompt: Prompt) -> dict[str, Any]:
    """Return a prompt as JSON."""
    fields = {name: getattr(prompt, name) for name in ("id", "about", "repeat", "attempt", "complaint", "turns")}
    return {**fields, "variables": dict(prompt.variables), "tools": [asdict(tool) for tool in prompt.tools]}


def read_prompt(fields: dict[str, Any]) -> Prompt:
    """Read a prompt from JSON."""
    tools = [ToolDefinition(**{**tool, "arguments": tuple(map(tuple, tool["arguments"]))}) for tool in fields["tools"]]
    turns = tuple(ChatTurn(*turn) for turn in fields["turns"])
    return Prompt(**{**fields, "tools": tuple(tools), "turns": turns})


def reply_fields(reply: Completion | Exception) -> dict[str, Any]:
    """Return what a call ended with as JSON."""
    if isinstance(reply, Completion):
        return {"reply": asdict(reply)}
    if isinstance(reply, ModelError):
        return {"failed": str(reply), "outcome": reply.outcome, "usage": asdict(reply.usage)}
    if isinstance(reply, UserError):
        return {"ended": str(reply), "exit_code": reply.exit_code}
    return {"broken": f"{type(reply).__name__}: {reply}"}


def settle(future: asyncio.Future[Completion], fields: dict[str, Any]) -> None:
    """Set what a call ended with from JSON."""
    if "reply" in fields:
        reply = fields["reply"]
        future.set_result(Completion(**{**reply, "usage": Usage(**reply["usage"])}))
    elif "failed" in fields:
        future.set_exception(ModelError(fields["failed"], Outcome(fields["outcome"]), Usage(**fields["usage"])))
    elif "ended" in fields:
        kind = SpendingLimit if fields["exit_code"] == SpendingLimit.exit_code else UserError
        future.set_exception(kind(fields["ended"]))
    else:
        future.set_exception(RuntimeError(fields["broken"]))
