"""The benchmarks of the main job and of its notebooks: which data, what is asked, and what that costs.

Each has a module with `TASK`, `NOTEBOOK`, `check_data` and `shown_plans`, of which `_STUDIES` names one a line. Option,
parameter and part of the run folder have one name.
"""

from __future__ import annotations

import html
from base64 import b64encode
from collections.abc import Iterator, Mapping, MutableSet, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from IPython.display import HTML, display
from IPython.utils.capture import capture_output

from beam_commands.costs import Estimate
from beam_commands.estimate import estimate_plan
from beam_commands.options import spread_k
from beamlib.errors import UserError
from beamlib.evaluate.task import Task, TaskPlan
from beamlib.llm.endpoints import EMBEDDING, ModelsFile
from beamlib.llm.model import OFFLINE_NAME
from beamlib.params import load_parameters
from beamlib.places import PARAMS, ROOT
from beamlib.run import Run

if TYPE_CHECKING:
    from beamlib.report.workspace import Workspace

_STUDIES: Mapping[str, str] = {
    "beam": "beam_run.beam_study",
    "memorycode": "beam_memorycode.study",
    "meme": "beam_meme.study",
}
SUITES = tuple(name for name in _STUDIES if name != "beam")
"""The benchmarks beside BEAM."""
USUAL = ROOT / "data"
"""Where the data of a suite are looked for, by its name, when none are given."""


class _Study(Protocol):
    """The module of a benchmark that says what its notebook shows."""

    TASK: Task
    NOTEBOOK: str

    def check_data(self, place: Path) -> None:
        """Read all data at a place; a `UserError` where they are wrong, or too few to be shown."""

    def shown_plans(self, run: Run) -> Mapping[str, TaskPlan]:
        """What is asked about the data that the run names, by variant."""


def study_of(name: str) -> _Study:
    """The study of a benchmark; imported here, as most runs show none."""
    return cast(_Study, import_module(_STUDIES[name]))


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
    """A benchmark with its runs: per backbone, of BEAM also per tier. Other notebooks than BEAM's show the first.

    `settings` are the parameters that the command line set one by one. With `admission` the models answer known
    questions first; `judge_anyway` lets a judge judge that fails its exam. `estimated` has the estimates by label.
    """

    name: str
    runs: Sequence[Run]
    settings: Mapping[str, Any]
    admission: bool = False
    judge_anyway: bool = False
    estimated: dict[str, Estimate] = field(default_factory=dict, compare=False)

    @property
    def title(self) -> str:
        """As people know it."""
        return study_of(self.name).TASK.title

    @property
    def notebook(self) -> str:
        """The notebook that shows it."""
        return study_of(self.name).NOTEBOOK

    @property
    def shown(self) -> Run:
        """The run of the notebook."""
        return self.runs[0]

    @property
    def announcement(self) -> str:
        """What is going to be done, for the main job's list of steps."""
        place = getattr(self.shown, self.name)
        what = f"the {study_of(self.name).TASK.unit_name}s in {place}" if place else "a small generated set"
        return f"{self.title}: {what}, asked of the {'models' if self.shown.models else OFFLINE_NAME}"

    @property
    def asked(self) -> Sequence[Run]:
        """The runs that are evaluated: of other benchmarks than BEAM only where models answer."""
        return self.runs if self.name == "beam" or self.shown.models_file else ()

    def label(self, run: Run, variant: str = "") -> str:
        """What a run is called in estimates and progress."""
        return run.label if self.name == "beam" else " · ".join(filter(None, [self.title, variant, run.backbone]))

    def estimates(self, data: str = "", admitted: MutableSet[str] | None = None) -> list[tuple[Run, str, Estimate]]:
        """Estimate what each run would ask, with its label; nothing is called.

        Args:
            data: In the place of the runs' data, where those are not written yet.
            admitted: Keys of known questions that another suite's estimate counts.
        """
        admitted = (set() if admitted is None else admitted) if self.admission else None
        estimates, counted = list[tuple[Run, str, Estimate]](), set[tuple[str, str]]()
        for run in self.runs if self.shown.models_file else ():
            here = run.model_copy(update={"data": data}) if data else run
            for variant, plan in study_of(self.name).shown_plans(here).items():
                estimated = estimate_plan(plan, admitted=admitted, quiet=self.name != "beam")
                # What a memory reads does not depend on the backbone and is called once, unless each is to renew it.
                if (run.size, variant) in counted and run.calls != "refresh":
                    estimated = estimated.without_memory()
                counted.add((run.size, variant))
                self.estimated[self.label(run, variant)] = estimated
                estimates.append((run, self.label(run, variant), estimated))
        return estimates

    def agreed(self, confirmed: bool, models: str = "") -> Suite:
        """Apply the user's confirmation where models are asked."""
        runs = [with_consent(run, confirmed, models) if run.models_file else run for run in self.runs]
        return replace(self, runs=runs)


def with_consent(run: Run, confirmed: bool, models: str = "") -> Run:
    """Apply the user's confirmation to a run; `models` is where a models file of `--base-url` was saved."""
    if not models:
        return run.model_copy(update={"confirm_cost": confirmed})
    authors = {"authors": models} if run.generation.authors == run.given.models else {}
    return run.moved(models=models).model_copy(update={"confirm_cost": confirmed, **authors})


def announce(work: Workspace, name: str) -> None:
    """Print who answers in a benchmark's notebook, and what that would cost where it is a language model.

    Models are asked about given data alone, never about a small generated set. What the notebook writes goes to the
    part of that name, whatever the tier.
    """
    work.suite = name
    if not work.parameters.models_file or not work.parameters[name]:
        print(f"reader, memory and judge: {OFFLINE_NAME}; nothing is called and nothing is paid")
        return
    for _, _, estimated in Suite(name, [work.parameters], {}).estimates():
        print(estimated.render())
    work.say_unconfirmed()


@contextmanager
def folded(by_stand_in: bool, what: str) -> Iterator[None]:
    """Fold what a cell displays and prints, in small, where the stand-in made it: it says nothing about any model.

    Args:
        what: What is folded; the line that stays has its first sentence, up to a semicolon.
    """
    if not by_stand_in:
        yield
        return
    with capture_output() as shown:
        yield
    printed = [f"<pre>{html.escape(shown.stdout)}</pre>"] if shown.stdout else []
    parts = [*printed, *(_small(output.data) for output in shown.outputs)]
    title = what.partition(";")[0].partition(". ")[0].rstrip(".")
    summary = f"<summary>{html.escape(title)}, by the {OFFLINE_NAME}</summary>"
    display(HTML(f"<details>{summary}{''.join(parts)}</details>"))  # type: ignore[no-untyped-call]


def _small(data: Mapping[str, Any]) -> str:
    """Return what a cell displayed as HTML: pictures at a third of the page's width, other things as they are."""
    if picture := data.get("image/png"):
        encoded = picture if isinstance(picture, str) else b64encode(picture).decode()
        return f'<img width="320" src="data:image/png;base64,{html.escape(encoded.strip())}">'
    if "text/html" in data:
        return str(data["text/html"])
    return f"<p>{html.escape(str(data.get('text/plain', '')))}</p>"


def recording_command(plan: TaskPlan, settings: Mapping[str, Any]) -> str:
    """The shell command that records what a replay misses."""
    from beam_commands.task_runs import TaskOptions, task_recording_command

    given, variant = plan.run.given, getattr(plan.task, "variant", "")
    options = TaskOptions(
        data=Path(given[plan.task.parameter]),
        folder=plan.run.folder,
        variant=variant,
        arms=list(plan.arms),
        models=given.models,
        backbone=given.backbone,
        memory=given.own_memory,
        prompts=Path(given.prompts) if given.prompts else None,
        most=given.conversations,
        settings={name: value for name, value in settings.items() if name in plan.task.used_parameters()},
    )
    return task_recording_command(plan.task, "run", options)


def suite_of_run(
    name: str,
    folder: str,
    *,
    ask: bool,
    backbones: Sequence[str],
    places: Mapping[str, str],
    models: ModelsFile | None,
    settings: Mapping[str, Any],
    shared: Mapping[str, Any],
    admission: bool = False,
    judge_anyway: bool = False,
) -> Suite:
    """A suite on the data in `folder`, with the parameters of the shortest tier: its size bears on nothing here.

    The models file of `places` is asked only with `ask`; else the stand-in answers. `shared` are the parameters that
    options of their own set.
    """
    asked = ask and models is not None
    common = {**spread_k(settings), **places, **shared, "data": "", name: folder}
    common |= {} if asked else {"models": "", "calls": "record"}
    if not asked and common.get("encoder") == EMBEDDING:
        del common["encoder"]  # the stand-in has no such role
    names = (list(backbones) if asked else []) or [""]
    chosen = [load_parameters(PARAMS / "100k.yaml", **{**common, "backbone": backbone}) for backbone in names]
    runs = [Run.of(parameters, models if asked else None) for parameters in chosen]
    return Suite(name, runs, settings, admission, judge_anyway)
