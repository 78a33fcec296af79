"""A conversation as typed data, and the questions about it.

`Conversation -> Batch -> Turn -> Message` (paper section 2.2). A *batch* is a sub-plan, a *turn* is a main question
with everything it triggered, a *pair* is a user message and the assistant message after it. Rubrics, reference answers
and evidence are in `beamlib.data.gold`: nothing in this module can reach them, so a memory or reader that gets these
objects cannot either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

from beamlib.errors import UserError

Ability = Literal[
    "abstention",
    "contradiction_resolution",
    "event_ordering",
    "information_extraction",
    "instruction_following",
    "knowledge_update",
    "multi_session_reasoning",
    "preference_following",
    "summarization",
    "temporal_reasoning",
]
ABILITIES: tuple[Ability, ...] = get_args(Ability)
Role = Literal["user", "assistant"]
Size = Literal["100K", "500K", "1M", "10M"]
ChatVariant = Literal["full", "truncated"]
MessageKind = Literal["main_question", "answer_ai_question", "followup_question"]

NUMBER = re.compile(r"[1-9][0-9]{0,5}")
"""The directory name of a conversation: its number."""

SIZES: tuple[Size, ...] = ("100K", "500K", "1M", "10M")

FileState = Literal["released", "changed", "missing", "unknown"]
"""Whether a file of the data is the released one, byte for byte; unknown where no released hash is known."""
REVISION = "mohammadtavakoli78/BEAM at b2a3ee8"
"""The released data."""


def find_size(name: str) -> Size | None:
    """Return the tier with a name, in any case; `128K` is the paper's name of 100K."""
    return "100K" if name.upper() == "128K" else next((size for size in SIZES if name.upper() == size), None)


def parse_size(text: str) -> Size:
    """Return the tier with a name, as `find_size`; raise `UserError` if there is none."""
    size = find_size(text.strip())
    if size is None:
        raise UserError(f"{text!r} is no size of the benchmark; use one of {', '.join(SIZES)} (128K means 100K).")
    return size


@dataclass(frozen=True, slots=True)
class Marker:
    """The plan coordinates ` ->-> batch,bullet` at the end of a main question.

    `batch` and `bullets` are 1-based; `bullets` is empty if the question belongs to no bullet. `remark` is other text
    after the arrow. `variant` names the spelling (see `beamlib.data.markers`).
    """

    batch: int
    bullets: tuple[int, ...] = ()
    remark: str = ""
    variant: str = "i,j"


@dataclass(frozen=True, slots=True)
class Message:
    """A message. `id` is global in the conversation (0-based); `kind` is None for assistant messages."""

    id: int
    role: Role
    content: str
    kind: MessageKind | None = None
    marker: Marker | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """A user message and the assistant message that answers it: the unit of indexing and retrieval."""

    user: Message
    assistant: Message

    @property
    def message_ids(self) -> tuple[int, int]:
        return (self.user.id, self.assistant.id)


@dataclass(frozen=True, slots=True)
class Turn:
    """Messages that alternate user, assistant, ...; the first is a main question."""

    messages: tuple[Message, ...]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return tuple(Pair(u, a) for u, a in zip(self.messages[::2], self.messages[1::2], strict=True))


@dataclass(frozen=True, slots=True)
class Batch:
    """The turns of a sub-plan. `plan` is 0-based and 0 below 10M; `time_anchor` is `Month-DD-YYYY` or None."""

    number: int
    turns: tuple[Turn, ...]
    time_anchor: str | None = None
    plan: int = 0


@dataclass(frozen=True, slots=True)
class Seed:
    """The subject of a conversation: domain (`category`), title, theme, subtopics."""

    category: str
    title: str
    theme: str = ""
    subtopics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Conversation:
    """A conversation under a data treatment.

    Attributes:
        id: `<size>-<directory>`, for example `100K-7`.
        size: A tier, or the name of another benchmark.
        variant: The chat that was read: `truncated` falls back to `full` if there is no cut.
        sha256: Hash of the treated content.
        removed: Counts of removed markers by spelling; empty if `strip_markers` is off.
    """

    id: str
    size: str
    seed: Seed
    batches: tuple[Batch, ...]
    variant: ChatVariant = "full"
    strip_markers: bool = True
    sha256: str = ""
    removed: dict[str, int] = field(default_factory=dict)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(turn for batch in self.batches for turn in batch.turns)

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        return tuple(pair for turn in self.turns for pair in turn.pairs)

    @cached_property
    def sessions(self) -> dict[int, int]:
        """The number of each pair's batch, from 0 over all plans, by the id of its user message."""
        numbered = ((number, turn) for number, batch in enumerate(self.batches) for turn in batch.turns)
        return {pair.user.id: number for number, turn in numbered for pair in turn.pairs}

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        return tuple(message for turn in self.turns for message in turn.messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)


@dataclass(frozen=True, slots=True)
class Probe:
    """A probing question without gold. `id` is `<conversation>-q<NN>` in file order."""

    id: str
    conversation_id: str
    question: str


ErrataMode = Literal["none", "flag", "drop", "strict", "correct"]


@dataclass(frozen=True)
class Treatment:
    """The data treatment of a run.

    Attributes:
        chat_variant: `truncated` reads the cut chat that the paper evaluated (36 of 100; the others were never cut),
            `full` the whole one.
        strip_markers: Remove ` ->-> batch,bullet` from the text and keep it as data; the released evaluation keeps it.
        errata: `none` ignores `errata.json`, `flag` lists the probes that it names, `drop` also removes those whose
            defect spoils the score beyond doubt, `strict` also those that are only doubted. `correct` gives those of
            `drop` a corrected rubric where the chat determines one, and removes the rest.
        per_ability: How many questions of each ability are asked, chosen by hash; 0 for all.
    """

    chat_variant: ChatVariant = "truncated"
    strip_markers: bool = True
    errata: ErrataMode = "flag"
    per_ability: int = 0


def slice_in_words(per_ability: int) -> str:
    """Say which questions are asked by the setting `per_ability`; empty for all."""
    return f"{per_ability} of each ability and conversation, chosen by hash" if per_ability else ""
