"""From a run's parameters to its generated conversations, for the notebooks and the main job."""

from __future__ import annotations

from pathlib import Path

from beamlib.generate.casting import Stage, Writing
from beamlib.generate.pipeline import (
    STAGES,
    Commission,
    make_dialogue_of_plan,
    make_plan_stage,
    make_probe_stage,
    make_question_stage,
)
from beamlib.generate.plan_files import read_story
from beamlib.params import RunParameters


def generated_folder(parameters: RunParameters) -> Path:
    """Where the generated conversations of a run lie: `data` where it is given, else `<run>/generated`."""
    return Path(parameters.data) if parameters.data else Path(parameters.run) / "generated"


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
        command="beamlib generate --models FILE --yes",
        output_tokens=parameters.output_tokens,
        question_output_tokens=parameters.question_output_tokens,
    )


def written(parameters: RunParameters, stage: Stage, number: int = 1) -> Path:
    """The folder of conversation `number`, with all stages up to `stage` done; what is on file is not done again."""
    commission, writing = commission_of(parameters, number), writing_of(parameters)
    folder = commission.begin(generated_folder(parameters))
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
