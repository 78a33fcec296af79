"""`beamlib memorycode run`: an order checked, its cost shown, readers and memories asked, their answers written.

The one place of running that reads dialogue files, in which the rules lie too: of each it hands on the dialogue alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from beam_memorycode.dialogue_files import load_dialogues
from beam_memorycode.evaluating import Ran, chosen, estimate_all, run_all
from beam_memorycode.setups import SETUPS, Setup, parse_setups
from beam_suite.orders import SuiteOptions, check_own, checked_parameters, confirmed, outcome_line, reader_shown
from beamlib.llm.spending import guard_run
from beamlib.params import RunParameters
from beamlib.text import shell_command


@dataclass(frozen=True, slots=True)
class RunOptions(SuiteOptions):
    """What the command line asked for, of a folder of dialogues in any layout.

    `setups`: their names, all where empty (`own` only with a `memory`). `most`: of each number of sessions.
    """

    setups: Sequence[str] = ()


def run_setups(order: RunOptions) -> Ran:
    """Answer what was ordered and say where the answers lie; with models nothing is called before a yes."""
    setups = _setups(order)
    parameters = parameters_of(order)
    known = [item.dialogue for item in load_dialogues(order.data)]
    dialogues = chosen(known, order.most)
    order, parameters = confirmed(
        order, parameters, lambda: estimate_all(dialogues, setups, parameters, quiet=order.quiet)
    )
    reader = reader_shown(parameters)
    print(f"MemoryCode: {len(dialogues)} of {len(known)} dialogues; reader: {reader}; setups: {', '.join(setups)}")
    started = time.monotonic()
    command = recording_command(order)
    with guard_run(order.folder, parameters.models):
        ran = run_all(dialogues, setups, parameters, known=known, command=command, quiet=order.quiet)
    for setup in setups:
        print(_line(setup, ran))
    print(f"{time.monotonic() - started:.0f} s; score them with: {_scoring_command(order, ran)}")
    return ran


def parameters_of(order: RunOptions) -> RunParameters:
    """The parameters that an order comes to, checked; what is wrong with them is a `UserError` in one sentence."""
    own = {"data": "", "memorycode": str(order.data.absolute())}
    return checked_parameters(order, "MemoryCode", "--conversations", ("size",), own)


def recording_command(order: RunOptions) -> str:
    """The command line that records what `order` needs, and nothing else; what is empty is left out."""
    given = {
        "--data": order.data, "--name": order.folder.name, "--setups": ",".join(order.setups),
        "--models": order.models, "--backbone": order.backbone, "--memory": order.memory,
        "--prompts": order.prompts or "", "--conversations": order.most or "",
    }  # fmt: skip
    return shell_command("beamlib memorycode run", given, order.settings, ["--calls", "record", "--yes"])


def _setups(order: RunOptions) -> tuple[Setup, ...]:
    if not order.setups:
        return tuple(setup for setup in SETUPS if setup != "own" or order.memory)
    found = parse_setups(order.setups)
    check_own(order, found, "setup")
    return found


def _line(setup: Setup, ran: Ran) -> str:
    """One setup's outcome: whom it was asked about, what is missing and why."""
    left = len(ran.left_out[setup])
    more = [f"left out for want of texts: {left}"] if left else []
    return outcome_line(setup, ran.manifests[setup].setups[setup], "dialogues", *more)


def _scoring_command(order: RunOptions, ran: Ran) -> str:
    folders = sorted({path.parent for path in ran.folders.values()})
    return shell_command("beamlib memorycode score", {"--dialogues": order.data, "--outputs": folders[0]})
