"""From a run's parameters to its generated conversations, for the notebooks and the main job."""

from __future__ import annotations

import shlex
from pathlib import Path

from beam_generate.casting import Stage, Writing
from beam_generate.pipeline import (
    STAGES,
    Commission,
    make_dialogue_of_plan,
    make_plan_stage,
    make_probe_stage,
    make_question_stage,
)
from beam_generate.plan_files import read_story
from beamlib.files import to_json
from beamlib.params import OF_GENERATION, RunParameters, usual_parameters

OPTIONS = {
    "generation_seed": "--seed", "domain": "--domain", "title": "--title", "strategy": "--strategy",
    "reach": "--reach", "workers": "--workers", "authors": "--models", "calls": "--calls", "prompts": "--prompts",
    "confirm_cost": "--yes",
}  # fmt: skip
"""Parameters that options of `beamlib generate` set."""

SETTINGS = (*(name for name in OF_GENERATION if name not in OPTIONS), "output_tokens")
"""The other parameters that generated conversations rest on, for its `--set`."""


def commission_of(parameters: RunParameters, number: int = 1) -> Commission:
    """Conversation `number` of the run's size."""
    return Commission(parameters, number)


def writing_of(parameters: RunParameters) -> Writing:
    """How the run's conversations are written."""
    return Writing(
        models=parameters.authors,
        prompts=parameters.prompts,
        calls=parameters.calls,
        confirmed=parameters.confirm_cost,
        command=_command(parameters) if parameters.authors else "",
        output_tokens=parameters.output_tokens,
        question_output_tokens=parameters.question_output_tokens,
    )


def _command(parameters: RunParameters) -> str:
    """The command line that writes the run's conversations into the very same place."""
    words = ["--size", parameters.size.lower(), "--conversations", str(max(1, parameters.conversations))]
    words += ["--out", parameters.generated.as_posix()]
    usual = usual_parameters(parameters.size)
    for name in (*OPTIONS, *SETTINGS):
        value = getattr(parameters, name)
        if name not in ("calls", "confirm_cost", "workers") and value != getattr(usual, name):
            words += [OPTIONS[name], str(value)] if name in OPTIONS else ["--set", f"{name}={to_json(value)}"]
    return shlex.join(["beamlib", "generate", *words, "--yes"])


def written(parameters: RunParameters, stage: Stage, number: int = 1) -> Path:
    """The folder of conversation `number`, with all stages up to `stage` done; what is on file is not done again.

    It lies in the run folder, also where `data` is given: nobody writes there.
    """
    commission, writing = commission_of(parameters, number), writing_of(parameters)
    folder = commission.begin(parameters.generated)
    wanted = STAGES[: STAGES.index(stage) + 1]
    make_plan_stage(commission, folder, writing)
    if "questions" in wanted:
        make_question_stage(folder, writing)
    if "dialogue" in wanted:
        for index in range(read_story(folder).plans):
            make_dialogue_of_plan(folder, index, writing)
    if "probes" in wanted:
        make_probe_stage(folder, writing)
    return folder
