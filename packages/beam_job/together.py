"""The last step of the main job: all sizes put together, one page over everything; or figures alone."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from beam_job.assembly import ALL, assemble_job
from beam_job.executing import FIELD_PART, Work
from beam_job.job import RunPlan, label
from beam_job.page import Section, summary_rows, write_page
from beam_job.paper import Paper
from beamlib.cli.arguments import check_run_name
from beamlib.cli.spending import console
from beamlib.data.checked_json import left_out_line
from beamlib.errors import UserError
from beamlib.evaluate.arm_folder import configuration_of_run
from beamlib.evaluate.calling import PUBLISHED, run_subdir
from beamlib.evaluate.run import left_out
from beamlib.params import RunParameters
from beamlib.places import ROOT, RUNS, from_root
from beamlib.report.markdown import print_rows


def put_together(name: str, planned: RunPlan, notebooks: Sequence[Work]) -> None:
    """The tiers' tables and figures of the run called `name` as one, and the page over all that is there."""
    folder, offline = planned.folder, not planned.runs[0].models
    note = assemble_job(folder, planned.runs)
    sections = _sections(planned, notebooks)
    sections.insert(1, Section(ALL, (), "All sizes", note))
    for source in sorted((folder / "figures").glob("*/*")):
        _mirror(source, name)
    summary = summary_rows(folder, {label(one): run_subdir(one) for one in planned.runs}, offline=offline)
    written = write_page(folder, sections, summary, offline=offline)
    console.print()
    if summary:
        print_rows(summary, as_json=False)
    where = from_root(folder)
    places = f"(tables in {where}/tables, figures in {where}/figures and figures/)"
    console.print(Text("Open", "bold"), f"{from_root(written)}  {places}")


def _sections(planned: RunPlan, notebooks: Sequence[Work]) -> list[Section]:
    """The parts of the page: published values, each tier, the other benchmarks, with the notebooks of each."""
    pages: dict[Path, list[Path]] = {}
    for name, _, folder in notebooks:
        made = folder / f"{name}.html"
        pages.setdefault(folder, []).extend([made] if made.exists() else [])
    titles: dict[str, tuple[str, RunParameters | None]] = {PUBLISHED: ("Published values", None)}
    titles |= {run_subdir(one): (label(one), one) for one in planned.runs}
    titles |= {suite.name: (suite.title, suite.shown) for suite in planned.suites}
    titles |= {FIELD_PART: ("What others published", None)}
    found = []
    for part, (title, parameters) in titles.items():
        missed = left_out(parameters) if parameters in planned.runs and parameters else {}
        note = left_out_line(missed) if missed else ""
        configuration = configuration_of_run(parameters) if parameters else ""
        found.append(Section(part, sorted(pages[planned.folder / "notebooks" / part]), title, note, configuration))
    return found


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
