"""The main job's part on MemoryCode (`beam_suite.part_of_run`); what it needs is imported where it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beam_run.costs import Estimate
from beamlib.errors import UserError
from beamlib.evaluate.calling import resolved
from beamlib.params import RunParameters

TITLE, NOTEBOOK, UNITS = "MemoryCode", "10_memorycode", "dialogues"


def read(place: Path) -> None:
    """Read the dialogues in a folder; a `UserError` where one cannot be, and where none has texts."""
    from beam_memorycode.dialogue_files import load_dialogues

    if not any(item.dialogue.has_texts for item in load_dialogues(place)):
        raise UserError(f"--memorycode: no dialogue in {place} has texts, which memories read; give a folder that has.")


def estimates(parameters: Sequence[RunParameters]) -> dict[str, Estimate]:
    """What each backbone would be asked, under a title; nothing is called."""
    from beam_memorycode.notebook_runs import estimate_shown

    found = {}
    for place, one in enumerate(parameters):
        estimate = estimate_shown(one)
        shared = place > 0 and one.calls != "refresh"  # what LIGHT reads does not depend on the backbone
        found[f"MemoryCode · {resolved(one).backbone}"] = estimate.without_memory() if shared else estimate
    return found


def ask(parameters: Sequence[RunParameters], settings: Mapping[str, Any]) -> None:
    """Ask the models what notebook 10 shows; `settings` are those that the command line set one by one."""
    from beam_memorycode.notebook_runs import ask_shown

    for one in parameters:
        ask_shown(one, settings)
