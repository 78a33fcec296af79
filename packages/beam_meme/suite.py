"""The main job's part on MEME: which episodes, what models are asked before notebook 11 shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from beam_costs.costs import Estimate
from beam_meme.episode_files import episode_sets
from beam_meme.meme_store import PART
from beam_meme.meme_study import estimates, open_study, own_results
from beamlib.errors import UserError
from beamlib.evaluate.calling import resolved
from beamlib.llm.model import OFFLINE_NAME
from beamlib.params import RunParameters, load_parameters
from beamlib.places import ROOT

DEFAULT = ROOT / "data" / PART
"""Where episodes are looked for when none are named."""


def find_data(given: Path | None) -> str:
    """The episodes to show, absolute: those `given`, else those in `DEFAULT` if it is there, else empty.

    All of them are read, so that a mistake in them shows before anything runs: `UserError`.
    """
    if given is None and not DEFAULT.is_dir():
        return ""
    place = (given or DEFAULT).absolute()
    if not str(place).isprintable():  # the path goes into notebooks, which are text
        raise UserError(f"--meme: {str(place)!r} holds characters that no text can carry; rename it.")
    episode_sets(place)
    return str(place)


@dataclass(frozen=True)
class Meme:
    """MEME in a run of the main job: its parameters per backbone, of which notebook 11 is given the first."""

    parameters: Sequence[RunParameters]
    part: str = PART
    title: str = "MEME"
    notebook: str = "11_meme"

    @property
    def shown(self) -> RunParameters:
        """The parameters of notebook 11."""
        return self.parameters[0]

    @property
    def announcement(self) -> str:
        """What is going to be done, for the main job's list of steps."""
        what = f"the episodes in {self.shown.meme}" if self.shown.meme else "a small generated set"
        return f"MEME: {what}, asked of the {'models' if self.shown.models else OFFLINE_NAME}"

    def estimates(self) -> dict[str, Estimate]:
        """What each backbone would be asked about each variant, under a title; nothing is called."""
        return {
            f"MEME · {variant} · {resolved(parameters).backbone}": found
            for parameters in (self.parameters if self.shown.models else ())
            for variant, found in estimates(parameters).items()
        }

    def agreed(self, changes: Mapping[str, Any]) -> Meme:
        """With `changes` of the parameters once there is a yes, where models are asked."""
        return replace(
            self, parameters=[one.model_copy(update=changes) if one.models else one for one in self.parameters]
        )

    def ask(self) -> None:
        """Ask the models what notebook 11 shows, in all backbones; what is on file is not asked again."""
        for parameters in self.parameters if self.shown.models else ():
            own_results(open_study(parameters), parameters)


def of_run(
    folder: str,
    *,
    ask: bool,
    backbones: Sequence[str],
    places: Mapping[str, str],
    settings: Mapping[str, Any],
    shared: Mapping[str, Any],
) -> Meme:
    """The episodes in `folder`, with the parameters of the shortest tier: its size bears on nothing here.

    The models file of `places` is asked only with `ask`; else the stand-in answers. `shared` are the parameters that
    options of their own set.
    """
    asked = ask and bool(places["models"])
    common = {**settings, **places, **shared, "data": "", "meme": folder}
    common |= {} if asked else {"models": "", "calls": "record"}
    names = (list(backbones) if asked else []) or [""]
    found = [load_parameters(ROOT / "params" / "100k.yaml", **{**common, "backbone": name}) for name in names]
    return Meme(found)
