"""Who read which question against its chat, and what they found: data (`readings.csv`), apart from the errata list.

A reading is one reader's verdict on one question. `assess` puts the readings of a question together at two thresholds:
*beyond doubt* and *strict*. docs/readings.md has the protocol.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from beamlib.data.conversations import Probe
from beamlib.data.errata import DefectKind, Threshold
from beamlib.data.gold import Ability
from beamlib.errors import UserError
from beamlib.files import read_text, sha256

READINGS_FILE = Path(__file__).with_name("readings.csv")
PLANTED_FILE = Path(__file__).with_name("planted.csv")

Selection = Literal["census", "random", "detector", "universal-failure", "disagreement", "listed"]
"""Why a question was read. Shares come from `census` and `random` alone: the others look where defects are likely (of
`disagreement`, with questions among them that the first readers agree on; `listed`: the errata or readings have it)."""
Verdict = Literal["right", "citation", "doubtful", "spoiled"]


def _parts(value: object) -> object:
    """Split a cell of several values; an empty one has none."""
    return [part for part in value.split(";") if part] if isinstance(value, str) else value


class QuestionReading(BaseModel):
    """A line of `readings.csv`.

    Attributes:
        protocol: How it was read. `blind`: without the list of errata and without other readers' verdicts. `informed`:
            with both, to settle an entry; such a reading says nothing of how far readers agree.
        read: What was read: the cited messages, those named in `messages`, what a search of the chat found, the user's
            whole side.
        verdict: `spoiled`: a right answer can lose points, or a wrong one gain some. `citation`: only the cited
            messages are wrong. `doubtful`: one can read it either way.
        confidence: From 1 (a guess) to 3 (certain).
        messages: Ids, in the evaluated chat, of the messages that show it.
        question_sha256: Hash of the question's text, so that other data under the same ids is not touched.
        reason: One sentence of ours; empty where the question is right.
        corrected: The rubric that the chat supports, in our words, items parted by " | "; empty if it decides none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str = Field(pattern=r"^(100K|500K|1M|10M)-[1-9][0-9]*-q[0-9]{2}$")
    ability: Ability
    reader: str = Field(pattern=r"^[A-Za-z0-9-]+$")
    protocol: Literal["blind", "informed"]
    selection: Selection
    read: Annotated[tuple[Literal["cited", "named", "search", "user-side"], ...], BeforeValidator(_parts)] = Field(
        min_length=1
    )
    verdict: Verdict
    kind: Annotated[DefectKind | None, BeforeValidator(lambda value: value or None)] = None
    confidence: int = Field(ge=1, le=3)
    messages: Annotated[tuple[int, ...], BeforeValidator(_parts)] = ()
    question_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    reason: str = ""
    corrected: str = ""

    @model_validator(mode="after")
    def _a_finding_has_kind_and_reason(self) -> Self:
        if self.verdict == "right" and (self.kind or self.reason or self.corrected):
            raise ValueError("a right question has neither kind nor reason nor corrected rubric: leave them empty")
        if self.verdict != "right" and not (self.kind and self.reason):
            raise ValueError(f"verdict '{self.verdict}' needs a kind and a reason: fill them in")
        if (self.verdict == "citation") != (self.kind == "citation"):
            raise ValueError("verdict and kind 'citation' go together: correct one of them")
        return self

    @property
    def drawn(self) -> bool:
        """Whether the question was read for its own sake, so that shares and agreement may count it."""
        return self.selection in ("census", "random") and self.protocol == "blind"


class PlantedReading(BaseModel):
    """A line of `planted.csv`: what a reader said of an item of a blind sheet, and what the item was.

    Attributes:
        question: The released question that the item is a copy of.
        role: `planted`: a defect was planted in a question that was right. `control`: untouched, and right by every
            reader before. `unread`: untouched, and nobody knows.
        plant: Which defect, such as "stale value"; empty if none.
        kind: The kind of that defect.
        named: The kind that the reader named.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    reader: str = Field(pattern=r"^[A-Za-z0-9_-]+$")
    question: str
    role: Literal["planted", "control", "unread"]
    plant: str = ""
    kind: Annotated[DefectKind | None, BeforeValidator(lambda value: value or None)] = None
    verdict: Verdict
    named: Annotated[DefectKind | None, BeforeValidator(lambda value: value or None)] = None


@dataclass(frozen=True)
class Assessment:
    """What the readings of one question say together.

    Attributes:
        threshold: The stricter threshold that it reaches, None if it may be trusted. See `assess`.
        kind: The kind that most readers name at that threshold; None if there is no threshold.
        counts: Whether one of the readings is `drawn`.
    """

    question: str
    ability: Ability
    question_sha256: str
    threshold: Threshold | None
    kind: DefectKind | None
    counts: bool

    @property
    def tier(self) -> str:
        return self.question.partition("-")[0]

    @property
    def conversation(self) -> str:
        return self.question.rpartition("-")[0]


@cache
def load_planted() -> tuple[PlantedReading, ...]:
    """Load what readers said of blind sheets with planted defects."""
    return tuple(map(PlantedReading.model_validate, csv.DictReader(io.StringIO(read_text(PLANTED_FILE)))))


@cache
def load_readings(path: Path = READINGS_FILE) -> tuple[QuestionReading, ...]:
    """Load the readings; raise `UserError` for a malformed line or for two lines of one reader on one question."""
    rows = csv.DictReader(io.StringIO(read_text(path)))
    readings: dict[tuple[str, str], QuestionReading] = {}
    for row in rows:
        try:
            reading = QuestionReading.model_validate(row)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "row"
            raise UserError(f"{path}:{rows.line_num}: {where}: {first['msg']}; correct the line.") from None
        if (reading.question, reading.reader) in readings:
            raise UserError(
                f"{path}:{rows.line_num}: reader {reading.reader} has a verdict on {reading.question} already;"
                " keep one of the two lines."
            )
        readings[reading.question, reading.reader] = reading
    return tuple(readings.values())


def assess(readings: Iterable[QuestionReading]) -> tuple[Assessment, ...]:
    """Put the readings of each question together, in the order of their first lines.

    Beyond doubt: two readers call it spoiled by another kind than `several`, or three by any kind. Readers are
    generous with `several` (other answers fit as well), which they judge alike for lack of a rule, so that two of
    them do not decide it. Strict: at least one calls it spoiled, or two doubtful.
    """
    by_question: dict[str, list[QuestionReading]] = {}
    for reading in readings:
        by_question.setdefault(reading.question, []).append(reading)
    assessments = []
    for first, *others in by_question.values():
        spoiled = [reading.kind for reading in (first, *others) if reading.verdict == "spoiled"]
        doubtful = [reading.kind for reading in (first, *others) if reading.verdict == "doubtful"]
        threshold: Threshold | None = None
        if sum(kind != "several" for kind in spoiled) >= 2 or len(spoiled) >= 3:
            threshold = "beyond doubt"
        elif spoiled or len(doubtful) >= 2:
            threshold = "strict"
        kind = Counter(spoiled or doubtful).most_common(1)[0][0] if threshold else None
        drawn = any(reading.drawn for reading in (first, *others))
        identity = (first.question, first.ability, first.question_sha256)
        assessments.append(Assessment(*identity, threshold=threshold, kind=kind, counts=drawn))
    return tuple(assessments)


def doubted_probes(probes: Sequence[Probe]) -> frozenset[str]:
    """Return the ids of the probes that the readings doubt at either threshold."""
    assessments = assess(load_readings())
    doubted = {each.question: each.question_sha256 for each in assessments if each.threshold}
    return frozenset(probe.id for probe in probes if doubted.get(probe.id) == sha256(probe.question))
