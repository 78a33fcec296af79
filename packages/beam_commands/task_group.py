"""One group of commands for every task: `run`, `score`, `report`; their options are the fields of `TaskArguments`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beam_commands.options import (
    Json,
    JudgeAnyway,
    MemoryTimeout,
    ModelOptions,
    NoAdmission,
    check_run_name,
    listed,
    named_settings,
    options_from,
)
from beamlib.files import temporary_folder, to_json

if TYPE_CHECKING:
    from beam_commands.task_runs import TaskOptions
    from beamlib.evaluate.task import Task

RunName = Annotated[str, typer.Option("--name", help="Name of the run folder under runs/.")]
VariantOption = Annotated[str, typer.Option("--variant", help="Which of several sets of units in a folder.")]
Answerer = Annotated[str, typer.Option("--backbone", help="Whose answers, of several readers.")]
_OF_RUN = ("base_url", "model", "key_variable", "context_window", "memory", "memory_timeout", "conversations")

_OF_CALLS = ("calls", "max_cost", "yes", "no_admission", "judge_anyway")


@dataclass(frozen=True, kw_only=True)
class TaskArguments(ModelOptions):
    """The options of a task's commands, as they are typed."""

    data: Path
    variant: VariantOption = ""
    name: RunName = "default"
    arms: Annotated[
        str, typer.Option("--arms", "--setups", "--memories", help="Names of arms, separated by commas; default all.")
    ] = ""
    backbone: Annotated[
        str, typer.Option("--backbone", help="Which reader of the models file; by default its first.")
    ] = ""
    memory: Annotated[str, typer.Option("--memory", help="Own memory: file.py:Class, or names with commas.")] = ""
    memory_timeout: MemoryTimeout = None
    conversations: Annotated[
        int, typer.Option("--conversations", "--episodes", min=0, help="At most so many of each kind; 0 for all.")
    ] = 0
    no_admission: NoAdmission = False
    judge_anyway: JudgeAnyway = False
    as_json: Json = False

    def parse(self, place: Path) -> TaskOptions:
        """Check the options and set the spending limit; a single endpoint is written to a models file in `place`."""
        from beam_commands.task_runs import TaskOptions
        from beamlib.llm.spending import set_spending_limit
        from beamlib.places import ROOT

        set_spending_limit(self.max_cost)
        check_run_name(self.name)
        timeout = {"memory_timeout": self.memory_timeout} if self.memory_timeout else {}
        return TaskOptions(
            self.data, ROOT / "runs" / self.name, self.variant, listed(self.arms), self.endpoints.path(place),
            self.backbone, self.calls, self.memory, self.prompts, self.conversations,
            named_settings(self.settings) | timeout, yes=self.yes, keep_models=bool(self.base_url),
            admission=not self.no_admission, judge_anyway=self.judge_anyway,
        )  # fmt: skip


def task_group(
    name: str, title: str, arms: str, open_task: Callable[[Path, str], Task], *, judged: bool = True
) -> typer.Typer:
    """Build the commands of a task.

    Args:
        arms: What its arms are called, for the help.
        open_task: The task on the units in a folder, of one variant of them; imported when a command runs.
        judged: Whether `score` asks a judge; a task without a judge has a `score` of its own.
    """
    group = typer.Typer(no_args_is_help=True, help=title)
    data = Annotated[Path, typer.Option("--data", envvar=f"{name.upper()}_DATA", help="File or folder of its units.")]

    @group.command("run", help=f"Answer with a reader and memories; arms: {arms}. Without models the stand-in answers.")
    @options_from(TaskArguments, ("as_json",), data=data)
    def run(given: TaskArguments) -> None:
        from beam_commands.task_runs import run_command
        from beamlib.evaluate.task import refuse_unscored

        with temporary_folder("beamlib-task-") as place:  # a run that is refused leaves nothing
            plan = run_command(open_task(given.data, given.variant), given.parse(place))
        refuse_unscored(plan.without_answer() if plan.run.models_file else (), plan.run.folder)

    def print_tables(given: TaskArguments, *, judge: bool) -> None:
        from beam_commands.task_runs import score_command

        tables = score_command(open_task(given.data, given.variant), given.parse(Path()), judge=judge)
        if given.as_json:
            print(to_json({table.title: table.records() for table in tables}, indent=2))
        else:
            print("\n".join(table.to_text() for table in tables))

    if judged:

        @group.command("score", help="Judge the answers of a run and print its tables; without models by the stand-in.")
        @options_from(TaskArguments, _OF_RUN, data=data, backbone=Answerer)
        def score(given: TaskArguments) -> None:
            print_tables(given, judge=True)

    @group.command("report", help="Print the tables of a run that is scored; nothing is called.")
    @options_from(TaskArguments, (*_OF_RUN, *_OF_CALLS), data=data, backbone=Answerer)
    def report(given: TaskArguments) -> None:
        print_tables(replace(given, calls="replay"), judge=False)

    return group
