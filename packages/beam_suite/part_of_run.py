"""Other benchmarks in a run of the main job: which data, what models are asked before a notebook shows it.

Each is a package with a module `suite`: `TITLE`, `NOTEBOOK`, `UNITS` (what its data are called), `read`, `estimates`
and `ask`. Package, option, parameter and part of the run folder have one name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from beamlib.confirmation import Priced
from beamlib.errors import UserError
from beamlib.llm.model import OFFLINE_NAME
from beamlib.params import RunParameters, load_parameters
from beamlib.places import PARAMS, ROOT

SUITES = ("memorycode", "meme")
USUAL = ROOT / "data"
"""Where the data of a suite are looked for, by its name, when none are given."""


def _suite(name: str) -> Any:
    from beam_meme import suite as meme
    from beam_memorycode import suite as memorycode

    return {"memorycode": memorycode, "meme": meme}[name]


def find_data(name: str, given: Path | None) -> str:
    """The data to show, absolute: those `given`, else the usual ones where they are there, else empty.

    All of them are read, so that a mistake in them shows before anything runs: `UserError`.
    """
    if given is None and not (USUAL / name).is_dir():
        return ""
    place = (given or USUAL / name).absolute()
    if not str(place).isprintable():  # the path goes into notebooks, which are text
        raise UserError(f"--{name}: {str(place)!r} holds characters that no text can carry; rename it.")
    _suite(name).read(place)
    return str(place)


@dataclass(frozen=True)
class Suite:
    """A benchmark with its parameters per backbone, of which its notebook is given the first.

    `settings` are the parameters that the command line set one by one.
    """

    name: str
    parameters: Sequence[RunParameters]
    settings: Mapping[str, Any]

    @property
    def title(self) -> str:
        """As people know it."""
        return str(_suite(self.name).TITLE)

    @property
    def notebook(self) -> str:
        """The notebook that shows it."""
        return str(_suite(self.name).NOTEBOOK)

    @property
    def shown(self) -> RunParameters:
        """The parameters of the notebook."""
        return self.parameters[0]

    @property
    def announcement(self) -> str:
        """What is going to be done, for the main job's list of steps."""
        place = getattr(self.shown, self.name)
        what = f"the {_suite(self.name).UNITS} in {place}" if place else "a small generated set"
        return f"{self.title}: {what}, asked of the {'models' if self.shown.models else OFFLINE_NAME}"

    def estimates(self) -> Mapping[str, Priced]:
        """What each backbone would be asked, under a title; nothing is called."""
        found: Mapping[str, Priced] = _suite(self.name).estimates(self.parameters) if self.shown.models else {}
        return found

    def agreed(self, changes: Mapping[str, Any]) -> Suite:
        """With `changes` of the parameters once there is a yes, where models are asked."""
        return replace(
            self, parameters=[one.model_copy(update=changes) if one.models else one for one in self.parameters]
        )

    def ask(self) -> None:
        """Ask the models what the notebook shows, in all backbones; what is on file is not asked again."""
        if self.shown.models:
            _suite(self.name).ask(self.parameters, self.settings)


def suite_of_run(
    name: str,
    folder: str,
    *,
    ask: bool,
    backbones: Sequence[str],
    places: Mapping[str, str],
    settings: Mapping[str, Any],
    shared: Mapping[str, Any],
) -> Suite:
    """A suite on the data in `folder`, with the parameters of the shortest tier: its size bears on nothing here.

    The models file of `places` is asked only with `ask`; else the stand-in answers. `shared` are the parameters that
    options of their own set.
    """
    asked = ask and bool(places["models"])
    common = {**settings, **places, **shared, "data": "", name: folder}
    common |= {} if asked else {"models": "", "calls": "record"}
    names = (list(backbones) if asked else []) or [""]
    found = [load_parameters(PARAMS / "100k.yaml", **{**common, "backbone": backbone}) for backbone in names]
    return Suite(name, found, settings)
