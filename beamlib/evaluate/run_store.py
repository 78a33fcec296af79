"""The records of one arm on file: a folder with a file of records per part, and a manifest with their checksums.

A *part* is a kind of record (answers, judgements), a *unit* is what a record is about (a conversation, a dialogue, an
episode). A part has a key, the hash of the settings, prompts, models and code behind it; a unit has the hashes of its
data. The manifest is written last and has a checksum of every unit, so a run that is killed at any instant resumes:
records that are lost, edited, or rest on another key or other data are computed again.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import beamlib
from beamlib.data.checked_json import State
from beamlib.errors import UserError
from beamlib.files import make_folder, read_json, read_jsonl, sha256, to_json, write_json, write_text
from beamlib.memory.declared import young_settings
from beamlib.params import FIELDS, RunParameters
from beamlib.places import ROOT
from beamlib.run import Run

ANSWERS, JUDGEMENTS = "answers", "judgements"
"""The parts that every task has. A task without a judge leaves the second one empty."""

# Whatever an answer depends on; the reports and the command line are left out on purpose.
MODEL_CODE = (
    *(f"beamlib.llm.{name}" for name in ("chat_turns", "client", "model", "prompts", "retrying")),
    "beam_offline", "beam_generate.read_facts",
    "beamlib.llm.json_replies", "beamlib.llm.thoughts",
)  # fmt: skip
ANSWER_CODE = (
    "beamlib.data",
    "beamlib.memory",
    *MODEL_CODE,
    "beamlib.llm.embedding_model",
    "beamlib.retrieval",
    "beamlib.retrieval.embedded",
    *(f"beamlib.evaluate.{name}" for name in ("answering", "ingest_cache")),
    *(f"beam_memories.{name}" for name in ("memory_process", "own_memory", "own_process", "programs", "transformer")),
    "beamlib.text",
)

OTHER_VERSION = "the file was not written by this version, delete the folder and run again."

_SHARE_OF_TIME = 10
"""A file is written again no sooner than this many times as long as the last writing took."""

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
    files: dict[str, State] = Field(default_factory=dict)


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
        """Hash of the text."""
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

    schema_version: Literal[1] = 1
    arm: str
    settings: dict[str, Any]
    reader: str
    judge: str
    models: dict[str, dict[str, Any]]
    conversations: dict[str, ConversationRecord]
    data_sha256: str
    question_set_sha256: str
    prompts: dict[str, str]
    package_version: str
    commit: str
    answers_key: str
    judgements_key: str
    answers_sha256: dict[str, str]
    judgements_sha256: dict[str, str]
    left_out: dict[str, str] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def checksums(self) -> dict[str, Checksums]:
        """The key and the checksums of each part; answers outlive a change of judge."""
        return {
            ANSWERS: Checksums(self.answers_key, self.answers_sha256),
            JUDGEMENTS: Checksums(self.judgements_key, self.judgements_sha256),
        }


AnyManifest = TypeVar("AnyManifest", bound=RunManifest)


class RunStore(Generic[AnyManifest]):
    """The folder of one arm: the records on file that are still valid, and those that are added.

    Args:
        folder: Where the files lie.
        kind: The class of the manifest, and `name` its file.
        records: The class of the records by part, in the order in which they are computed: a part is valid for a unit
            only where the parts before it are.
        fields: What the manifest states beside its records. It is taken when the run begins: prompts, models or code
            that are edited meanwhile must not be recorded for answers that were made without them.
    """

    def __init__(
        self,
        folder: Path,
        kind: type[AnyManifest],
        records: Mapping[str, type[BaseModel]],
        fields: Mapping[str, Any],
        name: str = "run.json",
    ) -> None:
        self.folder, self.name, self.fields = folder, name, dict(fields)
        self.outputs: dict[str, dict[str, UnitOutput]] = {part: {} for part in records}
        self.left_out: dict[str, str] = {}
        self.pending = False
        """Whether records were added that are not on file yet."""
        self._kind, self._records = kind, records
        self._changed, self._due = set(records), 0.0

    def key(self, part: str) -> str:
        """What the records of a part rest on, as a hash."""
        return str(self.fields.get(f"{part}_key", self.fields["answers_key"]))

    def records(self, part: str, unit: str) -> list[Any]:
        """The records of a unit that has this part."""
        return self.outputs[part][unit].records

    def find(self) -> AnyManifest | None:
        """Read the manifest; None where there is none, or one of another version, or one that was edited."""
        try:
            return read_task_manifest(self.folder / self.name, self._kind)
        except UserError:
            return None

    def open(self, data: Mapping[str, ConversationRecord], *, retry: bool) -> None:
        """Load the records on file that are valid.

        Args:
            data: The hashes of the units' data as they are now. Records of other units are kept as they are.
            retry: Whether to drop units with a failure that another try may mend.
        """
        manifest = self.find()
        if manifest is None:
            return
        self.left_out = dict(manifest.left_out)
        checksums = manifest.checksums()
        for part in self.outputs:
            stated = checksums.get(part)
            if stated is None or stated.key != self.key(part):
                continue
            for unit, output in read_part(self.folder, part, self._records[part], manifest.conversations).items():
                valid = unit not in data or (output.data == data[unit] and not (retry and output.transient))
                if valid and output.sha256 == stated.sha256.get(unit):
                    self.outputs[part][unit] = output
        self._drop_incomplete()

    def _drop_incomplete(self) -> None:
        before: set[str] | None = None
        for units in self.outputs.values():
            for unit in () if before is None else units.keys() - before:
                del units[unit]
            before = set(units)

    def leave_out(self, reasons: Mapping[str, str], asked: Collection[str]) -> None:
        """Drop the records of units that are left out; what is on file of units that are not `asked` for stays."""
        self.left_out = {**{key: why for key, why in self.left_out.items() if key not in asked}, **reasons}
        for unit in reasons:
            self.drop(unit)

    def drop(self, unit: str) -> None:
        """Drop all records of a unit, which are then computed again."""
        for units in self.outputs.values():
            units.pop(unit, None)

    def begin(self) -> None:
        """Create the folder: a place that cannot be written to fails now and not after the work."""
        make_folder(self.folder)

    def add(self, unit: str, data: ConversationRecord, records: Mapping[str, Sequence[BaseModel]]) -> None:
        """Record a unit's output by part. It is on file soon after, and at the latest with `flush`."""
        for part, own in records.items():
            self.outputs[part][unit] = UnitOutput(list(own), data)
            self._changed.add(part)
        self.pending = True
        if time.monotonic() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Write what is not on file yet, the manifest last."""
        started = time.monotonic()
        for part in sorted(self._changed):
            units = self.outputs[part]
            write_text(self.folder / f"{part}.jsonl", "".join(units[unit].text for unit in sorted(units)))
        self._changed.clear()
        self.write_manifest()
        self.pending = False
        self._due = time.monotonic() + _SHARE_OF_TIME * (time.monotonic() - started)

    def finish(self) -> AnyManifest:
        """Return the manifest on file; write it where something is not on file or stated otherwise."""
        on_file = self.find()
        if on_file is None or self._stale(on_file):
            self._changed = set(self.outputs)
            self.flush()
            on_file = self.find()
        if on_file is None:
            raise UserError(f"{self.folder / self.name}: it was changed by another process; run again.")
        return on_file

    def _stale(self, on_file: AnyManifest) -> bool:
        now = self.manifest()
        fixed = ("package_version", "commit")  # of the version that computed it
        ours, theirs = ({k: v for k, v in dict(one).items() if k not in fixed} for one in (now, on_file))
        return ours != theirs

    def manifest(self) -> AnyManifest:
        """Build the manifest of the records that there are."""
        units = self.outputs[ANSWERS]
        sums = {part: {unit: own[unit].sha256 for unit in sorted(own)} for part, own in self.outputs.items()}
        return build_manifest(self._kind, self.fields, {unit: own.data for unit, own in units.items()},
                             self.left_out, sums)  # fmt: skip

    def write_manifest(self) -> AnyManifest:
        """Write the manifest, after all records that it has checksums of."""
        manifest = self.manifest()
        write_manifest(self.folder / self.name, manifest)
        return manifest


def build_manifest(
    kind: type[AnyManifest],
    fields: Mapping[str, Any],
    conversations: Mapping[str, ConversationRecord],
    left_out: Mapping[str, str],
    sums: Mapping[str, Mapping[str, str]],
) -> AnyManifest:
    """Build the manifest with these `fields` over these units; `sums` are the checksums by part and unit."""
    ordered = dict(sorted(conversations.items()))
    named = {part: {key: own[key] for key in ordered if key in own} for part, own in sums.items()}
    further = {part: own for part, own in named.items() if part not in (ANSWERS, JUDGEMENTS)}
    return kind.model_validate(
        {
            **fields,
            "conversations": ordered,
            "data_sha256": combined_hash({key: record.sha256 for key, record in ordered.items()}),
            "question_set_sha256": combined_hash({key: record.questions_sha256 for key, record in ordered.items()}),
            "left_out": left_out,
            "answers_sha256": named.get(ANSWERS, {}),
            "judgements_sha256": named.get(JUDGEMENTS, {}),
            **({"extra_sha256": further} if further else {}),
        }
    )


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
    """The version and commit that every manifest names."""
    return {"package_version": beamlib.__version__, "commit": commit()}


@cache
def commit() -> str:
    """The checkout's commit, with `+changes` where the working tree differs; `unknown` outside a checkout."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        head = git("rev-parse", "HEAD")
        return (head + ("+changes" if git("status", "--porcelain", "--", "beamlib", "packages") else "")) or "unknown"
    except OSError:
        return "unknown"


def settings_of(parameters: RunParameters, names: Iterable[str]) -> dict[str, Any]:
    """Return the parameters of these names, without the younger ones that have their defaults.

    So records of runs that do not use a younger parameter stay what they were.
    """
    values, young = {name: parameters[name] for name in names}, young_settings()
    return {name: value for name, value in values.items() if name not in young or value != FIELDS[name].default}


def prompt_hashes(parameters: RunParameters, names: Iterable[str]) -> dict[str, str]:
    """The hashes of these prompts: as a `Run` has read them, else as they are on disk."""
    return Run.of(parameters).prompt_files.hashes(names)


def combined_hash(hashes: Mapping[str, str]) -> str:
    """One hash for a set of named hashes, whatever their order."""
    return sha256(to_json(dict(hashes)))
