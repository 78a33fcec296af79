"""BEAM and LIGHT: a reproducible artifact of the paper "Beyond a Million Tokens".

The notebooks tell the story; this package holds what two notebooks share or what a test must reach. `open_run` reads a
run as data frames (docs/dataframes.md).
"""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

__all__ = ["__version__", "open_run"]
__version__ = "0.1.0"


def open_run(path: str | PathLike[str], data: str | PathLike[str] = "", **others: str | PathLike[str]) -> Any:
    """Open the run in a folder for reading: questions, answers, verdicts, contexts and evidence as data frames.

    Returns:
        A `beamlib.frames.OpenedRun`.

    Args:
        path: A run folder, or a part or an arm of one.
        data: The BEAM conversations that the run was asked about, where it did not make them.
        others: The data of other tasks by name, such as `meme="episodes"`, where the run did not make them.

    Raises:
        UserError: There are no records in `path`, or they are not those that their manifest vouches for.
    """
    # By name, since every module of the package imports this one: pandas takes half a second, and what reads gold must
    # not be within reach of a memory.
    frames = import_module("beamlib.frames")
    places = {"beam": data, **others}
    return frames.OpenedRun(Path(path), {task: Path(place) for task, place in places.items() if place})
