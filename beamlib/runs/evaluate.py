"""Memories, answers and judgements for a set of conversations: resumable, two processes, one file set per arm.

Each arm has a folder `<run>/<size>/<arm>/` with `answers.jsonl`, `judgements.jsonl` and `manifest.json`. The manifest
is written last and lists the conversations that are finished with a hash of their records, so a run killed at any
instant goes on from there. Only what is missing, was changed, or rests on other data, parameters, prompts or code, is
computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from tqdm import tqdm

from beamlib.benchmark.loading import Loaded, load
from beamlib.benchmark.sources import Source, find_conversations
from beamlib.errors import UserError
from beamlib.files import make_folder, read_jsonl, sha256, to_json, write_jsonl
from beamlib.models.base import Model
from beamlib.models.offline import OfflineModel
from beamlib.params import RunParameters
from beamlib.processes import process_pool
from beamlib.runs import manifest as manifests
from beamlib.runs.answering import answer_probes, ingested
from beamlib.runs.arms import Arm
from beamlib.runs.manifest import ConversationRecord, Manifest
from beamlib.runs.records import Answer
from beamlib.scoring.judge import judge_answer
from beamlib.scoring.records import Judgement

Record = TypeVar("Record", bound=BaseModel)
Kept = TypeVar("Kept", Answer, Judgement)


@dataclass
class ArmResults:
    """An arm's records on file, by conversation id."""

    arm: Arm
    folder: Path
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    judgements: dict[str, list[Judgement]] = field(default_factory=dict)
    records: dict[str, ConversationRecord] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` hands back: per arm, the judgements, answers and manifest of the conversations asked for."""

    parameters: RunParameters
    arms: tuple[Arm, ...]
    answers: Mapping[str, list[Answer]]
    judgements: Mapping[str, list[Judgement]]
    manifests: Mapping[str, Manifest]
    loaded: Mapping[str, Loaded]


@dataclass(frozen=True)
class _Task:
    source: Source
    parameters: RunParameters
    arms: tuple[Arm, ...]
    answered: Mapping[str, list[Answer]]  # arms whose answers stand and only want judging


def models() -> tuple[Model, Model]:
    """The reader (and the memory's model) and the judge of a run: both the offline stand-in."""
    return OfflineModel(), OfflineModel()


def evaluate(parameters: RunParameters, arms: Sequence[Arm], *, quiet: bool = False) -> Evaluation:
    """Answer and judge every probe of the tier with every arm, computing only what is not on file."""
    sources = find_conversations(Path(parameters.data), [parameters.size])
    sources = sources[: parameters.conversations or None]
    bar = tqdm(sources, desc=f"{parameters.size}: reading conversations", disable=quiet, leave=False, delay=2)
    loaded = {source.id: load(source, parameters.treatment) for source in bar}
    reader, judge = models()
    folder = Path(parameters.run) / parameters.size.lower()
    results = {arm.name: _on_file(folder / arm.name, arm, parameters, reader.name, judge.name) for arm in arms}
    records = {key: record_of(value) for key, value in loaded.items()}
    tasks = _missing(sources, records, list(results.values()), parameters)
    if tasks:
        _compute(tasks, results, records, parameters, quiet=quiet)
    return _evaluation(parameters, results, loaded)


def record_of(loaded: Loaded) -> ConversationRecord:
    """The hashes by which a finished conversation is recognised."""
    questions = [
        [probe.id, probe.question, list(gold.rubric), gold.ability, list(gold.evidence)]
        for probe in loaded.probes
        for gold in [loaded.gold[probe.id]]
    ]
    return ConversationRecord(
        variant=loaded.conversation.variant,
        sha256=loaded.conversation.sha256,
        questions_sha256=sha256(to_json(questions)),
    )


def _on_file(folder: Path, arm: Arm, parameters: RunParameters, reader: str, judge: str) -> ArmResults:
    """What is on file for `arm` and still valid; answers outlive a change of judge.

    Records that are gone, or are not those that the manifest vouches for, count as not computed.
    """
    results = ArmResults(arm, folder)
    if not all((folder / name).exists() for name in ("manifest.json", "answers.jsonl")):
        return results
    try:
        found = manifests.read(folder)
    except UserError:  # written by another version: nothing in it can be trusted, so it is computed again
        return results
    answers = manifests.answers_key(arm, parameters, reader)
    if found.answers_key != answers:
        return results
    results.records = dict(found.conversations)
    results.answers = _vouched(read_answers(folder), found.answers_sha256)
    if found.judgements_key == manifests.judgements_key(answers, judge) and (folder / "judgements.jsonl").exists():
        results.judgements = _vouched(read_judgements(folder), found.judgements_sha256)
    return results


def _vouched(records: Sequence[Kept], hashes: Mapping[str, str]) -> dict[str, list[Kept]]:
    """The records by conversation, where they are what the manifest's `hashes` say."""
    groups: dict[str, list[Kept]] = {key: [] for key in hashes}
    for record in records:
        if record.conversation_id in groups:
            groups[record.conversation_id].append(record)
    return {key: group for key, group in groups.items() if manifests.records_hash(group) == hashes[key]}


def stored_judgements(folder: Path) -> list[Judgement]:
    """The judgements of an arm's folder that its manifest vouches for; `UserError` where one is gone or changed."""
    hashes = manifests.read(folder).judgements_sha256
    held = _vouched(read_judgements(folder), hashes)
    for key in hashes:
        if key not in held:
            raise UserError(
                f"{folder / 'judgements.jsonl'}: the records of {key} are not those that manifest.json vouches for; "
                "run the evaluation again, which computes them anew, or score them as they stand with --as-is."
            )
    return [judgement for key in sorted(held) for judgement in held[key]]


def _missing(
    sources: Sequence[Source],
    records: Mapping[str, ConversationRecord],
    results: Sequence[ArmResults],
    parameters: RunParameters,
) -> list[_Task]:
    tasks = []
    for source in sources:
        for held in results:
            if held.records.get(source.id) != records[source.id]:
                held.answers.pop(source.id, None)
                held.judgements.pop(source.id, None)
        todo = [held for held in results if source.id not in held.answers or source.id not in held.judgements]
        if todo:
            kept = {held.arm.name: held.answers[source.id] for held in todo if source.id in held.answers}
            tasks.append(_Task(source, parameters, tuple(held.arm for held in todo), kept))
    return tasks


def _compute(
    tasks: Sequence[_Task],
    results: Mapping[str, ArmResults],
    records: Mapping[str, ConversationRecord],
    parameters: RunParameters,
    *,
    quiet: bool,
) -> None:
    reader, judge = models()
    for held in results.values():
        make_folder(held.folder)  # a place that cannot be written to shows now and not after the work
    revisions = {task.source.id: manifests.data_revision(task.source) for task in tasks}
    with (
        process_pool(min(parameters.workers, len(tasks))) as pool,
        tqdm(total=len(tasks), desc=f"{parameters.size}: answering and judging", unit="conv", disable=quiet) as bar,
    ):
        futures = {pool.submit(_work, task): task.source for task in tasks}
        for future in as_completed(futures):
            source = futures[future]
            for name, (answers, judgements) in future.result().items():
                held = results[name]
                held.answers[source.id], held.judgements[source.id] = answers, judgements
                held.records[source.id] = records[source.id]
                _write(held, parameters, reader.name, judge.name, revisions[source.id])
            bar.update()


def _work(task: _Task) -> dict[str, tuple[list[Answer], list[Judgement]]]:
    """One conversation in a process of its own."""
    loaded = load(task.source, task.parameters.treatment)
    reader, judge = models()
    evidence = {probe.id: loaded.gold[probe.id].evidence for probe in loaded.probes}
    answers = {name: list(kept) for name, kept in task.answered.items()}
    unanswered = [arm for arm in task.arms if arm.name not in answers]
    for arm, memory in ingested(unanswered, loaded.conversation, task.parameters, reader, evidence):
        prompt_id = "answer_full" if arm.memory == "full-context" else "answer"
        answers[arm.name] = answer_probes(loaded.probes, memory, reader, prompt_id)
    questions = {probe.id: probe.question for probe in loaded.probes}
    return {
        name: (
            given,
            [judge_answer(questions[a.probe_id], a.text, a.unscored, loaded.gold[a.probe_id], judge) for a in given],
        )
        for name, given in answers.items()
    }


def _write(held: ArmResults, parameters: RunParameters, reader: str, judge: str, data_revision: str) -> None:
    answers = (answer for key in sorted(held.answers) for answer in held.answers[key])
    judgements = (judgement for key in sorted(held.judgements) for judgement in held.judgements[key])
    write_jsonl(held.folder / "answers.jsonl", (record.model_dump(mode="json") for record in answers))
    write_jsonl(held.folder / "judgements.jsonl", (record.model_dump(mode="json") for record in judgements))
    conversations = {key: held.records[key] for key in held.answers}
    found = manifests.build(
        held.arm,
        parameters,
        conversations,
        reader=reader,
        judge=judge,
        data_revision=data_revision,
        answers_sha256={key: manifests.records_hash(held.answers[key]) for key in sorted(held.answers)},
        judgements_sha256={key: manifests.records_hash(held.judgements[key]) for key in sorted(held.judgements)},
    )
    manifests.write(held.folder, found)


def _evaluation(
    parameters: RunParameters, results: Mapping[str, ArmResults], loaded: Mapping[str, Loaded]
) -> Evaluation:
    return Evaluation(
        parameters=parameters,
        arms=tuple(held.arm for held in results.values()),
        answers={name: [a for key in loaded for a in held.answers[key]] for name, held in results.items()},
        judgements={name: [j for key in loaded for j in held.judgements[key]] for name, held in results.items()},
        manifests={name: manifests.restrict(manifests.read(held.folder), loaded) for name, held in results.items()},
        loaded=loaded,
    )


def read_answers(folder: Path) -> list[Answer]:
    """The answers of an arm's folder."""
    return [_parse(Answer, row, folder / "answers.jsonl", n) for n, row in _rows(folder / "answers.jsonl")]


def read_judgements(folder: Path) -> list[Judgement]:
    """The judgements of an arm's folder."""
    return [_parse(Judgement, row, folder / "judgements.jsonl", n) for n, row in _rows(folder / "judgements.jsonl")]


def _rows(path: Path) -> list[tuple[int, object]]:
    return list(enumerate(read_jsonl(path), start=1))


def _parse(kind: type[Record], row: object, path: Path, number: int) -> Record:
    try:
        return kind.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"]) or "record"
        raise UserError(
            f"{path}: record {number}, field '{name}': {first['msg']}; delete the file and run again."
        ) from None
