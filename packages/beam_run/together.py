"""Finish the main job: join all sizes, write the page and print a summary; or draw figures alone."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.text import Text

from beam_commands.confirmation import console
from beam_commands.options import check_run_name
from beam_page.building import write_page
from beam_page.run_folder import read_run
from beam_run.assembly import ALL, assemble_job
from beam_run.job import RunPlan
from beam_run.paper import Paper
from beamlib.errors import UserError
from beamlib.places import ROOT, RUNS, from_root
from beamlib.report.printed import print_rows
from beamlib.report.tables import NOTHING, with_interval
from beamlib.run import PUBLISHED

ALONE = " (n = 1)"
"""Ends what one conversation says, which has no interval."""
_SPREAD = ("low", "high", "conversations")


def put_together(name: str, planned: RunPlan) -> None:
    """Join the tables and figures of the run's tiers, write its page and print a summary."""
    folder, first = planned.folder, planned.runs[0]
    note = assemble_job(folder, planned.runs)
    for source in sorted((folder / "figures").glob("*/*")):
        _mirror(source, name)
    parts = {run.label: run.part for run in planned.runs}
    summary = summary_rows(folder, parts, offline=not first.models_file)
    run = read_run(folder, None if planned.generated else Path(first.data))
    written = write_page(run, protocol=first.judging.protocol, workers=first.workers, notes={ALL: note})
    console.print()
    if summary:
        print_rows(summary, as_json=False)
    where = from_root(folder)
    places = f"(tables in {where}/tables, figures in {where}/figures and figures/)"
    console.print(Text("Open", "bold"), f"{from_root(written)}  {places}")


def _mirror(source: Path, name: str) -> None:
    """Copy a figure of the run to the top-level `figures/`; published ones have a folder of their own."""
    tier = source.parent.name
    target = ROOT / "figures" / (Path(PUBLISHED) if tier == PUBLISHED else Path(name) / tier) / source.name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def draw_figures(name: str, numbers: Sequence[str], protocol: str) -> None:
    """Draw figures of the paper and, where it has results, of the run called `name`."""
    check_run_name(name)
    if wrong := [number for number in numbers if not number.isdecimal()]:
        raise UserError(f"--figures: {wrong[0]!r} is no number; give for example 3,4.")
    for picture in Paper(RUNS / name, protocol).figures([int(number) for number in numbers]):
        console.print(from_root(picture))


def summary_rows(folder: Path, parts: Mapping[str, str], *, offline: bool = True) -> list[dict[str, Any]]:
    """Return the averages of the main table and of its evidence recall, by tier and memory, as tables show them.

    `parts` maps the label of a tier to its part of the run folder.
    """
    score = "score (offline stand-in)" if offline else "score"
    rows = []
    for name, part in parts.items():
        tables = folder / "tables" / part
        scores = _averages(tables / "table1_main_results.csv")
        evidence = _averages(tables / "table1_evidence_recall.csv")
        alone = all(shown.endswith(ALONE) for shown in (*scores.values(), *evidence.values()))
        if alone:  # said once
            name = f"{name}{ALONE}"
            scores, evidence = (
                {key: shown.removesuffix(ALONE) for key, shown in own.items()} for own in (scores, evidence)
            )
        rows += [
            {"size": name, "memory": series, score: shown, "evidence recall": evidence.get(series, NOTHING)}
            for series, shown in scores.items()
        ]
    return rows


def _averages(path: Path) -> dict[str, str]:
    frame = pd.read_csv(path, comment="#")
    average = frame[frame["ability"] == "average"].iloc[0]
    series = [name for name in frame.columns if f"{name} low" in frame.columns]
    most = pd.to_numeric(average[[f"{name} n" for name in series]]).max()  # leaves out what has no average
    return {
        name: NOTHING
        if pd.isna(average[name])
        else with_interval(f"{average[name]:.3f}", *(average[f"{name} {part}"] for part in _SPREAD))
        + (f", {most - average[f'{name} n']:.0f} of {most:.0f} unscored" if average[f"{name} n"] < most else "")
        for name in series
    }
