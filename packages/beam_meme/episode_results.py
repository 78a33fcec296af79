"""What a run keeps of an episode beside its answers: the contexts that the reader saw, kept files, and tokens by stage.

Texts (contexts, kept files) are stored once in `texts`, under a key made of their hash: a full context is the same for
every question of a round, and most files do not change from session to session. Tokens are those that endpoints report;
the stand-in counts its own. (Section 2.6 of the fact sheet.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from operator import add
from typing import Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    model_validator,
)

from beamlib.evaluate.records import Answer
from beamlib.files import sha256, to_json
from beamlib.llm.endpoints import EMBEDDING, Endpoint
from beamlib.llm.exchange import LARGEST_COUNT
from beamlib.llm.model import Completion, Model, ModelRoles, Prompt
from beamlib.run import READER_OF

_Stage = Literal["ingest", "maintenance", "retrieval", "answer"]
_STAGES: tuple[_Stage, ...] = get_args(_Stage)


class Spent(BaseModel):
    """Calls that gave a reply, and their tokens; `cached_tokens` are those of `input_tokens` that were in a cache."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    calls: int = Field(default=0, ge=0)
    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    cached_tokens: int = Field(default=0, ge=0)

    def __add__(self, other: Spent) -> Spent:
        return Spent(**{name: value + getattr(other, name) for name, value in self})


Spending = Mapping[_Stage, Mapping[str, Spent]]
"""What was spent by stage and role of the models file."""


def by_stage(spending: Spending) -> dict[_Stage, Spent]:
    """Sum over roles."""
    return {stage: reduce(add, roles.values(), Spent()) for stage, roles in spending.items()}


class Meter:
    """Counts the calls of one memory on one episode by the stage it is in.

    An equal prompt counts once, as it is paid for once: a memory that reads the conversation anew at the second round
    asks again what it has asked at the first, and the call store answers.
    """

    def __init__(self) -> None:
        self.stage: _Stage = "ingest"
        self.spending: dict[_Stage, dict[str, Spent]] = {stage: {} for stage in _STAGES}
        self._seen: set[bytes] = set()

    @property
    def spent(self) -> dict[_Stage, Spent]:
        """The sums over roles."""
        return by_stage(self.spending)

    @contextmanager
    def at(self, stage: _Stage) -> Iterator[None]:
        """Calls made within are of `stage`."""
        before, self.stage = self.stage, stage
        try:
            yield
        finally:
            self.stage = before

    def roles(self, roster: ModelRoles) -> ModelRoles:
        """The models of `roster`, counted."""
        return ModelRoles(
            **{
                role: Metered(getattr(roster, role), self, role)
                for role in ("reader", "memory", "compressor", "judge", "aligner")
            },
            methods={name: Metered(model, self, f"{READER_OF}{name}") for name, model in roster.methods.items()},
            outside={
                route: Metered(model, self, EMBEDDING if "embedding" in route else "memory")
                for route, model in roster.outside.items()
            },
            embedding=Metered(roster.embedding, self, EMBEDDING) if roster.embedding else None,
        )

    def count(self, stage: _Stage, role: str, model: str, prompt: Prompt, reply: Completion) -> None:
        """Count a reply, unless the same prompt has been counted."""
        asked = [model, prompt.id, dict(prompt.variables), prompt.repeat, prompt.attempt, prompt.complaint]
        key = hashlib.sha256(to_json(asked).encode("utf-8", "surrogatepass")).digest()
        if key not in self._seen:
            self._seen.add(key)
            usage = reply.usage
            numbers = (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
            taken, given, cached = (
                min(max(number, 0), LARGEST_COUNT) for number in numbers
            )  # what an endpoint says is no fact
            more = Spent(calls=1, input_tokens=taken, output_tokens=given, cached_tokens=cached)
            self.spending[stage][role] = self.spending[stage].get(role, Spent()) + more


class Metered:
    """A model whose replies a meter counts."""

    def __init__(self, model: Model, meter: Meter, role: str) -> None:
        self._model, self._meter, self._role = model, meter, role

    @property
    def name(self) -> str:
        """The wrapped model's."""
        return self._model.name

    async def complete(self, prompt: Prompt) -> Completion:
        """The wrapped model's reply."""
        stage = self._meter.stage  # a reply that comes late belongs to the stage that asked
        reply = await self._model.complete(prompt)
        self._meter.count(stage, self._role, self.name, prompt, reply)
        return reply


def total_spent(spent: Iterable[Mapping[_Stage, Spent]]) -> dict[_Stage, Spent]:
    """Sum over episodes, by stage."""
    every = list(spent)
    return {stage: reduce(add, (one[stage] for one in every if stage in one), Spent()) for stage in _STAGES}


def dollars_of(spent: EpisodeContexts, prices: Mapping[str, Endpoint]) -> dict[str, float | None]:
    """Price an episode by stage; None where a price is unknown, or the record does not tell roles apart.

    Args:
        prices: The endpoint of each role whose model is the one that was called.
    """
    dollars: dict[str, float | None] = {}
    for stage in _STAGES:
        roles = spent.spending.get(stage, {})
        known = reduce(add, roles.values(), Spent()) == spent.spent.get(stage, Spent())
        parts = [
            prices[role].dollars(one.input_tokens, one.cached_tokens, one.output_tokens) if role in prices else None
            for role, one in roles.items()
        ]
        dollars[stage] = sum(filter(None, parts)) if known and None not in parts else None
    return dollars


CONTEXTS = "contexts"
"""The part of a run's records that these are."""

MOST_KEPT = 16 << 20
"""Characters of kept files that an episode's snapshots hold; the longest wiki that is published has 128,000."""

MOST_FILES = 1_000
"""Files of one snapshot."""

_KEY = 16


class Snapshot(BaseModel):
    """What a memory kept after a session (counted from 0), as keys of texts by file name.

    `left_out` counts the files that were beyond the bounds of a record.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    session: int = Field(ge=0)
    files: dict[str, str]
    left_out: int = Field(default=0, ge=0)


class EpisodeContexts(BaseModel):
    """The record of an episode. `contexts` has the key of what the reader saw, by question id."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    conversation_id: str
    contexts: dict[str, str]
    snapshots: tuple[Snapshot, ...]
    spent: dict[_Stage, Spent]
    spending: dict[_Stage, dict[str, Spent]]  # by role
    texts: dict[str, str]

    @model_validator(mode="after")
    def _texts_exist(self) -> EpisodeContexts:
        named = [*self.contexts.values(), *(key for one in self.snapshots for key in one.files.values())]
        if missing := sorted(set(named) - self.texts.keys()):
            raise ValueError(f"texts lacks {missing[0]!r:.40}")
        return self

    def context(self, question: str) -> str:
        """What the reader saw with a question."""
        return self.texts[self.contexts[question]]

    @property
    def kept(self) -> list[dict[str, str]]:
        """What the memory kept after each session it read, as texts by file name."""
        return [{name: self.texts[key] for name, key in one.files.items()} for one in self.snapshots]


def contexts_record(
    episode: str,
    contexts: Mapping[str, str],
    snapshots: Iterable[Mapping[str, str]],
    spending: Spending,
) -> EpisodeContexts:
    """Build the record of an episode; `contexts` are texts by question id, `snapshots` texts by file name."""
    texts: dict[str, str] = {}

    def key(text: str) -> str:
        name = sha256(text)[:_KEY]
        texts[name] = text
        return name

    keys = {question: key(writable_text(text)) for question, text in contexts.items()}
    left = MOST_KEPT
    records = []
    for number, files in enumerate(snapshots):
        # Names are those that a memory gives its files, which a model may have chosen: they are keys here and no path.
        kept: dict[str, str] = {}
        for name, text in sorted((name, writable_text(text)) for name, text in files.items()):
            cost = 0 if sha256(text)[:_KEY] in texts else len(text)
            if cost <= left and len(kept) < MOST_FILES:
                left -= cost
                kept[writable_text(name)[:200]] = key(text)
        records.append(Snapshot(session=number, files=kept, left_out=len(files) - len(kept)))
    return EpisodeContexts(
        conversation_id=episode, contexts=keys, snapshots=tuple(records), spent=by_stage(spending),
        spending={stage: dict(roles) for stage, roles in spending.items()},
        texts=texts,
    )  # fmt: skip


def writable_answer(answer: Answer) -> Answer:
    """`answer` with texts that a file can hold."""
    texts = {"text": answer.text, "unscored": answer.unscored}
    return answer.model_copy(update={name: writable_text(text) for name, text in texts.items() if text is not None})


def writable_text(text: str) -> str:
    """`text` with halves of surrogate pairs, which no file can hold, joined or replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
