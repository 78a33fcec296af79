"""What a run of the main job comes to: its parameters, one estimate of all that it would call, and the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from beamlib.beside import Generation, Priced, Suite, beside
from beamlib.cli.arguments import agreed
from beamlib.data.model import Size
from beamlib.evaluate.arms import arms_of, experiments
from beamlib.evaluate.calling import endpoints, models_file, run_subdir
from beamlib.evaluate.costs import Estimate, count, money
from beamlib.evaluate.estimate import estimate
from beamlib.llm.client import EndpointModel
from beamlib.llm.model import OFFLINE_NAME
from beamlib.params import RunParameters

console = Console(highlight=False, markup=False, emoji=False)  # names in brackets are no colours


@dataclass(frozen=True)
class RunPlan:
    """Parameters per tier and backbone, how many conversations each tier has, and MemoryCode.

    `generated`: the conversations are written by this run, into its own folder.
    """

    runs: Sequence[RunParameters]
    found: Mapping[Size, int]
    suite: Suite
    generated: bool

    @property
    def folder(self) -> Path:
        """The run folder, from the repository's top."""
        return Path(self.suite.shown.run)

    @property
    def generation(self) -> Generation | None:
        """The conversations that the run writes; None where they were there."""
        found: Generation | None = (
            beside("generate", "of_run").GenerationOfRun(self.runs, self.found) if self.generated else None
        )
        return found

    def agreed(self, changes: Mapping[str, Any]) -> RunPlan:
        """With `changes` of the parameters, once there is an answer."""
        runs = [one.model_copy(update=changes) for one in self.runs]
        return replace(self, runs=runs, suite=self.suite.agreed(changes))


def label(parameters: RunParameters) -> str:
    """A tier, with its backbone where models are asked."""
    found = models_file(parameters)
    return f"{parameters.size} · {parameters.backbone or next(iter(found.readers))}" if found else parameters.size


def confirm(plan: RunPlan, place: Path) -> tuple[dict[str, Estimate], bool]:
    """Say what all of the run would call and cost, then ask; the estimates by part, and whether there is a yes.

    No request is sent here. `place` is an empty folder for what is needed for the counting alone.
    """
    first = plan.runs[0]
    models = bool(first.models or plan.suite.shown.models or (plan.generated and first.authors))
    if not models or first.calls == "replay":
        return {}, first.confirm_cost
    written = plan.generation.estimate() if plan.generation else None
    rehearsed = _rehearsed(plan, place) if first.models else {}
    suite = dict(plan.suite.estimates())
    shown: dict[str, Priced] = {
        **({"conversations": written} if written else {}),
        **{label(one): rehearsed[run_subdir(one)] for one in plan.runs if first.models},
        **suite,
    }
    for title, found in shown.items():
        console.print(f"\nEstimate, {title}", style="bold")
        print(found.render())  # wide: the console would break its lines
    pending, dollars = sum(one.pending for one in shown.values()), sum(one.dollars for one in shown.values())
    console.print(f"\nEverything together: {count(pending, 'call')} to make, about {money(dollars)}", style="bold")
    if not pending:
        return rehearsed, first.confirm_cost
    if written and plan.generation:
        plan.generation.ready()
    for parameters in plan.runs:  # a key that is not there should show now and not when the first call is made
        for role, endpoint in endpoints(parameters).items():
            EndpointModel(role, endpoint).ready()
    return rehearsed, agreed(first.confirm_cost)


def _rehearsed(plan: RunPlan, place: Path) -> dict[str, Estimate]:
    """What each tier and backbone would call, by its part of the run folder."""
    data: Path | str = plan.runs[0].data
    missing: Mapping[Size, int] = {}
    if plan.generation:
        missing, data = plan.generation.stood_in(place)
    found: dict[str, Estimate] = {}
    counted: set[Size] = set()
    for parameters in plan.runs:
        here = parameters.model_copy(update={"data": str(data)})
        one = estimate(here, arms_of(here, experiments(here)))
        # What the memory reads does not depend on the backbone and is called once, unless each is to renew it.
        if parameters.size in counted and parameters.calls != "refresh":
            one = one.without_memory()
        counted.add(parameters.size)
        unwritten = missing.get(parameters.size, 0)
        if unwritten and parameters.authors:
            note = (
                f"{count(unwritten, 'conversation')} not written yet: counted on those that the {OFFLINE_NAME}, writes "
                "from the same seed (on another domain where it lacks theirs); what models write will be longer or "
                "shorter."
            )
            one = one.model_copy(update={"warnings": (*one.warnings, note)})
        found[run_subdir(parameters)] = one
    return found
