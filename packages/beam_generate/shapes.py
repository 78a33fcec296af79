"""What the stages of generation hand to one another. The files they are kept in: `beam_generate.folder`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from beamlib.data.conversations import Seed, Size

Style = Literal["general", "coding", "math"]
Strategy = Literal["sequential", "hierarchical"]
Special = Literal["update", "instruction", "contradiction"]
Reach = Literal["conversation", "batch"]
"""How far back the recent turns go: over the whole plan (the paper), or to the beginning of the sub-plan (released)."""
SPECIALS: tuple[Special, ...] = ("update", "instruction", "contradiction")
SPECIAL_LABELS: Mapping[Special, str] = {
    "update": "Information Update",
    "instruction": "User Instruction",
    "contradiction": "Logical Contradiction",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """How large a plan is (paper Table 6 and the released settings; `params/*.yaml`).

    `subplans` N; `bullets` M asked for per sub-plan, the time anchor among them, before the three special ones;
    `groups` K per sub-plan; `questions` I asked for per group. The special bullets are a group of their own, as in the
    released code, so a plan has at most `subplans * (groups * questions + 3)` main questions.
    """

    subplans: int
    bullets: int
    groups: int
    questions: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a dialogue (paper section 2.2.3, Algorithm 3).

    `recent` M: messages that stay word for word where a window is full; `replies` delta 1 and `followups` delta 2: user
    replies to the assistant's questions, and follow-up questions, in one turn.
    """

    recent: int
    replies: int
    followups: int
    reach: Reach


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody in the user's life; `relation` is parent, partner, child, friend or acquaintance."""

    name: str
    gender: Literal["male", "female"]
    age: int
    relation: Literal["parent", "partner", "child", "friend", "acquaintance"]


@dataclass(frozen=True, slots=True)
class Profile:
    """The user. `traits` are six of the sixteen Myers-Briggs types; `biography` is prose, empty until written."""

    name: str
    age: int
    gender: Literal["male", "female"]
    place: str
    profession: str
    traits: tuple[str, ...]
    biography: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """First and last day of a conversation or plan."""

    start: date
    end: date


@dataclass(frozen=True, slots=True)
class Story:
    """Everything that stands before a conversation's first plan: drawn from `seed` (an explicit integer) and `number`.

    `core` are the people who stay (parents, partner, children and, below 10M, everybody); `newcomers[k]` are those who
    enter with plan k (10M only, ten entries; otherwise empty). `layout` is how large its plans are to be.
    """

    size: Size
    number: int
    seed: int
    style: Style
    topic: Seed
    profile: Profile
    core: tuple[Person, ...]
    newcomers: tuple[tuple[Person, ...], ...]
    timeline: Timeline
    layout: Layout
    strategy: Strategy = "hierarchical"

    @property
    def plans(self) -> int:
        """Number of plans."""
        return 10 if self.size == "10M" else 1


@dataclass(frozen=True, slots=True)
class Bullet:
    """One bullet of a plan: 1-based `number` in its sub-plan, `label` (narrative) and `text`."""

    number: int
    label: str
    text: str
    special: Special | None = None


@dataclass(frozen=True, slots=True)
class SubPlan:
    """One sub-plan (batch), 1-based; `anchor` is the day it plays on. Special bullets are the last three."""

    number: int
    anchor: date
    bullets: tuple[Bullet, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan; `index` is 0-based and 0 below 10M. `seed` and `timeline` are its own sub-seed's at 10M."""

    index: int
    seed: Seed
    timeline: Timeline
    narratives: str
    subplans: tuple[SubPlan, ...]


@dataclass(frozen=True, slots=True)
class MainQuestion:
    """A main user question and the bullet it belongs to, None for none. The link is data and never part of `text`."""

    text: str
    bullet: int | None


@dataclass(frozen=True, slots=True)
class DialogueMessage:
    """One message of a dialogue before it has an id; `kind` as in `beamlib.data.conversations.MessageKind`."""

    role: Literal["user", "assistant"]
    text: str
    kind: Literal["main_question", "answer_ai_question", "followup_question"] | None = None


@dataclass(frozen=True, slots=True)
class DialogueTurn:
    """A main question with everything it triggered, in plan `plan` and sub-plan `batch`."""

    plan: int
    batch: int
    bullet: int | None
    messages: tuple[DialogueMessage, ...]


@dataclass
class Repairs:
    """What was repaired, asked again or dropped, in order: (stage, where, what was found, what was done).

    Written beside the conversation as `repairs.jsonl`, counted in notebook 04 and by `beamlib generate`.
    """

    entries: list[tuple[str, str, str, str]] = field(default_factory=list)

    def note(self, stage: str, where: str, found: str, done: str) -> None:
        """Add an entry."""
        self.entries.append((stage, where, found, done))
