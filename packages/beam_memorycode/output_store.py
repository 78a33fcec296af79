"""A run's answers on file, in the authors' layout, and the manifest that says what they rest on.

`<run>/memorycode/outputs/<reader>/` holds the setups of Table 4, `<run>/memorycode/outputs/<reader>-<setup>/` each of
the others, whose answers are those after the last session. What is taken over, and what is made again, is said in
`beamlib.evaluate.run_store`: a part is a setup here, a unit a dialogue by its number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from beam_memories.programs import own_settings
from beam_memorycode.dialogues import Dialogue
from beam_memorycode.outputs import Outputs, read_output, write_outputs
from beam_memorycode.running import PART, arm_of, method_of
from beam_memorycode.setups import PROMPT, PUBLISHED, Place, Setup, places_of
from beam_suite.orders import counted, reader_name
from beamlib.errors import UserError
from beamlib.evaluate.answer_record import Answer
from beamlib.evaluate.calling import ResolvedParameters, identities
from beamlib.evaluate.run_store import (
    ANSWER_CODE,
    Made,
    RunStore,
    Vouched,
    combined_hash,
    made_by,
    prompt_hashes,
    read_manifest,
    settings_of,
)
from beamlib.files import code_hash, sha256, to_json
from beamlib.params import RunParameters

Arm = Setup | Literal[""]
"""One of the setups that have a folder of their own, or empty for those of Table 4."""

MANIFEST = "run.json"
NO_TEXTS = "no texts"
"""Why a setup was not asked about a dialogue."""

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
    arm: Arm
    models: dict[str, dict[str, Any]]
    setups: dict[Setup, SetupRecord]
    code_sha256: str
    package_version: str
    commit: str


def arm_of_setup(setup: Setup) -> Arm:
    """The arm whose folder holds a setup's answers."""
    return "" if setup in PUBLISHED else setup


def dialogue_hash(dialogue: Dialogue) -> str:
    """Hash of all that a prompt can show of a dialogue."""
    people = dialogue.context
    sessions = [[one.text, list(one.instructions), list(one.queries)] for one in dialogue.sessions]
    return sha256(to_json([[people.mentor, people.mentee, people.company], sessions, list(dialogue.queries)]))


def setup_basis(setup: Setup, parameters: ResolvedParameters) -> tuple[str, dict[str, Any], dict[str, str]]:
    """What an answer of a setup depends on besides its dialogue: a hash of all, the settings, the prompts' hashes."""
    settings = settings_of(parameters, _SETTINGS.get(setup, ()))
    if setup in ("rag", "light"):
        settings["released"] = sorted(parameters.flags)
    if setup == "own":
        settings |= own_settings(arm_of(setup, parameters).name, parameters.own_memory)
    prompts = prompt_hashes(parameters, (PROMPT[setup], *(_LIGHT_PROMPTS if setup == "light" else ())))
    models = identities(parameters, method_of(setup))
    roles = ("reader", "memory", "compressor") if setup == "light" else ("reader",)
    rests_on = [setup, settings, prompts, {role: models[role] for role in roles}, code_hash(_CODE)]
    return sha256(to_json(rests_on)), settings, prompts


class SetupAnswers(NamedTuple):
    """The answers of a dialogue in a setup, as `Outputs` holds them, and their record."""

    record: DialogueRecord
    texts: tuple[Any, ...] | None


def made(record: DialogueRecord, texts: tuple[Any, ...] | None) -> Made[SetupAnswers]:
    """Answers that are on file or come to it."""
    return Made(SetupAnswers(record, texts), record.sha256, to_json(texts), record.transient)


def answered(dialogue: Dialogue, setup: Setup, answers: Sequence[Answer]) -> Made[SetupAnswers]:
    """A dialogue's answers in a setup, for its folder."""
    texts = _laid_out(dialogue, setup, answers)
    record = DialogueRecord(
        sha256=dialogue_hash(dialogue),
        answers_sha256=sha256(to_json(texts).encode("utf-8", "surrogatepass")),
        answers=len(answers),
        unscored=counted(answer.unscored for answer in answers if answer.unscored is not None),
        gaps=sum(answer.gaps > 0 for answer in answers),  # its reading's gaps are behind every answer
        transient=any(answer.transient for answer in answers),
    )
    return made(record, texts)


class OutputFolder(RunStore[RunManifest, SetupAnswers]):
    """One reader's answers in one arm about `dialogues`."""

    name = MANIFEST
    every = 2.0

    def __init__(self, arm: Arm, parameters: ResolvedParameters, dialogues: Sequence[Dialogue]) -> None:
        self.arm = arm
        self.setups: tuple[Setup, ...] = (arm,) if arm else PUBLISHED
        self._dialogues = {str(one.id): one for one in dialogues}
        self._found: dict[str, Outputs] = {}
        self._bases = {setup: setup_basis(setup, parameters) for setup in self.setups}
        reader = reader_name(parameters)
        self._begun: dict[str, Any] = {"reader": reader, "arm": arm, "models": _models(arm, parameters)}
        self._begun |= {"code_sha256": code_hash(_CODE), **made_by()}
        folder = Path(parameters.run) / PART / "outputs" / (f"{reader}-{arm}" if arm else reader)
        super().__init__(folder, {setup: basis[0] for setup, basis in self._bases.items()})

    def find(self) -> RunManifest | None:
        """The manifest; `UserError` where it is another reader's, or outputs lie there that are someone's own."""
        if not (self.folder / MANIFEST).exists():
            if self._files():
                raise UserError(
                    f"{self.folder}: holds outputs that no {MANIFEST} speaks of; move them away, then run again."
                )
            return None
        manifest = read_manifest(self.folder / MANIFEST, RunManifest)
        if (manifest.reader, manifest.arm) != (self._begun["reader"], self.arm):
            raise UserError(
                f"{self.folder}: holds what the reader '{manifest.reader}' answered; give the reader another name in "
                "the models file, or this run another name."
            )
        return manifest

    def vouched(self, manifest: RunManifest) -> Mapping[str, Vouched]:
        """The answers of each setup."""
        return {
            setup: Vouched(
                held.key,
                {number: record.answers_sha256 for number, record in held.dialogues.items()},
                dict.fromkeys(map(str, held.left_out), NO_TEXTS),
            )
            for setup, held in manifest.setups.items()
        }

    def read(self, manifest: RunManifest, parts: Collection[str]) -> Mapping[str, Mapping[str, Made[SetupAnswers]]]:
        """The answers of these setups; outputs that are gone or damaged are not among them."""
        held = {setup: one.dialogues for setup, one in manifest.setups.items() if setup in parts}
        for number, dialogue in self._dialogues.items():
            if any(number in records for records in held.values()):
                with suppress(UserError):
                    self._found[number] = read_output(self.folder / f"output_{number}.json", dialogue)
        return {
            setup: {
                number: made(records[number], getattr(outputs, _name(setup)))
                for number, outputs in self._found.items()
                if number in records
            }
            for setup, records in held.items()
        }

    def begin(self) -> None:
        """Make the folder, with a manifest: a run killed after its first outputs has to know them for its own."""
        super().begin()
        if not (self.folder / MANIFEST).exists():
            self.write_manifest()

    def write(self, unit: str) -> None:
        """Write a dialogue's answers in all setups."""
        write_outputs(self.folder, self._outputs(unit))

    def close(self) -> RunManifest:
        """Write the manifest, and drop from the folder's outputs what it cannot vouch for."""
        for number, file in self._files().items():
            outputs = self._outputs(number)
            if outputs == Outputs(int(number)):
                file.unlink()
            elif outputs != self._found.get(number, outputs):
                self.write(number)
        return self.write_manifest()

    def manifest(self) -> RunManifest:
        """The manifest of the answers there are by now."""
        concerned = [setup for setup in self.setups if self.made[setup] or self.left_out[setup]]
        return RunManifest(setups={setup: self._setup_record(setup) for setup in concerned}, **self._begun)

    def _files(self) -> dict[str, Path]:
        names = {file: _OUTPUT.fullmatch(file.name) for file in sorted(self.folder.glob("output_*.json"))}
        return {str(int(named[1])): file for file, named in names.items() if named}

    def _outputs(self, number: str) -> Outputs:
        held = {_name(setup): units[number].value.texts for setup, units in self.made.items() if number in units}
        return Outputs(int(number), **held)

    def _setup_record(self, setup: Setup) -> SetupRecord:
        key, settings, prompts = self._bases[setup]
        records = {unit: self.made[setup][unit].value.record for unit in sorted(self.made[setup], key=int)}
        return SetupRecord(
            key=key,
            settings=settings,
            prompts=prompts,
            n=len(records),
            answers=sum(record.answers for record in records.values()),
            unscored=counted(why for record in records.values() for why in Counter(record.unscored).elements()),
            gaps=sum(record.gaps for record in records.values()),
            left_out=tuple(map(int, self.left_out[setup])),
            data_sha256=combined_hash({name: record.sha256 for name, record in records.items()}),
            dialogues=records,
        )


def _models(arm: Arm, parameters: RunParameters) -> dict[str, dict[str, Any]]:
    """What each role was answered by; beside it the reader of histories, where it is not the usual one."""
    models = identities(parameters, method_of(arm) if arm else "")
    roles = ("reader", "memory", "compressor") if arm == "light" else ("reader",)
    histories = identities(parameters, method_of("history"))["reader"]
    apart = {"reader of histories": histories} if not arm and histories != models["reader"] else {}
    return {role: models[role] for role in roles} | apart


def _name(setup: str) -> str:
    """The part of `Outputs` that holds a setup's answers."""
    return setup if setup in PUBLISHED else "history"


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
