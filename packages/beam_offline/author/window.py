"""What a question may rest on: the plans of its window, what was told there, and how questions are put."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beam_generate.probes.wording import content
from beam_offline.author.grammar import to_you
from beam_offline.author.script import PlanScript
from beam_offline.author.strand_facts import Entry, Fact, Strand, participle_of
from beam_offline.author.world import World

Reply = dict[str, Any]
Shown = Sequence[tuple[int, str, str]]
"""Messages of the cited turns: (id, role, text)."""
_DISTANCE: Mapping[str, tuple[float, float, float]] = {
    "information_extraction": (0.165, 0.21, 0.625),
    "knowledge_update": (0.52, 0.15, 0.33),
    "contradiction_resolution": (0.27, 0.27, 0.46),
    "multi_session_reasoning": (0.26, 0.26, 0.48),
}
"""How often a question uses the fact's own noun phrase, the bank's first wording, or its second in other words. Set
once, so that the longest sequence of words shared with the evidence is as in the released 100K questions."""


@dataclass(frozen=True)
class Idea:
    """A candidate: its bullets, what it is about, and how its question is made from the turns shown."""

    about: str
    places: Sequence[tuple[int, int, int]]
    ask: Callable[[Shown], Reply]
    parts: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)

    @property
    def candidate(self) -> Reply:
        """The candidate as the prompts `candidates_<ability>` want it."""
        refs = [".".join(map(str, place)) for place in self.places]
        parts = {name: ".".join(map(str, place)) for name, place in self.parts.items()}
        return {"bullets": refs, "about": self.about, **parts}


class ProbeWindow:
    """The plans that a question may look at, and what was told in them."""

    def __init__(
        self, world: World, plans: Sequence[int], rng: random.Random, script: Callable[[int], PlanScript]
    ) -> None:
        self.world, self.plans, self.rng, self.script = world, tuple(plans), rng, script
        self.entries = [one for (plan, _), found in world.entries.items() if plan in self.plans for one in found]

    @property
    def every(self) -> Iterator[Entry]:
        """All entries of the world that tell, revise or deny a fact, in order."""
        return (one for found in self.world.entries.values() for one in found if one.fact is not None)

    def final(self) -> list[Fact]:
        """Facts told in the window that nothing revises or denies anywhere."""
        moved = {one.fact.key for one in self.every if one.fact is not None and one.purpose != "fact"}
        return [one.fact for one in self.entries if one.fact and one.purpose == "fact" and one.fact.key not in moved]

    def strands(self) -> dict[int, list[Fact]]:
        """Strands of which everything was told in the window, with all their facts in the order told, updates too."""
        told: dict[int, list[Fact]] = {}
        beyond = set()
        for one in self.every:
            if one.fact is not None and one.place[0] not in self.plans:
                beyond.add(one.strand.number)
            elif one.fact is not None and one.purpose != "contradiction":
                told.setdefault(one.strand.number, []).append(one.fact)
        return {number: facts for number, facts in told.items() if number not in beyond}

    def denied(self) -> set[tuple[int, str]]:
        """Keys of the facts that are denied somewhere."""
        return {one.fact.key for one in self.every if one.fact is not None and one.purpose == "contradiction"}

    def asked(self, strand: Strand, question: str) -> str:
        """A question as it is put: where the conversation has several strands of a kind, it says which is meant."""
        if self.world.alone(strand):
            return question
        words = {"full": self.full(strand), "ask": question}
        return self.world.grammar.say("which_strand", words, self.rng)

    def full(self, strand: Strand) -> str:
        """The strand by its whole name, as messages do not put it."""
        return self.world.grammar.fill(strand.kind.full[-1], {"it": strand.it}, self.rng)

    def named(self, fact: Fact) -> str:
        """The noun phrase of a fact; with its strand where that is not the only one of its kind."""
        if self.world.alone(fact.strand):
            return fact.kind.np
        return f"{fact.kind.np} ({self.full(fact.strand)})"

    def say(self, name: str, **words: str) -> str:
        """One alternative of a list of `probes.toml`."""
        return self.world.grammar.say(name, words, self.rng)

    def put(self, fact: Fact, ability: str) -> str:
        """The question for a fact, as near to its own words as questions of an ability are."""
        kind = fact.kind
        done = participle_of(fact.v) if kind.kind == "event" else ""
        near = self.say(f"near_{kind.kind}", np=kind.np, done=done)
        told = content(" ".join([*fact.strand.kind.short, *fact.strand.kind.full, kind.np, *kind.say, kind.did]))
        riddle = kind.kind not in ("tally", "list") and not content(kind.ask[-1]) & told
        far = kind.ask[0] if riddle else kind.ask[-1]
        return self.asked(fact.strand, self.rng.choices([near, kind.ask[0], far], _DISTANCE[ability])[0])


Maker = Callable[[ProbeWindow], Iterator[Idea]]


def telling(shown: Shown, *clauses: str) -> list[int]:
    """The user's message for each clause that one holds, each once: two strands may be told in the same words."""
    found: list[int] = []
    for clause in map(str.casefold, clauses):
        said = (number for number, role, text in shown if role != "assistant" and clause in text.casefold())
        found += [number for number in said if number not in found][:1]
    return found


def state_of(fact: Fact) -> str:
    """The fact as it was told, in the second person."""
    return to_you(fact.clause)
