"""Records on file, as they are read and as they are scored: manifests, checksums, the parts of an arm's folder.

Reports and scoring read these and nothing else of a run. `beamlib.evaluate.run_store` writes them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from beamlib import __version__
from beamlib.data.conversations import FileState
from beamlib.errors import UserError
from beamlib.files import read_json, read_jsonl, sha256, to_json, write_json
from beamlib.llm.exchange import Basis
from beamlib.memory.protocol import NO_CUTS, Cuts
from beamlib.places import ROOT


@dataclass(frozen=True, slots=True)
class ContextLosses:
    """What the contexts of some answers lack, for the footer of a table.

    Attributes:
        gaps: Answers behind which a call of the memory returned nothing usable.
        cut_answers: Answers whose context lacks something that was recalled.
        cuts: The sum of what did not fit.
    """

    gaps: int = 0
    cut_answers: int = 0
    cuts: Cuts = NO_CUTS

    @classmethod
    def of(cls, answers: Iterable[Answer]) -> ContextLosses:
        """Count over `answers`; those that do not record cuts count as having none."""
        answers = list(answers)
        cuts = [answer.cuts for answer in answers if answer.cuts and answer.cuts != NO_CUTS]
        return cls(sum(answer.gaps > 0 for answer in answers), len(cuts), sum(cuts, NO_CUTS))

    def __add__(self, other: ContextLosses) -> ContextLosses:
        return ContextLosses(self.gaps + other.gaps, self.cut_answers + other.cut_answers, self.cuts + other.cuts)


NO_LOSSES = ContextLosses()


class Answer(BaseModel):
    """The reader's answer to one probe, or the reason why there is none.

    Attributes:
        text: The answer; exactly one of `text` and `unscored` is set.
        unscored: Why a call failed. Where it was the reader's, the rest still says what the context showed.
        transient: Whether a later run asks again: the call failed for the time being, or was refused.
        message_ids: Messages that the context speaks of.
        parts: The same by part of the memory.
        partial_ids: Those of `message_ids` whose text is not whole in the context. None where this was not recorded.
        cuts: What was recalled and did not fit into the context. None where this was not recorded.
        context_tokens: Size of the context by the counter that the manifest names.
        gaps: Calls of the memory that returned nothing usable.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    probe_id: str
    conversation_id: str
    text: str | None = None
    unscored: str | None = None
    transient: bool = False
    message_ids: tuple[int, ...] = ()
    parts: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    partial_ids: tuple[int, ...] | None = None
    cuts: Cuts | None = None
    context_tokens: int = 0
    gaps: int = 0

    @model_validator(mode="after")
    def _one_outcome(self) -> Answer:
        if (self.text is None) == (self.unscored is None):
            raise ValueError("exactly one of text and unscored must be set")
        return self

    @model_serializer(mode="wrap")
    def _recorded(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Imported answers and those of other tasks lack these fields.
        record: dict[str, Any] = dump(self)
        added = ("partial_ids", "cuts")
        return {name: value for name, value in record.items() if name not in added or value is not None}

    @property
    def context_key(self) -> tuple[object, ...]:
        """Name what the context was made of: two of one conversation that share it are taken to be equal.

        Records hold no hash of the text, but its messages by part and order, which of them are not whole, and its
        tokens. What did not fit (`cuts`) is not part of a context.
        """
        return (self.message_ids, tuple(self.parts.items()), self.partial_ids, self.context_tokens)

    @property
    def context_recorded(self) -> bool:
        """Whether the record says what the context showed: also where the reader failed, but for imported answers."""
        return self.unscored is None or self.cuts is not None

    @property
    def whole_ids(self) -> frozenset[int]:
        """Messages whose text is whole in the context; all `message_ids` where this was not recorded."""
        return frozenset(self.message_ids) - frozenset(self.partial_ids or ())


RUN = "run.json"
"""The manifest in the folder of an arm of a task other than BEAM."""

ANSWERS, JUDGEMENTS = "answers", "judgements"
"""The parts that every task has. A task without a judge leaves the second one empty."""
OTHER_VERSION = "the file was not written by this version, delete the folder and run again."
Record = TypeVar("Record", bound=BaseModel)


class ConversationRecord(BaseModel):
    """What a unit's records rest on: hashes of its content as it was read, and of its questions with their gold.

    `origin` says where the unit came from, `files` of each file that was read whether it is the released one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    variant: str
    sha256: str
    questions_sha256: str
    origin: str = ""
    files: dict[str, FileState] = Field(default_factory=dict)


@dataclass(frozen=True)
class UnitOutput:
    """The records of one unit in one part, the hashes of the unit's data, and whether a failed call may be retried."""

    records: list[Any]
    data: ConversationRecord

    @cached_property
    def text(self) -> str:
        """The records as lines of JSON."""
        return "".join(to_json(record.model_dump(mode="json")) + "\n" for record in self.records)

    @cached_property
    def sha256(self) -> str:
        return sha256(self.text.encode("utf-8", "surrogatepass"))  # a damaged file may hold half a character

    @property
    def transient(self) -> bool:
        """Whether one of the records is a failure that another try may mend."""
        return any(getattr(record, "transient", False) for record in self.records)


class Checksums(NamedTuple):
    """What a manifest states about a part: its key, and a hash by unit."""

    key: str
    sha256: Mapping[str, str]


class RunManifest(BaseModel):
    """What the records of one arm rest on. Loading a manifest without any of these fields fails.

    `conversations` has the hashes of each unit's data, `answers_sha256` and `judgements_sha256` the checksum of its
    records. `left_out` names units that were skipped, with the reason. `notes` are for the footers of tables.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Annotated[Literal[1], Basis.COMPUTED] = 1
    arm: Annotated[str, Basis.COMPUTED]
    settings: dict[str, Any]
    reader: Annotated[str, Basis.COMPUTED]
    judge: Annotated[str, Basis.COMPUTED]
    models: Annotated[dict[str, dict[str, Any]], Basis.COMPUTED]
    conversations: Annotated[dict[str, ConversationRecord], Basis.COMPUTED]
    data_sha256: Annotated[str, Basis.COMPUTED]
    question_set_sha256: Annotated[str, Basis.COMPUTED]
    prompts: dict[str, str]
    package_version: str
    commit: str
    answers_key: str
    judgements_key: str
    answers_sha256: Annotated[dict[str, str], Basis.COMPUTED]
    judgements_sha256: Annotated[dict[str, str], Basis.COMPUTED]
    left_out: Annotated[dict[str, str], Basis.COMPUTED] = Field(default_factory=dict)
    notes: Annotated[tuple[str, ...], Basis.COMPUTED] = ()

    file: ClassVar[str] = RUN

    @classmethod
    def read(cls, folder: Path) -> Self:
        return read_task_manifest(folder / cls.file, cls)

    @classmethod
    def over(
        cls,
        fields: Mapping[str, Any],
        conversations: Mapping[str, ConversationRecord],
        left_out: Mapping[str, str],
        sums: Mapping[str, Mapping[str, str]],
    ) -> Self:
        """Build the manifest with these `fields` over these units; `sums` are the checksums by part and unit."""
        ordered = dict(sorted(conversations.items()))
        checksums = {
            part: {unit: of_part[unit] for unit in ordered if unit in of_part} for part, of_part in sums.items()
        }
        hashes = {
            "answers_sha256": checksums.pop(ANSWERS, {}), "judgements_sha256": checksums.pop(JUDGEMENTS, {}),
            "data_sha256": combined_hash({key: record.sha256 for key, record in ordered.items()}),
            "question_set_sha256": combined_hash({key: record.questions_sha256 for key, record in ordered.items()}),
            **({"extra_sha256": checksums} if checksums else {}),
        }  # fmt: skip
        return cls.model_validate({**fields, "conversations": ordered, "left_out": left_out, **hashes})

    def write(self, folder: Path) -> None:
        """Write it, after all records that it has checksums of."""
        write_manifest(folder / self.file, self)

    def kept_fields(self, any_kept: bool) -> dict[str, Any]:
        """Return the fields that records on file pass on to a later manifest."""
        return {}

    def checksums(self) -> dict[str, Checksums]:
        """The key and the checksums of each part; answers outlive a change of judge."""
        return {
            ANSWERS: Checksums(self.answers_key, self.answers_sha256),
            JUDGEMENTS: Checksums(self.judgements_key, self.judgements_sha256),
        }


class TaskManifest(RunManifest):
    """The manifest of a task's arm. `task` is its name; `extra_sha256` has the checksums of its further parts."""

    task: str
    extra_sha256: dict[str, dict[str, str]] = Field(default_factory=dict)

    def checksums(self) -> dict[str, Checksums]:
        """Those of answers and judgements, and of further parts, which rest on what the answers rest on."""
        extra = {part: Checksums(self.answers_key, sums) for part, sums in self.extra_sha256.items()}
        return {**super().checksums(), **extra}


AnyManifest = TypeVar("AnyManifest", bound=RunManifest)


def read_part(
    folder: Path, part: str, kind: type[Record], conversations: Mapping[str, ConversationRecord]
) -> dict[str, UnitOutput]:
    """Read the records of a part by unit, for the units in `conversations`; nothing where the file is missing."""
    path = folder / f"{part}.jsonl"
    if not path.exists():
        return {}
    groups: dict[str, list[Record]] = {unit: [] for unit in conversations}
    for record in read_records(path, kind):
        groups.get(record.conversation_id, []).append(record)  # type: ignore[attr-defined]
    return {unit: UnitOutput(group, conversations[unit]) for unit, group in groups.items()}


def read_records(path: Path, kind: type[Record]) -> list[Record]:
    """Read a file of records; a `UserError` names the record and field that is wrong."""
    rows = enumerate(read_jsonl(path), start=1)
    return [checked(kind, row, f"{path}: record {n}, ", "delete the file and run again.") for n, row in rows]


def write_manifest(path: Path, manifest: BaseModel) -> None:
    """Write a manifest with its seal, the field `sha256`: the hash of all others."""
    value = manifest.model_dump(mode="json")
    write_json(path, {**value, "sha256": sha256(to_json(value))})


def read_task_manifest(path: Path, kind: type[Record]) -> Record:
    """Read the manifest at `path`; a `UserError` where it is of another version, or was edited."""
    value = read_json(path)
    stated = value.pop("sha256", None) if isinstance(value, dict) else None
    manifest = checked(kind, value, f"{path}: ")
    if stated != sha256(to_json(value).encode("utf-8", "surrogatepass")):
        raise UserError(f"{path}: it was changed after it was written; delete the folder and run again.")
    return manifest


def checked(kind: type[Record], value: object, where: str, advice: str = OTHER_VERSION, *, within: str = "") -> Record:
    """Validate `value` as a `kind`; a `UserError` names the first field that is wrong, `within` what it lies in."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        field = within + ".".join(map(str, first["loc"])) or kind.__name__.strip("_").lower()
        wrong = first["input"]
        shown = f" is {wrong!r:.40}" if isinstance(wrong, int | float | None) else ""  # a text may be long, or a key
        as_json = first["msg"].replace("a valid tuple", "a list").replace("a valid dictionary", "an object")
        raise UserError(f"{where}field '{field}'{shown}: {as_json}; {advice}") from None


def made_by() -> dict[str, str]:

    return {"package_version": __version__, "commit": commit()}


@cache
def commit() -> str:
    """The checkout's commit, with `+changes` where the working tree differs; `unknown` outside a checkout."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        return process.stdout.strip() if process.returncode == 0 else ""

    try:
        head = git("rev-parse", "HEAD")
        return (head + ("+changes" if git("status", "--porcelain", "--", "beamlib", "packages") else "")) or "unknown"
    except OSError:
        return "unknown"


def combined_hash(hashes: Mapping[str, str]) -> str:
    """One hash for a set of named hashes, whatever their order."""
    return sha256(to_json(dict(hashes)))


def left_out_line(left_out: Mapping[str, str]) -> str:
    """Write the footer line for conversations that could not be read: "1 conversation left out: 100K-7 (reason)."."""
    keys = sorted(left_out, key=lambda key: (len(key), key))
    reasons = ", ".join(f"{key} ({left_out[key]})" for key in keys)
    return f"{len(left_out)} conversation{'s' if len(left_out) > 1 else ''} left out: {reasons}."
