"""Further benchmarks in a run of the main job and in its notebooks: which data, what is asked, and what that costs.

Each is a package with a module `study`: `TASK`, `NOTEBOOK`, `check_data` and `shown_plans`. Package, option, parameter
and part of the run folder have one name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from beam_run.estimate import estimate_plan
from beamlib.confirmation import Priced
from beamlib.errors import UserError
from beamlib.evaluate.calling import resolved
from beamlib.evaluate.runner import run_task
from beamlib.evaluate.task import Task, TaskPlan
from beamlib.llm.endpoints import EMBEDDING
from beamlib.llm.model import OFFLINE_NAME
from beamlib.params import RunParameters, load_parameters
from beamlib.places import PARAMS, ROOT

if TYPE_CHECKING:
    from beamlib.report.workspace import Workspace

SUITES = ("memorycode", "meme")
USUAL = ROOT / "data"
"""Where the data of a suite are looked for, by its name, when none are given."""


class _Study(Protocol):
    """The module of a benchmark that says what its notebook shows."""

    TASK: Task
    NOTEBOOK: str

    def check_data(self, place: Path) -> None:
        """Read all data at a place; a `UserError` where they are wrong, or too few to be shown."""

    def shown_plans(self, parameters: RunParameters) -> Mapping[str, TaskPlan]:
        """What is asked about the data that the parameters name, by variant."""


def study_of(name: str) -> _Study:
    """The study of a benchmark; imported here, as most runs show none."""
    return cast(_Study, import_module(f"beam_{name}.study"))


def find_data(name: str, given: Path | None) -> str:
    """The data to show, absolute: those `given`, else the usual ones where they are there, else empty.

    All of them are read, so that a mistake in them shows before anything runs: `UserError`.
    """
    if given is None and not (USUAL / name).is_dir():
        return ""
    place = (given or USUAL / name).absolute()
    if not str(place).isprintable():  # the path goes into notebooks, which are text
        raise UserError(f"--{name}: {str(place)!r} holds characters that no text can carry; rename it.")
    study_of(name).check_data(place)
    return str(place)


@dataclass(frozen=True)
class Suite:
    """A benchmark with its parameters per backbone, of which its notebook is given the first.

    `settings` are the parameters that the command line set one by one.
    """

    name: str
    parameters: Sequence[RunParameters]
    settings: Mapping[str, Any]

    @property
    def title(self) -> str:
        """As people know it."""
        return study_of(self.name).TASK.title

    @property
    def notebook(self) -> str:
        """The notebook that shows it."""
        return study_of(self.name).NOTEBOOK

    @property
    def shown(self) -> RunParameters:
        """The parameters of the notebook."""
        return self.parameters[0]

    @property
    def announcement(self) -> str:
        """What is going to be done, for the main job's list of steps."""
        place = getattr(self.shown, self.name)
        what = f"the {study_of(self.name).TASK.unit_name}s in {place}" if place else "a small generated set"
        return f"{self.title}: {what}, asked of the {'models' if self.shown.models else OFFLINE_NAME}"

    def estimates(self) -> Mapping[str, Priced]:
        """What each backbone would be asked, under a title; nothing is called."""
        return _estimates(self.name, self.parameters) if self.shown.models else {}

    def agreed(self, changes: Mapping[str, Any]) -> Suite:
        """With `changes` of the parameters once there is a yes, where models are asked."""
        return replace(
            self, parameters=[one.model_copy(update=changes) if one.models else one for one in self.parameters]
        )

    def ask(self) -> None:
        """Ask the models what the notebook shows, in all backbones; what is on file is not asked again."""
        study = study_of(self.name)
        for parameters in self.parameters if self.shown.models else ():
            for plan in study.shown_plans(parameters).values():
                run_task(plan, command=_command(plan, self.settings))
                plan.task.finish(plan)


def announce(work: Workspace, name: str) -> None:
    """Print who answers in a benchmark's notebook, and what that would cost where it is a language model.

    Models are asked about given data alone, never about a small generated set. What the notebook writes goes to the
    part of that name, whatever the tier.
    """
    work.suite = name
    if not work.parameters.models or not work.parameters[name]:
        print(f"reader, memory and judge: {OFFLINE_NAME}; nothing is called and nothing is paid")
        return
    for estimated in _estimates(name, [work.parameters]).values():
        print(estimated.render())
    work.say_unconfirmed()


def _estimates(name: str, backbones: Sequence[RunParameters]) -> dict[str, Priced]:
    study = study_of(name)
    found: dict[str, Priced] = {}
    for place, parameters in enumerate(backbones):
        for variant, plan in study.shown_plans(parameters).items():
            estimated = estimate_plan(plan, quiet=True)
            title = " · ".join(filter(None, [study.TASK.title, variant, resolved(parameters).backbone]))
            # What a memory reads does not depend on the backbone.
            found[title] = estimated.without_memory() if place and parameters.calls != "refresh" else estimated
    return found


def _command(plan: TaskPlan, settings: Mapping[str, Any]) -> str:
    """The shell command that records what a replay misses."""
    from beam_run.task_options import TaskOptions, task_recording_command

    parameters, variant = plan.parameters, getattr(plan.task, "variant", "")
    options = TaskOptions(
        data=Path(parameters[plan.task.name]),
        folder=Path(parameters.run),
        variant=variant,
        arms=list(plan.arms),
        models=parameters.models,
        backbone=parameters.backbone,
        memory=parameters.own_memory,
        prompts=Path(parameters.prompts) if parameters.prompts else None,
        most=parameters.conversations,
        settings=settings,
    )
    return task_recording_command(plan.task, "run", options)


def suite_of_run(
    name: str,
    folder: str,
    *,
    ask: bool,
    backbones: Sequence[str],
    places: Mapping[str, str],
    settings: Mapping[str, Any],
    shared: Mapping[str, Any],
) -> Suite:
    """A suite on the data in `folder`, with the parameters of the shortest tier: its size bears on nothing here.

    The models file of `places` is asked only with `ask`; else the stand-in answers. `shared` are the parameters that
    options of their own set.
    """
    asked = ask and bool(places["models"])
    common = {**settings, **places, **shared, "data": "", name: folder}
    common |= {} if asked else {"models": "", "calls": "record"}
    if not asked and common.get("encoder") == EMBEDDING:
        del common["encoder"]  # the stand-in has no such role
    names = (list(backbones) if asked else []) or [""]
    found = [load_parameters(PARAMS / "100k.yaml", **{**common, "backbone": backbone}) for backbone in names]
    return Suite(name, found, settings)
