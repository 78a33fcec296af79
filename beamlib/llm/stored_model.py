"""The model that never pays twice: every call of a conversation is stored, and replayed from there.

A call is written the moment its answer arrives, so a run that is killed at any instant goes on where it was.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from beamlib.errors import UserError
from beamlib.llm.call_store import THIS_RUN, CallStore
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.model import Completion, ModelError, Prompt, stopping, track
from beamlib.llm.spending import is_limited, room
from beamlib.llm.stored_call import MOST, StoredCall, Totals, call_key

__all__ = ["THIS_RUN", "CallStore", "Mode", "StoredCall", "StoredModel", "Totals", "call_key"]

Mode = Literal["replay", "record", "refresh"]


class _Endpointed(Protocol):
    """What is stored: a model behind an endpoint (`beamlib.llm.client.EndpointModel`)."""

    @property
    def name(self) -> str: ...
    @property
    def endpoint(self) -> Endpoint: ...
    def request(self, prompt: Prompt) -> dict[str, Any]: ...
    def max_cost(self, prompt: Prompt) -> float: ...
    async def complete(self, prompt: Prompt) -> Completion: ...


class StoredModel:
    """A model whose calls go through a store.

    `replay` never calls: what is not held is a `UserError` that names `command`, which would record it. `record` calls
    what is missing and asks again what failed in a way that may pass. `refresh` calls everything that the store's run
    (`run_id`) has not called itself, and replaces what is held when the new answer has arrived (never by a failure that
    may pass). Without `confirmed` anything that would be called is a `UserError`.

    A call is written the moment it arrives, before anyone sees it, even if whoever asked has been cancelled: it has
    been paid for. Calls asked for at the same time under one key are made once. A call that ended in a `ModelError` is
    held as well and raises the same error again. `made` and `replayed` count calls.
    """

    def __init__(
        self,
        model: _Endpointed,
        store: CallStore,
        mode: Mode,
        *,
        role: str,
        conversation: str,
        command: str,
        confirmed: bool = True,
    ) -> None:
        self.model = model
        self.store = store
        self.mode = mode
        self.role = role
        self.conversation = conversation
        self.command = command
        self.confirmed = confirmed
        self.made = 0
        self.replayed = 0

    @property
    def name(self) -> str:
        """The wrapped model's."""
        return self.model.name

    async def complete(self, prompt: Prompt) -> Completion:
        """The held answer, or that of a call made now; raises `ModelError`, and `UserError` where it may not call."""
        key = call_key(self.model.request(prompt), self.model.endpoint.base_url, prompt.repeat)
        flight = (asyncio.get_running_loop(), key)
        task = self.store.in_flight.get(flight)
        if task is None:
            held = self._held(key)
            if held is None:
                self._may_call(prompt)
                if self.store.claim():  # only just: another run may have made the call meanwhile
                    held = self._held(key)
            if held is not None:
                self.replayed += 1
                return held.completion()
            task = asyncio.create_task(self._call(key, prompt))
            track(task)
            self.store.in_flight[flight] = task
            task.add_done_callback(lambda done: self._landed(flight, done))
        return (await asyncio.shield(task)).completion()

    def _held(self, key: str) -> StoredCall | None:
        call = self.store.get(key, of_run=self.mode == "refresh")
        again = call is not None and call.transient and self.mode != "replay"
        return None if again else call

    def _may_call(self, prompt: Prompt) -> None:
        where = f"conversation {self.conversation}, step {prompt.id}, {prompt.about or self.role}"
        if self.mode == "replay":
            raise UserError(f"{self.store.path}: {where}: the call is not stored; to record it, run: {self.command}")
        if stopping():
            raise UserError(f"{where}: interrupted; the same command goes on where this one stopped.")
        if not self.confirmed:
            raise UserError(
                f"{where}: would be called, and nothing is called before confirm_cost is true (or --yes); this command "
                f"calls it, and without --yes says first what it would cost: {self.command}"
            )

    async def _call(self, key: str, prompt: Prompt) -> StoredCall:
        self.made += 1
        reply = await (self._paid(prompt) if is_limited() else self._ask(prompt))
        call = self._record(prompt, reply)
        held = self.store.get(key) if call.transient else None
        if held is None or held.transient:
            self.store.put(key, call)
        return call

    async def _paid(self, prompt: Prompt) -> Completion | ModelError:
        """Ask where there is money left for it (`beamlib.llm.spending`)."""
        async with room(f"{self.role}, {prompt.id}", self.model.max_cost(prompt)) as pay:
            reply = await self._ask(prompt)
            if isinstance(reply, Completion):
                used = reply.usage
                pay(self.model.endpoint.dollars(used.input_tokens, used.cached_tokens, used.output_tokens))
        return reply

    async def _ask(self, prompt: Prompt) -> Completion | ModelError:
        try:
            return await self.model.complete(prompt)
        except ModelError as error:
            return error

    def _record(self, prompt: Prompt, reply: Completion | ModelError) -> StoredCall:
        ended: dict[str, Any]
        if isinstance(reply, ModelError):
            ended = {"outcome": reply.outcome, "message": _sound(str(reply))}
        else:
            ended = {
                "text": _sound(reply.text),
                "input_tokens": _bounded(reply.usage.input_tokens),
                "output_tokens": _bounded(reply.usage.output_tokens),
                "cached_tokens": _bounded(reply.usage.cached_tokens),
                "latency": reply.latency,
                "finish_reason": _sound(reply.finish_reason),
            }
        return StoredCall(
            role=self.role,
            conversation=self.conversation,
            step=prompt.id,
            about=_sound(prompt.about),
            model=self.model.name,
            base_url=self.model.endpoint.base_url,
            repeat=prompt.repeat,
            attempt=prompt.attempt,
            time=datetime.now(UTC).isoformat(timespec="microseconds"),
            **ended,
        )

    def _landed(self, flight: tuple[asyncio.AbstractEventLoop, str], task: asyncio.Task[StoredCall]) -> None:
        del self.store.in_flight[flight]
        if not task.cancelled():
            task.exception()  # where all who asked are gone, nobody else looks at it


def _sound(text: str) -> str:
    """The text with halves of surrogate pairs (which JSON can spell and no file can hold) joined or replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _bounded(tokens: int) -> int:
    """A count an endpoint reports, brought into what can be kept: a senseless one must not lose a reply."""
    return min(max(tokens, 0), MOST)
