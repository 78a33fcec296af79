"""What a scenario is made of: strands, facts told of them, and bullets, with numbers and deeds as text."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Literal

from beam_generate.shapes import Timeline
from beam_offline.author.grammar import plural
from beam_offline.author.word_bank import FactKind, Preference, StandingRule, StrandKind

Purpose = Literal["introduction", "opening", "fact", "update", "contradiction", "preference", "instruction", "dig"]


@dataclass(eq=False, slots=True)
class Strand:
    """A strand of this conversation: `it` tells it apart from others of its kind."""

    kind: StrandKind
    number: int
    it: str
    pending: list[FactKind] = field(default_factory=list)
    told: list[Fact] = field(default_factory=list)

    def telling(self, kind: FactKind, after: Fact | None = None) -> Fact | None:
        """Return the first telling of a fact, or the next one `after` another."""
        tellings = [fact for fact in self.told if fact.kind is kind]
        return next(iter(tellings[tellings.index(after) + 1 if after else 0 :]), None)

    def newest(self, key: str) -> Fact | None:
        """Return the newest version of the fact that has `key`."""
        return next((fact for fact in reversed(self.told) if fact.kind.key == key), None)


@dataclass(frozen=True, slots=True)
class Fact:
    """Something told of a strand. `clause` is how: in the first person, without a closing mark.

    `v` is its value as text, of an event what was done (`past/participle ...`); `number` and `day` are the value of
    such kinds; `other` and `reason` belong to a choice. `revises` is the fact that an update replaces. Of a tally or
    list each telling is a fact.
    """

    strand: Strand
    kind: FactKind
    place: tuple[int, int, int]
    clause: str
    v: str = ""
    number: int = 0
    day: date | None = None
    other: str = ""
    reason: str = ""
    revises: Fact | None = None

    @property
    def key(self) -> tuple[int, str]:
        """Strand and noun phrase: the same for all versions and parts."""
        return self.strand.number, self.kind.np


@dataclass(frozen=True, slots=True)
class Entry:
    """A bullet as the author knows it. `text` is the bullet's; `clause` stands in the message that tells it.

    `fact` is told (fact, update) or denied (contradiction); `occasion` is what an instruction is tied to.
    """

    place: tuple[int, int, int]
    label: str
    text: str
    purpose: Purpose
    strand: Strand
    clause: str = ""
    fact: Fact | None = None
    preference: Preference | None = None
    rule: StandingRule | None = None
    occasion: str = ""


def past_of(did: str) -> str:
    """Return the past form: `met the agent` of `met/met the agent`."""
    verb, _, rest = did.partition(" ")
    return f"{verb.split('/')[0]} {rest}"


def participle_of(did: str) -> str:
    """Return the participle: `taken photos` of `took/taken photos`."""
    verb, _, rest = did.partition(" ")
    return f"{verb.split('/')[1]} {rest}"


def show_number(kind: FactKind, number: int) -> str:
    if kind.kind == "money":
        return f"${number:,}"
    if kind.kind == "percent":
        return f"{number}%"
    return f"{number:,} {kind.unit if number == 1 else plural(kind.unit)}"


def trade(profession: str) -> str:
    """Write a profession as it stands within a sentence: `data analyst`, `IT consultant`."""
    return " ".join(word if word.isupper() else word.lower() for word in profession.split())


def part_of(whole: Timeline, plan: int, plans: int) -> Timeline:
    """Return the `plan`-th (0-based) of `plans` equal parts of `whole`, which do not overlap."""
    days = (whole.end - whole.start).days + 1
    first, last = days * plan // plans, days * (plan + 1) // plans - 1
    return Timeline(whole.start + timedelta(first), whole.start + timedelta(last))


def spread_days(timeline: Timeline, count: int, rng: random.Random) -> list[date]:
    """Draw `count` days evenly spread over `timeline`, strictly increasing, a day or two off now and then."""
    days = (timeline.end - timeline.start).days
    found = [timeline.start + timedelta(days * number // count) for number in range(count)]
    room = max(0, days // count - 1)
    return [found[0]] + [day + timedelta(rng.randrange(min(room, 3) + 1)) for day in found[1:]]
