"""The material of conversations beside instructions: people, personas, fillers, and the offline writer's phrases.

They are read from `words/*.toml`, our own data, and checked when read. Nothing here knows how code is checked.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from beamlib.errors import UserError
from beamlib.files import read_text

BANK = Path(__file__).parent / "words"
ALWAYS = frozenset({"mentor", "mentee", "company", "day", "person", "place", "project", "count", "when"})
"""Slots that any phrase may have."""

_ON_TOPIC = ALWAYS | {"about", "aspect", "other", "step"}
_POOLS = {
    "mentor": ("greet_first", "greet", "open", "again", "aspect", "step", "why", "code", "code_more",
        "code_reason", "close"),
    "mentee": ("hello_first", "hello", "ack", "ack_step", "ack_why", "ack_code", "ack_order", "bye"),
    "state": ("start", "end", "include", "digit", "case", "annotation", "statement", "docstring", "comment",
        "import", "decorator"),
    "frame": ("add", "update", "order", "order_update"),
}  # fmt: skip
_SLOT = re.compile(r"\{(\w+)\}")

Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
Pool = Annotated[list[Text], Field(min_length=2)]


class Part(BaseModel):
    """A part of a bank file: strict, frozen, no unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class MentorPair(Part):
    """A mentor, a mentee and their company, which belong together."""

    mentor: Text
    mentee: Text
    company: Text


class Persona(Part):
    """A character in prose, with `[mentor]` or `[mentee]` for the name; `id` finds its tone."""

    id: Text
    text: Text


class PeopleBank(Part):
    """Who can talk."""

    pairs: list[MentorPair] = Field(min_length=1)
    mentor: list[Persona] = Field(min_length=1)
    mentee: list[Persona] = Field(min_length=1)

    @model_validator(mode="after")
    def _placeholders(self) -> PeopleBank:
        for role in ("mentor", "mentee"):
            for persona in getattr(self, role):
                if f"[{role}]" not in persona.text:
                    raise ValueError(f"the persona {persona.id!r} of the {role} lacks [{role}]")
        for pair in self.pairs:
            if pair.mentor == pair.mentee:
                raise ValueError(f"{pair.mentor!r} cannot be mentor and mentee")
        return self


class Subject(Part):
    """Something to talk about: a noun phrase, what there is to it, and what one could do."""

    about: Text
    aspects: Pool
    steps: list[Text] = []


class Filler(Subject):
    """A general work topic; `text` names it in prompts."""

    id: int = Field(ge=0, le=100)
    text: Text


class FillerOrder(Subject):
    """A filler-instruction: its values read as after "to", and are used from the last to the first."""

    id: int = Field(ge=101)
    texts: list[Text] = Field(min_length=2)


class Tone(Part):
    """What personas add, by persona id."""

    mentor: dict[str, Pool]
    mentee: dict[str, Pool]


class Phrases(Part):
    """What the offline writer says: pools of templates, `[a|b]` a choice and `{slot}` to be filled in."""

    slots: dict[str, Pool]
    project: list[Subject] = Field(min_length=2)
    mentor: dict[str, Pool]
    mentee: dict[str, Pool]
    tone: Tone
    state: dict[str, Pool]
    frame: dict[str, Pool]

    @model_validator(mode="after")
    def _complete(self) -> Phrases:
        for group, names in _POOLS.items():
            if wrong := sorted(set(names) ^ set(getattr(self, group))):
                raise ValueError(f"[{group}] has to hold {', '.join(names)}; {wrong[0]!r} is missing or unknown")
        pools = {
            **{name: (_ON_TOPIC, pool) for name, pool in (*self.mentor.items(), *self.mentee.items())},
            **{name: (_ON_TOPIC, pool) for name, pool in (*self.tone.mentor.items(), *self.tone.mentee.items())},
            **{name: (frozenset({"object", "objects", "value"}), pool) for name, pool in self.state.items()},
            **{name: (ALWAYS | {"rule", "order", "about"}, pool) for name, pool in self.frame.items()},
        }
        for name, (slots, pool) in pools.items():
            for template in pool:
                check_template(name, template, slots)
        return self


def check_template(name: str, template: str, slots: Iterable[str]) -> None:
    """Raise `ValueError` where a template's brackets do not pair or a slot is unknown."""
    depth = 0
    for character in template:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if depth not in (0, 1):
            raise ValueError(f"{name}: the choices of {template!r:.90} nest or do not pair")
    if depth or re.search(r"[{}]", _SLOT.sub("", template)):
        raise ValueError(f"{name}: a bracket of {template!r:.90} does not pair")
    known = set(slots)
    for found in _SLOT.finditer(template):
        if found[1] not in known:
            raise ValueError(f"{name}: {template!r:.90} has the unknown slot {{{found[1]}}}")


class _Fillers(Part):
    filler: list[Filler] = Field(min_length=1)


class _Orders(Part):
    filler: list[FillerOrder] = Field(min_length=1)


AnyBank = TypeVar("AnyBank", bound=BaseModel)


def read_bank(path: Path, model: type[AnyBank]) -> AnyBank:
    """A bank file as `model`; what is wrong with it is a `UserError` that names file, field and value."""
    try:
        values: dict[str, Any] = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML ({error}); correct it.") from None
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        shown = f" is {first['input']!r:.60}" if first["loc"] else ""
        raise UserError(f"{path}: {where}{shown}: {first['msg'].removeprefix('Value error, ')}; correct it.") from None


def unique(path: Path, what: str, values: Sequence[object]) -> None:
    """A `UserError` where one of `values` occurs twice."""
    for place, value in enumerate(values):
        if value in values[:place]:
            raise UserError(f"{path}: {what} {value!r:.60} occurs twice; change one of them.")


@cache
def people(folder: Path = BANK) -> PeopleBank:
    """Names and personas."""
    path = folder / "people.toml"
    found = read_bank(path, PeopleBank)
    unique(path, "the pair", [(one.mentor, one.mentee) for one in found.pairs])
    for role in (found.mentor, found.mentee):
        unique(path, "the persona", [one.id for one in role])
    return found


@cache
def fillers(folder: Path = BANK) -> tuple[Filler, ...]:
    """The general fillers, by id."""
    path = folder / "fillers.toml"
    found = read_bank(path, _Fillers).filler
    unique(path, "the id", [one.id for one in found])
    unique(path, "the text", [one.text for one in found])
    return tuple(sorted(found, key=lambda one: one.id))


@cache
def orders(folder: Path = BANK) -> tuple[FillerOrder, ...]:
    """The filler-instructions, by id."""
    path = folder / "filler_instructions.toml"
    found = read_bank(path, _Orders).filler
    unique(path, "the id", [one.id for one in found])
    unique(path, "the value", [text for one in found for text in one.texts])
    return tuple(sorted(found, key=lambda one: one.id))


@cache
def phrases(folder: Path = BANK) -> Phrases:
    """The offline writer's phrases; each persona has to have its tone."""
    path = folder / "phrases.toml"
    found = read_bank(path, Phrases)
    for role, personas in (("mentor", people(folder).mentor), ("mentee", people(folder).mentee)):
        if missing := [one.id for one in personas if one.id not in getattr(found.tone, role)]:
            raise UserError(f"{path}: tone.{role} lacks the persona {missing[0]!r}; add it.")
    needed = ALWAYS - {"mentor", "mentee", "company", "project"}
    if missing := sorted(needed - set(found.slots)):
        raise UserError(f"{path}: slots.{missing[0]} is missing; add it.")
    return found
