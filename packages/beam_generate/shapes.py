"""Data classes that the stages of generation pass to one another; `beam_generate.folder` reads and writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from beamlib.data.conversations import Seed, Size

Style = Literal["general", "coding", "math"]
Strategy = Literal["sequential", "hierarchical"]
Special = Literal["update", "instruction", "contradiction"]
Gender = Literal["male", "female"]
Relation = Literal["parent", "partner", "child", "friend", "acquaintance"]
Reach = Literal["conversation", "batch"]
"""Where the window of recent messages begins: with the plan (paper) or with the sub-plan (released code)."""
SPECIALS: tuple[Special, ...] = ("update", "instruction", "contradiction")
SPECIAL_LABELS: Mapping[Special, str] = {
    "update": "Information Update",
    "instruction": "User Instruction",
    "contradiction": "Logical Contradiction",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Size of a plan (paper Table 6 and the released settings; `params/*.yaml`).

    `subplans` is N. `bullets` is M per sub-plan, including the time anchor and excluding the three special bullets.
    `groups` is K per sub-plan and `questions` is I per group. The special bullets form one more group, as in the
    released code, so a plan has at most `subplans * (groups * questions + 3)` main questions.
    """

    subplans: int
    bullets: int
    groups: int
    questions: int


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a dialogue (paper section 2.2.3, Algorithm 3).

    `recent` (M) is the number of messages kept word for word once a window is full. `replies` (delta 1) and `followups`
    (delta 2) bound the user's replies and follow-up questions per turn.
    """

    recent: int
    replies: int
    followups: int
    reach: Reach


@dataclass(frozen=True, slots=True)
class Person:
    """A person in the user's life."""

    name: str
    gender: Gender
    age: int
    relation: Relation


@dataclass(frozen=True, slots=True)
class Profile:
    """The user. `traits` are six of the sixteen Myers-Briggs types; `biography` is empty until a model writes it."""

    name: str
    age: int
    gender: Gender
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
    """The input of a conversation's plans, drawn from `seed` and `number`.

    `core` are the people of all plans; below 10M these are all people. `newcomers[k]` enter with plan k: ten groups at
    10M, none below.
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
    """A line of a plan: 1-based `number` in its sub-plan, `label` (a narrative) and `text`."""

    number: int
    label: str
    text: str
    special: Special | None = None


@dataclass(frozen=True, slots=True)
class SubPlan:
    """A sub-plan (batch), numbered from 1, that takes place on the day `anchor`. Special bullets come last."""

    number: int
    anchor: date
    bullets: tuple[Bullet, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan, numbered from 0. At 10M `seed` and `timeline` are those of its sub-seed."""

    index: int
    seed: Seed
    timeline: Timeline
    narratives: str
    subplans: tuple[SubPlan, ...]


@dataclass(frozen=True, slots=True)
class MainQuestion:
    """A main user question and the number of its bullet, None without one. The link is data, never part of `text`."""

    text: str
    bullet: int | None


@dataclass(frozen=True, slots=True)
class DialogueMessage:
    """A message of a dialogue before it has an id; `kind` as in `beamlib.data.conversations.MessageKind`."""

    role: Literal["user", "assistant"]
    text: str
    kind: Literal["main_question", "answer_ai_question", "followup_question"] | None = None


@dataclass(frozen=True, slots=True)
class DialogueTurn:
    """A main question with the messages it triggered, in plan `plan` and sub-plan `batch`."""

    plan: int
    batch: int
    bullet: int | None
    messages: tuple[DialogueMessage, ...]


@dataclass
class Repairs:
    """Log of what was repaired, asked again or dropped: (stage, where, problem, action), in order.

    Stored as `repairs-<stage>.jsonl`; notebooks and `beamlib generate` count its entries.
    """

    entries: list[tuple[str, str, str, str]] = field(default_factory=list)

    def note(self, stage: str, where: str, problem: str, action: str) -> None:
        """Add an entry."""
        self.entries.append((stage, where, problem, action))
