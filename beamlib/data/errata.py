"""Known defects of published questions, as data with a version (`errata.json`)."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from beamlib.data.conversations import ErrataMode, Probe
from beamlib.data.gold import Ability
from beamlib.errors import UserError
from beamlib.files import read_text, sha256

DefectKind = Literal[
    "count", "later", "order", "interval", "absent", "answerable", "other-rubric", "several", "citation"
]  # fmt: skip
"""What is wrong with a question, for errata, readings and planted defects; docs/readings.md says where each begins."""
Threshold = Literal["beyond doubt", "strict"]
"""How sure it is that a defect spoils the score: `errata: drop` leaves out the first, `strict` both."""
Detector = Literal[
    "interval", "reference_rubric", "foreign_rubric", "figure_not_cited", "date_not_said", "one_source", "order",
    "only_n_items", "shared_reference", "twin_rubric", "similar_question", "universal_failure",
]  # fmt: skip
"""The checks of `beam_claims.defects`; an erratum names those that show it."""
ERRATA_FILE = Path(__file__).with_name("errata.json")


class Erratum(BaseModel):
    """A defective question.

    Attributes:
        part: Where it is wrong: the expected answer (or the question itself), only the rubric, or only the citations.
        threshold: How sure it is that a right answer can lose points by it, or a wrong one gain some; None if it can't.
            The judge reads the rubric alone, so a wrong reference with a right rubric spoils nothing, nor do wrong
            citations.
        corrected: The rubric that the chat determines, in our words; empty where it determines none.
        question_sha256: Hash of the question's text, so that other data under the same ids is not touched.
        message_ids: Messages of the evaluated chat that show the defect.
        detectors: Checks that find it without a reader.
        checked: Who confirmed it and how, one text per check.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    question_id: str = Field(pattern=r"^(100K|500K|1M|10M)-[1-9][0-9]*-q[0-9]{2}$")
    ability: Ability
    kind: DefectKind
    part: Literal["answer", "rubric", "evidence"]
    threshold: Threshold | None
    question_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    defect: str = Field(min_length=20)
    corrected: tuple[Annotated[str, Field(min_length=4)], ...] = ()
    message_ids: tuple[int, ...] = ()
    detectors: tuple[Detector, ...] = ()
    checked: tuple[Annotated[str, Field(min_length=10)], ...] = Field(min_length=1)
    date: datetime.date

    @model_validator(mode="after")
    def _citations_are_not_judged(self) -> Self:
        if (self.part == "evidence") != (self.kind == "citation"):
            raise ValueError("part 'evidence' and kind 'citation' go together: correct one of them")
        if self.part == "evidence" and self.threshold:
            raise ValueError("wrong citations alone spoil no score: set threshold to null or name another kind")
        if self.corrected and self.threshold != "beyond doubt":
            raise ValueError("only a rubric that is wrong beyond doubt is corrected: remove `corrected`")
        return self

    @property
    def spoils_score(self) -> bool:
        """Whether it spoils the score beyond doubt."""
        return self.threshold == "beyond doubt"


class Reading(BaseModel):
    """How much of a tier was read: whole chats with every question, by two readers who did not know each other's.

    Attributes:
        spoiling: Questions that reach each threshold (500K: that both readers, or either, called spoiled), their share
            and its 95 % interval over conversations.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tier: str
    chats: int
    of_chats: int
    questions: int
    spoiling: dict[Threshold, tuple[int, float, float, float]] = {}

    def sentence(self) -> str:
        """Say what leaving out defective questions of this tier is worth."""
        if self.chats:
            return f"Errata: {self.chats} of {self.of_chats} chats of {self.tier} were read whole, with every question."
        only = f"no chat of {self.tier} was read whole, only questions that a check pointed at"
        return f"Errata: {only}, so more may be defective."


class Errata(BaseModel):
    """The list, its version, and how much was read for it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: str
    readings: tuple[Reading, ...] = ()
    entries: tuple[Erratum, ...]


@cache
def load_errata(path: Path = ERRATA_FILE) -> Errata:
    try:
        return Errata.model_validate_json(read_text(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: {where}: {first['msg']}; correct the entry.") from None


def reading_note(tier: str) -> str:
    """Return `Reading.sentence` of a tier; empty for a tier that the released data does not have."""
    return next((reading.sentence() for reading in load_errata().readings if reading.tier == tier.upper()), "")


def known_defects(probes: Sequence[Probe]) -> tuple[Erratum, ...]:
    """Return the errata about `probes`, in probe order."""
    entries = {entry.question_id: entry for entry in load_errata().entries}
    matches = ((entries.get(probe.id), probe) for probe in probes)
    return tuple(entry for entry, probe in matches if entry and entry.question_sha256 == sha256(probe.question))


def flagged_probes(probes: Sequence[Probe]) -> tuple[str, ...]:
    """Return the ids of the probes with an erratum, in probe order."""
    return tuple(entry.question_id for entry in known_defects(probes))


def spoilt_probes(probes: Sequence[Probe], mode: ErrataMode = "drop") -> frozenset[str]:
    """Return the ids of the listed probes that a mode of `errata` leaves out; none and flag leave out none."""
    entries = known_defects(probes) if mode in ("drop", "strict", "correct") else ()
    spoilt = [entry for entry in entries if entry.spoils_score or (mode == "strict" and entry.threshold)]
    return frozenset(entry.question_id for entry in spoilt if not (mode == "correct" and entry.corrected))


def corrected_rubrics(probes: Sequence[Probe]) -> Mapping[str, tuple[str, ...]]:
    """Return the rubrics that `errata: correct` judges by instead of the published ones."""
    return {entry.question_id: entry.corrected for entry in known_defects(probes) if entry.corrected}
