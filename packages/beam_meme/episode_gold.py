"""What the questions of an episode are worth, and where it was told: for scoring and the ceiling, never for a memory.

("MEME", arXiv 2605.12477, sections 2.1 and 2.3 of the fact sheet.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from beam_meme.episodes import Episode, Phase, Variant, message_places

MemeTask = Literal["exact_recall", "aggregation", "tracking", "deletion", "cascade", "absence"]
TASKS: tuple[MemeTask, ...] = get_args(MemeTask)
SHORT: Mapping[MemeTask, str] = {
    "exact_recall": "ER",
    "aggregation": "Agg",
    "tracking": "Tr",
    "deletion": "Del",
    "cascade": "Cas",
    "absence": "Abs",
}
"""The tags of the published tables."""

ToldKind = Literal["value", "update", "root", "dependency", "rule", "exact", "change", "deletion"]
"""`value`: told once (noise and Agg too), or the first of a tracked thing; `update`: a later value of it. `dependency`:
a dependent fact with its clause; `rule`: an if-then fact; `exact`: a string to be kept word for word. `change`: the new
value of the root; `deletion`: the request to forget."""


@dataclass(frozen=True, slots=True)
class Told:
    """A fact as a session tells it: which session (counted from 0) and which of its lines."""

    entity: str
    value: str
    kind: ToldKind | None
    session: int
    line: int


@dataclass(frozen=True, slots=True)
class Edge:
    """`target` depends on `source`; `hop` 1 is a direct dependant of the root. `pattern` sets the wording."""

    source: str
    target: str
    hop: int
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class MemeGold:
    """What an answer is held against.

    `values` are what the judge works on: the string (exact_recall), the members' values (aggregation), all values in
    time order (tracking), the new value (cascade), the old value (absence, deletion). Of a question asked before the
    change it is the value then. `expected` is the reference sentence. `hop` is 1 or 2 for cascade and absence. `entity`
    joins the questions of both rounds; of an aggregation it is the members' names joined by `+`.
    """

    question: str
    phase: Phase
    task: MemeTask
    entity: str
    values: tuple[str, ...]
    expected: str
    hop: int | None = None
    source: str = ""


@dataclass(frozen=True)
class EpisodeGold:
    """All gold of an episode. `evidence` are the sessions (counted from 0) that hold facts; the others are filler.

    `facts` are in the order told. `before` and `after` map every entity to its value in either state; None where it is
    deleted or uncertain.
    """

    root: str
    change: tuple[str, str]
    edges: tuple[Edge, ...]
    questions: Mapping[str, MemeGold]
    facts: tuple[Told, ...]
    evidence: tuple[int, ...]
    before: Mapping[str, str | None] = field(default_factory=dict)
    after: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadedEpisode:
    """An episode, and apart from it its gold. `notes` say what was odd and kept; `variant` is its file's."""

    episode: Episode
    gold: EpisodeGold
    variant: Variant | str
    notes: tuple[str, ...] = ()


def episode_evidence(loaded: LoadedEpisode) -> dict[str, tuple[int, ...]]:
    """By question id, the messages of the sessions read by then that tell a fact the question needs, in order.

    Needed are all facts of its entity (of each member, for an aggregation) and of whatever that depends on, up to the
    root: the rule and the change both (section 2.8 of the fact sheet). A place that no message has tells nothing.
    """
    episode, gold = loaded.episode, loaded.gold
    places = message_places(episode, len(episode.sessions))
    found = {}
    for question, one in gold.questions.items():
        entities = _upstream(one, gold)
        read = episode.rounds[one.phase].sessions
        told = [fact for fact in gold.facts if fact.entity in entities and fact.session < read]
        ids = {_message(places, fact.session, fact.line) for fact in told}
        found[question] = tuple(sorted(i for i in ids if i is not None))
    return found


def _upstream(one: MemeGold, gold: EpisodeGold) -> set[str]:
    """The entities of a question and all that they depend on."""
    found, new = set[str](), {one.entity, *one.entity.split("+")}
    while new:
        found |= new
        new = {edge.source for edge in gold.edges if edge.target in new} - found
    return found


def _message(places: Mapping[int, tuple[int, int]], session: int, line: int) -> int | None:
    """The message that holds a line: lines of one side in a row are one message, which is placed at its first."""
    before = [(at, -message) for message, (where, at) in places.items() if where == session and at <= line]
    return -max(before)[1] if before else None
