"""One runner for every task: find what is missing, answer, judge and record it; interrupted runs resume.

Records are written as they come, so a run that is killed at any instant goes on from there. Only what is missing, was
edited, or rests on other data, settings, prompts or code, is computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from beamlib.errors import UserError
from beamlib.evaluate.jobs import AnyArm, JudgeJob, Records, run_jobs
from beamlib.evaluate.kept_settings import keep_files
from beamlib.evaluate.records import ANSWERS, JUDGEMENTS, RUN
from beamlib.evaluate.run_store import RunStore
from beamlib.evaluate.task import STAND_IN, Task, TaskPlan, Unit, arm_name
from beamlib.llm.model import ModelRoles
from beamlib.params import RunParameters
from beamlib.plugins import plugins
from beamlib.processes import one_cluster
from beamlib.run import Run


def plan_task(
    task: Task,
    parameters: RunParameters | Run,
    arms: Sequence[AnyArm],
    *,
    judged: bool = True,
    units: Sequence[Unit] | None = None,
    quiet: bool = False,
) -> TaskPlan:
    """Read the units and find out what is missing; nothing is computed, called or written.

    Args:
        parameters: A run, or parameters to build one from.
        judged: Whether verdicts are asked for, of a task that has a judge.
        units: Instead of those that the parameters ask for.
    """
    run = Run.of(parameters)
    left_out: Mapping[str, str] = {}
    known = 0
    if units is None:
        unit_set = task.units(run, quiet=quiet)
        units, left_out, known = unit_set.units, unit_set.left_out, unit_set.known
    data = {unit.id: unit.record for unit in units}
    stores: dict[str, RunStore[Any]] = {}
    excluded: dict[str, set[str]] = {}
    for arm in arms:
        store = stores[arm_name(arm)] = task.store(arm, run)
        store.open(data, retry=run.calls == "record")
        reasons = {unit.id: why for unit in units if (why := task.excluded(unit, arm))}
        excluded[arm_name(arm)] = set(reasons)
        store.leave_out({**left_out, **reasons}, asked=[*data, *left_out])
        for unit in units:
            _keep_part(task, store, unit, run)
            if run.calls == "refresh":
                store.drop(unit.id)

    def lacking(unit: Unit, parts: Sequence[str]) -> list[AnyArm]:
        return [
            arm
            for arm in arms
            if unit.id not in excluded[arm_name(arm)]
            and any(unit.id not in stores[arm_name(arm)].outputs[part] for part in parts)
        ]

    answers = [part for part in task.records if part != JUDGEMENTS]
    verdicts = [JUDGEMENTS] if judged and task.judge else []
    answering = [work for unit in units for work in _unanswered(task, unit, lacking(unit, answers), stores)]
    judging = [(unit, own) for unit in units if (own := lacking(unit, verdicts))]
    named = {arm_name(arm): arm for arm in arms}
    return TaskPlan(task, run, named, {unit.id: unit for unit in units}, stores, answering, judging, left_out, known)


def _keep_part(task: Task, store: RunStore[Any], unit: Unit, run: Run) -> None:
    """Keep the answers on file to some of the questions that are asked now; a smaller slice is a `UserError`."""
    on_file = store.other_questions(unit.id)
    part = task.part(unit, on_file) if on_file else None
    if part is None:
        return
    order = [probe.id for probe in unit.asked.probes]
    if run.chat.per_ability and on_file > set(order) and run.calls != "refresh":
        raise UserError(
            f"{store.folder}: it has answers to {len(on_file)} questions of {unit.id}, and {len(order)} are asked with "
            f"--per-ability {run.chat.per_ability}; a slice can grow and not shrink: name another run folder."
        )
    store.keep_part(unit.id, part.record, order)


def _unanswered(
    task: Task, unit: Unit, arms: Sequence[AnyArm], stores: Mapping[str, RunStore[Any]]
) -> Iterator[tuple[Unit, Sequence[AnyArm]]]:
    """Group arms by the questions of a unit that they have not answered."""
    groups: dict[frozenset[str], list[AnyArm]] = {}
    for arm in arms:
        groups.setdefault(stores[arm_name(arm)].questions_begun(unit.id), []).append(arm)
    for answered, own in groups.items():
        rest = {probe.id for probe in unit.asked.probes} - answered if answered else ()
        yield (task.part(unit, rest) if rest else None) or unit, own


def plan_scoring(
    task: Task, parameters: RunParameters | Run, names: Sequence[str] = (), *, reader: str = ""
) -> TaskPlan:
    """Find the answers of a run as they are on file, and which of them the judge of `parameters` has not judged.

    Args:
        names: Arms, all on file where empty.
        reader: Whose answers, of several readers; by default the only one's.

    Raises:
        UserError: Where there are no answers, or they are to other units than the data have.
    """
    run = Run.of(parameters)
    readers = [reader] if reader else task.readers(run.folder)
    if len(readers) > 1:
        shown = ", ".join(readers)
        place = run.folder / task.name
        raise UserError(f"{place}: holds answers of several readers ({shown}); name one with --backbone.")
    place = task.folder(run.folder, readers[0] if readers else STAND_IN)
    there = [arm for arm in task.all_arms() if (place / arm_name(arm) / RUN).exists()]
    if not there:
        raise UserError(f"{place}: holds no results of {task.title}; name a run folder of `beamlib {task.name} run`.")
    arms = task.parse_arms(names) if names else there
    for arm in arms:
        if arm not in there:
            raise UserError(
                f"--arms: {run.folder} has no results of {arm_name(arm)}; it has {', '.join(map(arm_name, there))}."
            )
    stores = {arm_name(arm): task.store_on_file(place / arm_name(arm), run) for arm in arms}
    units = {unit.id: unit for unit in task.units(run).units}
    for name, store in stores.items():
        for unit, output in store.outputs[ANSWERS].items():
            if unit not in units or units[unit].record.sha256 != output.data.sha256:
                raise UserError(
                    f"--data: {name} was asked about another {unit} than it holds; name the data of the run, or run "
                    "again."
                )
    on_file = {unit for store in stores.values() for unit in store.outputs[ANSWERS]}
    judging = [
        (unit, own)
        for key, unit in units.items()
        if task.judge is not None and (own := [arm for arm in arms if _unjudged(stores[arm_name(arm)], key)])
    ]
    kept = {key: unit for key, unit in units.items() if key in on_file}
    return TaskPlan(task, run, {arm_name(arm): arm for arm in arms}, kept, stores, [], judging, {})


def _unjudged(store: RunStore[Any], unit: str) -> bool:
    return unit in store.outputs[ANSWERS] and unit not in store.outputs.get(JUDGEMENTS, {})


def run_task(plan: TaskPlan, *, command: str = "", quiet: bool = False) -> None:
    """Answer and judge what is missing, in worker processes; those that answer are never handed gold.

    With models nothing is called before `confirm_cost`. `command` is the shell command that records what a replay
    misses.
    """
    task, run = plan.task, plan.run
    for store in plan.stores.values():
        store.begin()
    if run.models_file and task.name:
        keep_files(run, run.folder / task.name)
    if not plan.pending:
        return
    together = task.batch if run.models_file and plugins().cluster is None else 1
    waves = _waves(task.merge_shared(plan.answering))
    rounds = [jobs for work in waves for jobs in task.answer_jobs(work, run, command, together=together)]
    shared: dict[str, Any] = {"suite": task.name, "isolated": task.isolated, "quiet": quiet}
    label = task.label(run)
    # closing: where a file cannot be written, the workers end as well.
    with one_cluster(), _flushed(plan):
        with closing(run_jobs(rounds, f"{label}: answering", run, **shared)) as done:
            for _, results in done:
                for unit, by_arm in results.items():
                    for arm, records in by_arm.items():
                        for key, own in _by_unit(unit, records, plan.units).items():
                            plan.stores[arm].add(key, plan.units[key].record, own)
        with closing(run_jobs([_judge_jobs(plan, command)], f"{label}: judging", run, **shared)) as judged:
            for job, verdicts in judged:
                for arm, own in verdicts.items():
                    record = plan.units[job.conversation_id].record
                    plan.stores[arm].add(job.conversation_id, record, {JUDGEMENTS: own})


def _waves(work: Iterable[tuple[Unit, Sequence[AnyArm]]]) -> list[list[tuple[Unit, Sequence[AnyArm]]]]:
    """Divide the work so that a unit's arms with different questions, which share a call store, are asked in turn."""
    waves, seen = list[list[tuple[Unit, Sequence[AnyArm]]]](), Counter[str]()
    for unit, arms in work:
        waves += [[]] if seen[unit.id] == len(waves) else []
        waves[seen[unit.id]].append((unit, arms))
        seen[unit.id] += 1
    return waves


def _by_unit(name: str, records: Records, units: Collection[str]) -> dict[str, Records]:
    """The records of a unit; those of several units that were asked together are told apart by their own ids."""
    if name in units:
        return {name: records}
    groups: dict[str, dict[str, list[Any]]] = {}
    for part, own in records.items():
        for record in own:
            groups.setdefault(str(getattr(record, "conversation_id", name)), {}).setdefault(part, []).append(record)
    return dict(groups)


@contextmanager
def _flushed(plan: TaskPlan) -> Iterator[None]:
    """However it ends, what was computed is on file."""
    try:
        yield
    finally:
        for store in plan.stores.values():
            if store.pending:
                store.flush()


def _judge_jobs(plan: TaskPlan, command: str) -> list[JudgeJob]:
    jobs = []
    for unit, arms in plan.judging:
        asked = {}
        for name in map(arm_name, arms):
            store = plan.stores[name]
            judged = store.questions_begun(unit.id, JUDGEMENTS)
            answers = [one for one in store.records(ANSWERS, unit.id) if not judged or one.probe_id not in judged]
            asked[name] = plan.task.to_judge(unit, answers)
        if plan.task.judge is not None:
            jobs.append(JudgeJob(unit.id, asked, plan.task.judge, plan.run, plan.task.name, command))
    return jobs


@dataclass(frozen=True)
class Rehearsal:
    """What one unit lacks, for an estimate: asked as in the run, of models that call nobody.

    `on_file` are the answers that lack a verdict, by arm.
    """

    task: Task
    unit: Unit
    answering: Sequence[AnyArm]
    on_file: Mapping[str, Sequence[Any]]
    run: Run

    def perform(self, roster: ModelRoles) -> Mapping[str, Sequence[Any]]:
        """Answer and judge in this process, and return the answers by arm; nothing is kept."""
        task, answers = self.task, dict(self.on_file)
        for arms, run in task.rehearsal(self.answering, self.run) if self.answering else ():
            by_arm = task.answer(self.unit.asked, arms, run, roster, self.unit.evidence)
            for arm, records in by_arm.items():
                answers[arm if arm not in answers else f"in place of another: {arm}"] = records[ANSWERS]
        if task.judge is not None and self.judged:
            asked = {arm: task.to_judge(self.unit, own) for arm, own in answers.items()}
            task.judge(asked, self.run, roster)
        return answers

    judged: bool = True


def rehearsals(plan: TaskPlan) -> list[Rehearsal]:
    """What every pending unit lacks."""
    on_file = {unit.id: _unjudged_answers(plan, unit, arms) for unit, arms in plan.judging}
    judged = set(on_file)
    parts = []
    for unit, arms in plan.task.merge_shared(plan.answering):
        # Judging takes the whole unit, also where some of its questions are left to ask.
        waiting = on_file.pop(unit.id, {}) if plan.units.get(unit.id) is unit else {}
        parts.append(Rehearsal(plan.task, unit, arms, waiting, plan.run, judged=unit.id in judged))
    alone = {key: answers for key, answers in on_file.items() if answers}
    return [*parts, *(Rehearsal(plan.task, plan.units[key], (), answers, plan.run) for key, answers in alone.items())]


def _unjudged_answers(plan: TaskPlan, unit: Unit, arms: Sequence[AnyArm]) -> dict[str, Sequence[Any]]:
    """The answers on file to a unit that lack a verdict, by arm."""
    answers: dict[str, Sequence[Any]] = {}
    for name in map(arm_name, arms):
        store = plan.stores[name]
        begun = store.begun.get(unit.id)
        if unit.id in store.outputs[ANSWERS]:
            answers[name] = store.records(ANSWERS, unit.id)
        elif begun is not None and JUDGEMENTS not in begun.parts:
            answers[name] = begun.parts[ANSWERS].records
    return answers
