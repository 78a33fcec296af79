"""BEAM's runs on file: the manifest of an arm, its answers and judgements, and results that others made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, create_model, model_serializer

from beamlib.data.conversations import NUMBER, REVISION, SIZES, Size
from beamlib.errors import UserError
from beamlib.evaluate.arms import JUDGE_PARAMETERS, Arm, Configuration, answer_parameters, arms_of, experiments
from beamlib.evaluate.records import (
    ANSWERS,
    JUDGEMENTS,
    Answer,
    ConversationRecord,
    RunManifest,
    checked,
    read_part,
    read_records,
    read_task_manifest,
)
from beamlib.files import read_json, read_jsonl, read_text, sha256, sha256_of_file, write_json
from beamlib.llm.exchange import Basis
from beamlib.memory.declared import memories
from beamlib.params import FIELDS
from beamlib.run import Run
from beamlib.scoring.records import Judgement

if TYPE_CHECKING:
    from beamlib.data.loading import Loaded

Known = Literal["yes", "no", "unknown"]
DETAILS = "imported.jsonl"
"""The file of an imported arm's folder that holds an `ImportedQuestion` per question."""
NEUTRAL = "beam-results"
"""The form of this project, in which anybody may publish."""
PLAIN_LISTS = "records"
"""Lists of questions and answers as anybody may write them."""
UNNAMED_PROMPT = "a prompt that nobody names"


class Provenance(BaseModel):
    """Who made results, and how they were judged; empty or `unknown` where nobody says.

    `judge_sees_*` say what the judge was shown beside the answer. `gold_in_prompt`: whether parts of the gold stood in
    the prompt that asked for the answer; `prompt`, what else is known of that prompt. `context` is the budget of the
    context and `cut` how answers were cut. `judge_prompt` names the prompt of the judge.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str = ""
    reader: str = ""
    judge: str = ""
    judge_sees_question: Known = "unknown"
    judge_sees_rubric: Known = "unknown"
    judge_sees_reference: Known = "unknown"
    judge_prompt: str = ""
    gold_in_prompt: Known = "unknown"
    prompt: str = ""
    context: str = ""
    cut: str = ""
    licence: str = ""
    where: str = ""
    commit: str = ""
    date: str = ""

    def by_prompt_of(self, harness: str) -> str:
        """Who judged, by which prompt: this is what tables compare, as one model is another judge by another prompt.

        Of `harness` where nobody names it; the neutral form and plain lists are nobody's harness.
        """
        shown = [name for name in ("question", "rubric", "reference") if getattr(self, f"judge_sees_{name}") == "yes"]
        prompt = UNNAMED_PROMPT if harness in (NEUTRAL, PLAIN_LISTS) else f"the prompt of {harness}"
        prompt = f"the prompt {self.judge_prompt!r}" if self.judge_prompt else prompt
        return f"{self.judge or 'unknown judge'} by {prompt} ({', '.join(shown) or 'shown things unknown'})"


class Imported(Provenance):
    """The record of an import in an arm's manifest.

    `shipped` is the run of `beam_field` that these verdicts are, where they are one. `files` hold the SHA-256 of each
    file read, `kinds` how many questions have nuggets, counts, votes, or only a score. `unmatched` are questions that
    are none of the tier's (the first, shortened; `unmatched_count` counts all), `twice` those that occur again (the
    first is taken), `missing` those of the conversations here that have no answer, `other_rubric` those with another
    number of nuggets than their rubric. `details_sha256` hashes `DETAILS`.
    """

    format: str
    shipped: str = ""
    number: int | None = None
    files: dict[str, str]
    kinds: dict[str, int] = Field(default_factory=dict)
    unmatched_count: int = 0
    unmatched: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    other_rubric: tuple[str, ...] = ()
    details_sha256: str = ""

    @property
    def judged_by(self) -> str:
        """Who judged, by the prompt of the file's format."""
        return self.by_prompt_of(self.format)

    def lines(self) -> list[str]:
        """What footers say of it."""
        origin = ", ".join(filter(None, (self.where, self.commit and f"commit {self.commit}", self.licence)))
        facts = [f"{self.system or 'A system without a name'}, imported ({self.format}{origin and '; ' + origin})"]
        facts.append(f"gold in the answer prompt: {self.gold_in_prompt}")
        facts += [f"answers cut {self.cut}"] if self.cut else []
        counts = {"not matched": self.unmatched_count, "there twice": len(self.twice), "missing": len(self.missing)}
        facts += [f"{count} questions {what}" for what, count in counts.items() if count]
        return ["; ".join(facts) + "."]


class ImportedQuestion(BaseModel):
    """What a source says of a question beside answer and verdicts, a line of `DETAILS`: enough to judge it again.

    `rubric` and `reference` are empty where the file has none; the context is told by its length in characters, or in
    tokens as its source counts them, or by its number of memories. `cut` says that the answer was.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    probe_id: str
    question: str
    rubric: tuple[str, ...] = ()
    reference: str = ""
    context_chars: int | None = None
    context_tokens: int | None = None
    memories: int | None = None
    cut: bool | None = None


def read_details(folder: Path, imported: Imported) -> dict[str, ImportedQuestion]:
    """What an imported arm's source said of its questions, by probe id; `UserError` if it was changed."""
    path = folder / DETAILS
    if sha256(read_text(path)) != imported.details_sha256:
        raise UserError(f"{path}: it was changed after the import; import the file again.")
    questions = (checked(ImportedQuestion, row, f"{path}: ") for row in read_jsonl(path))
    return {question.probe_id: question for question in questions}


FOLDER = "local folder in the released layout"


def data_revision(conversations: Mapping[str, ConversationRecord]) -> str:
    """State what all conversations of a run rest on; of a folder, how many of the files read are the released ones."""
    keys = sorted(conversations, key=lambda key: (len(key), key))
    origins = list(dict.fromkeys(conversations[key].origin for key in keys))
    states = {
        f"{key} {name}": state
        for key in keys
        if conversations[key].origin == FOLDER
        for name, state in sorted(conversations[key].files.items())
    }
    counts = Counter(states.values())
    if counts["released"] == len(states):
        folder = f"released files of {REVISION}, all {len(states)} verified by SHA-256"
    elif not counts["released"]:
        folder = f"{FOLDER}, none of the {len(states)} files read has the SHA-256 of a released one"
    else:
        folder = f"{FOLDER}, {counts['released']} of {len(states)} files verified as those of {REVISION}"
        folder += f", {counts['unknown']} without a known checksum" if counts["unknown"] else ""
        if changed := [name for name, state in states.items() if state in ("changed", "missing")]:
            more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
            folder += f", not as released: {', '.join(changed[:3])}{more}"
    return " | ".join(folder if origin == FOLDER else origin for origin in origins)


MANIFEST = "manifest.json"
FROM_ARCHIVE = "archive.json"
"""Lists, at the top of a run folder, the manifests that came from somebody's archive, with the hash of each file."""
JUDGED_BY = "-by-"
"""Stands in the name of a part between that of the part that was judged again and the judge's."""
RECORDS = (f"{ANSWERS}.jsonl", f"{JUDGEMENTS}.jsonl", MANIFEST)
"""The files of an arm's folder."""
_OnlyArm = create_model("_OnlyArm", __config__=ConfigDict(extra="forbid", strict=True), arm=(Arm, ...))
ConversationId = Annotated[str, Field(pattern=rf"^({'|'.join(SIZES)})-{NUMBER.pattern}$")]


class Manifest(RunManifest):
    """The `manifest.json` of one of BEAM's arms. Loading one without any of these fields fails.

    `left_out` are conversations of the run that cannot be read, with the reason. `imported` is only there where others
    made the results; `settings` then hold the arm alone. `notes` is what tables say of a memory that is adapted.
    `claimed` says that it came from somebody's archive and was not made here.
    """

    size: Annotated[Size, Basis.COMPUTED]
    configuration: Annotated[Configuration, Basis.COMPUTED]
    data_revision: Annotated[str, Basis.COMPUTED]
    conversations: Annotated[dict[ConversationId, ConversationRecord], Basis.COMPUTED]
    token_counter: Annotated[str, Basis.COMPUTED]
    answers_sha256: Annotated[dict[ConversationId, str], Basis.COMPUTED]
    judgements_sha256: Annotated[dict[ConversationId, str], Basis.COMPUTED]
    left_out: Annotated[dict[ConversationId, str], Basis.COMPUTED] = Field(default_factory=dict)
    imported: Annotated[Imported | None, Basis.COMPUTED] = None
    claimed: Annotated[bool, Basis.COMPUTED] = False

    file: ClassVar[str] = MANIFEST

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        return read_manifest(folder)

    @classmethod
    def over(
        cls,
        fields: Mapping[str, Any],
        conversations: Mapping[str, ConversationRecord],
        left_out: Mapping[str, str],
        sums: Mapping[str, Mapping[str, str]],
    ) -> Manifest:
        return super().over({**fields, "data_revision": data_revision(conversations)}, conversations, left_out, sums)

    def write(self, folder: Path) -> None:
        """Write it; one that was made here may have the same bytes as one that came from an archive."""
        listed = _listed(folder)
        if listed.pop(f"{folder.parent.name}/{folder.name}/{MANIFEST}", "") and not self.claimed:
            write_json(folder.absolute().parent.parent / FROM_ARCHIVE, listed)
        super().write(folder)

    def kept_fields(self, any_kept: bool) -> dict[str, Any]:
        """What came from an archive stays claimed as long as any of it is kept."""
        return {"claimed": self.claimed and any_kept}

    @model_serializer(mode="wrap")
    def _omit_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        return {key: value for key, value in fields.items() if value or key not in ("imported", "notes", "claimed")}


def _recorded() -> tuple[str, ...]:
    """The parameters that a manifest may state."""
    of_memories = (name for memory in memories() for name in answer_parameters(memory))
    return tuple(dict.fromkeys((*of_memories, *JUDGE_PARAMETERS, "variant", "released")))


@cache
def _settings_model(names: tuple[str, ...]) -> Any:
    """What `settings` of a manifest holds: the arm, and parameters of the types that a run has."""
    return create_model(
        "_Settings",
        __config__=ConfigDict(extra="forbid", strict=True),
        arm=(Arm, ...),
        **{name: (FIELDS[name].annotation, FIELDS[name]) for name in names},  # type: ignore[call-overload]
    )


RECORD_KINDS: Mapping[str, type[BaseModel]] = {ANSWERS: Answer, JUDGEMENTS: Judgement}


def recorded_parameters(manifest: Manifest) -> dict[str, Any]:
    """The parameters that a run's calls rested on, as far as a manifest says: all but data, models and prompts."""
    if manifest.imported is not None:
        raise UserError(f"{manifest.arm}: it was imported, and no parameters of its calls are known; leave it out.")
    defaults = {name: FIELDS[name].default for name in _recorded()}
    return {name: manifest.settings.get(name, default) for name, default in defaults.items()}


def _listed(folder: Path) -> dict[str, str]:
    """The manifests of an arm's run that came from an archive, and the hashes of their files."""
    place = folder.absolute().parent.parent / FROM_ARCHIVE
    return dict(read_json(place)) if place.is_file() else {}


def run_and_part(place: Path) -> tuple[Path, str]:
    """Return the run folder that `place` is, or is a part of, and the name of that part, empty for a whole run."""
    if (place / MANIFEST).exists():
        raise UserError(f"{place}: it is an arm; name its run, or its part {place.resolve().parent}.")
    if not any(place.glob(f"*/{MANIFEST}")):
        return place, ""
    part = place if len(place.parts) > 1 and ".." not in place.parts else place.resolve()
    return part.parent, part.name


def read_manifest(folder: Path) -> Manifest:
    """Read and check the manifest of an arm's folder, its settings included."""
    path = folder / MANIFEST
    manifest = read_task_manifest(path, Manifest)
    if _listed(folder).get("/".join(path.absolute().parts[-3:])) == sha256_of_file(path):
        manifest = manifest.model_copy(update={"claimed": True})
    kind = _settings_model(_recorded()) if manifest.imported is None else _OnlyArm
    arm: Arm = checked(kind, manifest.settings, f"{path}: ", within="settings.").arm
    if manifest.arm != arm.name:
        raise UserError(
            f"{path}: field 'arm' is {manifest.arm!r} where its settings are those of {arm.name!r}; run again."
        )
    return manifest


def ensure_finished(manifest: Manifest, where: str) -> None:
    """A `UserError` where an arm was killed in the middle: not every conversation has its answers and judgements."""
    done = (manifest.answers_sha256.keys(), manifest.judgements_sha256.keys(), manifest.conversations.keys())
    if not manifest.conversations or len(set(map(frozenset, done))) > 1:
        raise UserError(f"{where}: not every conversation in it has answers and judgements; run it to its end.")


def read_answers(folder: Path) -> list[Answer]:
    return read_records(folder / f"{ANSWERS}.jsonl", Answer)


def read_judgements(folder: Path) -> list[Judgement]:
    """The judgements in an arm's folder, whether or not its manifest has their checksums."""
    return read_records(folder / f"{JUDGEMENTS}.jsonl", Judgement)


def stored_answers(folder: Path) -> dict[str, list[Answer]]:
    """The answers of an arm's folder that its manifest vouches for, by conversation; as `stored_judgements`."""
    return _stored(folder, ANSWERS)


def stored_judgements(folder: Path) -> list[Judgement]:
    """The judgements of an arm's folder that its manifest vouches for; `UserError` where one is gone or changed."""
    return [judgement for judgements in _stored(folder, JUDGEMENTS).values() for judgement in judgements]


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


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation has on file: by arm, judgements, answers and manifest of the conversations of the run.

    Attributes:
        loaded: The conversations with their questions and gold.
        truncation: Where the reader's endpoint seems to have cut long requests without a word; empty if it does not.
        answerers: Which other models and fingerprints the replies of each role name; empty if they name none.
        exam: How the judge did in the admission's exam; empty if there was none.
    """

    run: Run
    arms: tuple[Arm, ...]
    answers: Mapping[str, list[Answer]]
    judgements: Mapping[str, list[Judgement]]
    manifests: Mapping[str, Manifest]
    loaded: Mapping[str, Loaded]
    truncation: str = ""
    answerers: str = ""
    exam: str = ""


def left_out(run: Run) -> dict[str, str]:
    """The conversations that a run on file left out, with the reason."""
    places = [run.path(arm.name) for arm in arms_of(run, experiments(run))]
    there = [place for place in places if (place / MANIFEST).exists()]
    return {key: why for place in there for key, why in read_manifest(place).left_out.items()}
