"""What an episode can be about: entities with their wordings and values, and what depends on what, in two domains.

Read from `banks/personal_life.toml` and `banks/software_project.toml`, our own data, and checked when read: the graph
has no cycle, every sentence holds its keyword, no value lies in another.

("MEME", arXiv 2605.12477, section 2.2 of the fact sheet: 39 and 51 entities, five roots each; wordings, values and the
edges of Software Project that are not known are ours.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import permutations
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from beam_meme.episodes import Domain
from beam_memorycode.bank import BankPart, BankText, read_rule_bank

BANKS = Path(__file__).parent / "banks"
_SLOT = re.compile(r"\{(\w+)\}")
_NULL_LIKE = re.compile(r"(?:none|null|nothing|n/?a|unknown|no|not|without)\b", re.IGNORECASE)

Template = Annotated[str, Field(min_length=1, pattern=r"\{\w+\}")]
Templates = Annotated[list[Template], Field(min_length=2)]


class Entity(BankPart):
    """A thing with a value. `keyword` names it in every sentence and question.

    `says` tell it, with `{value}`; `ask` asks for it. `values` is the pool, or `fits` maps the values of the entity
    that it `follows` to its own. `orders`: a change may only move forward in one of these. `exact`: to be kept word
    for word.
    """

    keyword: BankText
    says: Templates
    ask: BankText
    values: list[BankText] = Field(default_factory=list)
    follows: str = ""
    fits: dict[str, BankText] = Field(default_factory=dict)
    orders: list[list[str]] = Field(default_factory=list)
    exact: bool = False

    @property
    def pool(self) -> tuple[str, ...]:
        """All its values."""
        return tuple(self.values or self.fits.values())

    @model_validator(mode="after")
    def _agrees(self) -> Entity:
        if len(set(self.pool)) < 8:
            raise ValueError(f"{self.keyword!r} has fewer than 8 different values")
        if bool(self.follows) != bool(self.fits) or (self.fits and self.values):
            raise ValueError(f"{self.keyword!r} needs either values, or follows and fits")
        for text in (*self.says, self.ask):
            if self.keyword.lower() not in text.lower():
                raise ValueError(f"{text!r:.80} lacks the keyword {self.keyword!r}")
        for text in self.says:
            _slots(text, {"value"})
            if text.startswith("{value}"):
                raise ValueError(
                    f"{text!r:.80} begins with its value, which would be written with another first letter"
                )
        if unknown := {value for order in self.orders for value in order} - set(self.pool):
            raise ValueError(f"the orders of {self.keyword!r} hold {sorted(unknown)}, which are no values")
        for value in self.pool:
            if _NULL_LIKE.match(value):
                raise ValueError(f"the value {value!r:.60} of {self.keyword!r} says that there is nothing")
        return self


class Dependency(BankPart):
    """`target` depends on `source`; `pattern` finds the clause that says so."""

    source: BankText
    target: BankText
    pattern: BankText


class Triple(BankPart):
    """Three entities of one `topic`, asked for together."""

    topic: BankText
    members: Annotated[list[BankText], Field(min_length=3, max_length=3)]


class Forms(BankPart):
    """Wordings for any entity. `{thing}` is the entity with its owner ("my employer"), `{source}` likewise.

    `update` and `again` mark the second and third value of a tracked thing; `rule` is the if-then form.
    """

    update: Templates
    again: Templates
    change: Templates
    exact: Templates
    rule: Templates
    deletion: Templates
    ask_tracking: Templates
    ask_aggregation: Templates

    @model_validator(mode="after")
    def _filled(self) -> Forms:
        slots = {
            "rule": {"thing", "value", "source"},
            "ask_tracking": {"thing"},
            "ask_aggregation": {"topic", "things"},
        }
        for name in type(self).model_fields:
            for text in getattr(self, name):
                _slots(text, slots.get(name, {"thing", "value"}))
        for text in self.rule:
            if not text.startswith("If {source} changes, {thing} will be {value}"):
                raise ValueError(f"the rule {text!r:.80} does not begin with its condition and go on with `will be`")
        return self


class DomainBank(BankPart):
    """A domain: its roots, its graph, and how things are said.

    Of fillers: `blocked` are phrases and `heads` single words that no user may say, because an entity is told in them
    in other words ("the reviewer", "the insomnia").
    """

    owner: BankText
    roots: Annotated[list[BankText], Field(min_length=1)]
    tracking: Annotated[list[BankText], Field(min_length=1)]
    blocked: list[BankText]
    heads: list[BankText]
    forms: Forms
    patterns: dict[str, Templates]
    edges: list[Dependency]
    triples: list[Triple]
    entities: dict[str, Entity]

    @model_validator(mode="after")
    def _agrees(self) -> DomainBank:
        _named(self)
        _acyclic(self)
        _clauses(self)
        _apart(self)
        return self

    def thing(self, entity: str) -> str:
        """An entity as its user says it: `my employer`."""
        return f"{self.owner} {self.entities[entity].keyword}"

    def dependants(self, entity: str) -> list[str]:
        """What depends on it directly, in the bank's order."""
        return [edge.target for edge in self.edges if edge.source == entity]

    @property
    def orphans(self) -> list[str]:
        """Entities without an edge, in the bank's order."""
        tied = {name for edge in self.edges for name in (edge.source, edge.target)}
        return [name for name in self.entities if name not in tied]

    def pattern(self, source: str, target: str) -> str:
        """The pattern of the edge between them; the bank has one."""
        return next(edge.pattern for edge in self.edges if (edge.source, edge.target) == (source, target))


@cache
def bank_of(domain: Domain, folder: Path = BANKS) -> DomainBank:
    """A domain's bank. What is wrong with its file is a `UserError` that names file, field and value."""
    return read_rule_bank(folder / f"{domain}.toml", DomainBank)


def fill(template: str, **values: str) -> str:
    """A template with its slots filled, beginning with a capital letter."""
    text = _SLOT.sub(lambda found: values[found[1]], template)
    return text[0].upper() + text[1:]


def gold_sentences(domain: Domain, entities: Iterable[str] | None = None) -> list[str]:
    """Each value of each of `entities` (usually all of the domain) in the first of its templates."""
    bank = bank_of(domain)
    names = list(bank.entities if entities is None else entities)
    return [fill(bank.entities[name].says[0], value=value) for name in names for value in bank.entities[name].pool]


def _slots(text: str, wanted: set[str]) -> None:
    if (found := set(_SLOT.findall(text))) != wanted:
        raise ValueError(f"{text!r:.80} has the slots {sorted(found)}, not {sorted(wanted)}")


def _mentioned(bank: DomainBank) -> Iterator[str]:
    yield from (*bank.roots, *bank.tracking)
    for edge in bank.edges:
        yield from (edge.source, edge.target)
    for triple in bank.triples:
        yield from triple.members
    yield from (one.follows for one in bank.entities.values() if one.follows)


def _named(bank: DomainBank) -> None:
    if unknown := set(_mentioned(bank)) - set(bank.entities):
        raise ValueError(f"{sorted(unknown)} are named but are no entities")
    for name, one in bank.entities.items():
        if one.follows and set(one.fits) != set(bank.entities[one.follows].pool):
            raise ValueError(f"`fits` of {name!r} does not name every value of {one.follows!r}, and no other")


def _acyclic(bank: DomainBank) -> None:
    graph = TopologicalSorter(
        {name: {edge.source for edge in bank.edges if edge.target == name} for name in bank.entities}
    )
    try:
        graph.prepare()
    except CycleError as error:
        raise ValueError(f"these depend on one another in a circle: {error.args[1]}") from None


def _clauses(bank: DomainBank) -> None:
    if unknown := {edge.pattern for edge in bank.edges} ^ set(bank.patterns):
        raise ValueError(f"the patterns {sorted(unknown)} have clauses but no edge, or an edge but no clauses")
    for texts in bank.patterns.values():
        for text in texts:
            _slots(text, {"source"})
            if "depends on {source}" not in text or "if {source} changes" not in text:
                raise ValueError(f"{text!r:.80} does not say `depends on {{source}}` and `if {{source}} changes`")


def _apart(bank: DomainBank) -> None:
    """No value lies in another of the domain, and no keyword in another entity's keyword, sentence or value."""
    values = [value.lower() for one in bank.entities.values() for value in one.pool]
    for inner, outer in permutations(values, 2):
        if inner in outer:
            raise ValueError(f"the value {inner!r:.60} lies in {outer!r:.60}")
    texts = {name: " \n ".join((*one.says, one.ask, *one.pool)).lower() for name, one in bank.entities.items()}
    for (name, one), other in ((pair, other) for pair in bank.entities.items() for other in texts if other != pair[0]):
        if re.search(rf"(?<!\w){re.escape(one.keyword.lower())}(?!\w)", texts[other]):
            raise ValueError(f"the keyword {one.keyword!r} of {name!r} lies in the words of {other!r}")
