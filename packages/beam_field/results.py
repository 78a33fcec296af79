"""The neutral form of published results, `beam-results/1`, a header and a row per question.

docs/publishing-results.md describes it. Every other format is read into it, so that there is one path from here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from beamlib.errors import UserError
from beamlib.evaluate.imported import Known, Provenance
from beamlib.evaluate.run_store import checked

FORMAT = "beam-results/1"
Score = Annotated[float, Field(strict=True, ge=0, le=1)]
"""From 0 to 1. A score off that scale is refused: nothing is rounded or cut."""

Signed = Annotated[float, Field(strict=True, ge=-1, le=1)]
"""A figure of order, as Kendall's tau."""

Text = Annotated[str, Field(strict=True, max_length=10_000_000)]


def one_line(text: str) -> str:
    """A text as it can be printed in a line: spaces for whatever moves a cursor or turns the order of letters."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


Line = Annotated[str, Field(strict=True, max_length=500), AfterValidator(one_line)]
Count = Annotated[int, Field(strict=True, ge=0, le=2**53)]
Flag = Annotated[bool, Field(strict=True)]
Texts = Annotated[tuple[Text, ...], Field(max_length=1_000)]

ADVICE = "correct the file, or name its format with --format if it is of another one."
_REPLACED = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Source:
    """The content of one file: its name, and the JSON value or the list of a JSON-lines file's values."""

    name: str
    value: Any

    def lines(self) -> list[dict[str, Any]]:
        """The values of a JSON-lines file; one that is no object is a `UserError`."""
        values = self.value if isinstance(self.value, list) else [self.value]
        for number, line in enumerate(values, start=1):
            if not isinstance(line, dict):
                raise UserError(f"{self.name}: line {number} is no JSON object; {ADVICE}")
        return values


class Lenient(BaseModel):
    """A part of somebody's format: what it holds beyond the fields is passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Strict(BaseModel):
    """Unknown fields are refused: a misspelt one would be lost."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Nugget(Strict):
    """A verdict on one item of the rubric, in the rubric's order; `score` None where the judge failed, `reason` why."""

    text: Text = ""
    score: Score | None
    reason: Text = ""
    reply: Text = ""


class Counts(Strict):
    """How many nuggets are fully, partly and not satisfied, where it is not told which."""

    full: Count
    partial: Count
    none: Count


class Event(Strict):
    """An item of an answer's list of events, in its order: the 0-based nugget that it denotes, None for none."""

    text: Text
    nugget: Count | None


class Row(Strict):
    """One question: what was answered, and every verdict that there is. All but the question may be missing.

    It is named by its text or by `probe`, this project's id of it. `lines` are `events` of the answer cut at line ends.

    `failed` says why there is no answer (or none that could be judged). `score` is the question's own score, `order`
    the source's figure of event ordering. `votes` are of judges who saw no rubric: is it correct? `tier` is needed
    where the header has none.
    """

    question: Text = Field(default="", min_length=1)
    probe: Line = ""
    tier: Line = ""
    answer: Text | None = None
    failed: Text = ""
    nuggets: tuple[Nugget, ...] = ()
    counts: Counts | None = None
    votes: tuple[Flag, ...] = ()
    score: Score | None = None
    order: Signed | None = None
    events: tuple[Event, ...] | None = None
    lines: tuple[Event, ...] | None = None
    rubric: Texts = ()
    reference: Text = ""
    context_chars: Count | None = None
    context_tokens: Count | None = None
    memories: Count | None = None
    cut: Flag | None = None

    @model_validator(mode="before")
    @classmethod
    def _plain_scores(cls, value: Any) -> Any:
        """Nuggets may be given as bare numbers, or null."""
        if isinstance(value, dict) and isinstance(value.get("nuggets"), list):
            told = [one if isinstance(one, dict | Nugget) else {"score": one} for one in value["nuggets"]]
            return {**value, "nuggets": told}
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Row:
        if bool(self.question) == bool(self.probe):
            raise ValueError("give the question's text or its probe id, and one of them")
        if self.nuggets and self.counts:
            raise ValueError("give nuggets or counts, not both")
        if self.counts and not sum(self.counts.model_dump().values()):
            raise ValueError("counts must count at least one nugget")
        for name, events in (("events", self.events), ("lines", self.lines)):
            used = [event.nugget for event in events or () if event.nugget is not None]
            if len(used) != len(set(used)):
                raise ValueError(f"{name} must name each nugget at most once")
        return self


class Header(Provenance):
    """The first line of a file in the neutral form: who made the results, and how they were judged."""

    format: str = Field(pattern=f"^{FORMAT}$")
    system: Line = Field(min_length=1)
    reader: Line = ""
    judge: Line = ""
    judge_prompt: Line = ""
    prompt: Line = ""
    context: Line = ""
    cut: Line = ""
    licence: Line = ""
    where: Line = ""
    commit: Line = ""
    date: Line = ""
    gold_in_prompt: Known
    tier: Line = ""
    run: Count | None = None


class Read(BaseModel):
    """One run as a reader gives it: a `label` that names its arm, and what its format says of it.

    `number` tells runs of one system apart. Rows without a tier are of the one tier that knows most of their texts.
    """

    model_config = ConfigDict(frozen=True)

    label: str
    provenance: Provenance
    number: int | None = None
    rows: tuple[Row, ...]


def make_row(place: str, **fields: Any) -> Row:
    """The row of these fields; a `UserError` that begins with `place` where they cannot stand together."""
    return checked(Row, fields, f"{place}: ", ADVICE)


def plain(label: str) -> str:
    """A label as it can name a folder."""
    return _REPLACED.sub("-", label)[:60].strip("-._") or "run"
