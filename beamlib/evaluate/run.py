"""Memories, answers and judgements for a set of conversations: resumable, in processes, one file set per arm.

Each arm has a folder `<run>/<size>/<arm>/` with `answers.jsonl`, `judgements.jsonl` and `manifest.json`. The manifest
is written last and lists the conversations that are finished with a hash of their records, so a run killed at any
instant goes on from there. Only what is missing, was changed, or rests on other data, parameters, prompts or code, is
computed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

from beamlib.data.checked_json import left_out_line
from beamlib.data.loading import Loaded, readable
from beamlib.data.sources import Source, find_conversations
from beamlib.evaluate.answer_record import Answer
from beamlib.evaluate.answering import AnswerTask, answer_task
from beamlib.evaluate.arm_folder import (
    ANSWERS,
    JUDGEMENTS,
    MANIFEST,
    ArmFolder,
    Manifest,
    made,
    read_manifest,
    restrict,
)
from beamlib.evaluate.arms import Arm, arms_of, experiments
from beamlib.evaluate.calling import ResolvedParameters, calls_folder, resolved, run_path
from beamlib.evaluate.conversation_record import ConversationRecord, record_of
from beamlib.evaluate.judging import JudgeTask, evidence_of, judge_task, to_judge
from beamlib.params import RunParameters
from beamlib.plugins import plugins
from beamlib.processes import Workers, as_they_end, one_cluster, process_pool
from beamlib.scoring.records import Judgement

Part = TypeVar("Part", AnswerTask, JudgeTask)
Value = TypeVar("Value")


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

    parameters: ResolvedParameters
    loaded: Mapping[str, Loaded]
    data: Mapping[str, ConversationRecord]
    folders: Mapping[str, ArmFolder]
    tasks: Sequence[_RunTask]
    left_out: Mapping[str, str]


def evaluate(parameters: RunParameters, arms: Sequence[Arm], *, quiet: bool = False) -> Evaluation:
    """Answer and judge every probe of the tier with every arm, computing only what is not on file."""
    plan = plan_run(parameters, arms, quiet=quiet)
    if plan.tasks:
        with one_cluster():
            _compute(plan, quiet=quiet)
    manifests = {name: _finished(held) for name, held in plan.folders.items()}
    return Evaluation(
        parameters=plan.parameters,
        arms=tuple(held.arm for held in plan.folders.values()),
        answers={name: [a for key in plan.loaded for a in held.answers(key)] for name, held in plan.folders.items()},
        judgements={
            name: [j for key in plan.loaded for j in held.judgements(key)] for name, held in plan.folders.items()
        },
        manifests={name: restrict(found, plan.loaded, plan.left_out) for name, found in manifests.items()},
        loaded=plan.loaded,
    )


def _finished(held: ArmFolder) -> Manifest:
    """The manifest on file, written again where there was nothing to compute and it is yet told otherwise."""
    found = read_manifest(held.folder)
    if (found.left_out, found.configuration) == (held.left_out[ANSWERS], held.configuration):
        return found
    held.write()
    return held.write_manifest()


def left_out(parameters: RunParameters) -> dict[str, str]:
    """The conversations that the arms of a run, as far as they are on file, were made without, with the reason."""
    places = [run_path(parameters, arm.name) for arm in arms_of(parameters, experiments(parameters))]
    there = [place for place in places if (place / MANIFEST).exists()]
    return {key: why for place in there for key, why in read_manifest(place).left_out.items()}


def plan_run(parameters: RunParameters, arms: Sequence[Arm], *, quiet: bool = False) -> MissingWork:
    """Read the conversations and find out what is missing; nothing is computed or called.

    One that cannot be read is `Unreadable`; with `skip_broken` it is told and left out, with what is on file of it, and
    the next one takes its place in the number of `conversations`.
    """
    parameters = resolved(parameters)
    sources = find_conversations(Path(parameters.data), [parameters.size])
    wanted = parameters.conversations or len(sources)
    title = f"{parameters.size}: reading conversations"
    bar = tqdm(sources, total=min(wanted, len(sources)), desc=title, disable=quiet or None, leave=False, delay=2)
    left_out: dict[str, str] = {}
    reading = readable(bar, parameters.treatment, skip_broken=parameters.skip_broken, left_out=left_out)
    loaded = {one.conversation.id: one for one in islice(reading, wanted)}
    if left_out and not quiet:
        print(left_out_line(left_out), file=sys.stderr)
    data = {key: record_of(value) for key, value in loaded.items()}
    again = parameters.calls == "record"
    folders = {arm.name: _opened(arm, parameters, data, again=again) for arm in arms}
    for held in folders.values():
        held.leave_out(left_out, asked=[*loaded, *left_out])
    tasks = [_missing(source, folders.values()) for source in sources if source.id in loaded]
    return MissingWork(parameters, loaded, data, folders, [task for task in tasks if task], left_out)


def _opened(arm: Arm, parameters: ResolvedParameters, data: Mapping[str, object], *, again: bool) -> ArmFolder:
    """The folder of `arm` with what is on file and still valid; where everything is to be called anew, nothing is."""
    held = ArmFolder(arm, parameters)
    if parameters.calls != "refresh":
        held.open(data, again=again)
    return held


def _missing(source: Source, folders: Iterable[ArmFolder]) -> _RunTask | None:
    """The arms that have no judgements of a conversation, None where all have."""
    todo = [held for held in folders if source.id not in held.made[JUDGEMENTS]]
    answered = {held.arm.name: held.answers(source.id) for held in todo if source.id in held.made[ANSWERS]}
    return _RunTask(source, tuple(held.arm for held in todo), answered) if todo else None


def _compute(plan: MissingWork, *, quiet: bool) -> None:
    """Answers, then verdicts, in processes of their own: those that answer are never handed gold.

    Both are written as they come, so a run that is killed goes on from there.
    """
    for held in plan.folders.values():
        held.begin()
    tasks = _answer_tasks(plan)
    answers = [[task for task in tasks if task.evidence == {}], [task for task in tasks if task.evidence != {}]]
    # closing: where a file cannot be written, the processes end as well.
    with closing(worked(answer_task, answers, "answering", plan.parameters, quiet=quiet)) as done:
        for task, answered in done:
            key = task.conversation.id
            for name, answers_of_arm in answered.items():
                plan.folders[name].take(ANSWERS, key, made(plan.data[key], answers_of_arm))
    with closing(worked(judge_task, [_judge_tasks(plan)], "judging", plan.parameters, quiet=quiet)) as judged:
        for one, judgements in judged:
            for name, judgements_of_arm in judgements.items():
                key = one.conversation_id
                plan.folders[name].take(JUDGEMENTS, key, made(plan.data[key], judgements_of_arm))


def worked(
    work: Callable[[Part], Value],
    rounds: Sequence[Sequence[Part]],
    title: str,
    parameters: RunParameters,
    *,
    quiet: bool,
) -> Generator[tuple[Part, Value], None, None]:
    """Each part with what `work` makes of it, as processes end it; a round begins when the one before has ended."""
    most = max(map(len, rounds))
    if not most:
        return
    total = sum(part.answers for one_round in rounds for part in one_round)
    with (
        _workers(parameters, most) as pool,
        tqdm(total=total, desc=f"{parameters.size}: {title}", unit=" answers", disable=quiet or None) as bar,
    ):
        for one_round in rounds:
            futures = {pool.submit(work, replace(part, processes=pool.size)): part for part in one_round}
            for future in as_they_end(futures, pool, bar, calls_folder(parameters) if parameters.models else None):
                yield futures[future], future.result()
                bar.update(futures[future].answers)


def _workers(parameters: RunParameters, parts: int) -> AbstractContextManager[Workers]:
    """Processes of this machine, or the workers of the cluster that the command was given."""
    if (cluster := plugins().cluster) is not None:
        return cluster.pool(parameters, parts)
    return process_pool(min(parameters.workers, parts))


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
        answers = {arm.name: plan.folders[arm.name].answers(task.source.id) for arm in task.arms}
        asked = {name: to_judge(of_arm, loaded) for name, of_arm in answers.items()}
        tasks.append(JudgeTask(task.source.id, asked, plan.parameters))
    return tasks
