"""What a memory and the reader spend, apart for reading, retrieving and answering.

Tokens are those that endpoints report; the stand-in counts its own. (Section 2.6 of the fact sheet.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from operator import add
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from beamlib.files import to_json
from beamlib.llm.model import Completion, Model, Prompt
from beamlib.llm.roles import ModelRoles
from beamlib.llm.stored_call import MOST

Stage = Literal["ingest", "retrieval", "answer"]
STAGES: tuple[Stage, ...] = get_args(Stage)


class Spent(BaseModel):
    """Calls that gave a reply, and their tokens; `cached_tokens` are those of `input_tokens` that were in a cache."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    calls: int = Field(default=0, ge=0)
    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    cached_tokens: int = Field(default=0, ge=0)

    def __add__(self, other: Spent) -> Spent:
        return Spent(**{name: value + getattr(other, name) for name, value in self})


class Meter:
    """Counts the calls of one memory on one episode by the stage it is in.

    An equal prompt counts once, as it is paid for once: a memory that reads the conversation anew at the second round
    asks again what it has asked at the first, and the call store answers.
    """

    def __init__(self) -> None:
        self.stage: Stage = "ingest"
        self.spent: dict[Stage, Spent] = {stage: Spent() for stage in STAGES}
        self._seen: set[bytes] = set()

    @contextmanager
    def at(self, stage: Stage) -> Iterator[None]:
        """Calls made within are of `stage`."""
        before, self.stage = self.stage, stage
        try:
            yield
        finally:
            self.stage = before

    def roles(self, roster: ModelRoles) -> ModelRoles:
        """The models of `roster`, counted."""
        return ModelRoles(
            reader=Metered(roster.reader, self),
            memory=Metered(roster.memory, self),
            compressor=Metered(roster.compressor, self),
            judge=Metered(roster.judge, self),
            aligner=Metered(roster.aligner, self),
            methods={name: Metered(model, self) for name, model in roster.methods.items()},
            outside={route: Metered(model, self) for route, model in roster.outside.items()},
        )

    def count(self, stage: Stage, model: str, prompt: Prompt, reply: Completion) -> None:
        """Count a reply, unless the same prompt has been counted."""
        asked = [model, prompt.id, dict(prompt.variables), prompt.repeat, prompt.attempt, prompt.complaint]
        key = hashlib.sha256(to_json(asked).encode("utf-8", "surrogatepass")).digest()
        if key not in self._seen:
            self._seen.add(key)
            usage = reply.usage
            numbers = (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
            taken, given, cached = (min(max(number, 0), MOST) for number in numbers)  # what an endpoint says is no fact
            more = Spent(calls=1, input_tokens=taken, output_tokens=given, cached_tokens=cached)
            self.spent[stage] += more


class Metered:
    """A model whose replies a meter counts."""

    def __init__(self, model: Model, meter: Meter) -> None:
        self._model, self._meter = model, meter

    @property
    def name(self) -> str:
        """The wrapped model's."""
        return self._model.name

    async def complete(self, prompt: Prompt) -> Completion:
        """The wrapped model's reply."""
        stage = self._meter.stage  # a reply that comes late belongs to the stage that asked
        reply = await self._model.complete(prompt)
        self._meter.count(stage, self.name, prompt, reply)
        return reply


def total_spent(spent: Iterable[Mapping[Stage, Spent]]) -> dict[Stage, Spent]:
    """The sum over episodes, by stage."""
    every = list(spent)
    return {stage: reduce(add, (one[stage] for one in every if stage in one), Spent()) for stage in STAGES}
