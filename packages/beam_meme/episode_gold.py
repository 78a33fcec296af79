"""What the questions of an episode are worth, and where it was told: for scoring and the ceiling, never for a memory.

("MEME", arXiv 2605.12477, sections 2.1 and 2.3 of the fact sheet.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from beam_meme.episodes import Episode, Phase, Variant

Task = Literal["exact_recall", "aggregation", "tracking", "deletion", "cascade", "absence"]
TASKS: tuple[Task, ...] = get_args(Task)
SHORT: Mapping[Task, str] = {
    "exact_recall": "ER",
    "aggregation": "Agg",
    "tracking": "Tr",
    "deletion": "Del",
    "cascade": "Cas",
    "absence": "Abs",
}
"""The tags of the published tables."""

FactKind = Literal["value", "update", "root", "dependency", "rule", "exact", "change", "deletion"]
"""`value`: told once (noise and Agg too), or the first of a tracked thing; `update`: a later value of it. `dependency`:
a dependent fact with its clause; `rule`: an if-then fact; `exact`: a string to be kept word for word. `change`: the new
value of the root; `deletion`: the request to forget."""


@dataclass(frozen=True, slots=True)
class Told:
    """A fact as a session tells it: which session (counted from 0) and which of its lines."""

    entity: str
    value: str
    kind: FactKind | None
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
    task: Task
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
