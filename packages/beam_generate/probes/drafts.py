"""Probing questions before they are chosen, and the conversation as their writers and checks see it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter

from beam_generate.probes.wording import content
from beam_generate.shapes import DialogueTurn
from beamlib.data.conversations import Ability
from beamlib.files import read_json, read_yaml, sha256, to_json

PER_ABILITY = 2
_KINDS = Path(__file__).with_name("abilities.yaml")
_REF = re.compile(r"\[?([0-9]+)\.([0-9]+)\.([0-9]+)\]?")


@dataclass(frozen=True, slots=True)
class AbilityKind:
    """How questions of one ability are written and published (`abilities.yaml`).

    `count` and `count_10m` are the numbers of candidates to ask for. With `pairs` a window at 10M is two consecutive
    plans. With `both_roles` the assistant's messages are shown and may be cited. A candidate has at least `least`
    bullets. `reference` is the published field of the reference answer, `listed` the field whose list stands behind it,
    `verb` that of the rubric ("LLM response should <verb>: "; empty for bare items). `parts` maps the name of a
    candidate's bullet, and of a part of the evidence, to the published name. `fields` are in the published order.
    """

    count: str
    count_10m: str
    pairs: bool
    both_roles: bool
    least: int
    reference: str
    fields: Mapping[str, type]
    verb: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    listed: str = ""


def _read_kinds() -> Mapping[Ability, AbilityKind]:
    types = {"*": list, "#": int}
    kinds: dict[Ability, AbilityKind] = {}
    for ability, values in read_yaml(_KINDS).items():
        fields = {name.rstrip("*#"): types.get(name[-1], str) for name in values["fields"].split()}
        kinds[ability] = AbilityKind(**{**values, "fields": fields})
    return kinds


PROBE_KINDS = _read_kinds()
"""How questions of each ability are written and published."""


class Ref(NamedTuple):
    """Position of a bullet: plan (0-based), batch and bullet (1-based). Written `0.3.12`."""

    plan: int
    batch: int
    bullet: int

    def __str__(self) -> str:
        return f"{self.plan}.{self.batch}.{self.bullet}"


def read_ref(value: Any) -> Ref | None:
    """Read a reference like `"0.3.12"` or `"[0.3.12]"`; None for anything else."""
    match = _REF.fullmatch(value.strip()) if isinstance(value, str) else None
    return Ref(*map(int, match.groups())) if match else None


@dataclass(frozen=True, slots=True)
class Spoken:
    """A message with its global id (0-based position in the conversation) and the bullet of its turn."""

    id: int
    role: Literal["user", "assistant"]
    text: str
    ref: Ref | None


class View:
    """A generated conversation by message id, by bullet and by word."""

    def __init__(self, plans: Sequence[Sequence[DialogueTurn]]) -> None:
        """Number the messages of `plans`, the turns of each plan in order."""
        messages: list[Spoken] = []
        self._turns: dict[Ref, list[tuple[Spoken, ...]]] = {}
        for turn in (turn for plan in plans for turn in plan):
            ref = Ref(turn.plan, turn.batch, turn.bullet) if turn.bullet is not None else None
            spoken = tuple(
                Spoken(len(messages) + place, message.role, message.text, ref)
                for place, message in enumerate(turn.messages)
            )
            messages.extend(spoken)
            if ref is not None:
                self._turns.setdefault(ref, []).append(spoken)
        self.messages: tuple[Spoken, ...] = tuple(messages)
        self._postings: dict[str, list[int]] = {}

    def turns_of(self, ref: Ref) -> list[tuple[Spoken, ...]]:
        """Return the turns whose main question is linked to a bullet, in order."""
        return self._turns.get(ref, [])

    def texts(self, ids: Iterable[int]) -> list[str]:
        """Return the texts of the messages among `ids` that exist."""
        return [self.messages[i].text for i in ids if 0 <= i < len(self.messages)]

    def ids_by_stem(self, stems: Iterable[str]) -> Mapping[str, Sequence[int]]:
        """Return for each stem the ids of all messages that hold it, ascending.

        New stems take one pass over the conversation together: ask for all at once.
        """
        wanted = frozenset(stems)
        if new := wanted - self._postings.keys():
            self._postings |= {one: [] for one in new}
            for message in self.messages:
                for one in content(message.text) & new:
                    self._postings[one].append(message.id)
        return {one: self._postings[one] for one in sorted(wanted)}


@dataclass(frozen=True, slots=True)
class Draft:
    """A probing question with all that is needed to check, review and publish it.

    `evidence` maps the published part ("" without parts) to message ids; it is empty for abstention. `fields` are the
    other published fields. `hints` are notes of the writer for the checks, never published: `entity`, `detail` and
    `keyword` for abstention, `old_value` and `new_value` for updates. `refs` are the bullets it rests on, `plans` the
    plans of its window. `dropped` names the check that it failed, `why` the reason.
    """

    ability: Ability
    question: str
    reference: str
    rubric: tuple[str, ...]
    evidence: Mapping[str, tuple[int, ...]]
    difficulty: str
    fields: Mapping[str, Any]
    about: str
    refs: tuple[Ref, ...]
    plans: tuple[int, ...]
    hints: Mapping[str, str] = field(default_factory=dict)
    dropped: str = ""
    why: str = ""

    @property
    def id(self) -> str:
        """Ability and a hash of the content, so that a decision never passes to a question with other content."""
        content = [self.question, self.reference, list(self.rubric), {k: list(v) for k, v in self.evidence.items()}]
        return f"{self.ability}-{sha256(to_json([self.ability, content, list(map(str, self.refs))]))[:10]}"

    @property
    def evidence_ids(self) -> tuple[int, ...]:
        """All cited ids, in order, without repeats."""
        return tuple(dict.fromkeys(i for ids in self.evidence.values() for i in ids))

    @property
    def where(self) -> str:
        """Place in notes on repairs: ability and bullets."""
        return f"{self.ability}, {' '.join(map(str, self.refs)) or self.about}"

    def to_record(self) -> dict[str, Any]:
        """Return the draft as an entry of `candidates.json`."""
        names = (one.name for one in dataclass_fields(self) if one.name != "refs")
        return {"id": self.id, "bullets": list(map(str, self.refs)), **{name: getattr(self, name) for name in names}}


def read_candidates(path: Path) -> tuple[Draft, ...]:
    """Read the drafts of a `candidates.json`."""
    records = [{**record, "refs": list(map(read_ref, record["bullets"]))} for record in read_json(path)]
    return TypeAdapter(tuple[Draft, ...]).validate_python(records)
