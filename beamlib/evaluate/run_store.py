"""The records of one arm on file: a folder with a file of records per part, and a manifest with their checksums.

A *part* is a kind of record (answers, judgements), a *unit* is what a record is about (a conversation, a dialogue, an
episode). A part has a key, the hash of the settings, prompts, models and code behind it; a unit has the hashes of its
data. The manifest is written last and has a checksum of every unit, so a run that is killed at any instant resumes:
records that are lost, edited, or rest on another key or other data are computed again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple

from pydantic import BaseModel

from beamlib.errors import UserError
from beamlib.evaluate.records import ANSWERS, AnyManifest, ConversationRecord, UnitOutput, read_part
from beamlib.evaluate.timing import TIMES, Timing, read_timings
from beamlib.files import make_folder, to_json, write_text
from beamlib.memory.declared import young_settings
from beamlib.params import FIELDS, RunParameters
from beamlib.run import Run

# Whatever an answer depends on; the reports and the command line are left out on purpose.
MODEL_CODE = (
    *(f"beamlib.llm.{name}" for name in ("client", "exchange", "model", "prompts", "retrying")),
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


class Begun(NamedTuple):
    """The records of a unit about some of its questions, by part, and the ids of all its questions in order."""

    parts: Mapping[str, UnitOutput]
    order: Sequence[str]

    def questions(self, part: str) -> frozenset[str]:
        """The questions that have a record in a part."""
        return frozenset(record.probe_id for record in self.parts[part].records) if part in self.parts else frozenset()

    def completed(self, part: str, records: Sequence[Any]) -> list[Any]:
        """The records of a part with `records` about the other questions, in the order of the questions."""
        before = self.parts[part].records if part in self.parts else []
        return sorted([*before, *records], key=lambda record: self.order.index(record.probe_id))


_NOTHING = Begun({}, ())
_SHARE_OF_TIME = 10
"""A file is written again no sooner than this many times as long as the last writing took."""


class RunStore(Generic[AnyManifest]):
    """The folder of one arm: the records on file that are still valid, and those that are added.

    Args:
        folder: Where the files lie.
        kind: The class of the manifest.
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
    ) -> None:
        self.folder, self.fields = folder, dict(fields)
        self.outputs: dict[str, dict[str, UnitOutput]] = {part: {} for part in records}
        self.left_out: dict[str, str] = {}
        self.begun: dict[str, Begun] = {}
        """What `keep_part` kept, until the rest is added."""
        self.pending = False
        """Whether records were added that are not on file yet."""
        self._kind, self._records = kind, records
        self._changed, self._due = set(records), 0.0
        self._timings: dict[tuple[str, tuple[str, ...]], Timing] | None = None
        self._dropped = set[str]()
        self._kept_fields: dict[str, Any] = {}
        self._of_other_data: dict[str, dict[str, UnitOutput]] = {part: {} for part in records}

    @property
    def manifest_path(self) -> Path:
        """The manifest's file."""
        return self.folder / self._kind.file

    def key(self, part: str) -> str:
        """What the records of a part rest on, as a hash."""
        return str(self.fields.get(f"{part}_key", self.fields["answers_key"]))

    def records(self, part: str, unit: str) -> list[Any]:
        """The records of a unit that has this part."""
        return self.outputs[part][unit].records

    def find(self) -> AnyManifest | None:
        """Read the manifest; None where there is none, or one of another version, or one that was edited."""
        try:
            return self._kind.read(self.folder)
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
                if output.sha256 != stated.sha256.get(unit) or (unit in data and retry and output.transient):
                    continue
                current = unit not in data or output.data == data[unit]
                (self.outputs if current else self._of_other_data)[part][unit] = output
        self._drop_incomplete()
        self.fields |= manifest.kept_fields(any(self.outputs.values()))
        self._kept_fields = manifest.kept_fields(True)

    def _drop_incomplete(self) -> None:
        before: set[str] | None = None
        for units in self.outputs.values():
            for unit in () if before is None else units.keys() - before:
                del units[unit]
            before = set(units)

    def other_questions(self, unit: str) -> frozenset[str]:
        """The questions that the answers on file are about, where they rest on other data than the unit has now."""
        parts = {part: own[unit] for part, own in self._of_other_data.items() if unit in own}
        return Begun(parts, ()).questions(ANSWERS)

    def keep_part(self, unit: str, data: ConversationRecord, order: Sequence[str]) -> None:
        """Keep the records on file that rest on `data`, the unit with some of its questions; `order` has them all."""
        parts = {part: own[unit] for part, own in self._of_other_data.items() if unit in own and own[unit].data == data}
        if ANSWERS in parts:
            self.begun[unit] = Begun(parts, order)
            self.fields |= self._kept_fields

    def questions_begun(self, unit: str, part: str = ANSWERS) -> frozenset[str]:
        """The questions of a unit that have a record in `part`, and of which others are to be added."""
        return self.begun.get(unit, _NOTHING).questions(part)

    def leave_out(self, reasons: Mapping[str, str], asked: Collection[str]) -> None:
        """Drop the records of units that are left out; what is on file of units that are not `asked` for stays."""
        self.left_out = {**{key: why for key, why in self.left_out.items() if key not in asked}, **reasons}
        for unit in reasons:
            self.drop(unit)

    def drop(self, unit: str) -> None:
        """Drop all records of a unit, which are then computed again."""
        for units in self.outputs.values():
            units.pop(unit, None)
        self.begun.pop(unit, None)
        self._dropped.add(unit)

    def begin(self) -> None:
        """Create the folder: a place that cannot be written to fails now and not after the work."""
        make_folder(self.folder)

    def add(self, unit: str, data: ConversationRecord, records: Mapping[str, Sequence[BaseModel]]) -> None:
        """Record a unit's output by part, with what is begun. It is on file soon after, at the latest with `flush`."""
        for part, own in records.items():
            if part == TIMES:
                self._add_timings(own)
                continue
            every = self.begun[unit].completed(part, own) if unit in self.begun else list(own)
            self.outputs[part][unit] = UnitOutput(every, data)
            self._changed.add(part)
        self.pending = True
        if time.monotonic() >= self._due:
            self.flush()

    def _add_timings(self, rows: Iterable[Any]) -> None:
        """Add what was timed; a first measurement stays, as later ones may wait for no model."""
        if self._timings is None:
            on_file = read_timings(self.folder, self.key(ANSWERS))
            kept = (row for row in on_file if row.conversation_id not in self._dropped)
            self._timings = {(row.conversation_id, row.questions): row for row in kept}
        for row in rows:
            timed = row.model_copy(update={"key": self.key(ANSWERS)})
            self._timings.setdefault((row.conversation_id, row.questions), timed)

    def flush(self) -> None:
        """Write what is not on file yet, the manifest last."""
        started = time.monotonic()
        for part in sorted(self._changed):
            units = self._units(part)
            write_text(self.folder / f"{part}.jsonl", "".join(units[unit].text for unit in sorted(units)))
        if self._timings:
            lines = [to_json(self._timings[key].model_dump(mode="json")) + "\n" for key in sorted(self._timings)]
            write_text(self.folder / f"{TIMES}.log", "".join(lines))
        self._changed.clear()
        self.manifest().write(self.folder)
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
            raise UserError(f"{self.manifest_path}: it was changed by another process; run again.")
        return on_file

    def _stale(self, on_file: AnyManifest) -> bool:
        now = self.manifest()
        fixed = ("package_version", "commit")  # of the version that computed it
        ours, theirs = ({k: v for k, v in dict(one).items() if k not in fixed} for one in (now, on_file))
        return ours != theirs

    def _units(self, part: str) -> Mapping[str, UnitOutput]:
        """What a file has: the outputs, and of units without complete answers what is begun."""
        waiting = (unit for unit in self.begun if unit not in self.outputs[ANSWERS])
        begun = {unit: self.begun[unit].parts for unit in waiting}
        return {**{unit: parts[part] for unit, parts in begun.items() if part in parts}, **self.outputs[part]}

    def manifest(self) -> AnyManifest:
        """Build the manifest of the records that there are."""
        parts = {part: self._units(part) for part in self.outputs}
        sums = {part: {unit: own[unit].sha256 for unit in sorted(own)} for part, own in parts.items()}
        data = {unit: own.data for unit, own in parts[ANSWERS].items()}
        return self._kind.over(self.fields, data, self.left_out, sums)


def settings_of(parameters: RunParameters, names: Iterable[str]) -> dict[str, Any]:
    """Return the parameters of these names, without the younger ones that have their defaults.

    So records of runs that do not use a younger parameter stay what they were.
    """
    values, young = {name: parameters[name] for name in names}, young_settings()
    return {name: value for name, value in values.items() if name not in young or value != FIELDS[name].default}


def prompt_hashes(parameters: RunParameters, names: Iterable[str]) -> dict[str, str]:
    """The hashes of these prompts: as a `Run` has read them, else as they are on disk."""
    return Run.of(parameters).prompt_files.hashes(names)
