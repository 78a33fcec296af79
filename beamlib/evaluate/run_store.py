"""What a run rests on: the record that lets two runs be compared, and a killed run resume."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

import beamlib
from beamlib.data.checksums import REVISION, DataFile, State
from beamlib.data.model import SIZES, Size
from beamlib.data.sources import NUMBER, RECORD, Source
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm, arms_of, experiments
from beamlib.evaluate.calling import identities, resolved
from beamlib.evaluate.configuration import Configuration, configuration, stated
from beamlib.evaluate.own import own_memory_hash
from beamlib.files import code_hash, read_json, sha256, to_json, write_json
from beamlib.llm.prompts import prompt_file
from beamlib.params import RunParameters
from beamlib.places import ROOT

FOLDER = "local folder in the released layout"

# Whatever an answer depends on; the reports and the command line are left out on purpose.
_MODEL_CODE = (*(f"beamlib.llm.{name}" for name in ("model", "retrying", "client", "prompts")), "beam_offline")
ANSWER_CODE = (
    "beamlib.data",
    "beamlib.memory",
    *_MODEL_CODE,
    "beamlib.retrieval",
    "beamlib.retrieval.embedded",
    *(f"beamlib.evaluate.{name}" for name in ("answering", "own", "own_process", "ingest_cache")),
    "beamlib.text",
)
_JUDGE_CODE = (
    *_MODEL_CODE,
    *(f"beamlib.scoring.{name}" for name in ("alignment", "event_ordering", "judge")),
    *(f"beamlib.scoring.{name}" for name in ("items", "replies", "records")),
    "beamlib.text",
)
_ANSWER_PROMPTS = (
    "answer",
    "answer_full",
    "answer_full_released",
    "episodic_keys",
    "scratchpad_compress",
    "scratchpad_filter",
    "scratchpad_notes",
)
_JUDGE_PROMPTS = ("align_batch", "align_events", "judge_nugget")
_ANSWER_ROLES = ("reader", "memory", "compressor")
_JUDGE_ROLES = ("judge", "aligner")
_ANSWER_PARAMETERS = (
    "chat_variant",
    "strip_markers",
    "errata",
    "reader_window",
    "full_context_window",
    "working_pairs",
    "context_budget",
    "episodic_share",
    "working_share",
    "chunk_percentile",
    "chunk_buffer",
    "scratchpad_threshold",
    "scratchpad_target",
    "token_counter",
    "encoder",
    "splade",
)
_JUDGE_PARAMETERS = ("question_in_prompt", "judge_repeats", "alignment")


_RECORDED = (*_ANSWER_PARAMETERS, *_JUDGE_PARAMETERS, "variant", "released")
_Settings = create_model(
    "_Settings",
    __config__=ConfigDict(extra="forbid", strict=True),
    arm=(Arm, ...),
    **{name: (RunParameters.model_fields[name].annotation, RunParameters.model_fields[name]) for name in _RECORDED},  # type: ignore[call-overload]
)
"""What `settings` of a manifest holds: the arm, and parameters of the types that a run has."""

ConversationId = Annotated[str, Field(pattern=rf"^({'|'.join(SIZES)})-{NUMBER.pattern}$")]


class ConversationRecord(BaseModel):
    """The conversation an arm has finished: hashes of its treated content and of its questions with their gold.

    `origin` says where it came from, `files` of each file that was read whether it is the released one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    variant: str
    sha256: str
    questions_sha256: str
    origin: str = ""
    files: dict[str, State] = Field(default_factory=dict)


class Manifest(BaseModel):
    """One arm's `manifest.json`. Loading one without any of these fields fails.

    `answers_sha256` and `judgements_sha256` hash the records of each conversation: records that do not agree (a line
    lost or edited, a file of another moment) are not this run's. `left_out` are conversations of the run that cannot be
    read, with the reason.
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


@cache
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


def _generated(record: Any) -> str:
    """All authors, each once, and the seed of a generated conversation; empty for a record that does not say so."""
    names: list[str] = []
    try:
        for stage in record["stages"].values():
            made_by = stage["made_by"]
            names += [role["model"] for role in made_by.get("authors", {}).values()]
            names += [made_by["author"]] if "author" in made_by else []
        seed = record["parameters"]["seed"]
    except (AttributeError, TypeError, KeyError):
        return ""
    return f"generated by {', '.join(sorted(set(names)))}, seed {seed}" if names else ""


def origin(source: Source, files: Sequence[DataFile]) -> str:
    """Where a conversation came from: a generated one names author and seed, a row of a parquet file its revision."""
    if source.kind == "released":
        record = read_json(source.path / RECORD) if (source.path / RECORD).is_file() else None
        return _generated(record) or FOLDER
    (file,) = files
    if file.state == "released":
        return file.revision
    return f"parquet files that are not those of {file.revision}" if file.sha256 else "parquet files of no known hash"


def data_revision(conversations: Mapping[str, ConversationRecord]) -> str:
    """What all conversations of a run rest on; of a folder, how many of the files read are the released ones."""
    groups: dict[str, list[tuple[str, State]]] = {}
    for key in sorted(conversations, key=lambda key: (len(key), key)):
        record = conversations[key]
        groups.setdefault(record.origin, []).extend(
            (f"{key} {name}", record.files[name]) for name in sorted(record.files)
        )
    return " | ".join(_verified(files) if origin == FOLDER else origin for origin, files in groups.items())


def _verified(files: Sequence[tuple[str, State]]) -> str:
    counts = Counter(state for _, state in files)
    if counts["released"] == len(files):
        return f"released files of {REVISION}, all {len(files)} verified by SHA-256"
    if not counts["released"]:
        return f"{FOLDER}, none of the {len(files)} files read has the SHA-256 of a released one"
    said = f"{FOLDER}, {counts['released']} of {len(files)} files verified as those of {REVISION}"
    said += f", {counts['unknown']} without a known checksum" if counts["unknown"] else ""
    changed = [name for name, state in files if state in ("changed", "missing")]
    if not changed:
        return said
    named = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
    return f"{said}, not as released: {named}"


def _settings(parameters: RunParameters, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(parameters, name) for name in names}


def _prompts(parameters: RunParameters, names: Iterable[str]) -> dict[str, str]:
    folder = Path(parameters.prompts) if parameters.prompts else None
    return {name: prompt_file(name, folder).sha256 for name in names}


def answers_key(arm: Arm, parameters: RunParameters) -> str:
    """What an answer depends on, besides its conversation and question. The parameters have to be resolved."""
    models = identities(parameters, arm.memory)
    values = {
        "arm": arm.model_dump(),
        "parameters": {**_settings(parameters, _ANSWER_PARAMETERS), "released": sorted(parameters.flags)},
        "models": {role: models[role] for role in _ANSWER_ROLES},
        "prompts": _prompts(parameters, _ANSWER_PROMPTS),
        "code": code_hash(ANSWER_CODE),
        "own": [own_memory_hash(arm.target), parameters.memory_timeout] if arm.target else None,
    }
    return sha256(to_json(values))


def judgements_key(answers: str, parameters: RunParameters) -> str:
    """What a judgement depends on, besides its question: the answers, the judge and how it is asked."""
    models = identities(parameters)
    values = {
        "answers": answers,
        "parameters": _settings(parameters, _JUDGE_PARAMETERS),
        "models": {role: models[role] for role in _JUDGE_ROLES},
        "prompts": _prompts(parameters, _JUDGE_PROMPTS),
        "code": code_hash(_JUDGE_CODE),
    }
    return sha256(to_json(values))


def configuration_of(arm: Arm, parameters: RunParameters) -> Configuration:
    """The preset that `arm` was run by, and what was otherwise. The parameters have to be resolved."""
    return configuration(arm, parameters, (*_ANSWER_PARAMETERS, *_JUDGE_PARAMETERS))


def configuration_of_run(parameters: RunParameters) -> str:
    """The configurations of all arms of a run, as one phrase."""
    known = resolved(parameters)
    return stated(configuration_of(arm, known) for arm in arms_of(known, experiments(known)))


def recorded_parameters(manifest: Manifest) -> dict[str, Any]:
    """The parameters that a run's calls rested on, as far as a manifest says: all but data, models and prompts."""
    return {name: manifest.settings[name] for name in _RECORDED}


def combined_hash(hashes: Mapping[str, str]) -> str:
    """One hash for a set of named hashes, whatever their order."""
    return sha256(to_json(dict(hashes)))


def records_hash(records: Iterable[BaseModel]) -> str:
    """Hash of one conversation's answers or judgements, as they stand on file."""
    return hash_of_lines(lines_of(records))


def lines_of(records: Iterable[BaseModel]) -> str:
    """Records as they stand on file, a line each."""
    return "".join(to_json(record.model_dump(mode="json")) + "\n" for record in records)


def hash_of_lines(lines: str) -> str:
    """`records_hash` of records as they stand on file."""
    return sha256(lines.encode("utf-8", "surrogatepass"))  # a damaged file may hold half a character


def begun(arm: Arm, parameters: RunParameters) -> Manifest:
    """The manifest of `arm` before any conversation. The parameters have to be resolved.

    Made before anything is answered: what is edited while a run is at work (the file of a memory of one's own, models,
    prompts) must not vouch for answers that were made without it.
    """
    answers = answers_key(arm, parameters)
    models = identities(parameters, arm.memory)
    return Manifest(
        arm=arm.name,
        size=parameters.size,
        configuration=configuration_of(arm, parameters),
        settings={
            "arm": arm.model_dump(),  # apart: the arm of the other context_budget differs from the run's
            **_settings(parameters, (*_ANSWER_PARAMETERS, *_JUDGE_PARAMETERS)),
            "variant": parameters.variant,
            "released": sorted(parameters.flags),
        },
        reader=models["reader"]["model"],
        judge=models["judge"]["model"],
        models=models,
        data_revision="",
        conversations={},
        data_sha256="",
        question_set_sha256="",
        prompts=_prompts(parameters, (*_ANSWER_PROMPTS, *_JUDGE_PROMPTS)),
        token_counter=parameters.token_counter,
        package_version=beamlib.__version__,
        commit=commit(),
        answers_key=answers,
        judgements_key=judgements_key(answers, parameters),
        answers_sha256={},
        judgements_sha256={},
    )


def filled(
    manifest: Manifest,
    conversations: Mapping[str, ConversationRecord],
    *,
    left_out: Mapping[str, str],
    answers_sha256: Mapping[str, str],
    judgements_sha256: Mapping[str, str],
) -> Manifest:
    """`manifest` over the finished `conversations`; the hashes of their records are by `records_hash`."""
    ordered = dict(sorted(conversations.items()))
    return Manifest.model_validate(
        {
            **dict(manifest),
            "data_revision": data_revision(ordered),
            "conversations": ordered,
            "data_sha256": combined_hash({key: record.sha256 for key, record in ordered.items()}),
            "question_set_sha256": combined_hash({key: record.questions_sha256 for key, record in ordered.items()}),
            "answers_sha256": dict(answers_sha256),
            "judgements_sha256": dict(judgements_sha256),
            "left_out": dict(left_out),
        }
    )


def restrict(manifest: Manifest, ids: Iterable[str], left_out: Mapping[str, str]) -> Manifest:
    """The manifest of a part of a run: the hashes cover only the conversations named. `left_out` is the part's own."""
    names = set(ids)
    kept = {key: record for key, record in manifest.conversations.items() if key in names}
    return manifest.model_copy(
        update={
            "conversations": kept,
            "data_revision": data_revision(kept),
            "left_out": dict(left_out),
            "data_sha256": combined_hash({key: record.sha256 for key, record in kept.items()}),
            "question_set_sha256": combined_hash({key: record.questions_sha256 for key, record in kept.items()}),
            "answers_sha256": {key: value for key, value in manifest.answers_sha256.items() if key in names},
            "judgements_sha256": {key: value for key, value in manifest.judgements_sha256.items() if key in names},
        }
    )


def read(folder: Path) -> Manifest:
    """The manifest of an arm's folder."""
    path = folder / "manifest.json"
    value = read_json(path)
    stated = value.pop("sha256", None) if isinstance(value, dict) else None
    name = ""
    try:
        found = Manifest.model_validate(value)
        name = "settings."
        arm = Arm.model_validate(_Settings.model_validate(found.settings).arm)
    except ValidationError as error:
        first = error.errors()[0]
        name += ".".join(str(part) for part in first["loc"])
        raise UserError(
            f"{path}: field '{name}': {first['msg']}; the file was not written by this version, "
            "delete the folder and run again."
        ) from None
    if stated != sha256(to_json(value).encode("utf-8", "surrogatepass")):
        raise UserError(f"{path}: it was changed after it was written; delete the folder and run again.")
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


def write(folder: Path, manifest: Manifest) -> None:
    """Write `manifest.json`: last of an arm's files, so that its existence vouches for the others.

    The field `sha256`, known to `read` and `write` alone, hashes all other fields.
    """
    value = manifest.model_dump(mode="json")
    write_json(folder / "manifest.json", {**value, "sha256": sha256(to_json(value))})
