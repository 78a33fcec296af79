"""The main job: from parameters to a page with every table and figure. `run_all.sh` calls it."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
import yaml
from rich.console import Console
from tqdm import tqdm

from beamlib.benchmark.model import SIZES, Size
from beamlib.benchmark.reading import left_out_line
from beamlib.benchmark.sources import find_conversations, parse_size
from beamlib.errors import UserError
from beamlib.files import read_json, write_text
from beamlib.generate.producing import produce
from beamlib.generate.working import commission_of, writing_of
from beamlib.main_memorycode import MemoryCode, find_dialogues, memorycode
from beamlib.models.client import EndpointModel
from beamlib.models.endpoints import load_models, parse_models
from beamlib.models.offline import OFFLINE_NAME
from beamlib.models.prompts import check_overrides
from beamlib.params import RunParameters, load_parameters, preset_values
from beamlib.processes import process_pool
from beamlib.report.assembly import ALL, assemble_job
from beamlib.report.costs import read_costs, save_costs
from beamlib.report.notebooks import (
    EVALUATION,
    GENERATION,
    MODELS,
    PUBLISHED,
    ROOT,
    SUITES,
    execute,
    preflight,
)
from beamlib.report.page import Section, summary_rows, write_page
from beamlib.report.text import print_rows
from beamlib.retrieval import Encoders
from beamlib.runs.arms import arms_of, experiments
from beamlib.runs.calling import endpoints, models_file, part_of, resolved
from beamlib.runs.estimate import estimate, save
from beamlib.runs.evaluate import evaluate, left_out
from beamlib.runs.manifest import configuration_of_run
from beamlib.runs.own import own_memory
from beamlib.runs.publish import keep_settings
from beamlib.runs.spending import Estimate, realised
from beamlib.suites.memorycode.running import PART

console = Console(highlight=False)

OFFLINE = "offline"
"""What `--models` says where no model is to be called."""

GENERATED = "generated"
"""The part of a run folder that generated conversations go to."""

_OPTIONS = {
    "size": "--sizes", "data": "--data", "run": "--name", "conversations": "--conversations", "protocol": "--protocol",
    "own_memory": "--memory", "models": "--models", "backbone": "--backbones", "calls": "--calls",
    "confirm_cost": "--yes", "prompts": "--prompts", "memorycode": "--memorycode", "preset": "--preset",
}  # fmt: skip
"""Parameters that options of their own set: `--set` would be overruled by these without a word."""


@dataclass(frozen=True)
class Endpoints:
    """Where models are served: a models file, or one endpoint (`base_url`, `model`) for every role, or neither.

    The word `offline` in the place of a file is the stand-in, where a preset names a models file.
    """

    file: Path | None = None
    base_url: str = ""
    model: str = ""
    key_variable: str = ""
    context_window: int = 131_072

    def path(self, folder: Path, usual: str = "") -> str:
        """The models file, empty for the offline stand-in; one endpoint is written down as `<folder>/models.yaml`.

        Where nothing is given it is the `usual` one.
        """
        if self.file is not None and self.base_url:
            raise UserError("--models and --base-url exclude one another; give one.")
        if self.key_variable and not self.base_url:
            raise UserError("--key-variable: it goes with --base-url; a models file names the variables of its roles.")
        if self.file is not None and self.model:
            raise UserError("--model: it goes with --base-url; a models file names the models of its readers.")
        if self.file == Path(OFFLINE):
            return ""
        if self.file is not None:
            load_models(self.file)
            return str(self.file.absolute())
        if not self.base_url:
            if self.model:
                raise UserError("--model: name the endpoint that serves it with --base-url.")
            return usual
        if not self.model:
            raise UserError("--base-url: name the model that is served there with --model.")
        endpoint = {"model": self.model, "base_url": self.base_url, "context_window": self.context_window}
        endpoint |= {"key_variable": self.key_variable} if self.key_variable else {}
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", self.model.rpartition("/")[2]).strip("-._") or "model"
        roles = dict.fromkeys(("memory", "compressor", "judge", "aligner"), endpoint)
        values: dict[str, Any] = {"readers": {name: endpoint}, **roles, "authors": {"planner": endpoint}}
        parse_models(values, "--base-url")
        text = "# Written by --base-url: one endpoint in every role.\n" + yaml.safe_dump(values, sort_keys=False)
        return str(write_text(folder / MODELS, text).absolute())


@dataclass(frozen=True)
class Job:
    """What `run_all.sh` was asked for.

    `sizes` are names of tiers; empty means all that are found. `backbones` are the readers of the models file to run,
    empty for its first. `settings` replaces single parameters.
    """

    data: Path | None
    sizes: Sequence[str]
    name: str
    conversations: int
    protocol: str
    memory: str
    memorycode: Path | None
    download: bool
    endpoints: Endpoints = field(default_factory=Endpoints)
    backbones: Sequence[str] = ()
    calls: str = "record"
    prompts: Path | None = None
    yes: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    preset: str = "default"


def run(job: Job) -> None:
    """Do the job: check the parameters, run the published part, then each tier; end with the page and a summary."""
    check_run_name(job.name)
    for name in job.settings:
        if name in _OPTIONS:
            raise UserError(f"--set {name}: this parameter has an option of its own; give {_OPTIONS[name]}.")
    wanted = [parse_size(size) for size in job.sizes]
    preset = preset_values(job.preset, ROOT / "params")
    folder = Path("runs") / job.name
    places = {
        "own_memory": str(Path(job.memory).absolute()) if job.memory else "",
        "prompts": str(job.prompts.absolute()) if job.prompts else "",
        "preset": job.preset,
        "models": job.endpoints.path(ROOT / folder, preset.get("models", "")),
    }
    if "authors" in preset and "authors" not in job.settings:
        places["authors"] = places["models"]  # who else serves the models serves the authors
    if job.prompts:
        check_overrides(job.prompts)
    if job.backbones and not places["models"]:
        raise UserError("--backbones: name the models file that holds them with --models.")
    if places["own_memory"]:
        own_memory(places["own_memory"])  # a mistake in it should show before anything runs
    dialogues = find_dialogues(job.memorycode)
    data = _data(job, wanted)
    found = _found(data, wanted) if data else dict.fromkeys(wanted or SIZES, job.conversations or 1)
    os.chdir(ROOT)  # relative paths count from where the command was given, everything else from here
    where = str(data) if data else (folder / GENERATED).as_posix()
    runs = [one for size in found for one in _parameters(job, size, where, places, folder)]
    if data is None:  # others may lie there from an earlier run with more of them
        runs = [one.model_copy(update={"conversations": found[one.size]}) for one in runs]
    suite = memorycode(
        dialogues,
        ask=job.memorycode is not None,
        backbones=job.backbones,
        places=places,
        settings=job.settings,
        shared={"run": folder.as_posix(), "conversations": job.conversations, "calls": job.calls},
    )
    for parameters in runs:  # an encoder that cannot be had should show before anything is done
        for arm in arms_of(parameters, experiments(parameters)):
            if arm.retriever:
                Encoders(parameters.encoder, parameters.splade).used(arm.retriever)
    _announce(job, runs, found, suite, generated=data is None)
    expected = _confirm(job, runs, suite) if data else {}
    if data is None:
        _generate(runs, found)
        expected = _confirm(job, runs, suite)
    for parameters in runs:
        _evaluate(parameters, expected.get(part_of(parameters)))
    suite.ask()
    sections = _notebooks(job, runs, suite, generated=data is None)
    note = assemble_job(folder, runs)
    sections.insert(1, Section(ALL, (), "All sizes", note))
    _mirror_figures(folder, job.name)
    summary = summary_rows(folder, {_label(one): part_of(one) for one in runs}, offline=not places["models"])
    page = write_page(folder, sections, summary, offline=not places["models"])
    console.print()
    if summary:
        print_rows(summary, as_json=False)
    console.print(f"[bold]Open[/bold] {page}  (tables in {folder}/tables, figures in {folder}/figures and figures/)")


def _announce(
    job: Job, runs: Sequence[RunParameters], found: Mapping[Size, int], suite: MemoryCode, *, generated: bool
) -> None:
    """Say what is going to be done, in the order in which it will be."""
    steps = []
    if generated:
        what = ", ".join(f"{count} of {size}" for size, count in found.items())
        steps.append(f"generate conversations ({OFFLINE_NAME}): {what}")
    for parameters in runs:
        count = min(found[parameters.size], job.conversations or found[parameters.size])
        counted = "1 conversation" if count == 1 else f"{count} conversations"
        steps.append(f"{_label(parameters)}: {counted}, all memories answer and are judged")
    steps.append(suite.announcement)
    each = len(EVALUATION) + (len(GENERATION) if generated else 0)
    count = len(EVALUATION) + each * len(runs) + len(SUITES)
    steps.append(f"{count} notebooks: published values, each tier, MemoryCode; figures and page")
    configurations = dict.fromkeys(configuration_of_run(parameters) for parameters in runs)
    console.print(f"[bold]Main job[/bold] into {suite.shown.run}/, configuration: {' | '.join(configurations)}")
    for number, step in enumerate(steps, start=1):
        console.print(f"  {number}. {step}")
    for line in preflight(ROOT / "params"):
        console.print(f"     parameters {line}", style="dim")


def _generate(runs: Sequence[RunParameters], found: Mapping[Size, int]) -> None:
    """Write the conversations that the runs need and that are not there yet."""
    started = time.monotonic()
    first = {parameters.size: parameters for parameters in reversed(runs)}
    wanted = [commission_of(first[size], number) for size in reversed(SIZES) if size in first
              for number in range(1, found[size] + 1)]  # fmt: skip
    # The longest first: the short ones fill the time in which its last plans are written.
    done = produce(wanted, Path(runs[0].data), writing_of(runs[0]), max(one.workers for one in runs))
    new = sum(one.worked for one in done)
    took = f"{time.monotonic() - started:.0f} s"
    there = "" if new == len(done) else ", the others were there"
    console.print(f"  generated {new} of {len(done)} conversations in {took}{there}")


def check_run_name(name: str) -> None:
    """A `UserError` unless `name` can be that of a folder under runs/."""
    if not name or Path(name).name != name or name.startswith(".") or not name.isprintable():
        raise UserError(f"--name: {name!r} must be a plain folder name such as 'default'.")


def _parameters(job: Job, size: Size, data: str, places: Mapping[str, str], folder: Path) -> list[RunParameters]:
    """The parameters of a tier, once per backbone."""
    names = list(job.backbones) or [""]
    return [
        load_parameters(
            ROOT / "params" / f"{size.lower()}.yaml",
            **{
                **job.settings,
                **places,
                "data": data,
                "run": folder.as_posix(),
                "protocol": job.protocol,
                "conversations": job.conversations,
                "backbone": backbone,
                "calls": job.calls,
                "confirm_cost": bool(places["models"]),
            },
        )
        for backbone in names
    ]


def _label(parameters: RunParameters) -> str:
    found = models_file(parameters)
    return f"{parameters.size} · {parameters.backbone or next(iter(found.readers))}" if found else parameters.size


def estimate_lines(
    params: Path,
    data: Path | None,
    name: str,
    endpoints: Endpoints,
    backbone: str,
    prompts: Path | None,
    settings: Mapping[str, Any],
    preset: str = "",
) -> Estimate:
    """What a run by `params` would call, for `beamlib estimate`; nothing is called."""
    check_run_name(name)
    for option, parameter in (("--name", "run"), ("--preset", "preset")):
        if parameter in settings:
            raise UserError(f"--set {parameter}: this parameter has an option of its own; give {option}.")
    settings = {**settings, **({"preset": preset} if preset else {})}
    found = load_parameters(params, **settings)
    beside = params.parent / MODELS
    with tempfile.TemporaryDirectory(prefix="beamlib-estimate-") as place:  # not over the models file of the run
        usual = found.models or (str(beside.absolute()) if beside.exists() else "")
        models = endpoints.path(Path(place), usual)
        changes: dict[str, Any] = {"run": f"runs/{name}", "models": models, "backbone": backbone or found.backbone}
        changes |= {"data": str(data.absolute())} if data else {}
        changes |= {"prompts": str(prompts.absolute())} if prompts else {}
        found = load_parameters(params, **{**settings, **changes})
        if not found.data:
            raise UserError(f"{params}: it names no data; give a folder of conversations with --data.")
        os.chdir(ROOT)
        return estimate(found, arms_of(found, experiments(found)))


def _confirm(job: Job, runs: Sequence[RunParameters], suite: MemoryCode) -> dict[str, Estimate]:
    """Say what all runs will call and cost, before the first call; without a yes nothing is spent."""
    expected: dict[str, Estimate] = {}
    counted: set[Size] = set()
    for parameters in runs:
        if not parameters.models or parameters.calls == "replay":
            return expected
        found = estimate(parameters, arms_of(parameters, experiments(parameters)))
        # What the memory reads does not depend on the backbone and is called once, unless each is to renew it.
        if parameters.size in counted and parameters.calls != "refresh":
            found = found.without_memory()
        counted.add(parameters.size)
        expected[part_of(parameters)] = found
        console.print(f"\n[bold]Estimate, {_label(parameters)}[/bold]")
        print(found.render())  # wide: the console would break its lines
    for title, found in suite.estimates():
        expected[title] = found
        console.print(f"\n[bold]Estimate, {title}[/bold]")
        print(found.render())
    if not any(found.pending for found in expected.values()):
        return expected
    for parameters in runs:  # a key that is not there should show now and not when the first call is made
        for role, endpoint in endpoints(parameters).items():
            EndpointModel(role, endpoint).ready()
    if job.yes:
        return expected
    if not sys.stdin.isatty():
        raise UserError("nothing was called: add --yes to spend what the estimate above says.")
    if not typer.confirm("Make these calls?"):
        raise UserError("nothing was called.")
    return expected


def _data(job: Job, wanted: Sequence[Size]) -> Path | None:
    if job.download:
        from beamlib.benchmark.hub import download

        return download((job.data or ROOT / "data").absolute(), wanted or SIZES)
    if job.data is not None:
        if not str(job.data).isprintable():  # the path goes into notebooks, which are text
            raise UserError(f"--data: {str(job.data)!r} holds characters that no text can carry; rename the folder.")
        return job.data.absolute()
    return None


def _found(data: Path, wanted: Sequence[Size]) -> dict[Size, int]:
    """How many conversations of each tier there are; a tier that was asked for and is missing is an error."""
    sources = find_conversations(data, list(wanted) or None)
    counts = {size: sum(source.size == size for source in sources) for size in SIZES}
    for size in wanted:
        if not counts[size]:
            raise UserError(f"--sizes: {data} holds no conversation of size {size}; leave it out.")
    return {size: count for size, count in counts.items() if count}


def _evaluate(parameters: RunParameters, expected: Estimate | None) -> None:
    """All memories of a tier answer and are judged."""
    console.print(f"\n[bold]{_label(parameters)}[/bold]")
    started = time.monotonic()
    if expected is not None:  # beside it stands what is called from now on, not what backbones before this one called
        before = () if parameters.calls == "refresh" else tuple(realised(parameters))
        save(expected.model_copy(update={"before": before}), parameters)
    evaluate(parameters, arms_of(parameters, experiments(parameters)))
    if parameters.models:
        keep_settings(resolved(parameters))
        costs = save_costs(parameters)
        if costs is not None:
            print(read_costs(read_json(costs)).to_text())
    console.print(f"  answered and judged in {time.monotonic() - started:.0f} s (what was on file is not redone)")


def _notebooks(job: Job, runs: Sequence[RunParameters], suite: MemoryCode, *, generated: bool) -> list[Section]:
    """Run the notebooks, several at a time: they read what was computed and do not depend on one another."""
    folder = Path(suite.shown.run)
    published = load_parameters(ROOT / "params" / "100k.yaml", run=folder.as_posix(), protocol=job.protocol)
    parts: list[tuple[str, str, RunParameters, tuple[str, ...]]] = [
        (PUBLISHED, "Published values", published, EVALUATION)
    ]
    names = (*GENERATION, *EVALUATION) if generated else EVALUATION
    parts += [(part_of(parameters), _label(parameters), _shown(parameters), names) for parameters in runs]
    parts.append((PART, "MemoryCode", _shown(suite.shown), SUITES))
    work = [(name, parameters, folder / "notebooks" / part) for part, _, parameters, names in parts for name in names]
    work.sort(key=lambda one: one[0] not in SUITES)  # among the longest: the short ones fill the time that it takes
    started, pages = time.monotonic(), []
    with process_pool(min(max(one.workers for _, _, one, _ in parts), len(work))) as pool:
        futures = [pool.submit(execute, *one) for one in work]
        for future in tqdm(futures, desc="notebooks", unit="notebook"):
            pages.append(future.result())
    console.print(f"  {len(work)} notebooks in {time.monotonic() - started:.0f} s")
    by_part = {place: [page for page in pages if page.parent == place] for _, _, place in work}
    missed = {part_of(parameters): left_out(parameters) for parameters in runs}
    return [
        Section(
            part,
            by_part[folder / "notebooks" / part],
            title,
            left_out_line(missed[part]) if missed.get(part) else "",
            "" if one is published else configuration_of_run(one),
        )
        for part, title, one, _ in parts
    ]


def _shown(parameters: RunParameters) -> RunParameters:
    """For the notebooks, which show what was computed: they must not call anything of their own."""
    changes = {"calls": "replay", "confirm_cost": False} if parameters.models else {}
    return parameters.model_copy(update=changes)


def _mirror_figures(folder: Path, name: str) -> None:
    """Copy the run's figures to the top-level `figures/`, published ones apart from the run's own."""
    for source in sorted((folder / "figures").glob("*/*")):
        tier = source.parent.name
        target = ROOT / "figures" / (Path(PUBLISHED) if tier == PUBLISHED else Path(name) / tier) / source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
