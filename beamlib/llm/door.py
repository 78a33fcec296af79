"""Make every model call of a run in the process that was started, on behalf of its workers (`beamlib.llm.entrance`).

This process alone holds keys, call stores, spending limit, retries and concurrency. A worker gets a token for its job,
which names the stores and models that it may ask: one that answers questions can reach no judge, nor what one replied.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSCloseCode, WSMessage, web

from beamlib.errors import UserError
from beamlib.files import sha256
from beamlib.llm.entrance import ENDED, PATH, Entrance, read_prompt, reply_fields
from beamlib.llm.model import Completion, Model, drain, run
from beamlib.llm.token_server import LOCAL, TokenServer

Models = Callable[[str], Model]
"""From the name of a model (a role, mostly) to the model, behind the call store that it was opened for."""


@dataclass(eq=False)
class _Client:
    """What one token may ask. A store and a model are opened when they are asked for."""

    names: Collection[str]
    stores: Mapping[str, Callable[[], AbstractContextManager[Models]]]
    opened: ExitStack = field(default_factory=ExitStack)
    models: dict[str, Models] = field(default_factory=dict)
    cached: dict[tuple[str, str], Model] = field(default_factory=dict)

    def model(self, store: str, name: str) -> Model:
        """Return a model behind a store; a `UserError` where the token does not name both."""
        if store not in self.stores or name not in self.names:
            raise UserError(f"{store}: this token is for other calls, and not for the model {name!r:.80}.")
        if store not in self.models:
            self.models[store] = self.opened.enter_context(self.stores[store]())
        if (store, name) not in self.cached:
            self.cached[store, name] = self.models[store](name)
        return self.cached[store, name]

    def end(self) -> None:
        """Close what was opened, and answer nothing more."""
        self.stores = {}
        self.opened.close()


class Door(TokenServer[_Client]):
    """The door: `with Door() as door:`, then `admit` for each job and `dismiss` when the job has ended.

    Leaving it by an error sends nothing more, and pending replies are stored.

    Args:
        host: The address of this machine that workers reach.
        tls: Encrypts connections that leave the machine.
        certificate: That of `tls`, as PEM.
    """

    def __init__(self, host: str = LOCAL, tls: ssl.SSLContext | None = None, certificate: str = "") -> None:
        super().__init__(host, tls)
        self._certificate = certificate
        self._answers: set[asyncio.Task[None]] = set()
        self._sockets: set[web.WebSocketResponse] = set()

    def routes(self) -> Mapping[tuple[str, str], Callable[[web.Request], Any]]:
        """Return the only route."""
        return {("GET", PATH): self._serve}

    def entrance(
        self, names: Collection[str], stores: Mapping[str, Callable[[], AbstractContextManager[Models]]]
    ) -> Entrance:
        """Admit a worker that may ask the models `names` behind `stores`."""
        return Entrance(f"{self.base_url}{PATH}", self.admit(_Client(names, stores)), self._certificate)

    def dismiss(self, entrance: Entrance) -> None:
        """End a token and close its call stores."""
        if (client := self._clients.pop(sha256(entrance.token), None)) is not None:
            client.end()

    def __exit__(self, *error: object) -> None:
        run(self._send_nothing_more())
        drain()
        for client in self._clients.values():
            client.end()
        super().__exit__(*error)

    async def _send_nothing_more(self) -> None:
        for answer in self._answers:  # a call that it has begun goes on
            answer.cancel()
        await asyncio.gather(*(socket.close(code=ENDED) for socket in self._sockets))

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        client = self.client_of(request)
        if client is None:
            return web.Response(status=401, text="This door asks for the token of a job of its run.")
        socket = web.WebSocketResponse(max_msg_size=0, compress=False)
        await socket.prepare(request)
        self._sockets.add(socket)
        try:
            async for message in socket:
                for asked in _requests(message):
                    answer = asyncio.create_task(self._answer(socket, client, asked))
                    self._answers.add(answer)
                    answer.add_done_callback(self._answers.discard)
        except (ValueError, TypeError):  # no worker of ours sends this
            await socket.close(code=WSCloseCode.INVALID_TEXT)
        finally:
            self._sockets.discard(socket)
        return socket

    async def _answer(self, socket: web.WebSocketResponse, client: _Client, asked: dict[str, Any]) -> None:
        try:
            model: Any = client.model(asked["store"], asked["role"])
            if "prompt" in asked:
                reply = await model.complete(read_prompt(asked["prompt"]))
            else:
                await model.report_reading(asked["complaint"], [read_prompt(fields) for fields in asked["prompts"]])
                reply = Completion("")
        except Exception as error:  # of any kind: who waits has to be told
            reply = error
        with suppress(ConnectionError):  # a worker that is gone has its successor ask again
            await socket.send_str(json.dumps({"id": asked["id"], **reply_fields(reply)}))


def _requests(message: WSMessage) -> list[dict[str, Any]]:
    """Read a message; a `ValueError` where it is no list of requests with numbers."""
    asked = json.loads(message.data)
    if not isinstance(asked, list) or not all(isinstance(one, dict) and "id" in one for one in asked):
        raise ValueError("no list of requests")
    return asked
