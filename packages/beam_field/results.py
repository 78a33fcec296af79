"""The neutral form of published results, `beam-results/1`: a header and one row per question.

docs/publishing-results.md describes it. Every other format is converted into it (`formats`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from beamlib.data.checked_json import show
from beamlib.errors import UserError
from beamlib.evaluate.beam_records import Known, Provenance
from beamlib.evaluate.records import checked
from beamlib.files import to_json

RESULT_FORMAT = "beam-results/1"
FORMAT_ADVICE = "correct the file, or name its format with --format if it is another one."
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_KINDS = {str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "an object"}

_Value = TypeVar("_Value")


def printable_line(text: str) -> str:
    """Make a text safe to print on one line: control and direction characters become spaces."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def folder_name(label: str) -> str:
    """Turn a label into a name that a folder can have."""
    return _NOT_IN_NAMES.sub("-", label)[:60].strip("-._") or "run"


UnitScore = Annotated[float, Field(strict=True, ge=0, le=1)]
"""A score from 0 to 1. Anything else is refused: nothing is rounded or clipped."""
OrderScore = Annotated[float, Field(strict=True, ge=-1, le=1)]
"""A figure of event ordering, such as Kendall's tau."""
LongText = Annotated[str, Field(strict=True, max_length=10_000_000)]


def as_text(value: Any) -> Any:
    """Write what stands where a text belongs as text: a number as it is, null as nothing, anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else to_json(value)


LooseText = Annotated[LongText, BeforeValidator(as_text)]
"""A text that is neither matched nor scored: whatever stands in its place refuses no file."""
ShortText = Annotated[str, Field(strict=True, max_length=500), AfterValidator(printable_line)]
Natural = Annotated[int, Field(strict=True, ge=0, le=2**53)]
LooseNatural = Annotated[
    Natural | None, BeforeValidator(lambda value: value if type(value) is int and 0 <= value <= 2**53 else None)
]
"""A count that is only shown: None where something else stands in its place."""
Flag = Annotated[bool, Field(strict=True)]
Texts = Annotated[tuple[LongText, ...], Field(max_length=1_000)]


class _Strict(BaseModel):
    """Refuses unknown fields: a misspelt field would be lost."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NuggetResult(_Strict):
    """A verdict on one rubric item, in rubric order. `score` is None where the judge failed; `reason` then says why."""

    text: LooseText = ""
    score: UnitScore | None
    reason: LooseText = ""
    reply: LooseText = ""


class NuggetCounts(_Strict):
    """How many nuggets are satisfied fully, partly and not at all, where the source does not say which."""

    full: Natural
    partial: Natural
    none: Natural


class OrderedEvent(_Strict):
    """An item of an answer's list of events and the 0-based nugget that it matches, None for no match."""

    text: LongText
    nugget: Natural | None


class ResultRow(_Strict):
    """One question with its answer and verdicts. Only the question is required, by its text or by `probe`, its id here.

    `failed` says why there is no answer that could be judged. `score` is the question's own score, `order` the source's
    figure of event ordering. `votes` come from judges that saw no rubric: is the answer correct? `lines` are `events`
    of the answer cut at line ends. `tier` is needed where the header has none.
    """

    question: LongText = Field(default="", min_length=1)
    probe: ShortText = ""
    tier: ShortText = ""
    answer: LongText | None = None
    failed: LongText = ""
    nuggets: tuple[NuggetResult, ...] = ()
    counts: NuggetCounts | None = None
    votes: tuple[Flag, ...] = ()
    score: UnitScore | None = None
    order: OrderScore | None = None
    events: tuple[OrderedEvent, ...] | None = None
    lines: tuple[OrderedEvent, ...] | None = None
    rubric: Texts = ()
    reference: LooseText = ""
    context_chars: LooseNatural = None
    context_tokens: LooseNatural = None
    memories: LooseNatural = None
    cut: Flag | None = None

    @property
    def has_verdict(self) -> bool:
        """Whether anything was decided about the answer."""
        scored = any(nugget.score is not None for nugget in self.nuggets) or self.counts or self.votes
        return not self.failed and bool(scored or self.score is not None or self.events or self.lines)

    @model_validator(mode="before")
    @classmethod
    def _wrap_bare_scores(cls, value: Any) -> Any:
        """Accept nuggets as bare numbers or null."""
        if isinstance(value, dict) and isinstance(value.get("nuggets"), list):
            nuggets = [nugget if isinstance(nugget, dict) else {"score": nugget} for nugget in value["nuggets"]]
            return {**value, "nuggets": nuggets}
        return value

    @model_validator(mode="after")
    def _consistent(self) -> ResultRow:
        if bool(self.question) == bool(self.probe):
            raise ValueError("give either the question's text or its probe id")
        if self.nuggets and self.counts:
            raise ValueError("give nuggets or counts, not both")
        if self.counts and not sum(self.counts.model_dump().values()):
            raise ValueError("counts must count at least one nugget")
        for name, events in (("events", self.events), ("lines", self.lines)):
            used = [event.nugget for event in events or () if event.nugget is not None]
            if len(used) != len(set(used)):
                raise ValueError(f"{name} must name each nugget at most once")
        return self


class CleanProvenance(Provenance):
    """A provenance read from a file: its texts are short and safe to print."""

    @field_validator("*", mode="before")
    @classmethod
    def _clean(cls, value: Any) -> Any:
        if isinstance(value, str) and len(value) > 500:
            raise ValueError("Text should have at most 500 characters")
        return printable_line(value) if isinstance(value, str) else value


class Header(CleanProvenance):
    """The first line of a file in the neutral form: who made the results, and how they were judged."""

    format: str = Field(pattern=f"^{RESULT_FORMAT}$")
    system: str = Field(min_length=1)
    gold_in_prompt: Known
    tier: str = ""
    run: Natural | None = None


class ImportedRun(_Strict):
    """One run as a reader returns it.

    `label` names its arm, `number` tells runs of one system apart. Rows without a tier belong to the tier that knows
    most of their texts.
    """

    label: str
    provenance: CleanProvenance
    number: Natural | None = None
    rows: tuple[ResultRow, ...]


@dataclass(frozen=True)
class JsonEntry:
    """A JSON object of a result file, and the place that error messages name."""

    value: dict[str, Any]
    place: str

    def get(self, name: str, kind: type[_Value]) -> _Value | None:
        """Return a field of this exact type, None where it is missing or null; raise `UserError` for another type."""
        value = self.value.get(name)
        if value is None or type(value) is kind:
            return value
        raise UserError(f"{self.place}: field '{name}' is {show(value)}; expected {_KINDS[kind]}; {FORMAT_ADVICE}")

    def text(self, name: str) -> str:
        """Return a text, "" where it is missing or null."""
        return self.get(name, str) or ""

    def entry(self, name: str) -> JsonEntry:
        """Return an object, an empty one where it is missing or null."""
        return JsonEntry(self.get(name, dict) or {}, self.place)

    def entries(self, name: str) -> list[JsonEntry]:
        """Return a list of objects, empty where it is missing or null."""
        values = self.get(name, list) or []
        return [as_entry(value, f"{self.place}: {name}[{number}]") for number, value in enumerate(values)]

    def length(self, name: str) -> int | None:
        """Return the length of a text, None where there is no text."""
        value = self.value.get(name)
        return len(value) if isinstance(value, str) else None

    def renamed(self, **names: str) -> dict[str, Any]:
        """Return the fields that are present under our names (ours=theirs); a null counts only as a score."""
        fields = {ours: self.value.get(theirs) for ours, theirs in names.items() if theirs in self.value}
        return {ours: value for ours, value in fields.items() if value is not None or ours == "score"}

    def row(self, **fields: Any) -> ResultRow:
        """Build a row; raise `UserError` with this place where the fields are invalid or inconsistent."""
        return checked(ResultRow, fields, f"{self.place}: ", FORMAT_ADVICE)

    def run(self, label: str, rows: list[ResultRow], number: int | None = None, /, **provenance: str) -> ImportedRun:
        """Build a run; raise `UserError` with this place for an invalid provenance."""
        clean = checked(CleanProvenance, provenance, f"{self.place}: ", FORMAT_ADVICE)
        run = {"label": printable_line(label), "provenance": clean, "number": number, "rows": tuple(rows)}
        return checked(ImportedRun, run, f"{self.place}: ", FORMAT_ADVICE)


def as_entry(value: Any, place: str) -> JsonEntry:
    """Wrap a JSON object; raise `UserError` for any other value."""
    if not isinstance(value, dict):
        raise UserError(f"{place} is no JSON object; {FORMAT_ADVICE}")
    return JsonEntry(value, place)


@dataclass(frozen=True)
class ResultFile:
    """The content of one file: its name and its JSON value, for JSON lines the list of their values."""

    name: str
    value: Any

    def entry(self) -> JsonEntry:
        """Return the file's JSON object; raise `UserError` if it is none."""
        return as_entry(self.value, self.name)

    def lines(self, noun: str = "line") -> list[JsonEntry]:
        """Return the objects of a list or of JSON lines, numbered from 1; raise `UserError` for anything else."""
        values = self.value if isinstance(self.value, list) else [self.value]
        return [as_entry(value, f"{self.name}: {noun} {number}") for number, value in enumerate(values, start=1)]
