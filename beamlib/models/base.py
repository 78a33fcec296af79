"""The contract between this project and anything that answers prompts.

A model is whatever has a `name` and an `await complete(prompt)`: a served language model, the offline stand-in
(`beamlib.models.offline`), or a store that wraps either. Nothing here knows which.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from beamlib.models.prompts import render


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt file's id and the variables that fill it. Rendered only when a model asks for `messages`."""

    id: str
    variables: Mapping[str, str]

    @property
    def messages(self) -> list[dict[str, str]]:
        """Chat messages `{"role", "content"}` rendered from `prompts/<id>.md`."""
        return render(self.id, self.variables)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, by the counter that the model's `token_counter` names."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model said. `latency` is in seconds; `finish_reason` follows the OpenAI names."""

    text: str
    usage: Usage = field(default_factory=Usage)
    latency: float = 0.0
    finish_reason: str = "stop"


class ModelError(Exception):
    """A call that gave no usable reply. Whatever asked becomes `unscored` with this text as its reason."""


class Model(Protocol):
    """Anything that completes prompts."""

    @property
    def name(self) -> str:
        """Identifies the model in manifests and table captions."""
        ...

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer one prompt, or raise `ModelError`."""
        ...


@cache
def _loop() -> asyncio.AbstractEventLoop:
    # Notebooks already run an event loop in the main thread, so ours lives in a thread of its own.
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="beamlib-models", daemon=True).start()
    return loop


def complete_all(model: Model, prompts: Sequence[Prompt]) -> list[Completion]:
    """Answer `prompts` concurrently and return the completions in order; works in scripts and in notebooks.

    Raises the first `ModelError`; a model that wants to bound its concurrency does so itself.
    """

    async def gather() -> list[Completion]:
        return list(await asyncio.gather(*(model.complete(prompt) for prompt in prompts)))

    future: Future[list[Completion]] = asyncio.run_coroutine_threadsafe(gather(), _loop())
    return future.result()
