"""`beamlib memorycode run`: an order checked, its cost shown, readers and memories asked, their answers written.

The one place of running that reads dialogue files, in which the rules lie too: of each it hands on the dialogue alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from beam_memorycode.dialogue_files import load_dialogues
from beam_memorycode.dialogues import Dialogue
from beam_memorycode.evaluating import Ran, chosen, estimate_all, run_all
from beam_memorycode.setups import SETUPS, Setup, parse_setups
from beam_own.own_memory import check_own_memory
from beamlib.cli.spending import agreed
from beamlib.errors import UserError
from beamlib.evaluate.calling import ensure_keys, resolved
from beamlib.files import read_text, write_text
from beamlib.llm.endpoints import MODELS, keys_kept_out
from beamlib.llm.model import OFFLINE_NAME
from beamlib.llm.prompts import check_overrides
from beamlib.llm.stored_model import Mode
from beamlib.params import RunParameters, load_parameters
from beamlib.places import PARAMS
from beamlib.text import shell_command

_OPTIONS = {
    "memorycode": "--data", "data": "--data", "run": "--name", "conversations": "--conversations",
    "own_memory": "--memory", "models": "--models", "backbone": "--backbone", "calls": "--calls",
    "confirm_cost": "--yes", "prompts": "--prompts",
}  # fmt: skip
"""Parameters that options of their own set: `--set` would be overruled by these without a word."""

_NOT_HERE = frozenset({"size"})


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command line asked for.

    `data`: a folder of dialogues in any layout. `folder`: the run folder, mostly `runs/<name>`. `setups`: names of
    setups, all where empty (`own` only with a `memory`, as `file.py:Class`). `models`: a models file, empty for the
    stand-in (`Endpoints.path` of the main job writes one for a single endpoint; with `keep_models` it is copied into
    the run folder once there is a yes). `conversations`: at most so many dialogues of each number of sessions, 0 for
    all. `settings` replaces single parameters.
    """

    data: Path
    folder: Path
    setups: Sequence[str] = ()
    models: str = ""
    backbone: str = ""
    calls: str = "record"
    memory: str = ""
    prompts: Path | None = None
    conversations: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    yes: bool = False
    quiet: bool = False
    keep_models: bool = False


def run_setups(order: RunOptions) -> Ran:
    """Answer what was ordered and say where the answers lie; with models nothing is called before a yes."""
    setups = _setups(order)
    parameters = parameters_of(order)
    known = [item.dialogue for item in load_dialogues(order.data)]
    dialogues = chosen(known, order.conversations)
    if parameters.models and order.calls != "replay":
        confirmed = _confirm(order, dialogues, setups, parameters)
        parameters = parameters.model_copy(update={"confirm_cost": confirmed})
    if order.keep_models:
        order = replace(order, models=str(write_text(order.folder / MODELS, read_text(Path(order.models)))))
        parameters = parameters.model_copy(update={"models": order.models})
    reader = resolved(parameters).backbone if parameters.models else OFFLINE_NAME
    print(f"MemoryCode: {len(dialogues)} of {len(known)} dialogues; reader: {reader}; setups: {', '.join(setups)}")
    started = time.monotonic()
    command = recording_command(order)
    with keys_kept_out(order.folder, parameters.models):
        ran = run_all(dialogues, setups, parameters, known=known, command=command, quiet=order.quiet)
    for setup in setups:
        print(_line(setup, ran))
    print(f"{time.monotonic() - started:.0f} s; score them with: {_scoring_command(order, ran)}")
    return ran


def parameters_of(order: RunOptions) -> RunParameters:
    """The parameters that an order comes to, checked; what is wrong with them is a `UserError` in one sentence."""
    if order.calls not in get_args(Mode):
        raise UserError(f"--calls: {order.calls!r:.80} does not exist; choose one of {', '.join(get_args(Mode))}.")
    if order.conversations < 0:
        raise UserError(f"--conversations: {order.conversations} is less than 0; give 0 for all.")
    for name in order.settings:
        if name in _OPTIONS:
            raise UserError(f"--set {name}: this parameter has an option of its own; give {_OPTIONS[name]}.")
        if name in _NOT_HERE:
            raise UserError(f"--set {name}: MemoryCode has no tiers; leave it out.")
    if order.backbone and not order.models:
        raise UserError("--backbone: name the models file that holds it with --models.")
    if order.prompts is not None:
        check_overrides(order.prompts)
    parameters = load_parameters(
        PARAMS / "100k.yaml",
        **{
            **order.settings,
            "data": "",
            "memorycode": str(order.data.absolute()),
            "run": str(order.folder.absolute()),
            "own_memory": str(Path(order.memory).absolute()) if order.memory else "",
            "models": order.models,
            "backbone": order.backbone,
            "calls": order.calls,
            "prompts": str(order.prompts.absolute()) if order.prompts else "",
            **({"confirm_cost": True} if order.yes else {}),
        },
    )
    if parameters.own_memory:
        check_own_memory(parameters.own_memory, parameters.memory_timeout)  # a mistake shows before anything runs
    return parameters


def recording_command(order: RunOptions) -> str:
    """The command line that records what `order` needs, and nothing else; what is empty is left out."""
    given = {
        "--data": order.data, "--name": order.folder.name, "--setups": ",".join(order.setups),
        "--models": order.models, "--backbone": order.backbone, "--memory": order.memory,
        "--prompts": order.prompts or "", "--conversations": order.conversations or "",
    }  # fmt: skip
    return shell_command("beamlib memorycode run", given, order.settings, ["--calls", "record", "--yes"])


def _setups(order: RunOptions) -> tuple[Setup, ...]:
    if not order.setups:
        return tuple(setup for setup in SETUPS if setup != "own" or order.memory)
    found = parse_setups(order.setups)
    if ("own" in found) != bool(order.memory):
        raise UserError("--memory: the setup own and a memory of your own, as file.py:Class, go together; give both.")
    return found


def _confirm(
    order: RunOptions, dialogues: Sequence[Dialogue], setups: Sequence[Setup], parameters: RunParameters
) -> bool:
    """Say what would be called and what it would cost, then ask; whether there is a yes."""
    found = estimate_all(dialogues, setups, parameters, quiet=order.quiet)
    pending = {row.role for row in found.rows if row.calls}
    return agreed({"": found}, lambda: ensure_keys(parameters, pending), parameters.confirm_cost)


def _line(setup: Setup, ran: Ran) -> str:
    """One setup's outcome: whom it was asked about, what is missing and why."""
    held = ran.manifests[setup].setups[setup]
    notes = [f"{sum(held.unscored.values())} unscored"] if held.unscored else []
    notes += [f"{held.gaps} from a memory that lacks a reply of its model"] if held.gaps else []
    left = len(ran.left_out[setup])
    notes += [f"left out for want of texts: {left}"] if left else []
    return f"  {setup}: {held.answers} answers of {held.n} dialogues{''.join(f'; {note}' for note in notes)}"


def _scoring_command(order: RunOptions, ran: Ran) -> str:
    folders = sorted({path.parent for path in ran.folders.values()})
    return shell_command("beamlib memorycode score", {"--dialogues": order.data, "--outputs": folders[0]})
