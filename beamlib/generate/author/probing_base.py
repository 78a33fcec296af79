"""What every kind of probing question needs: candidates, the record of what was told, and the search for evidence.

The evidence is looked up in the turns that the prompt shows: a message is cited only where it tells the fact in so many
words.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from beamlib.generate.author.facts import Entry, Fact
from beamlib.generate.author.wording import to_you
from beamlib.generate.author.world import World

Reply = dict[str, Any]
Shown = Sequence[tuple[int, str, str]]
"""Messages of the cited turns: (id, role, text)."""
_LEADS = (
    "{ask}", "{ask}", "{ask}", "Remind me: {lower}", "Can you look this up for me: {lower}", "A quick check: {lower}",
    "One thing slipped my mind: {lower}", "Do you still know this: {lower}", "{ask} I need it for my notes.",
    "From what I have told you: {lower}",
)  # fmt: skip


@dataclass(frozen=True)
class Idea:
    """A candidate: what is published of it (`about`, references) and how its question is made from the turns shown."""

    about: str
    refs: tuple[str, ...]
    special: Mapping[str, str]
    ask: Callable[[Shown], Reply]

    @property
    def candidate(self) -> Reply:
        """The candidate as the prompts `candidates_<ability>` want it."""
        return {"bullets": list(self.refs), "about": self.about, **self.special}


class Record:
    """What was told in a world, and what became of it."""

    def __init__(self, world: World) -> None:
        self.world = world

    @cached_property
    def _telling(self) -> list[Entry]:
        """All entries that tell, revise or deny a fact, in order."""
        return [entry for found in self.world.entries.values() for entry in found if entry.fact is not None]

    @cached_property
    def denied(self) -> set[tuple[str, str]]:
        """Thing and aspect of every fact that is denied somewhere."""
        return {_key(fact_of(entry)) for entry in self._telling if entry.purpose == "contradiction"}

    @cached_property
    def _revised(self) -> set[tuple[str, str]]:
        return {_key(fact_of(entry)) for entry in self._telling if entry.purpose == "update"}

    def final(self, entries: Sequence[Entry]) -> list[Entry]:
        """Entries that tell a fact which nothing revises or denies, in this plan or later."""
        return [
            entry
            for entry in entries
            if entry.purpose == "fact"
            and entry.fact is not None
            and _key(entry.fact) not in self.denied
            and _key(entry.fact) not in self._revised
        ]

    def by_thing(self, entries: Sequence[Entry]) -> dict[str, list[Entry]]:
        """Things of which everything was told within `entries`, with the entries that first told each aspect."""
        inside = {entry.place for entry in entries}
        found: dict[str, list[Entry]] = {}
        beyond: set[str] = set()
        for entry in self._telling:
            name = fact_of(entry).thing.name
            if entry.place not in inside:
                beyond.add(name)
            elif entry.purpose == "fact":
                found.setdefault(name, []).append(entry)
        return {name: told for name, told in found.items() if name not in beyond}

    def by_kind(self, entries: Sequence[Entry]) -> dict[str, list[Entry]]:
        """Kinds of things ("cooking classes") that occur within `entries` only, with what was first told of each.

        Only kinds whose word stands in the name of each of their things and of no other: what belongs to them is plain.
        """
        inside = {entry.place for entry in entries}
        first: dict[str, Entry] = {}
        for entry in self._telling:
            first.setdefault(fact_of(entry).thing.name, entry)
        found: dict[str, list[Entry]] = {}
        for entry in first.values():
            found.setdefault(fact_of(entry).thing.template.plural, []).append(entry)
        plain = {}
        for kind, told in found.items():
            noun = kind.split()[-1].lower()
            stem = noun[: max(4, len(noun) - 2)]
            bearing = {name for name in first if stem in name.lower()}
            if bearing == {fact_of(entry).thing.name for entry in told} and all(one.place in inside for one in told):
                plain[kind] = told
        return plain

    def newest(self, facts: Sequence[Fact]) -> list[Fact]:
        """The newest version of each of `facts`."""
        versions = {_key(fact_of(entry)): fact_of(entry) for entry in self._telling if entry.purpose != "contradiction"}
        return [versions[_key(fact)] for fact in facts]


def _key(fact: Fact) -> tuple[str, str]:
    return (fact.thing.name, fact.aspect.label)


def fact_of(entry: Entry) -> Fact:
    """The fact of an entry that has one."""
    assert entry.fact is not None
    return entry.fact


def ref(told: Entry | Fact) -> str:
    """`plan.sub-plan.bullet` of an entry, or of the bullet that tells a fact."""
    if isinstance(told, Fact):
        return f"{told.plan}.{told.batch}.{told.bullet}"
    return ".".join(map(str, told.place))


def told_in(entries: Sequence[Entry], fact: Fact) -> bool:
    """Whether the plans of `entries` are those in which `fact` was told."""
    return fact.plan in {entry.plan for entry in entries}


def worded(ask: str, rng: random.Random) -> str:
    """`ask` as one of several ways to put a question. Banks begin `ask` with a question word, never with a name."""
    return rng.choice(_LEADS).format(ask=ask, lower=ask[:1].lower() + ask[1:])


def state_of(fact: Fact) -> str:
    """The fact as a clause; a reason that was given in the first person is turned to `you`."""
    return (
        replace(fact, values={**fact.values, "reason": _reason(fact)}).state if "reason" in fact.values else fact.state
    )


def payload(fact: Fact) -> list[str]:
    """What an answer on `fact` must give: its value, of a choice the reason too."""
    if fact.companion is not None:
        return [fact.companion.name]
    values = [fact.values["value"]]
    return [*values, _reason(fact)] if fact.aspect.kind == "choice" else values


def _reason(fact: Fact) -> str:
    return to_you(fact.values["reason"]) or fact.values["reason"]


_ENDS = ("", ".", ",", ";", ":", "!", "?", "\n")


def telling(shown: Shown, fact: Fact) -> list[int]:
    """The first message shown that tells `fact`."""
    texts = fact.aspect.say if fact.revises is None else fact.aspect.update
    return holding(shown, [fact.fill(text, "user") for text in texts])


def holding(shown: Shown, texts: Sequence[str]) -> list[int]:
    """The first of the user's messages shown that holds one of `texts`, in a list; empty where none does.

    A message in which the text ends, by a mark or its own end, comes before one in which it goes on: `I ordered the
    tart` is not what `I ordered the tart for 20 people` tells.
    """
    wanted = [text.casefold() for text in texts]
    going_on: list[int] = []
    for number, role, said in shown:
        if role == "assistant":
            continue
        lower = said.casefold()
        for text in wanted:
            at = lower.find(text)
            if at >= 0 and lower[at + len(text) : at + len(text) + 1] in _ENDS:
                return [number]
            if at >= 0:
                going_on.append(number)
    return going_on[:1]


def series(parts: Sequence[str]) -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
