"""The main job: from parameters to a page with every table and figure. `run_all.sh` calls it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from beamlib.benchmark.model import SIZES, Size
from beamlib.benchmark.sources import find_conversations, parse_size
from beamlib.errors import UserError
from beamlib.params import RunParameters, load_parameters
from beamlib.report.notebooks import EVALUATION, PUBLISHED, ROOT, execute, preflight
from beamlib.report.page import Section, summary_rows, write_page
from beamlib.report.text import print_rows
from beamlib.runs.arms import arms_of, experiments
from beamlib.runs.evaluate import evaluate
from beamlib.runs.own import own_memory

console = Console(highlight=False)


@dataclass(frozen=True)
class Job:
    """What `run_all.sh` was asked for. `sizes` are names of tiers; empty means all that are found."""

    data: Path | None
    sizes: Sequence[str]
    name: str
    conversations: int
    protocol: str
    memory: str
    download: bool


def run(job: Job) -> None:
    """Do the job: check the parameters, run the published part, then each tier; end with the page and a summary."""
    if not job.name or Path(job.name).name != job.name or job.name.startswith(".") or not job.name.isprintable():
        raise UserError(f"--name: {job.name!r} must be a plain folder name such as 'default'.")
    wanted = [parse_size(size) for size in job.sizes]
    own = str(Path(job.memory).absolute()) if job.memory else ""
    if own:
        own_memory(own)  # a mistake in it should show before anything runs
    data = _data(job, wanted)
    found = _found(data, wanted)
    os.chdir(ROOT)  # relative data folders count from where the command was given, everything else from here
    folder = Path("runs") / job.name
    console.print(f"[bold]Main job[/bold] into {folder}/")
    console.print(f"  1. published tables, figures and claims: {len(EVALUATION)} notebooks, about a minute")
    for step, (size, count) in enumerate(found.items(), start=2):
        counted = "1 conversation" if count == 1 else f"{count} conversations"
        console.print(f"  {step}. {size}: {counted}, all memories, then {len(EVALUATION)} notebooks")
    for line in preflight(ROOT / "params"):
        console.print(f"     parameters {line}", style="dim")

    sections = [_published(job, folder)]
    for size in found:
        sections.append(_tier(job, size, str(data), own, folder))
    _mirror_figures(folder, job.name)
    summary = summary_rows(folder, list(found))
    page = write_page(folder, sections, summary)
    console.print()
    if summary:
        print_rows(summary, as_json=False)
    console.print(f"[bold]Open[/bold] {page}  (tables in {folder}/tables, figures in {folder}/figures and figures/)")


def _data(job: Job, wanted: Sequence[Size]) -> Path | None:
    if job.download:
        from beamlib.benchmark.hub import download

        return download((job.data or ROOT / "data").absolute(), wanted or SIZES)
    if job.data is not None:
        if not str(job.data).isprintable():  # the path goes into notebooks, which are text
            raise UserError(f"--data: {str(job.data)!r} holds characters that no text can carry; rename the folder.")
        return job.data.absolute()
    if wanted:
        raise UserError("--sizes: there is no data to choose from; name a folder with --data, or add --download.")
    return None


def _found(data: Path | None, wanted: Sequence[Size]) -> dict[Size, int]:
    """How many conversations of each tier there are; a tier that was asked for and is missing is an error."""
    if data is None:
        return {}
    sources = find_conversations(data, list(wanted) or None)
    counts = {size: sum(source.size == size for source in sources) for size in SIZES}
    for size in wanted:
        if not counts[size]:
            raise UserError(f"--sizes: {data} holds no conversation of size {size}; leave it out.")
    return {size: count for size, count in counts.items() if count}


def _published(job: Job, folder: Path) -> Section:
    """The published part: no conversation of the benchmark is needed, 05 shows the built-in example."""
    parameters = load_parameters(ROOT / "params" / "100k.yaml", run=folder.as_posix(), protocol=job.protocol)
    return Section(PUBLISHED, _notebooks(parameters, folder / "notebooks" / PUBLISHED, PUBLISHED))


def _tier(job: Job, size: Size, data: str, own: str, folder: Path) -> Section:
    parameters = load_parameters(
        ROOT / "params" / f"{size.lower()}.yaml",
        data=data,
        run=folder.as_posix(),
        protocol=job.protocol,
        conversations=job.conversations,
        own_memory=own,
    )
    console.print(f"\n[bold]{size}[/bold]")
    started = time.monotonic()
    evaluate(parameters, arms_of(parameters, experiments(parameters)))
    console.print(f"  answered and judged in {time.monotonic() - started:.0f} s (what was on file is not redone)")
    return Section(size, _notebooks(parameters, folder / "notebooks" / size.lower(), size))


def _notebooks(parameters: RunParameters, folder: Path, label: str) -> list[Path]:
    pages = []
    for name in EVALUATION:
        started = time.monotonic()
        pages.append(execute(name, parameters, folder))
        console.print(f"  {label}: {name} in {time.monotonic() - started:.0f} s")
    return pages


def _mirror_figures(folder: Path, name: str) -> None:
    """Copy the run's figures to the top-level `figures/`, published ones apart from the run's own."""
    for source in sorted((folder / "figures").glob("*/*")):
        tier = source.parent.name
        target = ROOT / "figures" / (Path(PUBLISHED) if tier == PUBLISHED else Path(name) / tier) / source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
