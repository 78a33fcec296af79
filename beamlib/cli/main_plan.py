"""What a run of the main job comes to: its parameters, one estimate of all that it would call, and the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from beam_generate.casting import Writing
from beam_generate.estimate import WritingEstimate, estimate_writing
from beam_generate.pipeline import Commission, unfinished
from beam_generate.producing import produce
from beam_generate.working import commission_of, writing_of
from beam_memorycode.suite import MemoryCode
from beam_offline import OFFLINE_NAME
from beamlib.cli.arguments import agreed
from beamlib.data.model import SIZES, Size
from beamlib.evaluate.arms import arms_of, experiments
from beamlib.evaluate.calling import endpoints, models_file, part_of
from beamlib.evaluate.costs import Estimate, count, money
from beamlib.evaluate.estimate import estimate
from beamlib.llm.client import EndpointModel
from beamlib.params import RunParameters

console = Console(highlight=False, markup=False, emoji=False)  # names in brackets are no colours


@dataclass(frozen=True)
class Plan:
    """Parameters per tier and backbone, how many conversations each tier has, and MemoryCode.

    `generated`: the conversations are written by this run, into its own folder.
    """

    runs: Sequence[RunParameters]
    found: Mapping[Size, int]
    suite: MemoryCode
    generated: bool

    @property
    def folder(self) -> Path:
        """The run folder, from the repository's top."""
        return Path(self.suite.shown.run)

    @property
    def writing(self) -> Writing:
        """How the conversations are written."""
        return writing_of(self.runs[0])

    @property
    def wanted(self) -> list[Commission]:
        """The conversations that the run writes: the longest first, the short ones fill the time of its last plans."""
        first = {one.size: one for one in reversed(self.runs)} if self.generated else {}
        sizes = [size for size in reversed(SIZES) if size in first]
        return [commission_of(first[size], number) for size in sizes for number in range(1, self.found[size] + 1)]

    def agreed(self, changes: Mapping[str, Any]) -> Plan:
        """With `changes` of the parameters, once there is an answer."""
        runs = [one.model_copy(update=changes) for one in self.runs]
        return replace(self, runs=runs, suite=self.suite.agreed(changes))


def label(parameters: RunParameters) -> str:
    """A tier, with its backbone where models are asked."""
    found = models_file(parameters)
    return f"{parameters.size} · {parameters.backbone or next(iter(found.readers))}" if found else parameters.size


def confirm(plan: Plan, place: Path) -> tuple[dict[str, Estimate], bool]:
    """Say what all of the run would call and cost, then ask; the estimates by part, and whether there is a yes.

    No request is sent here. `place` is an empty folder for what is needed for the counting alone.
    """
    first = plan.runs[0]
    models = bool(first.models or plan.suite.shown.models or (plan.generated and first.authors))
    if not models or first.calls == "replay":
        return {}, first.confirm_cost
    written = _written(plan)
    rehearsed = _rehearsed(plan, place) if first.models else {}
    suite = dict(plan.suite.estimates())
    shown: dict[str, WritingEstimate | Estimate] = {
        **({"conversations": written} if written else {}),
        **{label(one): rehearsed[part_of(one)] for one in plan.runs if first.models},
        **suite,
    }
    for title, found in shown.items():
        console.print(f"\nEstimate, {title}", style="bold")
        print(found.render())  # wide: the console would break its lines
    pending, dollars = sum(one.pending for one in shown.values()), sum(one.dollars for one in shown.values())
    console.print(f"\nEverything together: {count(pending, 'call')} to make, about {money(dollars)}", style="bold")
    if not pending:
        return rehearsed, first.confirm_cost
    if written:
        plan.writing.ready()
    for parameters in plan.runs:  # a key that is not there should show now and not when the first call is made
        for role, endpoint in endpoints(parameters).items():
            EndpointModel(role, endpoint).ready()
    return rehearsed, agreed(first.confirm_cost)


def _written(plan: Plan) -> WritingEstimate | None:
    """What writing the conversations would call; None where the offline author writes them, or nobody."""
    if not plan.generated or not plan.runs[0].authors:
        return None
    return estimate_writing(unfinished(plan.wanted, plan.runs[0].generated, plan.writing), plan.writing)


def _rehearsed(plan: Plan, place: Path) -> dict[str, Estimate]:
    """What each tier and backbone would call, by its part of the run folder."""
    missing, data = _stood_in(plan, place) if plan.generated else ([], plan.runs[0].data)
    found: dict[str, Estimate] = {}
    counted: set[Size] = set()
    for parameters in plan.runs:
        here = parameters.model_copy(update={"data": str(data)})
        one = estimate(here, arms_of(here, experiments(here)))
        # What the memory reads does not depend on the backbone and is called once, unless each is to renew it.
        if parameters.size in counted and parameters.calls != "refresh":
            one = one.without_memory()
        counted.add(parameters.size)
        unwritten = sum(commission.size == parameters.size for commission in missing)
        if unwritten and parameters.authors:
            note = (
                f"{count(unwritten, 'conversation')} not written yet: counted on those that the {OFFLINE_NAME}, writes "
                "from the same seed (on another domain where it lacks theirs); what models write will be longer or "
                "shorter."
            )
            one = one.model_copy(update={"warnings": (*one.warnings, note)})
        found[part_of(parameters)] = one
    return found


def _stood_in(plan: Plan, place: Path) -> tuple[list[Commission], Path]:
    """Which conversations are not written yet, and a folder with those of the offline author in their place."""
    first = plan.runs[0]
    missing = unfinished(plan.wanted, first.generated, plan.writing)
    if not missing:
        return missing, first.generated
    out = place / "conversations"
    for one in plan.wanted:
        if one not in missing:
            link = one.folder(out)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(one.folder(first.generated).resolve(), target_is_directory=True)
    offline = replace(plan.writing, models="", prompts="")
    produce([one.stood_in() for one in missing], out, offline, max(one.workers for one in plan.runs))
    return missing, out
