"""What the main job asks about BEAM: all arms of the experiments on a tier."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from beam_run import MAIN_NOTEBOOK
from beamlib.data.sources import find_conversations
from beamlib.evaluate.run import BEAM
from beamlib.evaluate.runner import plan_task
from beamlib.evaluate.task import TaskPlan
from beamlib.run import Run

TASK, NOTEBOOK = BEAM, MAIN_NOTEBOOK


def check_data(place: Path) -> None:
    """Raise a `UserError` if a folder holds no conversations."""
    find_conversations(place)


def shown_plans(run: Run) -> Mapping[str, TaskPlan]:
    """Plan all arms on the tier of a run; BEAM has no variants."""
    return {"": plan_task(TASK, run, TASK.arms(run))}
