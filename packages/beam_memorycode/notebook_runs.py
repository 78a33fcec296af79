"""What notebook 10 shows of a run's readers and memories: which dialogues and setups, their cost, and the asking.

The main job asks before the notebook runs, which then replays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beam_memorycode.dialogue_files import load_dialogues
from beam_memorycode.dialogues import Dialogue
from beam_memorycode.evaluating import Ran, chosen, estimate_all, run_all
from beam_memorycode.ordering import RunOptions, recording_command
from beam_memorycode.running import PART
from beam_memorycode.setups import SETUPS, Setup
from beam_run.costs import Estimate
from beamlib.errors import UserError
from beamlib.llm.model import OFFLINE_NAME
from beamlib.params import RunParameters

if TYPE_CHECKING:
    from beamlib.report.workspace import Workspace

ENOUGH = 1
"""Dialogues of each number of sessions that the stand-in answers about where nothing else is asked for: what it shows
is that the way is whole, and it takes most of a minute for these twelve."""


def shown_setups(parameters: RunParameters) -> tuple[Setup, ...]:
    """All setups; a memory of one's own only where there is one."""
    return tuple(setup for setup in SETUPS if setup != "own" or parameters.own_memory)


def shown_dialogues(dialogues: Sequence[Dialogue], parameters: RunParameters) -> list[Dialogue]:
    """Those with texts, at most `conversations` of each number of sessions; a `UserError` where none has texts.

    Where `conversations` is 0, a model is asked about all, and the stand-in about `ENOUGH`.
    """
    most = parameters.conversations or (0 if parameters.models else ENOUGH)
    found = [one for one in chosen(dialogues, most) if one.has_texts]
    if not found:
        raise UserError(
            f"{parameters.memorycode}: no dialogue there has texts, which memories read; give a folder that has them."
        )
    return found


def estimate_shown(parameters: RunParameters) -> Estimate:
    """What `ask_shown` would call and cost; nothing is called."""
    shown = shown_dialogues(_dialogues(parameters), parameters)
    return estimate_all(shown, shown_setups(parameters), parameters)


def announce(work: Workspace) -> None:
    """Print who answers the queries of a notebook, and what that would cost where it is a language model.

    Models are asked about the dialogues of a folder alone, never about the small generated set. What the notebook
    writes goes to the part `memorycode`, whatever the tier.
    """
    work.suite = PART
    if not work.parameters.models or not work.parameters.memorycode:
        print(f"reader and memory: {OFFLINE_NAME}; nothing is called and nothing is paid")
        return
    print(estimate_shown(work.parameters).render())
    work.say_unconfirmed()


def ask_shown(parameters: RunParameters, settings: Mapping[str, Any]) -> Ran:
    """Ask about the dialogues in `parameters.memorycode` that `shown_dialogues` picks.

    `settings` are the parameters that were set one by one: the command that records what a replay misses names them.
    """
    known, setups = _dialogues(parameters), shown_setups(parameters)
    order = RunOptions(
        data=Path(parameters.memorycode),
        folder=Path(parameters.run),
        setups=setups,
        models=parameters.models,
        backbone=parameters.backbone,
        memory=parameters.own_memory,
        prompts=Path(parameters.prompts) if parameters.prompts else None,
        most=parameters.conversations,
        settings=settings,
    )
    command = recording_command(order)
    return run_all(shown_dialogues(known, parameters), setups, parameters, known=known, command=command)


def _dialogues(parameters: RunParameters) -> list[Dialogue]:
    return [item.dialogue for item in load_dialogues(Path(parameters.memorycode))]
