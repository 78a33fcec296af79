"""The 2,000 released questions as hashes of tier and exact text: what is matched without any data set."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from beamlib.data.gold import ABILITIES, Ability
from beamlib.errors import UserError
from beamlib.files import read_text, sha256

QUESTIONS = Path(__file__).with_name("questions.csv")


@dataclass(frozen=True, slots=True)
class Question:
    """A released question: its probe id, what it tests, and how many nuggets its rubric has."""

    probe_id: str
    ability: Ability
    nuggets: int

    @property
    def conversation_id(self) -> str:
        """The conversation that it asks about."""
        return self.probe_id.rpartition("-")[0]

    @property
    def tier(self) -> str:
        """The tier of that conversation."""
        return self.probe_id.partition("-")[0]


def question_hash(tier: str, text: str) -> str:
    """What a question is recognised by: 16 hexadecimal digits of the SHA-256 of tier, a newline and its exact text."""
    return sha256(f"{tier}\n{text}".encode("utf-8", "surrogatepass"))[:16]


@cache
def questions(path: Path = QUESTIONS) -> Mapping[str, Question]:
    """The released questions by `question_hash`, conversation by conversation in file order."""
    names = {str(ability): ability for ability in ABILITIES}
    rows = csv.DictReader(read_text(path).splitlines())
    try:
        found = [(row["sha256"], Question(row["probe"], names[row["ability"]], int(row["nuggets"]))) for row in rows]
    except (KeyError, ValueError) as error:
        raise UserError(f"{path}: no table of questions ({error}); restore the file.") from None
    if len(table := dict(found)) != len(found):
        raise UserError(f"{path}: a hash stands there twice; restore the file.")
    return table


@cache
def by_probe(path: Path = QUESTIONS) -> Mapping[str, Question]:
    """The same by probe id."""
    return {question.probe_id: question for question in questions(path).values()}
