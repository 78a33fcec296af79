"""Begin a notebook: its parameters, its conversations, and the cost of what it would call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_run.plugins import register_packages
from beamlib.evaluate.arms import arms_of
from beamlib.llm.model import OFFLINE_NAME
from beamlib.params import RunParameters
from beamlib.report.workspace import Workspace, finished_conversations, of_run, open_workspace


def begin(values: Mapping[str, Any], *experiments: str) -> Workspace:
    """Open a notebook's workspace: pass `globals()`, and the experiments of the run that the notebook shows.

    A notebook that shows experiments has conversations: those in `data`, else those of the run folder; missing ones are
    generated now. What the experiments would call is printed before the first cell that calls.
    """
    register_packages()
    work = open_workspace(values)
    if experiments:
        work.parameters = _with_conversations(work.parameters)
        _print_estimate(work, *experiments)
    return work


def _with_conversations(parameters: RunParameters) -> RunParameters:
    if parameters.data:
        return parameters
    parameters = of_run(parameters)
    if finished_conversations(parameters) < parameters.conversations:
        from beam_generate.of_run import GenerationOfRun

        generation = GenerationOfRun([parameters], {parameters.size: parameters.conversations})
        if costs := generation.estimate():
            print(costs.render())
        generation.make()
    return parameters.model_copy(update={"data": parameters.generated.as_posix()})


def _print_estimate(work: Workspace, *experiments: str) -> None:
    if not work.parameters.models:
        print(f"reader, memory and judge: {OFFLINE_NAME}; nothing is called and nothing is paid")
        return
    from beam_run.estimate import estimate

    print(estimate(work.parameters, arms_of(work.parameters, experiments), quiet=True).render())
    work.say_unconfirmed()
