"""A run's answers on file, in the authors' layout, and the manifest that says what they rest on.

`<run>/memorycode/outputs/<reader>/` holds the setups of Table 4, `<run>/memorycode/outputs/<reader>-<setup>/` each of
the others, whose answers are those after the last session. `run.json` beside them is written after them and vouches for
what it lists by hashes: answers that are gone, were changed, or rest on other data, settings, prompts or code are made
again, and a model is only asked for what its call store does not hold.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

import beamlib
from beam_memorycode.dialogues import Dialogue
from beam_memorycode.outputs import Outputs, read_outputs, write_outputs
from beam_memorycode.running import PART, arm_of, method_of
from beam_memorycode.setups import PROMPT, PUBLISHED, Place, Setup, places_of
from beamlib.errors import UserError
from beamlib.evaluate.calling import identities
from beamlib.evaluate.own import own_memory_hash
from beamlib.evaluate.records import Answer
from beamlib.evaluate.run_store import ANSWER_CODE, combined_hash, commit
from beamlib.files import code_hash, make_folder, read_json, sha256, to_json, write_json
from beamlib.llm.prompts import prompt_file
from beamlib.params import RunParameters

OFFLINE_READER = "offline"
"""Names the stand-in's folders."""

MANIFEST = "run.json"

_OUTPUT = re.compile(r"output_(\d{1,9})\.json")
_CODE = (
    *ANSWER_CODE,
    *(f"beam_memorycode.{name}" for name in ("conversation", "dialogues", "running", "setups")),
)
_RETRIEVAL = ("retriever", "encoder", "splade")
_SETTINGS: Mapping[Setup, tuple[str, ...]] = {
    "retrieval": _RETRIEVAL,
    "full_context": ("full_context_window", "token_counter"),
    "own": ("full_context_window", "token_counter", "memory_timeout"),
    "rag": (*_RETRIEVAL, "k", "reader_window", "token_counter"),
    "light": (
        *_RETRIEVAL, "k", "reader_window", "token_counter", "working_pairs", "context_budget", "episodic_share",
        "working_share", "scratchpad_threshold", "scratchpad_target", "chunk_percentile", "chunk_buffer",
    ),
}  # fmt: skip
_LIGHT_PROMPTS = ("episodic_keys", "scratchpad_compress", "scratchpad_filter", "scratchpad_notes")
_EVERY = 2.0  # seconds between two writings of a manifest: what is lost with one is made again without a call


class DialogueRecord(BaseModel):
    """A dialogue that a setup has finished: hashes of what was asked and answered, and what came of the calls.

    `unscored` counts answers that are missing by their reason, `gaps` those from a memory that lacks a reply of its
    model. `transient`: a failure among them may pass, and a run that records asks again.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: str
    answers_sha256: str
    answers: int
    unscored: dict[str, int]
    gaps: int
    transient: bool


class SetupRecord(BaseModel):
    """One setup of a folder. `key` hashes all that an answer depends on besides its dialogue.

    `left_out` are the dialogues of the run that the setup cannot be asked about, for want of texts.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    settings: dict[str, Any]
    prompts: dict[str, str]
    n: int
    answers: int
    unscored: dict[str, int]
    gaps: int
    left_out: tuple[int, ...]
    data_sha256: str
    dialogues: dict[str, DialogueRecord]


class RunManifest(BaseModel):
    """`run.json`. `reader` names the folder's reader, `models` what each role was answered by.

    `arm` is one of the setups, or empty for those of Table 4. The reader of `offline` is the stand-in, which `models`
    says in so many words: not a language model.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    suite: Literal["memorycode"] = "memorycode"
    reader: str
    arm: Setup | Literal[""]
    models: dict[str, dict[str, Any]]
    setups: dict[Setup, SetupRecord]
    code_sha256: str
    package_version: str
    commit: str


def outputs_folder(parameters: RunParameters) -> Path:
    """The folder that holds one folder per reader and arm."""
    return Path(parameters.run) / PART / "outputs"


def reader_name(parameters: RunParameters) -> str:
    """The reader's part of a folder's name: the backbone's name in the models file, or `offline`."""
    if not parameters.models:
        return OFFLINE_READER
    if parameters.backbone == OFFLINE_READER:
        raise UserError(f"{parameters.models}: a reader is called 'offline', as the stand-in is; give it another name.")
    return parameters.backbone


def folder_of(setup: Setup, parameters: RunParameters) -> Path:
    """Where the answers of a setup lie. `parameters` have to be resolved."""
    name = reader_name(parameters)
    return outputs_folder(parameters) / (name if setup in PUBLISHED else f"{name}-{setup}")


def dialogue_hash(dialogue: Dialogue) -> str:
    """Hash of all that a prompt can show of a dialogue."""
    people = dialogue.context
    sessions = [[one.text, list(one.instructions), list(one.queries)] for one in dialogue.sessions]
    return sha256(to_json([[people.mentor, people.mentee, people.company], sessions, list(dialogue.queries)]))


def setup_basis(setup: Setup, parameters: RunParameters) -> tuple[str, dict[str, Any], dict[str, str]]:
    """What an answer of a setup depends on besides its dialogue: the hash of it all, the settings, the prompts' hashes.

    `parameters` have to be resolved.
    """
    settings: dict[str, Any] = {name: getattr(parameters, name) for name in _SETTINGS.get(setup, ())}
    if setup in ("rag", "light"):
        settings["released"] = sorted(parameters.flags)
    if setup == "own":
        settings |= {"own_memory": arm_of(setup, parameters).name, "file": own_memory_hash(parameters.own_memory)}
    folder = Path(parameters.prompts) if parameters.prompts else None
    names = (PROMPT[setup], *(_LIGHT_PROMPTS if setup == "light" else ()))
    prompts = {name: prompt_file(name, folder).sha256 for name in names}
    models = identities(parameters, method_of(setup))
    roles = ("reader", "memory", "compressor") if setup == "light" else ("reader",)
    rests_on = [setup, settings, prompts, {role: models[role] for role in roles}, code_hash(_CODE)]
    return sha256(to_json(rests_on)), settings, prompts


@dataclass
class OutputFolder:
    """One reader's answers in one arm: what is on file and still valid, and what comes to it.

    `arm` is one of the setups, or empty for those of Table 4.
    """

    arm: Setup | Literal[""]
    parameters: RunParameters
    outputs: dict[int, Outputs] = field(default_factory=dict)
    records: dict[Setup, dict[int, DialogueRecord]] = field(default_factory=dict)
    left_out: dict[Setup, tuple[int, ...]] = field(default_factory=dict)
    _partly: set[int] = field(default_factory=set)  # dialogues whose file holds more than is valid
    _bases: dict[Setup, tuple[str, dict[str, Any], dict[str, str]]] = field(default_factory=dict)
    _written: float = 0.0

    @property
    def path(self) -> Path:
        """The folder itself."""
        return folder_of(self.arm or PUBLISHED[0], self.parameters)

    @property
    def setups(self) -> tuple[Setup, ...]:
        """The setups whose answers it holds."""
        return (self.arm,) if self.arm else PUBLISHED

    def open(self, dialogues: Sequence[Dialogue], anew: Collection[tuple[Setup, int]] = ()) -> None:
        """Take over what is on file and valid for `dialogues`; `anew` are setups with ids of which nothing is taken.

        `UserError` where the folder holds outputs that no manifest of this reader speaks of: they are someone's own.
        """
        manifest = _read_manifest(self.path)
        if manifest is None:
            if any(_OUTPUT.fullmatch(file.name) for file in self.path.glob("output_*.json")):
                raise UserError(
                    f"{self.path}: holds outputs that no {MANIFEST} speaks of; move them away, then run again."
                )
            return
        if (manifest.reader, manifest.arm) != (reader_name(self.parameters), self.arm):
            raise UserError(
                f"{self.path}: holds what the reader '{manifest.reader}' answered; give the reader another name in the "
                "models file, or this run another name."
            )
        valid = {
            setup: held.dialogues
            for setup, held in manifest.setups.items()
            if setup in self.setups and held.key == self._basis(setup)[0]
        }
        self.left_out = {setup: manifest.setups[setup].left_out for setup in valid}
        listed = [one for one in dialogues if any(str(one.id) in records for records in valid.values())]
        found = self._readable(listed)
        for dialogue in listed:
            records = {
                setup: records[str(dialogue.id)]
                for setup, records in valid.items()
                if str(dialogue.id) in records and (setup, dialogue.id) not in anew
            }
            if dialogue.id in found:
                self._take_over(dialogue, records, found[dialogue.id])

    def begin(self) -> None:
        """Make the folder, with a manifest: a run killed after its first outputs has to know them for its own."""
        make_folder(self.path)  # a place that cannot be written to shows now and not after the work
        for setup in self.setups:
            self._basis(setup)
        if not (self.path / MANIFEST).exists():
            self.write_manifest()

    def _basis(self, setup: Setup) -> tuple[str, dict[str, Any], dict[str, str]]:
        """`setup_basis` as it was at first: what is edited meanwhile must not vouch for what was made without it."""
        if setup not in self._bases:
            self._bases[setup] = setup_basis(setup, self.parameters)
        return self._bases[setup]

    def _readable(self, dialogues: Sequence[Dialogue]) -> dict[int, Outputs]:
        """The outputs on file; those that are gone or damaged are not among them, so that they are made again."""
        try:
            return read_outputs(self.path, dialogues) if dialogues else {}
        except UserError:
            found: dict[int, Outputs] = {}
        for dialogue in dialogues:
            try:
                found |= read_outputs(self.path, [dialogue])
            except UserError:
                continue
        return found

    def _take_over(self, dialogue: Dialogue, records: Mapping[Setup, DialogueRecord], held: Outputs) -> None:
        asked = dialogue_hash(dialogue)
        kept: dict[str, Any] = {}
        for setup, record in records.items():
            answers = getattr(held, _name(setup))
            again = record.transient and self.parameters.calls == "record"
            if record.sha256 == asked and record.answers_sha256 == _hash(answers) and not again:
                kept[_name(setup)] = answers
                self.records.setdefault(setup, {})[dialogue.id] = record
        if kept:
            self.outputs[dialogue.id] = Outputs(dialogue.id, **kept)
            if self.outputs[dialogue.id] != held:
                self._partly.add(dialogue.id)

    def has(self, setup: Setup, dialogue: Dialogue) -> bool:
        """Whether the answers of a dialogue are on file and valid."""
        return dialogue.id in self.records.get(setup, {})

    def take(self, dialogue: Dialogue, setup: Setup, answers: Sequence[Answer]) -> None:
        """Write a dialogue's answers; the manifest follows by and by."""
        value = _laid_out(dialogue, setup, answers)
        changed: dict[str, Any] = {_name(setup): value}
        self.outputs[dialogue.id] = replace(self.outputs.get(dialogue.id, Outputs(dialogue.id)), **changed)
        write_outputs(self.path, self.outputs[dialogue.id])
        self._partly.discard(dialogue.id)
        reasons = Counter(answer.unscored for answer in answers if answer.unscored is not None)
        self.records.setdefault(setup, {})[dialogue.id] = DialogueRecord(
            sha256=dialogue_hash(dialogue),
            answers_sha256=_hash(value),
            answers=len(answers),
            unscored=dict(sorted(reasons.items())),
            gaps=sum(answer.gaps > 0 for answer in answers),  # its reading's gaps are behind every answer
            transient=any(answer.transient for answer in answers),
        )
        if time.monotonic() - self._written > _EVERY:
            self.write_manifest()

    def close(self) -> RunManifest:
        """Write the manifest, and drop from the folder's outputs what it cannot vouch for."""
        for file in sorted(self.path.glob("output_*.json")):
            named = _OUTPUT.fullmatch(file.name)
            if named and int(named[1]) not in self.outputs:
                file.unlink()
        for number in sorted(self._partly):
            write_outputs(self.path, self.outputs[number])
        return self.write_manifest()

    def write_manifest(self) -> RunManifest:
        """Write `run.json` over what there is by now."""
        models = identities(self.parameters, method_of(self.arm) if self.arm else "")
        roles = ("reader", "memory", "compressor") if "light" in self.setups else ("reader",)
        others = (
            {} if self.arm else {"reader of histories": identities(self.parameters, method_of("history"))["reader"]}
        )
        manifest = RunManifest(
            reader=reader_name(self.parameters),
            arm=self.arm,
            models={role: models[role] for role in roles}
            | {role: one for role, one in others.items() if one != models["reader"]},
            setups={setup: self._setup_record(setup) for setup in self.setups if self._concerns(setup)},
            code_sha256=code_hash(_CODE),
            package_version=beamlib.__version__,
            commit=commit(),
        )
        write_json(self.path / MANIFEST, manifest.model_dump(mode="json"))
        self._written = time.monotonic()
        return manifest

    def _concerns(self, setup: Setup) -> bool:
        return bool(self.records.get(setup) or self.left_out.get(setup))

    def _setup_record(self, setup: Setup) -> SetupRecord:
        key, settings, prompts = self._basis(setup)
        records = {str(number): record for number, record in sorted(self.records.get(setup, {}).items())}
        reasons: Counter[str] = Counter()
        for record in records.values():
            reasons.update(record.unscored)
        return SetupRecord(
            key=key,
            settings=settings,
            prompts=prompts,
            n=len(records),
            answers=sum(record.answers for record in records.values()),
            unscored=dict(sorted(reasons.items())),
            gaps=sum(record.gaps for record in records.values()),
            left_out=self.left_out.get(setup, ()),
            data_sha256=combined_hash({name: record.sha256 for name, record in records.items()}),
            dialogues=records,
        )


def read_manifest(folder: Path) -> RunManifest:
    """The manifest of one reader and arm; `UserError` where there is none or it is damaged."""
    found = _read_manifest(folder)
    if found is None:
        raise UserError(f"{folder / MANIFEST}: the file does not exist; run the setups first.")
    return found


def _read_manifest(folder: Path) -> RunManifest | None:
    path = folder / MANIFEST
    if not path.exists():
        return None
    try:
        return RunManifest.model_validate(read_json(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: field '{where}': {first['msg']}; delete the folder and run again.") from None


def _name(setup: Setup) -> str:
    """The part of `Outputs` that holds a setup's answers."""
    return setup if setup in PUBLISHED else "history"


def _hash(value: Any) -> str:
    return sha256(to_json(value).encode("utf-8", "surrogatepass"))


def _laid_out(dialogue: Dialogue, setup: Setup, answers: Sequence[Answer]) -> tuple[Any, ...]:
    """Answers as `Outputs` holds them: by session, or those after the last."""
    texts: dict[Place, str | None] = {
        place: answer.text for place, answer in zip(places_of(dialogue, setup), answers, strict=True)
    }
    if _name(setup) == "history":
        return tuple(texts.values())
    return tuple(
        tuple(texts[Place(number, query)] for query in range(len(session.queries)))
        for number, session in enumerate(dialogue.sessions)
    )
