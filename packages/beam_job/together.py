"""The last step of the main job: all sizes put together, one page over everything; or figures alone."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from beam_job.assembly import ALL, assemble_job
from beam_job.job import RunPlan, label
from beam_job.paper import Paper
from beam_job.summary import summary_rows
from beam_page.building import write_page
from beam_page.run_folder import read_run
from beamlib.cli.arguments import check_run_name
from beamlib.cli.spending import console
from beamlib.errors import UserError
from beamlib.evaluate.calling import PUBLISHED, run_subdir
from beamlib.places import ROOT, RUNS, from_root
from beamlib.report.table import print_rows


def put_together(name: str, planned: RunPlan) -> None:
    """The tiers' tables and figures of the run called `name` as one, and the page over all that is there."""
    folder, first = planned.folder, planned.runs[0]
    note = assemble_job(folder, planned.runs)
    for source in sorted((folder / "figures").glob("*/*")):
        _mirror(source, name)
    parts = {label(one): run_subdir(one) for one in planned.runs}
    summary = summary_rows(folder, parts, offline=not first.models)
    run = read_run(folder, None if planned.generated else Path(first.data))
    written = write_page(run, protocol=first.protocol, workers=first.workers, notes={ALL: note})
    console.print()
    if summary:
        print_rows(summary, as_json=False)
    where = from_root(folder)
    places = f"(tables in {where}/tables, figures in {where}/figures and figures/)"
    console.print(Text("Open", "bold"), f"{from_root(written)}  {places}")


def _mirror(source: Path, name: str) -> None:
    """Copy a figure of the run to the top-level `figures/`, published ones apart from the run's own."""
    tier = source.parent.name
    target = ROOT / "figures" / (Path(PUBLISHED) if tier == PUBLISHED else Path(name) / tier) / source.name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def draw_figures(name: str, numbers: Sequence[str], protocol: str) -> None:
    """Draw figures of the paper, beside them those of the run with that name where it is there; nothing else."""
    check_run_name(name)
    if wrong := [number for number in numbers if not number.isdecimal()]:
        raise UserError(f"--figures: {wrong[0]!r} is no number; give for example 3,4.")
    for picture in Paper(RUNS / name, protocol).figures([int(number) for number in numbers]):
        console.print(from_root(picture))
