"""Answer from the call store, and store every call that is made, so that no call is paid for twice.

A call is stored the moment its answer arrives. A run that is killed at any instant continues where it stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, Protocol

from beamlib.errors import UserError
from beamlib.files import to_json
from beamlib.llm.call_store import THIS_RUN, CallStore, StoredCall, Totals, call_key
from beamlib.llm.endpoints import Endpoint
from beamlib.llm.exchange import LARGEST_COUNT
from beamlib.llm.model import Completion, ModelError, Outcome, Prompt, Usage, stopping, track
from beamlib.llm.replay_log import Asked, is_watched, note
from beamlib.llm.spending import has_limit, reserve

__all__ = ["THIS_RUN", "CallStore", "Mode", "StoredCall", "StoredModel", "Totals", "call_key"]

Mode = Literal["replay", "record", "refresh"]


class _EndpointModel(Protocol):
    """What this module needs of `beamlib.llm.client.EndpointModel`."""

    @property
    def name(self) -> str: ...
    @property
    def endpoint(self) -> Endpoint: ...
    def request(self, prompt: Prompt) -> dict[str, Any]: ...
    def max_cost(self, prompt: Prompt) -> float: ...
    async def complete(self, prompt: Prompt) -> Completion: ...
    async def report_reading(self, complaint: str | None, resend: Callable[[], None], *, of_value: bool) -> None: ...


class StoredModel:
    """A model whose calls go through a store. A `Model`.

    A call is stored before its caller sees it, and even if the caller was cancelled. Simultaneous calls with one key
    are sent once. A call that ended in a `ModelError` is stored too and raises the same error again.

    Args:
        mode: `replay` sends nothing: a missing call is a `UserError`. `record` sends what is missing, what failed
            transiently, and once what an earlier run was refused. `refresh` sends whatever the store's run has not
            sent itself, and replaces the earlier call unless the new one fails transiently.
        command: The shell command that records missing calls, for messages.
        confirmed: Whether the user confirmed the cost. Without it, a call that would be sent is a `UserError`.

    Attributes:
        made: Calls sent.
        replayed: Calls answered from the store.
    """

    def __init__(
        self,
        model: _EndpointModel,
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
        """Return the stored reply or that of a call sent now.

        Raises:
            ModelError: the call ended without a usable reply.
            UserError: a call would have to be sent and may not be.
        """
        request = self.model.request(prompt)
        key = self._key(prompt, request)
        flight = (asyncio.get_running_loop(), key)
        task = self.store.in_flight.get(flight)
        if task is None:
            stored = self._stored(key)
            if self.mode == "replay" and is_watched(self.store.path):
                self._note(
                    Asked(fields=self._facts(key, prompt), characters=len(to_json(request)), stored=bool(stored))
                )
            if stored is None:
                self._check_permission(prompt)
                if self.store.claim():  # another run may have recorded the call until now
                    stored = self._stored(key)
            if stored is not None:
                self.replayed += 1
                return stored.completion()
            task = asyncio.create_task(self._call(key, prompt))
            track(task)
            self.store.in_flight[flight] = task
            task.add_done_callback(lambda done: self._on_done(flight, done))
        return replace((await asyncio.shield(task)).completion(), fresh=True)

    async def report_reading(self, complaint: str | None, prompts: Sequence[Prompt], *, of_value: bool = False) -> None:
        """Report what was made of the fresh replies to one request and to its repetition with a complaint."""
        await self.model.report_reading(complaint, partial(self._resend, prompts), of_value=of_value)

    def _resend(self, prompts: Sequence[Prompt]) -> None:
        """Have the next recording run send calls again, by making their replies failures that keep text and cost.

        A store that is closed belongs to finished records, which rest on these replies.
        """
        for prompt in prompts if self.store.recording else ():
            call = self.store.get(self._key(prompt, self.model.request(prompt)))
            if call and call.text is not None:
                message = f"the run ended for replies like this one: {call.text}"
                self.store.put(call.model_copy(update={"text": None, "outcome": Outcome.UNUSABLE, "message": message}))

    def _key(self, prompt: Prompt, request: dict[str, Any]) -> str:
        return call_key(request, self.model.endpoint.base_url, prompt.repeat)

    def _stored(self, key: str) -> StoredCall | None:
        call = self.store.get(key, of_run=self.mode == "refresh")
        if call is None or self.mode == "replay":
            return call
        # Replies without text, of a role that has never given any, are as good as refused.
        useless = call.refused or (not (call.text or call.outcome) and not self.store.has_text(call.role, call.model))
        refused_before = useless and self.store.get(key, of_run=True) is None
        return None if call.transient or refused_before else call

    def _note(self, asked: Asked) -> None:
        """Note what is asked; a missing call fails alone, so that a verification finds all that are missing."""
        note(self.store.path, asked)
        if not asked.stored:
            raise ModelError("the call is not stored")

    def _check_permission(self, prompt: Prompt) -> None:
        place = f"conversation {self.conversation}, step {prompt.id}, {prompt.about or self.role}"
        if self.mode == "replay":
            raise UserError(f"{self.store.path}: {place}: the call is not stored; to record it, run: {self.command}")
        if stopping():
            raise UserError(f"{place}: interrupted; run the same command again to continue.")
        if not self.confirmed:
            raise UserError(
                f"{place}: would be called, and nothing is called before confirm_cost is true (or --yes). This command "
                f"calls it; without --yes it first prints the estimated cost: {self.command}"
            )

    async def _call(self, key: str, prompt: Prompt) -> StoredCall:
        self.made += 1
        reply = await (self._send_within_limit(prompt) if has_limit() else self._send(prompt))
        earlier = self.store.get(key)
        paid = earlier.usage if earlier and (earlier.transient or earlier.refused) else Usage()
        call = self._record(key, prompt, reply, reply.usage + paid)
        if earlier is None or earlier.transient or not call.transient:
            self.store.put(call)
        return call

    async def _send_within_limit(self, prompt: Prompt) -> Completion | ModelError:
        async with reserve(f"{self.role}, {prompt.id}", self.model.max_cost(prompt)) as pay:
            reply = await self._send(prompt)
            used = reply.usage
            pay(self.model.endpoint.dollars(used.input_tokens, used.cached_tokens, used.output_tokens) or 0.0)
        return reply

    async def _send(self, prompt: Prompt) -> Completion | ModelError:
        try:
            return await self.model.complete(prompt)
        except ModelError as error:
            return error

    def _record(self, key: str, prompt: Prompt, reply: Completion | ModelError, usage: Usage) -> StoredCall:
        result: dict[str, Any]
        if isinstance(reply, ModelError):
            result = {"outcome": reply.outcome, "message": _valid_text(str(reply))}
        else:
            result = {
                "text": _valid_text(reply.text),
                "latency": reply.latency,
                "finish_reason": _valid_text(reply.finish_reason),
                "answered_by": _valid_text(reply.answered_by),
                "fingerprint": _valid_text(reply.fingerprint),
                "sent": reply.sent,
            }
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        return StoredCall(
            **self._facts(key, prompt),
            input_tokens=_valid_count(usage.input_tokens),
            output_tokens=_valid_count(usage.output_tokens),
            cached_tokens=_valid_count(usage.cached_tokens),
            estimated=usage.estimated,
            time=now,
            **result,
        )

    def _facts(self, key: str, prompt: Prompt) -> dict[str, Any]:
        """What a call says of itself that follows from the prompt and from this model."""
        return {
            "key": key, "role": self.role, "conversation": self.conversation, "step": prompt.id,
            "about": _valid_text(prompt.about), "model": self.model.name, "base_url": self.model.endpoint.base_url,
            "repeat": prompt.repeat, "attempt": prompt.attempt,
        }  # fmt: skip

    def _on_done(self, flight: tuple[asyncio.AbstractEventLoop, str], task: asyncio.Task[StoredCall]) -> None:
        del self.store.in_flight[flight]
        if not task.cancelled():
            task.exception()  # if all callers were cancelled, nobody else retrieves it


def _valid_text(text: str) -> str:
    """Join or replace surrogates, which JSON can spell and no file can contain."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _valid_count(tokens: int) -> int:
    """Clip an endpoint's token count to what can be stored: an absurd one must not lose a reply."""
    return min(max(tokens, 0), LARGEST_COUNT)
