"""Which entities of a domain have which part in an episode, and which values: the draw before any wording.

*Chain*: what depends on the root, directly (hop 1) or through one of those (hop 2). *Middle*: an entity of hop 1 that
lies between the root and one asked for at hop 2.

("MEME", arXiv 2605.12477, section 2.3 of the fact sheet.) Two things are narrower than there, so that no gold rests on
a guess: what is to be deleted is never in the chain, because the session with the change would then name a dependant,
and of the chain only a middle, whose new value is told, may be one of three things asked for together.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from beam_meme.domains import Bank, Entity, Triple
from beam_meme.episode_gold import Edge

_NOISE = 5
"""Facts that nobody asks for: one in each introduction, two around the change."""
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Plan:
    """Which entity has which part. `middles` are those of hop 1 that are not asked for as cascade themselves."""

    root: str
    cascade: tuple[Edge, ...]
    absence: tuple[Edge, ...]
    middles: tuple[Edge, ...]
    deletion: str
    triple: Triple
    exact: str
    tracking: str
    noise: tuple[str, ...]

    @property
    def told(self) -> list[str]:
        """Every entity that something is said of."""
        tied = [edge.target for edge in self.cascade + self.absence + self.middles]
        others = [self.deletion, *self.triple.members, self.exact, self.tracking, *self.noise]
        return list(dict.fromkeys([self.root, *tied, *others]))

    @property
    def changing(self) -> set[str]:
        """The entities that have another value after the change."""
        return {self.root, *(edge.target for edge in self.cascade + self.middles)}


@dataclass(frozen=True, slots=True)
class States:
    """Values before and after the change, and those that the tracked thing has had."""

    before: Mapping[str, str]
    after: Mapping[str, str]
    tracked: tuple[str, ...]


def draw_plan(bank: Bank, root: str, rng: random.Random) -> Plan:
    """A plan that has all six tasks. Where a choice leaves too little for the next, all is drawn anew."""
    for _ in range(_TRIES):
        if plan := _try_plan(bank, root, rng):
            return plan
    raise ValueError(f"no episode about {root!r} could be drawn in {_TRIES} tries: the bank has too few entities")


def _try_plan(bank: Bank, root: str, rng: random.Random) -> Plan | None:
    cascade, absence, middles = _dependent(bank, root, rng)
    chain = {name for first in bank.dependants(root) for name in (first, *bank.dependants(first))}
    free = [name for name, one in bank.entities.items() if name not in chain | {root} and not one.exact]
    deletion = rng.choice(free)
    free.remove(deletion)
    open_to_three = {*free, *(edge.target for edge in middles)}
    triples = [one for one in bank.triples if open_to_three.issuperset(one.members)]
    if not triples:
        return None
    triple = rng.choice(triples)
    exact = rng.choice([name for name, one in bank.entities.items() if one.exact])
    free = [name for name in free if name not in triple.members]
    tracked = [name for name in bank.tracking if name in free]
    if not tracked:
        return None
    tracking = rng.choice(tracked)
    orphans = [name for name in bank.orphans if name in free and name != tracking]
    if len(orphans) < _NOISE:
        return None
    return Plan(root, cascade, absence, middles, deletion, triple, exact, tracking, tuple(rng.sample(orphans, _NOISE)))


def _dependent(bank: Bank, root: str, rng: random.Random) -> tuple[tuple[Edge, ...], ...]:
    """What is asked of the chain: for cascade, for absence, and the middles that have to be told beside them.

    No middle is drawn for absence: it would have no new value, and nothing could be asked behind it.
    """
    first = bank.dependants(root)
    second = [(one, name) for one in first for name in bank.dependants(one) if name not in first]
    between = {source for source, _ in second}
    absent = rng.choice([name for name in first if name not in between])
    cascaded = rng.choice([name for name in first if name != absent])
    names = list(dict.fromkeys(name for _, name in second))
    later = [rng.choice([pair for pair in second if pair[1] == name]) for name in rng.sample(names, min(2, len(names)))]
    behind = [_edge(bank, source, name, 2) for source, name in later]
    middles = dict.fromkeys(source for source, _ in later if source != cascaded)
    return (
        (_edge(bank, root, cascaded, 1), *behind[:1]),
        (_edge(bank, root, absent, 1), *behind[1:]),
        tuple(_edge(bank, root, name, 1) for name in middles),
    )


def _edge(bank: Bank, source: str, target: str, hop: int) -> Edge:
    return Edge(source, target, hop, bank.pattern(source, target))


def draw_states(bank: Bank, plan: Plan, rng: random.Random) -> States:
    """Values for all that is told. The tracked thing has three, in the order of its pool, and now the last."""
    pairs = {name: _pair(bank.entities[name], rng) for name in plan.told}
    pool = bank.entities[plan.tracking].pool
    tracked = tuple(pool[place] for place in sorted(rng.sample(range(len(pool)), 3)))
    pairs[plan.tracking] = (tracked[-1], tracked[-1])
    before = {name: pair[0] for name, pair in pairs.items()}
    after = {name: pair[name in plan.changing] for name, pair in pairs.items()}
    return States(_consistent(bank, before), _consistent(bank, after), tracked)


def _pair(entity: Entity, rng: random.Random) -> tuple[str, str]:
    """Two values; of an entity with orders the second lies behind the first in one of them."""
    pool = rng.choice(entity.orders) if entity.orders else entity.pool
    places = rng.sample(range(len(pool)), 2)
    first, second = sorted(places) if entity.orders else places
    return pool[first], pool[second]


def _consistent(bank: Bank, state: Mapping[str, str]) -> dict[str, str]:
    """The state with every value that follows another one fitted to it, where the other is told."""
    fitted = {name: (bank.entities[name], state.get(bank.entities[name].follows)) for name in state}
    return {name: one.fits[other] if other else state[name] for name, (one, other) in fitted.items()}
