"""Draw what an episode is about and what is said in it, from a seed, before any wording.

*Chain*: what depends on the root, directly (hop 1) or through one of those (hop 2). *Middle*: an entity of hop 1 that
lies between the root and one asked for at hop 2.

("MEME", arXiv 2605.12477, sections 2.3 and 2.4 of the fact sheet.) Two things are narrower than there, so that no gold
rests on a guess: what is to be deleted is never in the chain, because the session with the change would then name a
dependant, and of the chain only a middle, whose new value is told, may be one of three things asked for together.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from beam_meme.domains import DomainBank, Entity, Triple, bank_of, fill, gold_sentences
from beam_meme.episode_gold import Edge, EpisodeGold, MemeGold, MemeTask, Told, ToldKind
from beam_meme.episodes import DOMAINS, Domain, Phase

_NOISE = 5
"""Facts that nobody asks for: one in each introduction, two around the change."""
_TRIES = 20


@dataclass(frozen=True, slots=True)
class _Plan:
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


def draw_plan(bank: DomainBank, root: str, rng: random.Random) -> _Plan:
    """A plan that has all six tasks. Where a choice leaves too little for the next, all is drawn anew."""
    for _ in range(_TRIES):
        if plan := _try_plan(bank, root, rng):
            return plan
    raise ValueError(f"no episode about {root!r} could be drawn in {_TRIES} tries: the bank has too few entities")


def _try_plan(bank: DomainBank, root: str, rng: random.Random) -> _Plan | None:
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
    return _Plan(root, cascade, absence, middles, deletion, triple, exact, tracking, tuple(rng.sample(orphans, _NOISE)))


def _dependent(bank: DomainBank, root: str, rng: random.Random) -> tuple[tuple[Edge, ...], ...]:
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


def _edge(bank: DomainBank, source: str, target: str, hop: int) -> Edge:
    return Edge(source, target, hop, bank.pattern(source, target))


def draw_states(bank: DomainBank, plan: _Plan, rng: random.Random) -> States:
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


def _consistent(bank: DomainBank, state: Mapping[str, str]) -> dict[str, str]:
    """The state with every value that follows another one fitted to it, where the other is told."""
    fitted = {name: (bank.entities[name], state.get(bank.entities[name].follows)) for name in state}
    return {name: one.fits[other] if other else state[name] for name, (one, other) in fitted.items()}


EpisodePart = Literal["1a", "1b", "1c", "2", "change"]

_INTRODUCTIONS: tuple[EpisodePart, ...] = ("1a", "1b", "1c")
_PREFIXES: Mapping[Domain, str] = {"personal_life": "pl", "software_project": "sw"}


@dataclass(frozen=True, slots=True)
class DrawnFact:
    """Something to be said in a part of the episode. `sentence` says it in full; `verbatim`: no model may reword it."""

    entity: str
    value: str
    kind: ToldKind
    part: EpisodePart
    sentence: str
    verbatim: bool = False


@dataclass(frozen=True, slots=True)
class DrawnTask:
    """A question with its gold; see `episode_gold.MemeGold`. Without `before_question` it is asked only afterwards.

    `source` is the entity upstream of it: the root, or at hop 2 the middle.
    """

    task: MemeTask
    entities: tuple[str, ...]
    values: tuple[str, ...]
    before_values: tuple[str, ...]
    question: str
    expected: str
    before_question: str | None = None
    before_expected: str = ""
    hop: int | None = None
    source: str = ""


@dataclass(frozen=True)
class Drawn:
    """An episode before it is told. `before` and `after`: every told entity's value, None where deleted or uncertain.

    `tasks` are in the order in which they are asked, `facts` in the order in which they are said.
    """

    id: str
    domain: Domain
    root: str
    change: tuple[str, str]
    edges: tuple[Edge, ...]
    before: Mapping[str, str | None]
    after: Mapping[str, str | None]
    tasks: tuple[DrawnTask, ...]
    facts: tuple[DrawnFact, ...]


def draw_all(count: int, seed: int) -> list[Drawn]:
    """`count` episodes, half per domain (of an odd count one more of the first), roots taken in turn: `pl_001`, ..."""
    shares = (count - count // 2, count // 2)
    return [
        draw_episode(domain, (roots := bank_of(domain).roots)[(number - 1) % len(roots)], seed, number)
        for domain, share in zip(DOMAINS, shares, strict=True)
        for number in range(1, share + 1)
    ]


def draw_episode(domain: Domain, root: str, seed: int, number: int) -> Drawn:
    """Episode `number` of a domain, about a change of `root`. The seed is `seed + number`."""
    bank = bank_of(domain)
    rng = random.Random(f"{domain} {root} {seed + number}")
    plan = draw_plan(bank, root, rng)
    states = draw_states(bank, plan, rng)
    removed: dict[str, str | None] = dict.fromkeys([plan.deletion, *(edge.target for edge in plan.absence)])
    return Drawn(
        id=f"{_PREFIXES[domain]}_{number:03d}",
        domain=domain,
        root=root,
        change=(states.before[root], states.after[root]),
        edges=plan.cascade + plan.absence + plan.middles,
        before=dict(states.before),
        after={**states.after, **removed},
        tasks=_tasks(bank, plan, states, rng),
        facts=tuple(_facts(bank, plan, states, rng)),
    )


# --- what is asked --------------------------------------------------------------------------------------------------


def _tasks(bank: DomainBank, plan: _Plan, states: States, rng: random.Random) -> tuple[DrawnTask, ...]:
    """All questions, in an order that tells nothing of them."""
    tasks = [
        *(_cascade(bank, edge, states) for edge in plan.cascade),
        *(_absence(bank, edge, states) for edge in plan.absence),
        _deletion(bank, plan.deletion, states),
        _aggregation(bank, plan.triple, states, rng),
        _exact(bank, plan.exact, states),
        _tracking(bank, plan.tracking, states, rng),
    ]
    rng.shuffle(tasks)
    return tuple(tasks)


def _cascade(bank: DomainBank, edge: Edge, states: States) -> DrawnTask:
    expected = f"The {bank.entities[edge.target].keyword} is now {states.after[edge.target]}."
    return _single(bank, "cascade", edge.target, states, states.after[edge.target], expected, edge)


def _absence(bank: DomainBank, edge: Edge, states: States) -> DrawnTask:
    keyword, source = bank.entities[edge.target].keyword, bank.entities[edge.source].keyword
    expected = f"Uncertain: the {keyword} was {states.before[edge.target]}, but the {source} has changed since."
    return _single(bank, "absence", edge.target, states, states.before[edge.target], expected, edge)


def _deletion(bank: DomainBank, entity: str, states: States) -> DrawnTask:
    expected = f"Not kept: the user asked to have the {bank.entities[entity].keyword} removed."
    return _single(bank, "deletion", entity, states, states.before[entity], expected)


def _exact(bank: DomainBank, entity: str, states: States) -> DrawnTask:
    return _single(bank, "exact_recall", entity, states, states.before[entity], states.before[entity])


def _single(
    bank: DomainBank, task: MemeTask, entity: str, states: States, value: str, expected: str, edge: Edge | None = None
) -> DrawnTask:
    """A question about one entity that is asked before the change too."""
    one, old = bank.entities[entity], states.before[entity]
    hop, source = (edge.hop, edge.source) if edge else (None, "")
    known = f"The {one.keyword} is {old}."
    return DrawnTask(task, (entity,), (value,), (old,), one.ask, expected, one.ask, known, hop, source)


def _aggregation(bank: DomainBank, triple: Triple, states: States, rng: random.Random) -> DrawnTask:
    keywords = [bank.entities[name].keyword for name in triple.members]
    things = f"{keywords[0]}, {keywords[1]} and {keywords[2]}"
    question = fill(rng.choice(bank.forms.ask_aggregation), topic=triple.topic, things=things)
    before, after = (tuple(state[name] for name in triple.members) for state in (states.before, states.after))
    expected = "; ".join(f"{keyword}: {value}" for keyword, value in zip(keywords, after, strict=True))
    return DrawnTask("aggregation", tuple(triple.members), after, before, question, expected)


def _tracking(bank: DomainBank, entity: str, states: States, rng: random.Random) -> DrawnTask:
    question = fill(rng.choice(bank.forms.ask_tracking), thing=bank.thing(entity))
    return DrawnTask("tracking", (entity,), states.tracked, states.tracked, question, ", then ".join(states.tracked))


# --- what is said ---------------------------------------------------------------------------------------------------


def _facts(bank: DomainBank, plan: _Plan, states: States, rng: random.Random) -> list[DrawnFact]:
    words = _Words(bank, states, rng)
    parts = [_introduction(words, plan, place, part) for place, part in enumerate(_INTRODUCTIONS)]
    deleted, root = words.told(plan.deletion, "value", "1a"), words.told(plan.root, "root", "1a")
    for one in (deleted, root):
        place = rng.randrange(len(parts))
        parts[place].append(replace(one, part=_INTRODUCTIONS[place]))
    return [*(fact for part in parts for fact in part), *_ties(words, plan), *_change(words, plan)]


def _introduction(words: _Words, plan: _Plan, place: int, part: EpisodePart) -> list[DrawnFact]:
    """A noise fact, one of the three that belong together, and a value of the tracked thing."""
    value, entity = words.states.tracked[place], plan.tracking
    if place == 0:
        tracked = DrawnFact(entity, value, "value", part, words.plain(entity, value))
    else:
        form = words.bank.forms.update if place == 1 else words.bank.forms.again
        tracked = DrawnFact(entity, value, "update", part, words.form(form, entity, value))
    return [
        words.told(plan.noise[place], "value", part),
        words.told(plan.triple.members[place], "value", part),
        tracked,
    ]


def _ties(words: _Words, plan: _Plan) -> list[DrawnFact]:
    """Part 2: what depends on what, the string to be kept, then the if-then facts, those of hop 1 first.

    A middle among the three that belong together has been told; of it only the if-then fact is said.
    """
    new = [edge for edge in plan.middles if edge.target not in plan.triple.members]
    clauses = words.by_hop(*plan.cascade, *plan.absence, *new)
    rules = words.by_hop(*plan.cascade, *plan.middles)
    text = words.states.before[plan.exact]
    exact = DrawnFact(
        plan.exact, text, "exact", "2", words.form(words.bank.forms.exact, plan.exact, text), verbatim=True
    )
    return [*map(words.dependency, clauses), exact, *map(words.rule, rules)]


def _change(words: _Words, plan: _Plan) -> list[DrawnFact]:
    """The session with the change: it names nothing that depends on the root."""
    forms, new, old = words.bank.forms, words.states.after[plan.root], words.states.before[plan.deletion]
    return [
        words.told(plan.noise[3], "value", "change"),
        DrawnFact(plan.root, new, "change", "change", words.form(forms.change, plan.root, new)),
        DrawnFact(plan.deletion, old, "deletion", "change", words.form(forms.deletion, plan.deletion, old)),
        words.told(plan.noise[4], "value", "change"),
    ]


@dataclass(frozen=True, slots=True)
class _Words:
    """Puts facts in words."""

    bank: DomainBank
    states: States
    rng: random.Random

    def plain(self, entity: str, value: str) -> str:
        """The entity's value in one of its own sentences."""
        return fill(self.rng.choice(self.bank.entities[entity].says), value=value)

    def form(self, forms: Sequence[str], entity: str, value: str) -> str:
        """The entity's value in one of the wordings for any entity."""
        return fill(self.rng.choice(forms), thing=self.bank.thing(entity), value=value)

    def told(self, entity: str, kind: ToldKind, part: EpisodePart) -> DrawnFact:
        """The entity's first value as a plain fact."""
        value = self.states.before[entity]
        return DrawnFact(entity, value, kind, part, self.plain(entity, value))

    def dependency(self, edge: Edge) -> DrawnFact:
        """The value before the change, with the clause that says what it depends on."""
        told = self.told(edge.target, "dependency", "2")
        clause = fill(self.rng.choice(self.bank.patterns[edge.pattern]), source=self.bank.thing(edge.source))
        return replace(told, sentence=f"{told.sentence} {clause}")

    def rule(self, edge: Edge) -> DrawnFact:
        """The value after the change, as an if-then fact."""
        value, things = self.states.after[edge.target], (self.bank.thing(edge.source), self.bank.thing(edge.target))
        sentence = fill(self.rng.choice(self.bank.forms.rule), source=things[0], thing=things[1], value=value)
        return DrawnFact(edge.target, value, "rule", "2", sentence)

    def by_hop(self, *edges: Edge) -> list[Edge]:
        """The edges in an order drawn, those of hop 1 first."""
        return sorted(self.rng.sample(edges, len(edges)), key=lambda edge: edge.hop)


# --- what others need of it -----------------------------------------------------------------------------------------


def gold_of(drawn: Drawn, places: Mapping[int, tuple[int, int]]) -> EpisodeGold:
    """The gold of an episode whose fact number `index` is told at `places[index]`: a session and one of its lines."""
    facts = tuple(Told(fact.entity, fact.value, fact.kind, *places[index]) for index, fact in enumerate(drawn.facts))
    return EpisodeGold(
        root=drawn.root,
        change=drawn.change,
        edges=drawn.edges,
        questions={**_questions(drawn, "before"), **_questions(drawn, "after")},
        facts=facts,
        evidence=tuple(sorted({fact.session for fact in facts})),
        before=drawn.before,
        after=drawn.after,
    )


def _questions(drawn: Drawn, phase: Phase) -> dict[str, MemeGold]:
    asked = [task for task in drawn.tasks if phase == "after" or task.before_question]
    golds = [_gold(task, phase) for task in asked]
    return {f"{drawn.id}-{phase}-q{number:02d}": gold for number, gold in enumerate(golds, start=1)}


def _gold(task: DrawnTask, phase: Phase) -> MemeGold:
    if phase == "after":
        question, values, expected = task.question, task.values, task.expected
    else:
        question, values, expected = task.before_question or "", task.before_values, task.before_expected
    return MemeGold(question, phase, task.task, "+".join(task.entities), values, expected, task.hop, task.source)


def possible_values(domain: Domain, entity: str) -> tuple[str, ...]:
    """All values that an entity can have."""
    return bank_of(domain).entities[entity].pool


def possible_sentences(drawn: Drawn) -> list[str]:
    """Every sentence that could tell one of the episode's entities: each value of its pool in its template."""
    return gold_sentences(drawn.domain, drawn.before)


def blocked(drawn: Drawn) -> tuple[str, ...]:
    """What no user may say in a filler of this episode: the domain's phrases, and its entities' keywords."""
    bank = bank_of(drawn.domain)
    return (*bank.blocked, *(bank.entities[entity].keyword for entity in drawn.before))
