"""A model for tests that replies by a function of the prompt and keeps what it was asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from beamlib.llm.model import Completion, ModelError, Prompt

Reply = str | ModelError


class Scripted:
    """A `Model`; `reply` is handed each prompt. `asked` are all prompts so far."""

    name = "scripted"

    def __init__(self, reply: Callable[[Prompt], Reply]) -> None:
        self._reply = reply
        self.asked: list[Prompt] = []

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt)
        reply = self._reply(prompt)
        if isinstance(reply, ModelError):
            raise reply
        return Completion(reply)


def in_turn(*replies: Reply) -> Scripted:
    """A model that gives these replies one after the other, the last again and again."""
    left = list(replies)
    return Scripted(lambda _: left.pop(0) if len(left) > 1 else left[0])


def calls(*wanted: tuple[str, dict[str, Any]]) -> str:
    """A reply that calls these tools."""
    return json.dumps({"calls": [{"tool": tool, "arguments": arguments} for tool, arguments in wanted]})
