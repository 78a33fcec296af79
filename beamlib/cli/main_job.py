"""The main job: from parameters to a page with every table and figure. `run_all.sh` calls it."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from rich.text import Text
from tqdm import tqdm

from beamlib.beside import Generation, Suite, beside
from beamlib.cli.main_plan import RunPlan, confirm, console, label
from beamlib.data.checked_json import left_out_line
from beamlib.data.model import SIZES, Size
from beamlib.data.sources import find_conversations, parse_size, refuse_data
from beamlib.errors import UserError
from beamlib.evaluate.arms import arms_of, experiments
from beamlib.evaluate.calling import endpoints, resolved, run_subdir
from beamlib.evaluate.costs import Estimate, count, realised
from beamlib.evaluate.estimate import estimate, save
from beamlib.evaluate.own import check_own_memory
from beamlib.evaluate.publish import keep_settings
from beamlib.evaluate.run import evaluate, left_out
from beamlib.evaluate.run_store import configuration_of_run
from beamlib.files import read_json, temporary_folder, write_text
from beamlib.llm.endpoints import MODELS, keys_kept_out, load_models, parse_models
from beamlib.llm.model import OFFLINE_NAME
from beamlib.llm.prompts import check_overrides
from beamlib.params import GENERATED, RunParameters, load_parameters, preset_values
from beamlib.places import PARAMS, ROOT
from beamlib.report.assembly import ALL, assemble_job
from beamlib.report.cost_table import read_costs, save_costs
from beamlib.report.notebooks import EVALUATION, GENERATION, PAPER, SUITES, execute_all, preflight
from beamlib.report.page import Section, summary_rows, write_page
from beamlib.report.paper import paper_figures
from beamlib.report.text import print_rows
from beamlib.report.workspace import PUBLISHED
from beamlib.retrieval import Encoders

OFFLINE = "offline"
"""What `--models` says where no model is to be called."""

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
    authors: Path | None = None


def run(job: Job) -> None:
    """Do the job: say what it is and what it costs, then generate, evaluate, run the notebooks and write the page.

    Before there is a yes to the estimate of all of it, no request is sent and nothing is written into the run folder.
    """
    with temporary_folder("beamlib-run-all-") as place:
        plan = _plan(job, place)
        _announce(job, plan)
        expected, confirmed = confirm(plan, place)
        changes: dict[str, Any] = {"confirm_cost": confirmed}
        if job.endpoints.base_url:
            changes["models"] = job.endpoints.path(ROOT / plan.folder)
            if plan.runs[0].authors == plan.runs[0].models:
                changes["authors"] = changes["models"]
    plan = plan.agreed(changes)
    with keys_kept_out(ROOT / plan.folder, plan.runs[0].models, plan.runs[0].authors, plan.suite.shown.models):
        _make(job, plan, expected)


def _make(job: Job, plan: RunPlan, expected: Mapping[str, Estimate]) -> None:
    """Do what there is a yes to."""
    if plan.generation:
        _generate(plan, plan.generation)
    for parameters in plan.runs:
        _evaluate(parameters, expected.get(run_subdir(parameters)))
    plan.suite.ask()
    sections = _notebooks(job, plan)
    note = assemble_job(plan.folder, plan.runs)
    sections.insert(1, Section(ALL, (), "All sizes", note))
    folder, offline = plan.folder, not plan.runs[0].models
    _mirror_figures(folder, job.name)
    summary = summary_rows(folder, {label(one): run_subdir(one) for one in plan.runs}, offline=offline)
    page = write_page(folder, sections, summary, offline=offline)
    console.print()
    if summary:
        print_rows(summary, as_json=False)
    console.print(
        Text("Open", "bold"), f"{page}  (tables in {folder}/tables, figures in {folder}/figures and figures/)"
    )


def draw_figures(name: str, numbers: Sequence[str], protocol: str) -> None:
    """Draw figures of the paper, beside them those of the run with that name where it is there; nothing else."""
    check_run_name(name)
    if wrong := [number for number in numbers if not number.isdecimal()]:
        raise UserError(f"--figures: {wrong[0]!r} is no number; give for example 3,4.")
    for picture in paper_figures(ROOT / "runs" / name, [int(number) for number in numbers], protocol):
        console.print(str(picture))


def _plan(job: Job, place: Path) -> RunPlan:
    """What `job` comes to, checked; `place` is for files that the run folder gets only after a yes."""
    check_run_name(job.name)
    options = _OPTIONS | ({"authors": "--authors"} if job.authors else {})
    for name in job.settings:
        if name in options:
            raise UserError(f"--set {name}: this parameter has an option of its own; give {options[name]}.")
    wanted = [parse_size(size) for size in job.sizes]
    preset = preset_values(job.preset, PARAMS)
    folder = Path("runs") / job.name
    refuse_data(ROOT / folder)
    authors = job.authors or job.settings.get("authors")
    places = {
        "own_memory": str(Path(job.memory).absolute()) if job.memory else "",
        "prompts": str(job.prompts.absolute()) if job.prompts else "",
        "preset": job.preset,
        "models": job.endpoints.path(place, preset.get("models", "")),
        "authors": str(Path(str(authors)).absolute()) if authors else "",
    }
    if "authors" in preset and not authors:
        places["authors"] = places["models"]  # who else serves the models serves the authors
    if job.prompts:
        check_overrides(job.prompts)
    if job.backbones and not places["models"]:
        raise UserError("--backbones: name the models file that holds them with --models.")
    memorycode = beside("memorycode", "suite")
    dialogues = memorycode.find_dialogues(job.memorycode)
    data = _data(job, wanted)
    found = _found(data, wanted) if data else dict.fromkeys(wanted or SIZES, job.conversations or 1)
    os.chdir(ROOT)  # relative paths count from where the command was given, everything else from here
    where = str(data) if data else (folder / GENERATED).as_posix()
    runs = [one for size in found for one in _parameters(job, size, where, places, folder)]
    if places["own_memory"]:
        check_own_memory(places["own_memory"], runs[0].memory_timeout)  # a mistake in it shows before anything runs
    if data is None:  # others may lie there from an earlier run with more of them
        runs = [one.model_copy(update={"conversations": found[one.size]}) for one in runs]
    suite: Suite = memorycode.of_run(
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
    return RunPlan(runs, found, suite, generated=data is None)


def _announce(job: Job, plan: RunPlan) -> None:
    """Say what is going to be done and by whom, in the order in which it will be."""
    steps = []
    if plan.generation:
        what = ", ".join(f"{count} of {size}" for size, count in plan.found.items())
        steps.append(f"generate conversations, written by {plan.generation.names}: {what}")
    for parameters in plan.runs:
        found = plan.found[parameters.size]
        counted = count(min(found, job.conversations or found), "conversation")
        roles = endpoints(parameters)
        by = f"reader {roles['reader'].model}, judge {roles['judge'].model}" if roles else OFFLINE_NAME
        steps.append(f"{label(parameters)}: {counted}, all memories answer and are judged ({by})")
    steps.append(plan.suite.announcement)
    each = len(EVALUATION) + (len(GENERATION) if plan.generated else 0)
    notebooks = len(PAPER) + each * len(plan.runs) + len(SUITES)
    steps.append(f"{notebooks} notebooks: published values, each tier, MemoryCode; figures and page")
    configurations = dict.fromkeys(configuration_of_run(parameters) for parameters in plan.runs)
    console.print(Text("Main job", "bold"), f"into {plan.folder}/, configuration: {' | '.join(configurations)}")
    for number, step in enumerate(steps, start=1):
        console.print(f"  {number}. {step}")
    if plan.runs[0].authors and not plan.generated:
        console.print(
            f"     conversations are those of {plan.runs[0].data}: none is written, and authors are not asked"
        )
    if plan.runs[0].own_memory:
        console.print("     what the code of your own memory may call by itself is in no estimate")
    for line in preflight(PARAMS):
        console.print(f"     parameters {line}", style="dim")


def _generate(plan: RunPlan, generation: Generation) -> None:
    """Write the conversations that the runs need and that are not there yet."""
    if authors := plan.runs[0].authors:
        load_models(Path(authors)).keep(ROOT / plan.folder / "authors")
    started = time.monotonic()
    new, all_of_them = generation.make()
    took = f"{time.monotonic() - started:.0f} s"
    there = "" if new == all_of_them else ", the others were there"
    console.print(f"  generated {new} of {all_of_them} conversations in {took}{there}")


def check_run_name(name: str) -> None:
    """A `UserError` unless `name` can be that of a folder under runs/."""
    if not name or Path(name).name != name or name.startswith(".") or not name.isprintable():
        raise UserError(f"--name: {name!r} must be a plain folder name such as 'default'.")


def _parameters(job: Job, size: Size, data: str, places: Mapping[str, str], folder: Path) -> list[RunParameters]:
    """The parameters of a tier, once per backbone."""
    names = list(job.backbones) or [""]
    return [
        load_parameters(
            PARAMS / f"{size.lower()}.yaml",
            **{
                **job.settings,
                **places,
                "data": data,
                "run": folder.as_posix(),
                "protocol": job.protocol,
                "conversations": job.conversations,
                "backbone": backbone,
                "calls": job.calls,
                **({"confirm_cost": True} if job.yes else {}),
            },
        )
        for backbone in names
    ]


def estimate_lines(
    params: Path,
    data: Path | None,
    name: str,
    endpoints: Endpoints,
    backbone: str,
    prompts: Path | None,
    settings: Mapping[str, Any],
    preset: str = "",
    *,
    count_at_endpoint: bool = False,
) -> Estimate:
    """What a run by `params` would call, for `beamlib estimate`; see `beamlib.evaluate.estimate.estimate`."""
    check_run_name(name)
    for option, parameter in (("--name", "run"), ("--preset", "preset")):
        if parameter in settings:
            raise UserError(f"--set {parameter}: this parameter has an option of its own; give {option}.")
    settings = {**settings, **({"preset": preset} if preset else {})}
    found = load_parameters(params, **settings)
    beside = params.parent / MODELS
    with temporary_folder("beamlib-estimate-") as place:  # not over the models file of the run
        usual = found.models or (str(beside.absolute()) if beside.exists() else "")
        models = endpoints.path(place, usual)
        changes: dict[str, Any] = {"run": f"runs/{name}", "models": models, "backbone": backbone or found.backbone}
        changes |= {"data": str(data.absolute())} if data else {}
        changes |= {"prompts": str(prompts.absolute())} if prompts else {}
        found = load_parameters(params, **{**settings, **changes})
        if not found.data:
            raise UserError(f"{params}: it names no data; give a folder of conversations with --data.")
        os.chdir(ROOT)
        return estimate(found, arms_of(found, experiments(found)), count_at_endpoint=count_at_endpoint)


def _data(job: Job, wanted: Sequence[Size]) -> Path | None:
    if job.download:
        from beamlib.data.hub import download

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
    console.print(f"\n{label(parameters)}", style="bold")
    started = time.monotonic()
    if expected is not None:  # beside it stands what is called from now on, not what backbones before this one called
        before = () if parameters.calls == "refresh" else tuple(realised(parameters))
        save(expected.model_copy(update={"before": before}), parameters)
    evaluate(parameters, arms_of(parameters, experiments(parameters)))
    keep_settings(resolved(parameters))
    if parameters.models:
        costs = save_costs(parameters)
        if costs is not None:
            print(read_costs(read_json(costs)).to_text())
    console.print(f"  answered and judged in {time.monotonic() - started:.0f} s (what was on file is not redone)")


def _notebooks(job: Job, plan: RunPlan) -> list[Section]:
    """Run the notebooks, several at a time: they read what was computed and do not depend on one another."""
    folder = plan.folder
    published = load_parameters(PARAMS / "100k.yaml", run=folder.as_posix(), protocol=job.protocol)
    parts: list[tuple[str, str, RunParameters, tuple[str, ...]]] = [(PUBLISHED, "Published values", published, PAPER)]
    names = (*GENERATION, *EVALUATION) if plan.generated else EVALUATION
    parts += [(run_subdir(parameters), label(parameters), _shown(parameters), names) for parameters in plan.runs]
    parts.append((plan.suite.part, "MemoryCode", _shown(plan.suite.shown), SUITES))
    work = [(name, parameters, folder / "notebooks" / part) for part, _, parameters, names in parts for name in names]
    work.sort(key=lambda one: one[0] not in SUITES)  # among the longest: the short ones fill the time that it takes
    started = time.monotonic()
    max_concurrency = min(max(one.workers for _, _, one, _ in parts), len(work))
    pages = list(tqdm(execute_all(work, max_concurrency), desc="notebooks", unit="notebook", total=len(work)))
    console.print(f"  {len(work)} notebooks in {time.monotonic() - started:.0f} s")
    by_part = {place: sorted(page for page in pages if page.parent == place) for _, _, place in work}
    missed = {run_subdir(parameters): left_out(parameters) for parameters in plan.runs}
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
    changes = {"calls": "replay", "confirm_cost": False} if parameters.models or parameters.authors else {}
    return parameters.model_copy(update=changes)


def _mirror_figures(folder: Path, name: str) -> None:
    """Copy the run's figures to the top-level `figures/`, published ones apart from the run's own."""
    for source in sorted((folder / "figures").glob("*/*")):
        tier = source.parent.name
        target = ROOT / "figures" / (Path(PUBLISHED) if tier == PUBLISHED else Path(name) / tier) / source.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
