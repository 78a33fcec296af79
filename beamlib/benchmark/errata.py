"""Known defects of published questions, as data with a version (`errata.json`)."""

from __future__ import annotations

import datetime
from collections.abc import Container, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from beamlib.benchmark.gold import Ability
from beamlib.benchmark.model import Probe
from beamlib.errors import UserError
from beamlib.files import read_text, sha256

Kind = Literal["answer", "rubric", "evidence"]
SPOILS_SCORE: frozenset[Kind] = frozenset({"answer", "rubric"})
"""Kinds of defect for which a right answer can score low; the third only misleads evidence recall."""
ERRATA_FILE = Path(__file__).with_name("errata.json")


class Erratum(BaseModel):
    """One defective question.

    `question_sha256` is the hash of the question's text: the erratum speaks of that question only, so that other data
    under the same ids is not touched. `kind` says what is wrong: the expected answer (or the question itself), only the
    rubric, or only the cited messages. `message_ids` are the messages that show the defect.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    question_id: str = Field(pattern=r"^(100K|500K|1M|10M)-[1-9][0-9]*-q[0-9]{2}$")
    ability: Ability
    kind: Kind
    question_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    defect: str = Field(min_length=20)
    message_ids: tuple[int, ...] = ()
    found_by: str = Field(min_length=1)
    date: datetime.date


class Errata(BaseModel):
    """The list and its version, which changes whenever the list does."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: str
    entries: tuple[Erratum, ...]


@cache
def load_errata(path: Path = ERRATA_FILE) -> Errata:
    """The errata list; a malformed one is a `UserError`."""
    try:
        return Errata.model_validate_json(read_text(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: {where}: {first['msg']}; correct the entry.") from None


def flagged_probes(probes: Sequence[Probe], kinds: Container[Kind] = get_args(Kind)) -> tuple[str, ...]:
    """Ids of the probes that an erratum of one of `kinds` names, in probe order."""
    hashes = {entry.question_id: entry.question_sha256 for entry in load_errata().entries if entry.kind in kinds}
    return tuple(probe.id for probe in probes if probe.id in hashes and hashes[probe.id] == sha256(probe.question))
