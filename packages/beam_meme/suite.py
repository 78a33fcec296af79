"""The main job's part on MEME (`beam_suite.part_of_run`); what it needs is imported where it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beam_run.costs import Estimate
from beamlib.evaluate.calling import resolved
from beamlib.params import RunParameters

TITLE, NOTEBOOK, UNITS = "MEME", "11_meme", "episodes"


def read(place: Path) -> None:
    """Read the episodes at a place; a `UserError` where one cannot be."""
    from beam_meme.episode_files import episode_sets

    episode_sets(place)


def estimates(parameters: Sequence[RunParameters]) -> dict[str, Estimate]:
    """What each backbone would be asked about each variant, under a title; nothing is called."""
    from beam_meme.meme_study import estimates as of_study

    return {
        f"MEME · {variant} · {resolved(one).backbone}": found
        for one in parameters
        for variant, found in of_study(one).items()
    }


def ask(parameters: Sequence[RunParameters], settings: Mapping[str, Any]) -> None:
    """Ask the models what notebook 11 shows; `settings` are in the parameters already."""
    from beam_meme.meme_study import open_study, own_results

    for one in parameters:
        own_results(open_study(one), one)
