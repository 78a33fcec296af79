"""BEAM's runs on file: a folder `<run>/<size>/<arm>/` per arm, its manifest, and the keys that its records rest on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, create_model, model_serializer

from beamlib.beside import beside
from beamlib.data.conversations import NUMBER, SIZES, Size
from beamlib.errors import UserError
from beamlib.evaluate import run_store
from beamlib.evaluate.answer_record import Answer
from beamlib.evaluate.arms import Arm, arms_of, experiments
from beamlib.evaluate.calling import ResolvedParameters, identities, resolved, run_path
from beamlib.evaluate.configuration import Configuration, configuration, stated
from beamlib.evaluate.conversation_record import ConversationRecord, data_revision
from beamlib.evaluate.imported import Imported
from beamlib.evaluate.run_store import (
    ANSWER_CODE,
    MODEL_CODE,
    Made,
    Model,
    RunStore,
    Vouched,
    checked,
    combined_hash,
    made_by,
    prompt_hashes,
    settings_of,
)
from beamlib.files import code_hash, read_jsonl, sha256, to_json, write_text
from beamlib.params import EVOLVING, RunParameters
from beamlib.scoring.records import Judgement

ANSWERS, JUDGEMENTS = "answers", "judgements"
MANIFEST = "manifest.json"
JUDGED_BY = "-by-"
"""Stands in the name of a part between that of the part that was judged again and the judge's."""

RECORDS = (f"{ANSWERS}.jsonl", f"{JUDGEMENTS}.jsonl", MANIFEST)
"""The files of an arm's folder."""

_JUDGE_CODE = (
    *MODEL_CODE,
    *("beam_offline.judge", "beamlib.retrieval.encoder", "beamlib.retrieval.embedded"),
    *(f"beamlib.scoring.{name}" for name in ("event_ordering", "judge")),
    *(f"beamlib.scoring.{name}" for name in ("items", "replies", "records")),
    "beamlib.text",
)
_ANSWER_PROMPTS = (
    "answer", "answer_full", "answer_full_released", "answer_turns", "episodic_keys", "scratchpad_compress",
    "scratchpad_filter", "scratchpad_notes",
)  # fmt: skip
_EVOLVING_PROMPTS = (
    "dependency_notes", "file_memory_ingest", "file_memory_recall", "wiki_choose", "wiki_compile",
)  # fmt: skip
JUDGE_PROMPTS = ("align_batch", "align_events", "judge_nugget")
_ANSWER_PARAMETERS = (
    "chat_variant", "strip_markers", "errata", "reader_window", "full_context_window", "working_pairs",
    "episodic_share", "working_share", "chunk_percentile", "chunk_buffer", "scratchpad_threshold",
    "scratchpad_target", "token_counter", "encoder", "splade",
)  # fmt: skip
JUDGE_PARAMETERS = ("question_in_prompt", "judge_repeats", "alignment")
_RECORDED = (*_ANSWER_PARAMETERS, *JUDGE_PARAMETERS, "variant", "released")
_Settings = create_model(
    "_Settings",
    __config__=ConfigDict(extra="forbid", strict=True),
    arm=(Arm, ...),
    context_budget=(Literal["fixed", "flowing"] | None, None),  # of runs by versions before 2026-11-26
    **{name: (RunParameters.model_fields[name].annotation, RunParameters.model_fields[name]) for name in _RECORDED},  # type: ignore[call-overload]
)
"""What `settings` of a manifest holds: the arm, and parameters of the types that a run has."""

_OnlyArm = create_model("_OnlyArm", __config__=ConfigDict(extra="forbid", strict=True), arm=(Arm, ...))

ConversationId = Annotated[str, Field(pattern=rf"^({'|'.join(SIZES)})-{NUMBER.pattern}$")]


class Manifest(BaseModel):
    """One arm's `manifest.json`. Loading one without any of these fields fails.

    `answers_sha256` and `judgements_sha256` hash the records of each conversation: records that do not agree (a line
    lost or edited, a file of another moment) are not this run's. `left_out` are conversations of the run that cannot be
    read, with the reason. `imported` is only there where others made the results; `settings` then hold the arm alone.
    `notes` is what tables say of a memory that is adapted.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    arm: str
    size: Size
    configuration: Configuration
    settings: dict[str, Any]
    reader: str
    judge: str
    models: dict[str, dict[str, Any]]
    data_revision: str
    conversations: dict[ConversationId, ConversationRecord]
    data_sha256: str
    question_set_sha256: str
    prompts: dict[str, str]
    token_counter: str
    package_version: str
    commit: str
    answers_key: str
    judgements_key: str
    answers_sha256: dict[ConversationId, str]
    judgements_sha256: dict[ConversationId, str]
    left_out: dict[ConversationId, str] = Field(default_factory=dict)
    imported: Imported | None = None
    notes: tuple[str, ...] = ()

    @model_serializer(mode="wrap")
    def _without_what_is_not_there(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return {key: value for key, value in fields.items() if value or key not in ("imported", "notes")}


def made(data: ConversationRecord, records: Sequence[Answer] | Sequence[Judgement]) -> Made[list[Any]]:
    """A conversation's answers or judgements for an arm's folder, a line each."""
    lines = "".join(to_json(record.model_dump(mode="json")) + "\n" for record in records)
    return Made(list(records), data, lines, any(record.transient for record in records))


class ArmFolder(RunStore[Manifest, list[Any]]):
    """An arm's answers and judgements, a file of each."""

    name = MANIFEST
    sealed = True

    def __init__(self, arm: Arm, parameters: ResolvedParameters) -> None:
        answers = answers_key(arm, parameters)
        keys = {ANSWERS: answers, JUDGEMENTS: judgements_key(answers, parameters)}
        super().__init__(run_path(parameters, arm.name), keys)
        self.arm = arm
        self.configuration = configuration_of(arm, parameters)
        models = identities(parameters, arm.memory)
        self._begun = {
            "arm": arm.name,
            "size": parameters.size,
            "configuration": self.configuration,
            "settings": {
                "arm": arm.model_dump(),
                **settings_of(parameters, (*_ANSWER_PARAMETERS, *JUDGE_PARAMETERS, "variant")),
                "released": sorted(parameters.flags),
            },
            "reader": models["reader"]["model"],
            "judge": models["judge"]["model"],
            "models": models,
            "prompts": prompt_hashes(parameters, (*_ANSWER_PROMPTS, *JUDGE_PROMPTS)),
            "token_counter": parameters.token_counter,
            "answers_key": answers,
            "judgements_key": keys[JUDGEMENTS],
            "notes": beside("own", "programs").notes_of(arm.target) if arm.target else (),
            **made_by(),
        }

    def answers(self, conversation: str) -> list[Answer]:
        """The answers to the questions of a conversation that has been answered."""
        return self.made[ANSWERS][conversation].value

    def judgements(self, conversation: str) -> list[Judgement]:
        """The judgements of a conversation that has been judged."""
        return self.made[JUDGEMENTS][conversation].value

    def leave_out(self, left_out: Mapping[str, str], asked: Collection[str]) -> None:
        """Take out what cannot be read any more; of conversations that are not asked for, what is on file stands."""
        others = {key: why for key, why in self.left_out[ANSWERS].items() if key not in asked}
        self.left_out[ANSWERS] = {**others, **left_out}
        for units in self.made.values():
            for conversation in left_out:
                units.pop(conversation, None)

    def open(self, data: Mapping[str, object], *, again: bool) -> None:
        """As every store does; a judgement goes with its answer."""
        super().open(data, again=again)
        for conversation in self.made[JUDGEMENTS].keys() - self.made[ANSWERS].keys():
            del self.made[JUDGEMENTS][conversation]

    def find(self) -> Manifest | None:
        """The manifest; one of another version is as good as none, and all is computed again."""
        try:
            return read_manifest(self.folder)
        except UserError:
            return None

    def vouched(self, manifest: Manifest) -> Mapping[str, Vouched]:
        """Answers and judgements of each conversation; answers outlive a change of judge."""
        return {
            ANSWERS: Vouched(manifest.answers_key, manifest.answers_sha256, manifest.left_out),
            JUDGEMENTS: Vouched(manifest.judgements_key, manifest.judgements_sha256, {}),
        }

    def read(self, manifest: Manifest, parts: Collection[str]) -> Mapping[str, Mapping[str, Made[list[Any]]]]:
        """The records of these parts by conversation; a file that is gone holds none."""
        there = [part for part in parts if (self.folder / f"{part}.jsonl").exists()]
        return {part: _filed(self.folder, manifest, part) for part in there}

    def write(self, unit: str = "") -> None:
        """Write both files, whichever conversation has come to them."""
        for part, units in self.made.items():
            write_text(self.folder / f"{part}.jsonl", "".join(units[key].text for key in sorted(units)))

    def manifest(self) -> Manifest:
        """The manifest over the conversations that have been answered."""
        hashes = {part: {key: one.sha256 for key, one in units.items()} for part, units in self.made.items()}
        conversations = {key: one.data for key, one in self.made[ANSWERS].items()}
        return manifest_over(self._begun, conversations, self.left_out[ANSWERS], hashes[ANSWERS], hashes[JUDGEMENTS])


def answers_key(arm: Arm, parameters: ResolvedParameters) -> str:
    """What an answer depends on, besides its conversation and question."""
    models = identities(parameters, arm.memory)
    own_hash = beside("own", "programs").own_memory_hash
    changing = arm.memory in EVOLVING
    values = {
        "arm": arm.model_dump(),
        "parameters": {**settings_of(parameters, _ANSWER_PARAMETERS), "released": sorted(parameters.flags)},
        "models": {role: models[role] for role in ("reader", "memory", "compressor")},
        "prompts": prompt_hashes(parameters, (*_ANSWER_PROMPTS, *(_EVOLVING_PROMPTS if changing else ()))),
        "code": code_hash((*ANSWER_CODE, *(("beam_evolving",) if changing else ()))),
        "own": [own_hash(arm.target), parameters.memory_timeout] if arm.target else None,
    }
    return sha256(to_json(values))


def judgements_key(answers: str, parameters: RunParameters) -> str:
    """What a judgement depends on, besides its question: the answers, the judge and how it is asked."""
    models = identities(parameters)
    values = {
        "answers": answers,
        "parameters": settings_of(parameters, JUDGE_PARAMETERS),
        "models": {role: models[role] for role in ("judge", "aligner")},
        "prompts": prompt_hashes(parameters, JUDGE_PROMPTS),
        "code": code_hash(_JUDGE_CODE),
    }
    return sha256(to_json(values))


def configuration_of(arm: Arm, parameters: ResolvedParameters) -> Configuration:
    """The preset that `arm` was run by, and what was otherwise."""
    return configuration(arm, parameters, (*_ANSWER_PARAMETERS, *JUDGE_PARAMETERS))


def configuration_of_run(parameters: RunParameters) -> str:
    """The configurations of all arms of a run, as one phrase."""
    known = resolved(parameters)
    return stated(configuration_of(arm, known) for arm in arms_of(known, experiments(known)))


def recorded_parameters(manifest: Manifest) -> dict[str, Any]:
    """The parameters that a run's calls rested on, as far as a manifest says: all but data, models and prompts."""
    if manifest.imported is not None:
        raise UserError(f"{manifest.arm}: it was imported, and no parameters of its calls are known; leave it out.")
    return {name: manifest.settings[name] for name in _RECORDED}


def restrict(manifest: Manifest, ids: Collection[str], left_out: Mapping[str, str]) -> Manifest:
    """The manifest of a part of a run: the hashes cover only the conversations named. `left_out` is the part's own."""
    kept = {key: record for key, record in manifest.conversations.items() if key in ids}
    return manifest_over(dict(manifest), kept, left_out, manifest.answers_sha256, manifest.judgements_sha256)


def manifest_over(
    fields: Mapping[str, Any],
    conversations: Mapping[str, ConversationRecord],
    left_out: Mapping[str, str],
    answers: Mapping[str, str],
    judgements: Mapping[str, str],
) -> Manifest:
    """The manifest with these `fields` over these conversations, with the hashes that concern them."""
    ordered = dict(sorted(conversations.items()))
    return Manifest.model_validate(
        {
            **fields,
            "conversations": ordered,
            "data_revision": data_revision(ordered),
            "data_sha256": combined_hash({key: record.sha256 for key, record in ordered.items()}),
            "question_set_sha256": combined_hash({key: record.questions_sha256 for key, record in ordered.items()}),
            "left_out": left_out,
            "answers_sha256": {key: answers[key] for key in ordered if key in answers},
            "judgements_sha256": {key: judgements[key] for key in ordered if key in judgements},
        }
    )


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an arm's folder."""
    path = folder / MANIFEST
    found = run_store.read_manifest(path, Manifest, sealed=True)
    settings = checked(
        _Settings if found.imported is None else _OnlyArm, found.settings, f"{path}: ", within="settings."
    )
    arm: Arm = settings.arm
    if found.arm != arm.name:
        raise UserError(
            f"{path}: field 'arm' is {found.arm!r} where its settings are those of {arm.name!r}; run again."
        )
    return found


def ensure_finished(manifest: Manifest, where: str) -> None:
    """A `UserError` where an arm was killed in the middle: not every conversation has its answers and judgements."""
    done = (manifest.answers_sha256.keys(), manifest.judgements_sha256.keys(), manifest.conversations.keys())
    if not manifest.conversations or len(set(map(frozenset, done))) > 1:
        raise UserError(f"{where}: not every conversation in it has answers and judgements; run it to its end.")


def read_answers(folder: Path) -> list[Answer]:
    """The answers in an arm's folder."""
    return _records(folder / f"{ANSWERS}.jsonl", Answer)


def read_judgements(folder: Path) -> list[Judgement]:
    """The judgements in an arm's folder, whoever vouches for them."""
    return _records(folder / f"{JUDGEMENTS}.jsonl", Judgement)


def _records(path: Path, kind: type[Model]) -> list[Model]:
    rows = enumerate(read_jsonl(path), start=1)
    return [checked(kind, row, f"{path}: record {n}, ", "delete the file and run again.") for n, row in rows]


def stored_answers(folder: Path) -> dict[str, list[Answer]]:
    """The answers of an arm's folder that its manifest vouches for, by conversation; as `stored_judgements`."""
    return _stored(folder, ANSWERS)


def stored_judgements(folder: Path) -> list[Judgement]:
    """The judgements of an arm's folder that its manifest vouches for; `UserError` where one is gone or changed."""
    return [judgement for own in _stored(folder, JUDGEMENTS).values() for judgement in own]


def _stored(folder: Path, part: str) -> dict[str, list[Any]]:
    found = read_manifest(folder)
    held = _filed(folder, found, part)
    vouched = found.judgements_sha256 if part == JUDGEMENTS else found.answers_sha256
    for key, said in vouched.items():
        if key not in held or held[key].sha256 != said:
            raise UserError(
                f"{folder / part}.jsonl: the records of {key} are not those that manifest.json vouches for; "
                "run the evaluation again, which computes them anew, or score them as they stand with --as-is."
            )
    return {key: held[key].value for key in sorted(vouched)}


def _filed(folder: Path, manifest: Manifest, part: str) -> dict[str, Made[list[Any]]]:
    """The records in one of the files, of the conversations that the manifest names."""
    groups: dict[str, list[Any]] = {key: [] for key in manifest.conversations}
    for record in read_answers(folder) if part == ANSWERS else read_judgements(folder):
        groups.get(record.conversation_id, []).append(record)
    return {key: made(manifest.conversations[key], group) for key, group in groups.items()}
