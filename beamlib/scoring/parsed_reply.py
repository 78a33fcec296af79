"""Asking for a reply that has to be read: a reply that cannot be is asked for once more, then there is a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from beamlib.llm.model import Completion, Model, ModelError, Outcome, Prompt

Value = TypeVar("Value")
Other = TypeVar("Other")


@dataclass(frozen=True, slots=True)
class ParsedReply(Generic[Value]):
    """What was read, or None and the reason; `reply` is the last reply as it came, empty if none did.

    `transient` says that the same call may succeed later.
    """

    value: Value | None
    reply: str = ""
    reason: str = ""
    transient: bool = False

    @classmethod
    def failed(cls, error: ModelError, reply: str = "") -> ParsedReply[Value]:
        """No value because of `error`."""
        return cls(None, reply, error.reason or "the call failed", error.transient)


async def ask(
    model: Model, prompt: Prompt, read: Callable[[Completion], tuple[Value | None, str]]
) -> ParsedReply[Value]:
    """The value that `read` finds in the model's reply; `read` gives None and a reason where there is none.

    Then the model is asked again once, with the reason, and the second reply is the last word.
    """
    asked, reply, reason = prompt, "", ""
    try:
        for _ in range(2):
            completion = await model.complete(asked)
            reply = completion.text
            value, reason = read(completion)
            if value is not None:
                return ParsedReply(value, reply)
            asked = prompt.again(
                f"An earlier reply could not be used: {reason}. Reply in exactly the format asked for above."
            )
    except ModelError as error:
        return ParsedReply.failed(error, reply)
    return ParsedReply.failed(ModelError(reason, Outcome.UNREADABLE), reply)


async def ended(parts: Iterable[Awaitable[Value]]) -> list[Value]:
    """The results of `parts`, run concurrently, in order; the first exception once all have ended.

    What is in flight has been paid for, so an error of one part (a `UserError`: nothing can be called) cuts no other
    part short.
    """
    results: list[Value] = []
    for result in await asyncio.gather(*parts, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
        results.append(result)
    return results


async def both(first: Awaitable[Value], second: Awaitable[Other]) -> tuple[Value, Other]:
    """`ended` for two parts of different kinds."""
    one, other = await asyncio.gather(first, second, return_exceptions=True)
    if isinstance(one, BaseException):
        raise one
    if isinstance(other, BaseException):
        raise other
    return one, other
