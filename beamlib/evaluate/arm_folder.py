"""BEAM's runs on file: a folder `<run>/<size>/<arm>/` per arm, its manifest, and the keys that its records rest on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, create_model, model_serializer

from beamlib.data.checked_json import REVISION
from beamlib.data.conversations import NUMBER, SIZES, Size
from beamlib.errors import UserError
from beamlib.evaluate import run_store
from beamlib.evaluate.answer_record import Answer
from beamlib.evaluate.arms import Arm, arms_of, experiments
from beamlib.evaluate.configuration import Configuration, configuration, stated
from beamlib.evaluate.conversation_record import FOLDER, data_revision
from beamlib.evaluate.imported import Imported
from beamlib.evaluate.run_store import (
    ANSWER_CODE,
    ANSWERS,
    JUDGEMENTS,
    MODEL_CODE,
    ConversationRecord,
    RunManifest,
    RunStore,
    build_manifest,
    checked,
    made_by,
    prompt_hashes,
    read_part,
    read_records,
    settings_of,
)
from beamlib.files import code_hash, read_json, sha256, sha256_of_file, to_json, write_json
from beamlib.llm.endpoints import EMBEDDING
from beamlib.memory.declared import kind_of, memories
from beamlib.params import FIELDS, RunParameters
from beamlib.plugins import plugins
from beamlib.run import Run
from beamlib.scoring.records import Judgement
from beamlib.settings import ChatSettings

MANIFEST = "manifest.json"
FROM_ARCHIVE = "archive.json"
"""Lists, at the top of a run folder, the manifests that came from somebody's archive, with the hash of each file."""
CLAIMED: Mapping[str, str] = {
    "commit": "the commit",
    "package_version": "the version",
    "answers_key": "", "judgements_key": "",  # hashes of the settings, the models and that version's code
    "prompts": "prompts that no call is of",
    "settings": "settings that change no call and no answer",
    "claimed": "",
}  # fmt: skip
"""Fields of a manifest that a replay does not show to be so, and how that is said. All others are compared."""
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
_READER_PROMPTS = ("answer", "answer_full", "answer_full_released", "answer_turns")
JUDGE_PROMPTS = ("align_batch", "align_events", "judge_nugget")
JUDGE_PARAMETERS = ("question_in_prompt", "judge_repeats", "alignment")
_OF_ARMS = ("retriever", "k")
"""Settings that an arm has in place of the run."""

_OnlyArm = create_model("_OnlyArm", __config__=ConfigDict(extra="forbid", strict=True), arm=(Arm, ...))

ConversationId = Annotated[str, Field(pattern=rf"^({'|'.join(SIZES)})-{NUMBER.pattern}$")]


class Manifest(RunManifest):
    """The `manifest.json` of one of BEAM's arms. Loading one without any of these fields fails.

    `left_out` are conversations of the run that cannot be read, with the reason. `imported` is only there where others
    made the results; `settings` then hold the arm alone. `notes` is what tables say of a memory that is adapted.
    `claimed` says that it came from somebody's archive and was not made here.
    """

    size: Size
    configuration: Configuration
    data_revision: str
    conversations: dict[ConversationId, ConversationRecord]
    token_counter: str
    answers_sha256: dict[ConversationId, str]
    judgements_sha256: dict[ConversationId, str]
    left_out: dict[ConversationId, str] = Field(default_factory=dict)
    imported: Imported | None = None
    claimed: bool = False

    @model_serializer(mode="wrap")
    def _omit_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return {key: value for key, value in fields.items() if value or key not in ("imported", "notes", "claimed")}


def answer_parameters(memory: str) -> tuple[str, ...]:
    """The parameters that BEAM's answers by a memory rest on, in the order in which records state them.

    Those of the memories that every run has are stated for each arm, as one set.
    """
    kinds = [kind for kind in memories().values() if kind.joins == "always"]
    if (own := kind_of(memory)) not in kinds and not own.outside:
        kinds.append(own)
    always = (name for kind in kinds for name in kind.own_settings.always_recorded)
    used = (name for kind in kinds for name in (*kind.uses, *kind.own_settings.model_fields) if name not in _OF_ARMS)
    return tuple(dict.fromkeys((*ChatSettings.model_fields, *always, *used)))


def answer_prompts(memory: str, parameters: RunParameters) -> tuple[str, ...]:
    """The prompts that BEAM's answers by a memory rest on; those of the memories that every run has, for each arm."""
    kinds = [kind for name, kind in memories().items() if kind.joins == "always" or name == memory]
    return (*_READER_PROMPTS, *(prompt for kind in kinds for prompt in kind.prompts_for(parameters)))


def _recorded() -> tuple[str, ...]:
    """The parameters that a manifest may state."""
    own = (name for memory in memories() for name in answer_parameters(memory))
    return tuple(dict.fromkeys((*own, *JUDGE_PARAMETERS, "variant", "released")))


@cache
def _settings_model(names: tuple[str, ...]) -> Any:
    """What `settings` of a manifest holds: the arm, and parameters of the types that a run has."""
    return create_model(
        "_Settings",
        __config__=ConfigDict(extra="forbid", strict=True),
        arm=(Arm, ...),
        context_budget=(Literal["fixed", "flowing"] | None, None),  # of runs by versions before 2026-11-26
        **{name: (FIELDS[name].annotation, FIELDS[name]) for name in names},  # type: ignore[call-overload]
    )


RECORD_KINDS: Mapping[str, type[BaseModel]] = {ANSWERS: Answer, JUDGEMENTS: Judgement}


class ArmFolder(RunStore[Manifest]):
    """The answers and judgements of one of BEAM's arms."""

    def __init__(self, arm: Arm, parameters: Run) -> None:
        self.arm = arm
        answers = answers_key(arm, parameters)
        models = parameters.identities(arm.memory)
        fields = {
            "arm": arm.name,
            "size": parameters.size,
            "configuration": configuration_of(arm, parameters),
            "settings": {
                "arm": arm.model_dump(),
                **settings_of(parameters, (*answer_parameters(arm.memory), *JUDGE_PARAMETERS, "variant")),
                "released": sorted(parameters.flags),
            },
            "reader": models["reader"]["model"],
            "judge": models["judge"]["model"],
            "models": models,
            "prompts": prompt_hashes(parameters, (*answer_prompts("", parameters), *JUDGE_PROMPTS)),
            "token_counter": parameters.context.token_counter,
            "answers_key": answers,
            "judgements_key": judgements_key(answers, parameters),
            "notes": plugins().identify_memory(arm.target)[1] if arm.target else (),
            "claimed": False,
            **made_by(),
        }
        super().__init__(parameters.path(arm.name), Manifest, RECORD_KINDS, fields, MANIFEST)

    def find(self) -> Manifest | None:
        """Read the manifest; None where there is none, or one of another version: then all is computed again."""
        try:
            return read_manifest(self.folder)
        except UserError:
            return None

    def open(self, data: Mapping[str, ConversationRecord], *, retry: bool) -> None:
        """Load the records on file that are valid; what came from an archive stays claimed as long as any is kept."""
        super().open(data, retry=retry)
        found = self.find()
        self.fields["claimed"] = bool(found and found.claimed and any(self.outputs.values()))

    def write_manifest(self) -> Manifest:
        """Write the manifest; one that was made here may have the same bytes as one that came from an archive."""
        listed = _listed(self.folder)
        if listed.pop(f"{self.folder.parent.name}/{self.folder.name}/{MANIFEST}", "") and not self.fields["claimed"]:
            write_json(self.folder.absolute().parent.parent / FROM_ARCHIVE, listed)
        return super().write_manifest()

    def manifest(self) -> Manifest:
        """Build the manifest over the conversations that have been answered."""
        hashes = {part: {key: own.sha256 for key, own in units.items()} for part, units in self.outputs.items()}
        conversations = {key: own.data for key, own in self.outputs[ANSWERS].items()}
        return manifest_over(self.fields, conversations, self.left_out, hashes[ANSWERS], hashes[JUDGEMENTS])


def answers_key(arm: Arm, parameters: Run) -> str:
    """What an answer depends on, besides its conversation and question."""
    models = parameters.identities(arm.memory)
    values = {
        "arm": arm.model_dump(),
        "parameters": {**settings_of(parameters, answer_parameters(arm.memory)), "released": sorted(parameters.flags)},
        "models": {role: models[role] for role in ("reader", "memory", "compressor", EMBEDDING) if role in models},
        "prompts": prompt_hashes(parameters, answer_prompts(arm.memory, parameters)),
        "code": code_hash((*ANSWER_CODE, *kind_of(arm.memory).code_names())),
        "own": [plugins().identify_memory(arm.target)[0], parameters.memory_timeout] if arm.target else None,
    }
    return sha256(to_json(values))


def judgements_key(answers: str, parameters: Run) -> str:
    """What a judgement depends on, besides its question: the answers, the judge and how it is asked."""
    models = parameters.identities()
    values = {
        "answers": answers,
        "parameters": settings_of(parameters, JUDGE_PARAMETERS),
        "models": {role: models[role] for role in ("judge", "aligner")},
        "prompts": prompt_hashes(parameters, JUDGE_PROMPTS),
        "code": code_hash(_JUDGE_CODE),
    }
    return sha256(to_json(values))


def configuration_of(arm: Arm, parameters: Run) -> Configuration:
    """The preset that `arm` was run by, and what was otherwise."""
    return configuration(arm, parameters, (*answer_parameters(arm.memory), *JUDGE_PARAMETERS))


def configuration_of_run(run: Run) -> str:
    """The configurations of all arms of a run, as one phrase."""
    return stated(configuration_of(arm, run) for arm in arms_of(run, experiments(run)))


def recorded_parameters(manifest: Manifest) -> dict[str, Any]:
    """The parameters that a run's calls rested on, as far as a manifest says: all but data, models and prompts."""
    if manifest.imported is not None:
        raise UserError(f"{manifest.arm}: it was imported, and no parameters of its calls are known; leave it out.")
    defaults = {name: FIELDS[name].default for name in _recorded()}
    return {name: manifest.settings.get(name, default) for name, default in defaults.items()}


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
    revision = data_revision(dict(sorted(conversations.items())))
    sums = {ANSWERS: answers, JUDGEMENTS: judgements}
    return build_manifest(Manifest, {**fields, "data_revision": revision}, conversations, left_out, sums)


def differing_claim(published: Manifest, again: Manifest) -> str:
    """The first field of a published manifest that its replay contradicts, with both values; empty if none does.

    Compared is every field but `CLAIMED`, and with them everything that footers, tables and pages print.
    """
    for name in Manifest.model_fields.keys() - CLAIMED.keys() - {"conversations", "data_revision"}:
        stated, found = getattr(published, name), getattr(again, name)
        if stated != found:
            return f"field '{name}' is {stated!r:.200}, and its replay gives {found!r:.200}"
    for key, record in published.conversations.items():
        if _identity(record) != _identity(again.conversations[key]):
            return (
                f"field 'conversations' says of {key} {record!r:.300}, and here it is {again.conversations[key]!r:.300}"
            )
    if published.data_revision != data_revision(published.conversations):
        return f"field 'data_revision' is {published.data_revision!r:.200}, which its conversations do not say"
    return ""


def _identity(record: ConversationRecord) -> tuple[object, ...]:
    """What two records of one conversation share: a released one may come from a folder or from parquet files."""
    released = record.origin in (FOLDER, REVISION) and set(record.files.values()) == {"released"}
    return record.variant, record.sha256, record.questions_sha256, released or (record.origin, record.files)


def _listed(folder: Path) -> dict[str, str]:
    """The manifests of an arm's run that came from an archive, and the hashes of their files."""
    place = folder.absolute().parent.parent / FROM_ARCHIVE
    return dict(read_json(place)) if place.is_file() else {}


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an arm's folder."""
    path = folder / MANIFEST
    found = run_store.read_task_manifest(path, Manifest)
    if _listed(folder).get("/".join(path.absolute().parts[-3:])) == sha256_of_file(path):
        found = found.model_copy(update={"claimed": True})
    settings = checked(
        _settings_model(_recorded()) if found.imported is None else _OnlyArm,
        found.settings,
        f"{path}: ",
        within="settings.",
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
    return read_records(folder / f"{ANSWERS}.jsonl", Answer)


def read_judgements(folder: Path) -> list[Judgement]:
    """The judgements in an arm's folder, whether or not its manifest has their checksums."""
    return read_records(folder / f"{JUDGEMENTS}.jsonl", Judgement)


def stored_answers(folder: Path) -> dict[str, list[Answer]]:
    """The answers of an arm's folder that its manifest vouches for, by conversation; as `stored_judgements`."""
    return _stored(folder, ANSWERS)


def stored_judgements(folder: Path) -> list[Judgement]:
    """The judgements of an arm's folder that its manifest vouches for; `UserError` where one is gone or changed."""
    return [judgement for own in _stored(folder, JUDGEMENTS).values() for judgement in own]


def _stored(folder: Path, part: str) -> dict[str, list[Any]]:
    manifest = read_manifest(folder)
    if not (folder / f"{part}.jsonl").exists():
        read_records(folder / f"{part}.jsonl", RECORD_KINDS[part])  # which says that it is missing
    on_file = read_part(folder, part, RECORD_KINDS[part], manifest.conversations)
    checksums = manifest.checksums()[part].sha256
    for key, checksum in checksums.items():
        if key not in on_file or on_file[key].sha256 != checksum:
            raise UserError(
                f"{folder / part}.jsonl: the records of {key} are not those that manifest.json vouches for; "
                "run the evaluation again, which computes them anew, or score them as they stand with --as-is."
            )
    return {key: on_file[key].records for key in sorted(checksums)}
