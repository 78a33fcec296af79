"""The main job's part on MemoryCode: which dialogues, what models are asked before notebook 10 shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from beam_costs.costs import Estimate
from beam_memorycode.dialogue_files import load_dialogues
from beam_memorycode.notebook_runs import ask_shown, estimate_shown
from beam_memorycode.running import PART
from beamlib.errors import UserError
from beamlib.evaluate.calling import resolved
from beamlib.llm.model import OFFLINE_NAME
from beamlib.params import RunParameters, load_parameters
from beamlib.places import ROOT

DEFAULT = ROOT / "data" / PART
"""Where dialogues are looked for when no folder is named."""


def find_data(given: Path | None) -> str:
    """The data folder to show, absolute: the one `given`, else `DEFAULT` if it is there, else empty.

    All of its dialogues are read, so that a mistake in them shows before anything runs. `UserError` for one that cannot
    be read, and where none has texts.
    """
    if given is None and not DEFAULT.is_dir():
        return ""
    folder = (given or DEFAULT).absolute()
    if not str(folder).isprintable():  # the path goes into notebooks, which are text
        raise UserError(f"--memorycode: {str(folder)!r} holds characters that no text can carry; rename the folder.")
    if not any(item.dialogue.has_texts for item in load_dialogues(folder)):
        raise UserError(
            f"--memorycode: no dialogue in {folder} has texts, which memories read; give a folder that has."
        )
    return str(folder)


@dataclass(frozen=True)
class MemoryCode:
    """MemoryCode in a run of the main job: its parameters per backbone, of which notebook 10 is given the first.

    `settings` are the parameters that the command line set one by one.
    """

    parameters: Sequence[RunParameters]
    settings: Mapping[str, Any]
    part: str = PART
    title: str = "MemoryCode"
    notebook: str = "10_memorycode"

    @property
    def shown(self) -> RunParameters:
        """The parameters of notebook 10."""
        return self.parameters[0]

    @property
    def announcement(self) -> str:
        """What is going to be done, for the main job's list of steps."""
        what = f"the dialogues in {self.shown.memorycode}" if self.shown.memorycode else "a small generated set"
        return f"MemoryCode: {what}, asked of the {'models' if self.shown.models else OFFLINE_NAME}"

    def estimates(self) -> dict[str, Estimate]:
        """What each backbone would be asked, under a title; nothing is called."""
        estimates = {}
        for place, parameters in enumerate(self.parameters if self.shown.models else ()):
            found = estimate_shown(parameters)
            shared = place > 0 and parameters.calls != "refresh"  # what LIGHT reads does not depend on the backbone
            estimates[f"MemoryCode · {resolved(parameters).backbone}"] = found.without_memory() if shared else found
        return estimates

    def agreed(self, changes: Mapping[str, Any]) -> MemoryCode:
        """With `changes` of the parameters once there is a yes, where models are asked."""
        return replace(
            self, parameters=[one.model_copy(update=changes) if one.models else one for one in self.parameters]
        )

    def ask(self) -> None:
        """Ask the models what notebook 10 shows, in all backbones; what is on file is not asked again."""
        for parameters in self.parameters if self.shown.models else ():
            ask_shown(parameters, self.settings)


def of_run(
    folder: str,
    *,
    ask: bool,
    backbones: Sequence[str],
    places: Mapping[str, str],
    settings: Mapping[str, Any],
    shared: Mapping[str, Any],
) -> MemoryCode:
    """The dialogues in `folder`, with the parameters of the shortest tier: its size bears on nothing here.

    The models file of `places` is asked only with `ask`; else the stand-in answers. `shared` are the parameters that
    options of their own set.
    """
    asked = ask and bool(places["models"])
    common = {**settings, **places, **shared, "data": "", "memorycode": folder}
    common |= {} if asked else {"models": "", "calls": "record"}
    names = (list(backbones) if asked else []) or [""]
    found = [load_parameters(ROOT / "params" / "100k.yaml", **{**common, "backbone": name}) for name in names]
    return MemoryCode(found, settings)
