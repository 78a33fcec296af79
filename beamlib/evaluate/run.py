"""Memories, answers and judgements for a set of conversations: resumable, in processes, one file set per arm.

Each arm has a folder `<run>/<size>/<arm>/` with `answers.jsonl`, `judgements.jsonl` and `manifest.json`. The manifest
is written last and lists the conversations that are finished with a hash of their records, so a run killed at any
instant goes on from there. Only what is missing, was changed, or rests on other data, parameters, prompts or code, is
computed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from tqdm import tqdm

from beamlib.data.checked_json import left_out_line
from beamlib.data.loading import Loaded, readable
from beamlib.data.sources import Source, find_conversations
from beamlib.errors import UserError
from beamlib.evaluate import run_store as manifests
from beamlib.evaluate.answering import AnswerTask, answer_task
from beamlib.evaluate.arms import Arm, arms_of, experiments
from beamlib.evaluate.calling import calls_folder, resolved, run_path
from beamlib.evaluate.judging import JudgeTask, evidence_of, judge_task, to_judge
from beamlib.evaluate.records import Answer
from beamlib.evaluate.run_store import ConversationRecord, Manifest
from beamlib.files import make_folder, read_jsonl, sha256, to_json, write_text
from beamlib.params import RunParameters
from beamlib.processes import as_they_end, process_pool
from beamlib.scoring.records import Judgement

Record = TypeVar("Record", bound=BaseModel)
Kept = TypeVar("Kept", Answer, Judgement)
Part = TypeVar("Part", AnswerTask, JudgeTask)
Value = TypeVar("Value")


@dataclass
class ArmResults:
    """An arm's records on file, by conversation id; `begun` is what all that is made from now on rests on."""

    arm: Arm
    folder: Path
    begun: Manifest
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    judgements: dict[str, list[Judgement]] = field(default_factory=dict)
    records: dict[str, ConversationRecord] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    _lines: dict[int, tuple[Sequence[BaseModel], str]] = field(default_factory=dict)

    def lines(self, records: Sequence[BaseModel]) -> str:
        """A conversation's records as they stand on file, made once: the file is written with each one that ends."""
        if id(records) not in self._lines:
            self._lines[id(records)] = (records, manifests.lines_of(records))
        return self._lines[id(records)][1]

    def drop(self, left_out: Mapping[str, str], asked: Sequence[str]) -> None:
        """Take out what cannot be read any more; of conversations that are not asked for, what is on file stands."""
        others = {key: why for key, why in self.left_out.items() if key not in asked}
        self.left_out = {**others, **left_out}
        for key in left_out:
            for held in (self.answers, self.judgements, self.records):
                held.pop(key, None)


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
class _RunTask:
    source: Source
    arms: tuple[Arm, ...]
    answered: Mapping[str, list[Answer]]  # arms whose answers stand and only want judging


@dataclass(frozen=True)
class MissingWork:
    """What is on file for the arms of a run, and what is left to do; `left_out` cannot be read, and why."""

    parameters: RunParameters
    loaded: Mapping[str, Loaded]
    results: Mapping[str, ArmResults]
    tasks: Sequence[_RunTask]
    left_out: Mapping[str, str]


def evaluate(parameters: RunParameters, arms: Sequence[Arm], *, quiet: bool = False) -> Evaluation:
    """Answer and judge every probe of the tier with every arm, computing only what is not on file."""
    plan = plan_run(parameters, arms, quiet=quiet)
    if plan.tasks:
        _compute(plan, quiet=quiet)
    for held in plan.results.values():
        found, now = manifests.read(held.folder), held.begun.configuration
        if (found.left_out, found.configuration) != (held.left_out, now):  # nothing to compute, and yet told otherwise
            _write(held)
    return _evaluation(plan)


def left_out(parameters: RunParameters) -> dict[str, str]:
    """The conversations that the arms of a run, as far as they are on file, were made without, with the reason."""
    places = [run_path(parameters, arm.name) for arm in arms_of(parameters, experiments(parameters))]
    there = [place for place in places if (place / "manifest.json").exists()]
    return {key: why for place in there for key, why in manifests.read(place).left_out.items()}


def plan_run(parameters: RunParameters, arms: Sequence[Arm], *, quiet: bool = False) -> MissingWork:
    """Read the conversations and find out what is missing; nothing is computed or called.

    One that cannot be read is `Unreadable`; with `skip_broken` it is told and left out, with what is on file of it, and
    the next one takes its place in the number of `conversations`.
    """
    parameters = resolved(parameters)
    sources = find_conversations(Path(parameters.data), [parameters.size])
    wanted = parameters.conversations or len(sources)
    title = f"{parameters.size}: reading conversations"
    bar = tqdm(sources, total=min(wanted, len(sources)), desc=title, disable=quiet, leave=False, delay=2)
    left_out: dict[str, str] = {}
    reading = readable(bar, parameters.treatment, skip_broken=parameters.skip_broken, left_out=left_out)
    loaded = {one.conversation.id: one for one in islice(reading, wanted)}
    if left_out and not quiet:
        print(left_out_line(left_out), file=sys.stderr)
    results = {arm.name: _on_file(run_path(parameters, arm.name), arm, parameters) for arm in arms}
    for held in results.values():
        held.drop(left_out, asked=[*loaded, *left_out])
    records = {key: record_of(value) for key, value in loaded.items()}
    tasks = _missing([source for source in sources if source.id in loaded], records, list(results.values()), parameters)
    return MissingWork(parameters, loaded, results, tasks, left_out)


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
        origin=manifests.origin(loaded.source, loaded.files),
        files={file.name: file.state for file in loaded.files},
    )


def _on_file(folder: Path, arm: Arm, parameters: RunParameters) -> ArmResults:
    """What is on file for `arm` and still valid; answers outlive a change of judge.

    Records that are gone, or are not those that the manifest vouches for, count as not computed.
    """
    results = ArmResults(arm, folder, manifests.begun(arm, parameters))
    if parameters.calls == "refresh" or not all(
        (folder / name).exists() for name in ("manifest.json", "answers.jsonl")
    ):
        return results
    try:
        found = manifests.read(folder)
    except UserError:  # written by another version: nothing in it can be trusted, so it is computed again
        return results
    if found.answers_key != results.begun.answers_key:
        return results
    results.records, results.left_out = dict(found.conversations), dict(found.left_out)
    results.answers = _vouched(read_answers(folder), found.answers_sha256)
    if found.judgements_key == results.begun.judgements_key and (folder / "judgements.jsonl").exists():
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
) -> list[_RunTask]:
    again = parameters.calls == "record"  # what failed for a reason that may pass is tried again
    tasks = []
    for source in sources:
        for held in results:
            other = held.records.get(source.id) != records[source.id]
            if other or (again and any(answer.transient for answer in held.answers.get(source.id, ()))):
                held.answers.pop(source.id, None)
            failed = again and any(judgement.transient for judgement in held.judgements.get(source.id, ()))
            if source.id not in held.answers or failed:
                held.judgements.pop(source.id, None)
        todo = [held for held in results if source.id not in held.answers or source.id not in held.judgements]
        if todo:
            kept = {held.arm.name: held.answers[source.id] for held in todo if source.id in held.answers}
            tasks.append(_RunTask(source, tuple(held.arm for held in todo), kept))
    return tasks


def _compute(plan: MissingWork, *, quiet: bool) -> None:
    """Answers, then verdicts, in processes of their own: those that answer are never handed gold.

    Both are written as they come, so a run that is killed goes on from there.
    """
    for held in plan.results.values():
        make_folder(held.folder)  # a place that cannot be written to shows now and not after the work
    tasks = _answer_tasks(plan)
    answers = [[task for task in tasks if task.evidence == {}], [task for task in tasks if task.evidence != {}]]
    # closing: where a file cannot be written, the processes end as well.
    with closing(_worked(answer_task, answers, "answering", plan.parameters, quiet=quiet)) as done:
        for task, made in done:
            key = task.conversation.id
            for name, answers_of_arm in made.items():
                held = plan.results[name]
                held.answers[key], held.records[key] = answers_of_arm, record_of(plan.loaded[key])
                _write(held)
    with closing(_worked(judge_task, [_judge_tasks(plan)], "judging", plan.parameters, quiet=quiet)) as judged:
        for one, judgements in judged:
            for name, judgements_of_arm in judgements.items():
                held = plan.results[name]
                held.judgements[one.conversation_id] = judgements_of_arm
                _write(held)


def _worked(
    work: Callable[[Part], Value],
    rounds: Sequence[Sequence[Part]],
    title: str,
    parameters: RunParameters,
    *,
    quiet: bool,
) -> Generator[tuple[Part, Value], None, None]:
    """Each part with what `work` makes of it, as they end; a round begins when the one before has ended."""
    processes = min(parameters.workers, max(map(len, rounds)))
    if not processes:
        return
    with (
        process_pool(processes) as pool,
        tqdm(total=sum(map(len, rounds)), desc=f"{parameters.size}: {title}", unit="part", disable=quiet) as bar,
    ):
        for one_round in rounds:
            futures = {pool.submit(work, replace(part, processes=processes)): part for part in one_round}
            for future in as_they_end(futures, bar, calls_folder(parameters) if parameters.models else None):
                yield futures[future], future.result()
                bar.update()


def _answer_tasks(plan: MissingWork) -> list[AnswerTask]:
    """What is to be answered, as it goes to processes: the oracle, which is told the evidence, apart from the others.

    Where there are fewer conversations than processes, LIGHT's arms go apart as well. Only its variants have something
    in common, the reading, so the parts together cost no more than the whole. Not where models are called: equal
    requests of a conversation are one call, which takes one process at a time.
    """
    parameters = plan.parameters
    apart = ("oracle",) if parameters.models or len(plan.tasks) >= parameters.workers else ("oracle", "light")
    tasks = []
    for task in plan.tasks:
        loaded = plan.loaded[task.source.id]
        groups: dict[str, list[Arm]] = {}
        for arm in task.arms:
            if arm.name not in task.answered:
                groups.setdefault(arm.memory if arm.memory in apart else "", []).append(arm)
        for group, arms in groups.items():
            evidence = evidence_of(loaded) if group == "oracle" else {}
            tasks.append(AnswerTask(loaded.conversation, loaded.probes, tuple(arms), parameters, evidence))
    return tasks


def _judge_tasks(plan: MissingWork) -> list[JudgeTask]:
    tasks = []
    for task in plan.tasks:
        loaded = plan.loaded[task.source.id]
        answers = {arm.name: plan.results[arm.name].answers[task.source.id] for arm in task.arms}
        asked = {name: to_judge(of_arm, loaded) for name, of_arm in answers.items()}
        tasks.append(JudgeTask(task.source.id, asked, plan.parameters))
    return tasks


def _write(held: ArmResults) -> None:
    answers = {key: held.lines(held.answers[key]) for key in sorted(held.answers)}
    judgements = {key: held.lines(held.judgements[key]) for key in sorted(held.judgements)}
    write_text(held.folder / "answers.jsonl", "".join(answers.values()))
    write_text(held.folder / "judgements.jsonl", "".join(judgements.values()))
    conversations = {key: held.records[key] for key in held.answers}
    found = manifests.filled(
        held.begun,
        conversations,
        left_out=held.left_out,
        answers_sha256={key: manifests.hash_of_lines(lines) for key, lines in answers.items()},
        judgements_sha256={key: manifests.hash_of_lines(lines) for key, lines in judgements.items()},
    )
    manifests.write(held.folder, found)


def _evaluation(plan: MissingWork) -> Evaluation:
    results, loaded = plan.results, plan.loaded
    of_run = {name: manifests.read(held.folder) for name, held in results.items()}
    return Evaluation(
        parameters=plan.parameters,
        arms=tuple(held.arm for held in results.values()),
        answers={name: [a for key in loaded for a in held.answers[key]] for name, held in results.items()},
        judgements={name: [j for key in loaded for j in held.judgements[key]] for name, held in results.items()},
        manifests={name: manifests.restrict(found, loaded, plan.left_out) for name, found in of_run.items()},
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
