"""What a command asks of a task: parameters checked, cost confirmed, units answered or judged, tables made."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_args

from beam_commands.confirmation import Priced, confirm_calls
from beam_commands.estimate import estimate_plan
from beam_commands.options import absolute_target, spread_k
from beam_commands.run_admission import admit_and_tune
from beamlib.errors import UserError
from beamlib.evaluate.calling import ensure_keys
from beamlib.evaluate.jobs import AnyArm
from beamlib.evaluate.records import ANSWERS
from beamlib.evaluate.runner import plan_scoring, plan_task, run_task
from beamlib.evaluate.task import Task, TaskPlan, arm_name, runs_outside
from beamlib.llm.model import OFFLINE_NAME
from beamlib.llm.spending import guard_run
from beamlib.llm.stored_model import Mode
from beamlib.memory.outside import Own, listed_memories
from beamlib.params import FIELDS, load_parameters
from beamlib.places import PARAMS
from beamlib.plugins import plugins
from beamlib.report.table import Table, save_table
from beamlib.run import Run
from beamlib.text import count, shell_command

_OPTIONS = {
    "data": "--data", "memorycode": "--data", "meme": "--data", "run": "--name", "own_memory": "--memory",
    "models": "--models", "backbone": "--backbone", "calls": "--calls", "confirm_cost": "--yes",
    "prompts": "--prompts", "conversations": "--conversations",
}  # fmt: skip
"""Parameters that have an option of their own: `--set` may not name them."""


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """The options of a command about a task on the units in `data`.

    Args:
        folder: The run folder, mostly `runs/<name>`.
        arms: Names of arms, all where empty; `own` only with a `memory`, whose place may stand in its stead.
        models: A models file, empty for the stand-in. With `keep_models`, as where a single endpoint is named, it is
            copied into the run folder once the cost is confirmed.
        memory: A memory of the user's own, as `file.py:Class`.
        most: At most so many units of each kind, 0 for all.
        settings: Single parameters.
    """

    data: Path
    folder: Path
    variant: str = ""
    arms: Sequence[str] = ()
    models: str = ""
    backbone: str = ""
    calls: str = "record"
    memory: str = ""
    prompts: Path | None = None
    most: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    yes: bool = False
    quiet: bool = False
    keep_models: bool = False
    admission: bool = False
    judge_anyway: bool = False


Options = TypeVar("Options", bound=TaskOptions)


def name_own_memory(options: TaskOptions) -> TaskOptions:
    """Take a memory of the user's own (`file.py:Class`, `process:NAME:COMMAND`) from the arms: it is the arm `own`."""
    places = [arm for arm in options.arms if ":" in arm]
    if not places:
        return options
    both = list(dict.fromkeys([*places, *filter(None, [options.memory])]))
    if len(both) > 1:
        raise UserError(
            f"--memories: a run takes one memory of your own, not {' and '.join(both)}; give the others runs of their "
            "own with --name."
        )
    return replace(options, arms=[Own.name if arm in places else arm for arm in options.arms], memory=both[0])


def run_command(task: Task, options: TaskOptions) -> TaskPlan:
    """Answer what is asked for and say where the answers are; with models nothing is called before confirmation."""
    options = name_own_memory(options)
    run = run_of(task, options)
    arms = parse_arms(task, options, run)
    plan = plan_task(task, run, arms, judged=False, quiet=options.quiet)
    options, run, admission = _with_confirmation(options, plan)
    plan = replace(plan, run=run)
    names = ", ".join(map(arm_name, arms))
    known = count(plan.known or len(plan.units), task.unit_name)
    reader = run.backbone if run.models_file else OFFLINE_NAME
    print(f"{task.title}: {len(plan.units)} of {known}; reader: {reader}; arms: {names}")
    started = time.monotonic()
    with guard_run(options.folder, run.models_file, calls=run.calls):
        plan = replace(plan, run=admission(run))
        run_task(plan, command=task_recording_command(task, "run", options), quiet=options.quiet)
        task.finish(plan)
    for arm in plan.arms:
        print(_outcome_line(plan, arm))
    given = {"--data": options.data, "--variant": options.variant, "--name": options.folder.name}
    scoring = shell_command(f"beamlib {task.name} score", given)
    print(f"{time.monotonic() - started:.0f} s; score them with: {scoring}")
    return plan


def score_command(task: Task, options: TaskOptions, *, judge: bool = True) -> list[Table]:
    """Judge what a run has answered, and save and return its tables; a model as judge is called once confirmed.

    Without `judge` nothing is judged: a `UserError` where a verdict is missing.
    """
    options = name_own_memory(options)
    run = run_of(task, options if options.models else replace(options, backbone=""))
    plan = plan_scoring(task, run, options.arms, reader=options.backbone)
    if plan.judging and not judge:
        command = task_recording_command(task, "score", options)
        raise UserError(f"{plan.folder}: not every answer is judged yet; run: {command}")
    options, run, admission = _with_confirmation(options, plan)
    with guard_run(options.folder, run.models_file, calls=run.calls):
        plan = replace(plan, run=admission(run))
        run_task(plan, command=task_recording_command(task, "score", options), quiet=options.quiet)
    tables = task.tables(plan)
    for name, table in tables.items():
        save_table(table, name, plan.folder / "scores")
    return list(tables.values())


def run_of(task: Task, options: TaskOptions) -> Run:
    """Build the run from the options; what is wrong with them is a `UserError` in one sentence."""
    if options.calls not in get_args(Mode):
        raise UserError(f"--calls: {options.calls!r:.80} does not exist; choose one of {', '.join(get_args(Mode))}.")
    for name in options.settings:
        if name not in _OPTIONS and name in FIELDS and name not in task.used_parameters():
            raise UserError(f"--set {name}: it bears on nothing in {task.title}; leave it out.")
        if name in _OPTIONS:
            raise UserError(f"--set {name}: this parameter has an option of its own; give {_OPTIONS[name]}.")
    if options.most < 0:
        raise UserError(f"--conversations: {options.most} is less than 0; give 0 for all.")
    if options.backbone and not options.models:
        raise UserError("--backbone: name the models file that holds it with --models.")
    given = {
        "data": "",
        "memorycode": "",
        "meme": "",
        task.parameter: str(options.data.absolute()),
        "run": str(options.folder.absolute()),
        "own_memory": absolute_target(options.memory),
        "models": options.models,
        "backbone": options.backbone,
        "calls": options.calls,
        "conversations": options.most,
        "prompts": str(options.prompts.absolute()) if options.prompts else "",
        **({"confirm_cost": True} if options.yes else {}),
    }
    run = Run.of(load_parameters(PARAMS / "100k.yaml", **{**spread_k(options.settings), **given}))
    own = plugins().available_memories(run.own_memory, run.memory_timeout, run.models_file)
    return run.model_copy(update={"own_memory": own})


def parse_arms(task: Task, options: TaskOptions, run: Run) -> list[AnyArm]:
    """The arms that are named, without repeats, or all of them; an unknown name is a `UserError`."""
    arms = task.parse_arms(options.arms) if options.arms else list(task.arms(run))
    own = [arm for arm in arms if task.kind(arm).outside]
    if (options.memory and not own) or (Own.name in own and not options.memory):
        raise UserError("--memory: the arm own and a memory of your own, as file.py:Class, go together; give both.")
    adapters = [arm for arm in own if runs_outside(arm)]
    available = listed_memories(
        plugins().available_memories(
            ",".join(adapters), run.memory_timeout, run.models_file, alone=len(adapters) == len(arms)
        )
    )
    return [arm for arm in arms if arm not in adapters or arm in available]


def task_recording_command(task: Task, verb: str, options: TaskOptions) -> str:
    """The shell command that records what `options` need, and nothing else; what is empty is left out."""
    given = {
        "--data": options.data, "--variant": options.variant, "--name": options.folder.name,
        "--arms": ",".join(options.arms), "--models": options.models, "--backbone": options.backbone,
        "--memory": options.memory, "--prompts": options.prompts or "", "--conversations": options.most or "",
    }  # fmt: skip
    return shell_command(f"beamlib {task.name} {verb}", given, options.settings, ["--calls", "record", "--yes"])


def _with_confirmation(options: Options, plan: TaskPlan) -> tuple[Options, Run, Callable[[Run], Run]]:
    """Show the cost and ask for confirmation where models would be called; then keep the models file.

    Returns:
        Options and run with what was confirmed, and the admission, which returns the run as it was measured.
    """
    run = plan.run

    def admission(confirmed: Run) -> Run:
        return confirmed

    if run.models_file and options.calls != "replay":
        estimated = estimate_plan(plan, admitted=set() if options.admission else None, quiet=options.quiet)
        roles = {row.role for row in estimated.rows if row.calls}
        priced: dict[str, Priced] = {"": estimated}
        yes = confirm_calls(priced, lambda: ensure_keys(run, roles), run.confirm_cost)
        run = run.model_copy(update={"confirm_cost": yes})
        if options.admission and estimated.pending:
            admission = partial(
                admit_and_tune, estimate=estimated, suite=plan.task.name, judge_anyway=options.judge_anyway
            )
    if options.keep_models and run.models_file:
        options = replace(options, models=str(run.models_file.save(options.folder)))
        run = run.moved(models=options.models)
    return options, run, admission


def _outcome_line(plan: TaskPlan, arm: str) -> str:
    """How many answers an arm has, what is missing and why."""
    records = plan.records(arm, ANSWERS)
    answers = [answer for own in records.values() for answer in own]
    unscored = sum(answer.text is None for answer in answers)
    gaps = sum(answer.gaps > 0 for answer in answers)
    reasons = Counter(plan.stores[arm].left_out.values())
    notes = [f"{unscored} unscored"] if unscored else []
    notes += [f"{gaps} from a memory that lacks a reply of its model"] if gaps else []
    notes += [f"left out for {why}: {times}" for why, times in reasons.items()]
    units = count(len(records), plan.task.unit_name)
    return "; ".join([f"  {arm}: {count(len(answers), 'answer')} of {units}", *notes, *plan.task.outcome(plan, arm)])
