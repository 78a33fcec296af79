"""What the world knows, and the one object that the writers of messages and answers are handed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal

from beamlib.generate.author.bank import Aspect, Bank, Preference, Rule, Subject, Title, Topic, fill
from beamlib.generate.shapes import Profile

Voice = Literal["user", "you", "plain"]
Purpose = Literal[
    "introduction", "fact", "update", "contradiction", "preference", "instruction", "dig", "reply", "followup"
]


@dataclass(frozen=True, slots=True)
class Thing:
    """A subject of the bank made definite: `name` is unique in the conversation, `slots` are the words it fixed."""

    name: str
    template: Subject
    slots: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Companion:
    """A person of the story and what they are to the user, for example `sister`, `friend`, `colleague`."""

    name: str
    role: str


@dataclass(frozen=True, slots=True)
class Fact:
    """Something told about a thing, in a bullet. `number` is a quantity's, `day` a date's, else None.

    `values` fills the slots `value`, `old`, `other`, `reason`. `revises` is the fact that an update replaces.
    """

    thing: Thing
    aspect: Aspect
    plan: int
    batch: int
    bullet: int
    values: Mapping[str, str]
    number: int | None = None
    day: date | None = None
    companion: Companion | None = None
    revises: Fact | None = None

    def fill(self, text: str, voice: Voice = "plain") -> str:
        """`text` of the fact's aspect with its slots filled: `my friend Ana`, `your friend Ana` or `Ana` by voice."""
        words = {**self.thing.slots, **self.values, "subject": self.thing.name}
        if self.companion is not None:
            owner = {"user": "my ", "you": "your ", "plain": ""}[voice]
            words["person"] = f"{owner}{self.companion.role} {self.companion.name}" if owner else self.companion.name
        return fill(text, words.__getitem__)

    @property
    def state(self) -> str:
        """The fact as a clause without I, my, you or your; no closing punctuation."""
        return self.fill(self.aspect.state)

    @property
    def mention(self) -> str:
        """What the fact is about, without its value: a noun phrase."""
        return self.fill(self.aspect.mention)


@dataclass(frozen=True, slots=True)
class Entry:
    """A bullet as the author knows it. `text` is the bullet's; what else is set depends on `purpose`.

    `fact` is told (fact, update) or denied (contradiction); `preference` and `rule` are filled texts; `thing` is what a
    bullet without a fact of its own is about.
    """

    plan: int
    batch: int
    number: int
    label: str
    text: str
    purpose: Purpose
    topic: Topic
    thing: Thing | None = None
    fact: Fact | None = None
    preference: Preference | None = None
    rule: Rule | None = None

    @property
    def place(self) -> tuple[int, int, int]:
        """Plan (0-based), sub-plan and bullet (1-based)."""
        return (self.plan, self.batch, self.number)


@dataclass(frozen=True, slots=True)
class Occasion:
    """All that a writer may use for one user message or one assistant answer.

    `words` holds one choice from every list of the lexicon for this occasion (plus `goal`, `subject`, `person` in the
    user's voice): whatever a topic's texts need besides the fact. `question` is the user's message to be answered.
    `known` are the facts told about the thing so far, oldest first, each in its newest version. `today` is the batch's
    day. `target` is the length wanted in tokens (`beamlib.text.count_tokens`). Where `closing` is not empty, the answer
    ends with exactly that question; otherwise it must not end with a question mark. `asked` is the place of the topic's
    question that the user's message holds (for a follow-up, of the topic's follow-up), -1 where it holds none: with
    `words` it gives the very wording, and `topic.direct[asked]` (`topic.brief[asked]`) the answer to it.
    """

    rng: random.Random
    bank: Bank
    title: Title
    profile: Profile
    topic: Topic
    purpose: Purpose
    words: Mapping[str, str]
    today: date
    thing: Thing | None = None
    fact: Fact | None = None
    known: tuple[Fact, ...] = ()
    question: str = ""
    target: int = 0
    closing: str = ""
    asked: int = -1

    def fill(self, text: str) -> str:
        """A topic's text with its slots filled from `words`."""
        return fill(text, self.words.__getitem__)
