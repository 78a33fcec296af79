"""One group of commands for every task: `run`, `score` and `report`, with the same options."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beam_run.arguments import (
    BaseUrl,
    Calls,
    Json,
    KeyVariable,
    MaxCost,
    MemoryTimeout,
    ModelName,
    Models,
    Prompts,
    Settings,
    Window,
    listed,
    named_settings,
)
from beamlib.files import temporary_folder, to_json

if TYPE_CHECKING:
    from beamlib.evaluate.task import Task

RunName = Annotated[str, typer.Option("--name", help="Name of the run folder under runs/.")]
Arms = Annotated[
    str, typer.Option("--arms", "--setups", "--memories", help="Names of arms, separated by commas; default all.")
]
VariantOption = Annotated[str, typer.Option("--variant", help="Which of several sets of units in a folder.")]
Backbone = Annotated[str, typer.Option("--backbone", help="Which reader of the models file; by default its first.")]
Yes = Annotated[bool, typer.Option("--yes", help="Spend what the estimate says.")]


def task_group(
    name: str, title: str, arms: str, open_task: Callable[[Path, str], "Task"], *, judged: bool = True
) -> typer.Typer:
    """Build the commands of a task.

    Args:
        arms: What its arms are called, for the help.
        open_task: The task on the units in a folder, of one variant of them; imported when a command runs.
        judged: Whether `score` asks a judge; a task without a judge has a `score` of its own.
    """
    group = typer.Typer(no_args_is_help=True, help=title)
    Units = Annotated[Path, typer.Option("--data", envvar=f"{name.upper()}_DATA", help="File or folder of its units.")]

    @group.command("run", help=f"Answer with a reader and memories; arms: {arms}. Without models the stand-in answers.")
    def run(
        data: Units,
        variant: VariantOption = "",
        name: RunName = "default",
        arms: Arms = "",
        models: Models = None,
        backbone: Backbone = "",
        base_url: BaseUrl = "",
        model: ModelName = "",
        key_variable: KeyVariable = "",
        context_window: Window = 131_072,
        calls: Calls = "record",
        memory: Annotated[str, typer.Option(help="Own memory: file.py:Class, or names with commas.")] = "",
        memory_timeout: MemoryTimeout = None,
        prompts: Prompts = None,
        conversations: Annotated[
            int, typer.Option("--conversations", "--episodes", min=0, help="At most so many of each kind; 0 for all.")
        ] = 0,
        settings: Settings = None,
        max_cost: MaxCost = None,
        yes: Yes = False,
    ) -> None:
        from beam_run.arguments import Endpoints, check_run_name
        from beam_run.task_options import TaskOptions, run_command
        from beamlib.evaluate.task import refuse_unscored
        from beamlib.llm.spending import set_spending_limit
        from beamlib.places import ROOT

        set_spending_limit(max_cost)
        check_run_name(name)
        with temporary_folder("beamlib-task-") as place:  # a run that is refused leaves nothing
            plan = run_command(
                open_task(data, variant),
                TaskOptions(
                    data=data,
                    folder=ROOT / "runs" / name,
                    variant=variant,
                    arms=listed(arms),
                    models=Endpoints(models, base_url, model, key_variable, context_window).path(place),
                    keep_models=bool(base_url),
                    backbone=backbone,
                    calls=calls,
                    memory=memory,
                    prompts=prompts,
                    most=conversations,
                    settings=named_settings(settings) | ({"memory_timeout": memory_timeout} if memory_timeout else {}),
                    yes=yes,
                ),
            )
            refuse_unscored(plan.without_answer() if plan.run.models_file else (), plan.run.folder)

    def tables(
        data: Path,
        variant: str,
        name: str,
        arms: str,
        models: Path | None,
        backbone: str,
        calls: str,
        prompts: Path | None,
        settings: list[str] | None,
        *,
        yes: bool,
        as_json: bool,
        judge: bool,
    ) -> None:
        from beam_run.arguments import Endpoints, check_run_name
        from beam_run.task_options import TaskOptions, score_command
        from beamlib.places import ROOT

        check_run_name(name)
        found = score_command(
            open_task(data, variant),
            TaskOptions(
                data=data,
                folder=ROOT / "runs" / name,
                variant=variant,
                arms=listed(arms),
                models=Endpoints(models).path(Path()),
                backbone=backbone,
                calls=calls,
                prompts=prompts,
                settings=named_settings(settings),
                yes=yes,
            ),
            judge=judge,
        )
        if as_json:
            print(to_json({table.title: table.records() for table in found}, indent=2))
        else:
            print("\n".join(table.to_text() for table in found))

    def score(
        data: Units,
        variant: VariantOption = "",
        name: RunName = "default",
        arms: Arms = "",
        models: Models = None,
        backbone: Annotated[str, typer.Option("--backbone", help="Whose answers, of several readers.")] = "",
        calls: Calls = "record",
        prompts: Prompts = None,
        settings: Settings = None,
        max_cost: MaxCost = None,
        yes: Yes = False,
        as_json: Json = False,
    ) -> None:
        from beamlib.llm.spending import set_spending_limit

        set_spending_limit(max_cost)
        tables(
            data, variant, name, arms, models, backbone, calls, prompts, settings,
            yes=yes, as_json=as_json, judge=True,
        )  # fmt: skip

    if judged:
        group.command("score", help="Judge the answers of a run and print its tables; without models by the stand-in.")(
            score
        )

    @group.command("report", help="Print the tables of a run that is scored; nothing is called.")
    def report(
        data: Units,
        variant: VariantOption = "",
        name: RunName = "default",
        arms: Arms = "",
        models: Models = None,
        backbone: Annotated[str, typer.Option("--backbone", help="Whose answers, of several readers.")] = "",
        prompts: Prompts = None,
        settings: Settings = None,
        as_json: Json = False,
    ) -> None:
        tables(
            data, variant, name, arms, models, backbone, "replay", prompts, settings,
            yes=False, as_json=as_json, judge=False,
        )  # fmt: skip

    return group
