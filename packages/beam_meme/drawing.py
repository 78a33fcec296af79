"""Draws what an episode is about and what is said of it, before anybody says it; from a seed, the same each time.

("MEME", arXiv 2605.12477, sections 2.3 and 2.4 of the fact sheet; `beam_meme.episode_plan` draws entities and values.)
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from beam_meme.domains import Bank, Triple, bank_of, fill, gold_sentences
from beam_meme.episode_gold import Edge, EpisodeGold, FactKind, MemeGold, Task, Told
from beam_meme.episode_plan import Plan, States, draw_plan, draw_states
from beam_meme.episodes import DOMAINS, Domain, Phase

Part = Literal["1a", "1b", "1c", "2", "change"]

_INTRODUCTIONS: tuple[Part, ...] = ("1a", "1b", "1c")
_PREFIXES: Mapping[Domain, str] = {"personal_life": "pl", "software_project": "sw"}


@dataclass(frozen=True, slots=True)
class DrawnFact:
    """Something to be said in a part of the episode. `sentence` says it in full; `verbatim`: no model may reword it."""

    entity: str
    value: str
    kind: FactKind
    part: Part
    sentence: str
    verbatim: bool = False


@dataclass(frozen=True, slots=True)
class DrawnTask:
    """A question with its gold; see `episode_gold.MemeGold`. Without `before_question` it is asked only afterwards.

    `source` is the entity upstream of it: the root, or at hop 2 the middle.
    """

    task: Task
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


def _tasks(bank: Bank, plan: Plan, states: States, rng: random.Random) -> tuple[DrawnTask, ...]:
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


def _cascade(bank: Bank, edge: Edge, states: States) -> DrawnTask:
    expected = f"The {bank.entities[edge.target].keyword} is now {states.after[edge.target]}."
    return _single(bank, "cascade", edge.target, states, states.after[edge.target], expected, edge)


def _absence(bank: Bank, edge: Edge, states: States) -> DrawnTask:
    keyword, source = bank.entities[edge.target].keyword, bank.entities[edge.source].keyword
    expected = f"Uncertain: the {keyword} was {states.before[edge.target]}, but the {source} has changed since."
    return _single(bank, "absence", edge.target, states, states.before[edge.target], expected, edge)


def _deletion(bank: Bank, entity: str, states: States) -> DrawnTask:
    expected = f"Not kept: the user asked to have the {bank.entities[entity].keyword} removed."
    return _single(bank, "deletion", entity, states, states.before[entity], expected)


def _exact(bank: Bank, entity: str, states: States) -> DrawnTask:
    return _single(bank, "exact_recall", entity, states, states.before[entity], states.before[entity])


def _single(
    bank: Bank, task: Task, entity: str, states: States, value: str, expected: str, edge: Edge | None = None
) -> DrawnTask:
    """A question about one entity that is asked before the change too."""
    one, old = bank.entities[entity], states.before[entity]
    hop, source = (edge.hop, edge.source) if edge else (None, "")
    known = f"The {one.keyword} is {old}."
    return DrawnTask(task, (entity,), (value,), (old,), one.ask, expected, one.ask, known, hop, source)


def _aggregation(bank: Bank, triple: Triple, states: States, rng: random.Random) -> DrawnTask:
    keywords = [bank.entities[name].keyword for name in triple.members]
    things = f"{keywords[0]}, {keywords[1]} and {keywords[2]}"
    question = fill(rng.choice(bank.forms.ask_aggregation), topic=triple.topic, things=things)
    before, after = (tuple(state[name] for name in triple.members) for state in (states.before, states.after))
    expected = "; ".join(f"{keyword}: {value}" for keyword, value in zip(keywords, after, strict=True))
    return DrawnTask("aggregation", tuple(triple.members), after, before, question, expected)


def _tracking(bank: Bank, entity: str, states: States, rng: random.Random) -> DrawnTask:
    question = fill(rng.choice(bank.forms.ask_tracking), thing=bank.thing(entity))
    return DrawnTask("tracking", (entity,), states.tracked, states.tracked, question, ", then ".join(states.tracked))


# --- what is said ---------------------------------------------------------------------------------------------------


def _facts(bank: Bank, plan: Plan, states: States, rng: random.Random) -> list[DrawnFact]:
    words = _Words(bank, states, rng)
    parts = [_introduction(words, plan, place, part) for place, part in enumerate(_INTRODUCTIONS)]
    deleted, root = words.told(plan.deletion, "value", "1a"), words.told(plan.root, "root", "1a")
    for one in (deleted, root):
        place = rng.randrange(len(parts))
        parts[place].append(replace(one, part=_INTRODUCTIONS[place]))
    return [*(fact for part in parts for fact in part), *_ties(words, plan), *_change(words, plan)]


def _introduction(words: _Words, plan: Plan, place: int, part: Part) -> list[DrawnFact]:
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


def _ties(words: _Words, plan: Plan) -> list[DrawnFact]:
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


def _change(words: _Words, plan: Plan) -> list[DrawnFact]:
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

    bank: Bank
    states: States
    rng: random.Random

    def plain(self, entity: str, value: str) -> str:
        """The entity's value in one of its own sentences."""
        return fill(self.rng.choice(self.bank.entities[entity].says), value=value)

    def form(self, forms: Sequence[str], entity: str, value: str) -> str:
        """The entity's value in one of the wordings for any entity."""
        return fill(self.rng.choice(forms), thing=self.bank.thing(entity), value=value)

    def told(self, entity: str, kind: FactKind, part: Part) -> DrawnFact:
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
