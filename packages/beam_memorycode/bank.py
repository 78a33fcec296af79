"""The instruction bank: our own queries with the published forms, values and checks, and `topics.json` of all seeds.

51 instructions with 123 values: ids 0 to 15 and 45 to 50 are about names, 16 to 24 about something being there, 25 to
30 about imports, 31 to 44 about decorators. Ids 6 to 15 have eight values each and are *updatable*; id 0 has three and
is not (section 3.1, and where the released data differ from it, the data).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from beam_memorycode.rule_gold import Kind, Rule
from beam_memorycode.talk import BANK, Part, Text, fillers, orders, people, read_bank, unique
from beam_memorycode.wordings import take_apart
from beamlib.errors import UserError

UPDATABLE = range(6, 16)
"""Ids whose later values are updates. Id 0 has several values too, but the released sampler adds it anew."""


class Instruction(Part):
    """A coding convention: its wordings and, beside them, how each is checked; one query for all."""

    id: int = Field(ge=0)
    kind: Kind
    query: Text
    shuffle: bool
    texts: list[Text] = Field(min_length=1)
    conditions: list[str | bool | list[str | bool]] = Field(min_length=1)

    @model_validator(mode="after")
    def _agrees(self) -> Instruction:
        if len(self.texts) != len(self.conditions):
            raise ValueError(f"has {len(self.texts)} texts and {len(self.conditions)} conditions")
        for text, condition in zip(self.texts, self.conditions, strict=True):
            wording = take_apart(text)
            if wording is None:
                raise ValueError(f"the text {text!r:.80} has none of the known forms (wordings.FORMS)")
            if wording.object and not self.kind.startswith(wording.object):
                raise ValueError(f"the text {text!r:.80} is not about the kind {self.kind!r}")
            if isinstance(condition, list) and not _names_one(condition):
                raise ValueError(f"the condition {condition!r:.80} is not [name, true]")
            if isinstance(condition, str):
                _compiles(condition)
        return self

    def rule(self, value: int) -> Rule:
        """The check of a value."""
        condition = self.conditions[value]
        return Rule(self.kind, (str(condition[0]), True) if isinstance(condition, list) else condition)


def _names_one(condition: list[str | bool]) -> bool:
    return len(condition) == 2 and isinstance(condition[0], str) and condition[1] is True


def _compiles(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"the condition {pattern!r:.80} is no regular expression ({error})") from None


class _Instructions(Part):
    instruction: list[Instruction] = Field(min_length=1)


@cache
def instructions(folder: Path = BANK) -> tuple[Instruction, ...]:
    """The instructions, by id, which count from 0. A `UserError` names what is wrong with the file."""
    path = folder / "instructions.toml"
    found = sorted(read_bank(path, _Instructions).instruction, key=lambda one: one.id)
    unique(path, "the id", [one.id for one in found])
    unique(path, "the text", [text for one in found for text in one.texts])
    unique(path, "the query", [one.query for one in found])
    if [one.id for one in found] != list(range(len(found))):
        raise UserError(f"{path}: the ids do not count from 0 without a gap; renumber them.")
    return tuple(found)


Seeds = dict[Literal["contexts", "personas", "instructions", "fillers", "fillers_instruction"], Any]


def topics_json(folder: Path = BANK) -> Seeds:
    """All seeds as the authors' `topics.json` holds them."""
    found = people(folder)
    return {
        "contexts": [pair.model_dump() for pair in found.pairs],
        "personas": {role: [one.text for one in getattr(found, role)] for role in ("mentor", "mentee")},
        "instructions": [
            {
                "id": one.id,
                "text": one.texts,
                "regex": [one.rule(value).as_json for value in range(len(one.texts))],
                "eval_query": one.query,
                "shuffle_updates": one.shuffle,
            }
            for one in instructions(folder)
        ],
        "fillers": [{"id": one.id, "text": one.text} for one in fillers(folder)],
        "fillers_instruction": [{"id": one.id, "text": one.texts} for one in orders(folder)],
    }
