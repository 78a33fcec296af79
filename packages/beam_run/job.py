"""Plan the main job: validated options, parameters of each part, and one estimate of all calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from beam_commands.confirmation import Priced, confirm_calls
from beam_commands.costs import Estimate
from beam_commands.estimate import save_estimate
from beam_commands.options import Endpoints, absolute_target, check_run_name, spread_k
from beam_generate.of_run import GenerationOfRun, config_of
from beam_memories.own_memory import available_memories
from beam_run.shown_tasks import SUITES, Suite, find_data, suite_of_run
from beamlib.data.conversations import SIZES, Size, parse_size
from beamlib.data.sources import find_conversations
from beamlib.errors import UserError
from beamlib.evaluate.arms import arms_of, experiments
from beamlib.evaluate.calling import ensure_keys
from beamlib.llm.endpoints import MODELS, ModelsFile, load_models
from beamlib.llm.model import OFFLINE_NAME
from beamlib.memory.declared import named_memories
from beamlib.memory.outside import listed_memories
from beamlib.params import GENERATED, RunParameters, load_parameters, preset_values
from beamlib.places import PARAMS, ROOT, RUNS, in_root, refuse_data
from beamlib.retrieval import Encoders
from beamlib.run import Run
from beamlib.text import count

_OPTIONS = {
    "size": "--sizes", "data": "--data", "run": "--name", "conversations": "--conversations", "protocol": "--protocol",
    "own_memory": "--memory", "models": "--models", "backbone": "--backbones", "calls": "--calls",
    "confirm_cost": "--yes", "prompts": "--prompts", "memorycode": "--memorycode", "meme": "--meme",
    "preset": "--preset",
}  # fmt: skip
"""Parameters that options of their own set: `--set` would be overruled by these without a word."""


_GENERATED: Mapping[Size, int] = {"100K": 5}
"""How many conversations a run of the stand-in generates where none are given: as many as are cheap."""


@dataclass(frozen=True)
class MainJob:
    """The options of `run_all.sh`.

    Attributes:
        sizes: Names of tiers, empty for all that are found.
        suites: Data of other benchmarks, by name.
        backbones: Readers of the models file to run, empty for its first.
        settings: Values of single parameters.
        admission: Whether models answer known questions before anything else is paid for.
        judge_anyway: Whether a judge may judge that fails its exam then.
    """

    data: Path | None
    sizes: Sequence[str]
    name: str
    conversations: int
    protocol: str
    memory: str
    suites: Mapping[str, Path]
    download: bool
    endpoints: Endpoints = field(default_factory=Endpoints)
    backbones: Sequence[str] = ()
    calls: str = "record"
    prompts: Path | None = None
    yes: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    preset: str = "default"
    authors: Path | None = None
    admission: bool = True
    judge_anyway: bool = False

    @property
    def folder(self) -> Path:
        """The run folder."""
        return RUNS / self.name


@dataclass(frozen=True)
class RunPlan:
    """The benchmarks with their runs, BEAM the first, and its conversations per tier: everything read once.

    Attributes:
        generated: Whether this run writes the conversations into its own folder.
        authors: The models file of those who write them; None for the offline author.
        published: The parameters of the notebooks on published values, which are of no tier.
    """

    suites: Sequence[Suite]
    conversations: Mapping[Size, int]
    generated: bool
    authors: ModelsFile | None
    published: RunParameters

    @property
    def runs(self) -> Sequence[Run]:
        """BEAM's runs, per tier and backbone."""
        return self.suites[0].runs

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.runs[0].folder

    @property
    def generation(self) -> GenerationOfRun | None:
        """The conversations that this run writes; None if they exist elsewhere."""
        first = self.runs[0]
        config = replace(config_of(first, self.authors, first.prompt_files), admission=self.suites[0].admission)
        return GenerationOfRun(self.runs, self.conversations, config) if self.generated else None

    def agreed(self, confirmed: bool, models: str = "") -> RunPlan:
        """Apply the user's confirmation; `models` is where a models file of `--base-url` is saved."""
        return replace(self, suites=[suite.agreed(confirmed, models) for suite in self.suites])


def plan(job: MainJob, place: Path) -> RunPlan:
    """Validate `job` and read everything that its runs rest on. `place` holds files until the user confirms."""
    check_run_name(job.name)
    options = _OPTIONS | ({"authors": "--authors"} if job.authors else {})
    for name in job.settings:
        if name in options:
            raise UserError(f"--set {name}: this parameter has an option of its own; give {options[name]}.")
    refuse_data(job.folder)
    places = _places(job, place)
    models = load_models(ROOT / places["models"]) if places["models"] else None
    same = places["authors"] == places["models"]
    authors = models if same else load_models(ROOT / places["authors"]) if places["authors"] else None
    folders = {name: find_data(name, job.suites.get(name)) for name in SUITES}
    data, conversations = _conversations(job, paid=bool(models or authors))
    runs = [
        Run.of(
            load_parameters(
                PARAMS / f"{size.lower()}.yaml",
                **{
                    **spread_k(job.settings), **places,
                    "data": str(data or job.folder / GENERATED), "run": str(job.folder),
                    "protocol": job.protocol, "calls": job.calls, "backbone": backbone,
                    # In a folder of generated ones others may lie, from an earlier run with more of them.
                    "conversations": job.conversations if data else number,
                    **({"confirm_cost": True} if job.yes else {}),
                },
            ),
            models,
        )
        for size, number in conversations.items()
        for backbone in job.backbones or [""]
    ]  # fmt: skip
    for run in runs:
        _refuse_namesake(run)
    own = available_memories(places["own_memory"], runs[0].memory_timeout, models)
    runs = [run.model_copy(update={"own_memory": own}) for run in runs]
    beams = named_memories(outside=False)  # those are BEAM's alone
    shown = ",".join(memory for memory in listed_memories(own) if memory not in beams)
    for run in runs:  # an encoder that cannot be had should show before anything is done
        for arm in arms_of(run, experiments(run)):
            if arm.retriever:
                Encoders(arm.encoder or run.retrieval.encoder, run.retrieval.splade).used(arm.retriever)
    suites = [
        suite_of_run(
            name,
            folder,
            ask=name in job.suites,
            backbones=job.backbones,
            places=places | {"own_memory": shown},
            models=models,
            settings=job.settings,
            shared={"run": str(job.folder), "conversations": job.conversations, "calls": job.calls},
            admission=job.admission,
            judge_anyway=job.judge_anyway,
        )
        for name, folder in folders.items()
    ]
    published = load_parameters(PARAMS / "100k.yaml", run=str(job.folder), protocol=job.protocol)
    suites = [Suite("beam", runs, job.settings, job.admission, job.judge_anyway), *suites]
    return RunPlan(suites, conversations, data is None, authors if data is None else None, published)


def _refuse_namesake(run: Run) -> None:
    """Raise `UserError` where a part holds what another model answered, of a reader by the same name.

    `openai/m` and `azure/m` are both `m`, and the second would replace the first's answers.
    """
    kept = run.path(MODELS)
    if run.models_file is None or not kept.exists() or not any(kept.parent.glob("*/manifest.json")):
        return
    earlier, now = load_models(kept).readers.get(run.backbone), run.endpoints["reader"].model
    if earlier is not None and earlier.model != now:
        raise UserError(
            f"{kept.parent}: holds answers of {earlier.model}, and the reader {run.backbone} is {now} now, which would "
            "replace them; give this run another --name, or the reader another name in a models file."
        )


def _places(job: MainJob, place: Path) -> dict[str, str]:
    """Return the paths among the parameters as absolute ones; relative ones start at the caller's folder."""
    preset = preset_values(job.preset, PARAMS)
    authors = job.authors or job.settings.get("authors")
    models = job.endpoints.path(place, preset.get("models", ""))
    if job.backbones and not models:
        raise UserError("--backbones: name the models file that holds them with --models.")
    usual = models if "authors" in preset else ""  # who else serves the models serves the authors
    return {
        "own_memory": absolute_target(job.memory),
        "prompts": str(job.prompts.absolute()) if job.prompts else "",
        "preset": job.preset,
        "models": in_root(models),
        "authors": str(Path(str(authors)).absolute()) if authors else in_root(usual),
    }


def _conversations(job: MainJob, *, paid: bool) -> tuple[Path | None, dict[Size, int]]:
    """Return the folder of conversations, None where the run writes them, and their number per tier.

    Where models are `paid` for, one conversation of each tier is usual.
    A requested tier without any is an error.
    """
    sizes = [parse_size(size) for size in job.sizes]
    data = job.data.absolute() if job.data is not None else None
    if job.download:
        from beamlib.data.hub import download

        data = download(data or ROOT / "data", sizes or SIZES)
    if data is None:
        usual = {} if paid else _GENERATED
        return None, {size: job.conversations or usual.get(size, 1) for size in sizes or SIZES}
    if not str(data).isprintable():  # the path goes into notebooks, which are text
        raise UserError(f"--data: {str(job.data)!r} holds characters that no text can carry; rename the folder.")
    counts = Counter(source.size for source in find_conversations(data, sizes or None))
    for size in sizes:
        if not counts[size]:
            raise UserError(f"--sizes: {data} holds no conversation of size {size}; leave it out.")
    return data, {size: counts[size] for size in SIZES if counts[size]}


def confirm(planned: RunPlan, place: Path) -> bool:
    """Print the calls and cost of the whole run and ask for confirmation.

    No request is sent. `place` is an empty folder for temporary files. On confirmation the estimates are stored, to be
    compared with the real costs.
    """
    first, generation = planned.runs[0], planned.generation
    asked = first.models_file or planned.authors or any(suite.shown.models_file for suite in planned.suites)
    if not asked or first.calls == "replay":
        return first.confirm_cost
    writing = generation.estimate() if generation else None
    missing, data = generation.stood_in(place) if generation and first.models_file else ({}, Path(first.data))
    admitted = set[str]()
    estimates = [
        (suite, run, label, _noted(estimated, missing.get(run.size, 0) if planned.authors else 0))
        for suite in planned.suites
        for run, label, estimated in suite.estimates(str(data) if suite.name == "beam" else "", admitted)
    ]
    shown: dict[str, Priced] = {
        **({"conversations": writing} if writing else {}), **{label: estimated for _, _, label, estimated in estimates},
    }  # fmt: skip

    def check_keys() -> None:
        if writing and generation:
            generation.config.check_keys()
        for run in planned.runs:
            ensure_keys(run)

    confirmed = confirm_calls(shown, check_keys, first.confirm_cost)
    for suite, run, _, estimated in estimates:
        if suite.name == "beam":
            save_estimate(estimated, run)
    return confirmed


def _noted(estimated: Estimate, unwritten: int) -> Estimate:
    """Add to an estimate how many of its conversations are not written yet."""
    if not unwritten:
        return estimated
    note = (
        f"{count(unwritten, 'conversation')} not written yet: counted on those that the {OFFLINE_NAME}, writes from "
        "the same seed (on another domain where it lacks theirs); what models write will be longer or shorter."
    )
    return estimated.model_copy(update={"warnings": (*estimated.warnings, note)})
