"""The material of conversations beside instructions: people, personas, fillers, and the offline writer's phrases.

They are read from `words/*.toml`; a test checks that the files are consistent. Nothing here knows how code is checked.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from beamlib.errors import UserError
from beamlib.files import read_text

BANK = Path(__file__).parent / "words"
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


class _Fillers(Part):
    filler: list[Filler] = Field(min_length=1)


class _Orders(Part):
    filler: list[FillerOrder] = Field(min_length=1)


AnyBank = TypeVar("AnyBank", bound=BaseModel)


def read_bank(path: Path, model: type[AnyBank]) -> AnyBank:
    """Read a bank file as `model`; raise `UserError` with file, field and value where it is invalid."""
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


@cache
def people() -> PeopleBank:
    """Return names and personas."""
    return read_bank(BANK / "people.toml", PeopleBank)


@cache
def fillers() -> tuple[Filler, ...]:
    """Return the general fillers by id."""
    return tuple(read_bank(BANK / "fillers.toml", _Fillers).filler)


@cache
def orders() -> tuple[FillerOrder, ...]:
    """Return the filler-instructions by id."""
    return tuple(read_bank(BANK / "filler_instructions.toml", _Orders).filler)


@cache
def phrases() -> Phrases:
    """Return the offline writer's phrases."""
    return read_bank(BANK / "phrases.toml", Phrases)
