"""Generate the conversations of a run or of `beamlib generate`: settings, cost estimate, and a pool of processes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any, TypeVar, cast

from tqdm import tqdm

from beam_commands.admission import Candidates, admit_endpoints, count_admission
from beam_commands.confirmation import Quote, confirm_calls, cost_in_words
from beam_generate.authors import WRITERS, GenerationConfig, Stage, offline_author, role_of
from beam_generate.dialogue import generate_dialogue
from beam_generate.folder import read_record
from beam_generate.pipeline import (
    STAGES,
    ConversationSpec,
    make_dialogue_of_plan,
    make_plan_stage,
    make_probe_stage,
    make_question_stage,
    repairs_of,
    steps_of,
    unfinished,
)
from beam_generate.plans import make_plans, with_biography
from beam_generate.probes.making import make_probes
from beam_generate.questions import make_questions
from beam_generate.seeds import parse_domain
from beam_generate.shapes import Repairs
from beam_generate.titles import read_titles
from beamlib.data.conversations import SIZES, Seed, Size, parse_size
from beamlib.errors import UserError
from beamlib.llm.call_store import stored_calls
from beamlib.llm.endpoints import Author, Endpoint, ModelsFile, load_models
from beamlib.llm.model import Completion, Model, Prompt, no_new_calls, run
from beamlib.llm.prompts import Prompts
from beamlib.llm.spending import guard_run
from beamlib.params import OF_GENERATION, RunParameters, usual_parameters
from beamlib.places import from_root, refuse_data
from beamlib.processes import process_pool
from beamlib.text import WORDS, shell_command

_Value = TypeVar("_Value")
_TOGETHER = 64  # conversations and dialogues that models write at a time
_REFRESH = 0.5  # seconds between two updates of the progress bar
_CHARACTERS_PER_TOKEN = 4.2  # of the released conversations
_DOUBT = 4 / 3  # the estimate is right within about a third
_TEMPLATE = 450  # tokens of a prompt file's own text, about
OPTIONS = {
    "generation_seed": "--seed", "domain": "--domain", "title": "--title", "strategy": "--strategy",
    "reach": "--reach", "workers": "--workers", "authors": "--models", "calls": "--calls", "prompts": "--prompts",
    "confirm_cost": "--yes",
}  # fmt: skip
"""Parameter -> its option of `beamlib generate`."""
_OF_A_CALL = ("calls", "confirm_cost", "workers")
"""Parameters that the command for missing calls leaves out."""
_SETTINGS = (*(name for name in OF_GENERATION if name not in OPTIONS), "output_tokens")
"""Other parameters of generation, for `--set`."""


def config_of(
    parameters: RunParameters, models: ModelsFile | None = None, prompts: Prompts | None = None
) -> GenerationConfig:
    """Return the configuration of a run's generation; the authors' `models` and `prompts` are read if not given."""
    number, authors = max(1, parameters.conversations), parameters.generation.authors
    command = _command([parameters], number, from_root(parameters.generated)) if parameters.generation.authors else ""
    return GenerationConfig(
        models=models or (load_models(Path(authors)) if authors else None),
        prompts=prompts or Prompts.read(Path(parameters.prompts) if parameters.prompts and authors else None),
        calls=parameters.calls,
        confirmed=parameters.confirm_cost,
        command=command,
        output_tokens=parameters.output_tokens,
        question_output_tokens=parameters.generation.question_output_tokens,
        folder=parameters.generated,
    )


def _command(runs: Sequence[RunParameters], conversations: int, out: object, titles: Path | None = None) -> str:
    """Return the command that writes these conversations into the same folder."""
    first, usual = runs[0], usual_parameters(runs[0].size)
    names = [name for name in (*OPTIONS, *_SETTINGS) if name not in _OF_A_CALL]
    changed = {name: value for name in names if (value := first[name]) != usual[name]}
    options = {
        "--size": ",".join(one.size.lower() for one in runs), "--conversations": conversations, "--out": out,
        **{OPTIONS[name]: value for name, value in changed.items() if name in OPTIONS}, "--titles": titles,
    }  # fmt: skip
    settings = {name: value for name, value in changed.items() if name not in OPTIONS}
    return shell_command("beamlib generate", options, settings, ["--yes"])


def make_first_conversation(parameters: RunParameters, stage: Stage) -> Path:
    """Make the stages up to `stage` of the run's first conversation and return its folder below the run folder."""
    spec, config, last = ConversationSpec(parameters), config_of(parameters), STAGES.index(stage)
    folder = spec.begin(parameters.generated)
    make_plan_stage(spec, folder, config)
    if last >= STAGES.index("questions"):
        make_question_stage(folder, config)
    for index in range(spec.story().plans if last >= STAGES.index("dialogue") else 0):
        make_dialogue_of_plan(folder, index, config)
    if stage == "probes":
        make_probe_stage(folder, config)
    return folder


def run_generate(
    out: Path, sizes: Sequence[str], conversations: int = 1, values: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None, titles: Path | None = None, *, admission: bool = False,
) -> None:  # fmt: skip
    """Generate conversations; models are called only after the estimate is confirmed.

    With `admission` the authors answer known questions before they are paid for anything else. `values` are parameters
    with an option of their own, `settings` those of `--set`; others are as in
    `params/<size>.yaml`.
    """
    values, settings = values or {}, settings or {}
    for name in settings:
        if name in OPTIONS:
            raise UserError(f"--set {name}: this parameter has an option of its own; give {OPTIONS[name]}.")
        if name not in _SETTINGS:
            raise UserError(f"--set {name}: generation has no such parameter; it has {', '.join(_SETTINGS)}.")
    if not sizes:
        raise UserError("--size: name at least one of 100k, 500k, 1m, 10m.")
    runs = [usual_parameters(parse_size(size), **{**settings, **values}) for size in sizes]
    first = runs[0]
    if first.generation.domain:
        parse_domain(first.generation.domain)
    topics: Sequence[Seed | None] = read_titles(titles) if titles else [None]
    if titles and (first.generation.domain or first.generation.title):
        raise UserError("--titles: the file names domains and titles; leave out --domain and --title.")
    numbers = range(1, conversations + 1)
    specs = [ConversationSpec(one, number, topics[(number - 1) % len(topics)]) for one in runs for number in numbers]
    refuse_data(out)
    if not first.generation.authors:
        for option, value in (("--prompts", first.prompts), ("--calls", first.calls != "record")):
            if value:
                raise UserError(f"{option}: the offline author asks no model; name a models file by --models as well.")
    command = _command(runs, conversations, out, titles)
    config = replace(config_of(first), command=command, folder=out, admission=admission)
    pending = unfinished(specs, out, config)  # mistakes in the options show before anything is written
    if config.models and config.calls != "replay":
        estimate = {"": estimate_generation(pending, config)}
        config = replace(config, confirmed=confirm_calls(estimate, config.check_keys, config.confirmed))
    started = time.monotonic()
    print(f"author: {config.names}")
    with guard_run(out, config.models, calls=config.calls):
        worked = generate_all(specs, out, admit_authors(config, pending), first.workers)
    for folder, done in worked.items():
        counts = {stage: len(rows) for stage, rows in repairs_of(folder).items() if rows}
        noted = ", ".join(f"{stage} {count}" for stage, count in counts.items()) or "none"
        state = "written" if done else "was there"
        print(f"{folder}: {state}; repaired, asked again or dropped: {noted} (repairs-*.jsonl)")
    print(f"{len(specs)} conversation(s) in {time.monotonic() - started:.0f} s")


class _Measured:
    """A model that adds calls, input tokens and output tokens of each call to `counts` of its role, `times` over.

    The fourth and fifth count are the longest request, and the longest with its reply.
    """

    def __init__(self, model: Model, counts: Mapping[Author, list[float]], times: int) -> None:
        self.model, self.counts, self.times = model, counts, times
        self.name = model.name

    async def complete(self, prompt: Prompt) -> Completion:
        reply = await self.model.complete(prompt)
        size = sum(len(prompt.variables[name]) for name in prompt.variables)
        output = max(1.0, len(reply.text) / _CHARACTERS_PER_TOKEN)
        read, counts = size / _CHARACTERS_PER_TOKEN + _TEMPLATE, self.counts[role_of(prompt.id)]
        for place, count in enumerate((1, read, output)):
            counts[place] += self.times * count
        counts[3] = max(counts[3], read)
        counts[4] = max(counts[4], read + output)
        return reply


def estimate_generation(specs: Sequence[ConversationSpec], config: GenerationConfig) -> Quote:
    """Estimate calls and cost: the offline author writes the first conversation of each size, counted for all.

    Of a 10M conversation it writes the first plan, counted ten times. A domain that it lacks is counted on another one.
    The estimate is right within about a third.
    """
    counts = _rehearse_all(specs, config)
    _refuse_long_requests(counts, config)
    if config.admission and specs:
        for (role, _), known in count_admission(_candidates(config, counts), set(), WORDS).items():
            author = cast(Author, role)
            for place, number in enumerate((known.pending, known.input, known.output)):
                counts[author][place] += number
    lines = ["role      model                              calls   input tokens  output tokens  US dollars"]
    calls, total = 0, 0.0
    unpriced: list[str] = []
    too_long: list[str] = []
    for role, (number, read, output, _, longest) in counts.items():
        endpoint = config.endpoint(role)
        dollars = endpoint.dollars(read, 0, output)
        cost = "unknown" if dollars is None else f"{dollars:,.2f}"
        lines.append(f"{role:9s} {endpoint.model:32.32s} {number:7,.0f} {read:14,.0f} {output:14,.0f} {cost:>11s}")
        calls, total = calls + int(number), total + (dollars or 0.0)
        unpriced += [endpoint.model] if dollars is None else []
        if _DOUBT * longest > endpoint.context_window:
            too_long.append(
                f"The {role}'s longest request has about {longest:,.0f} tokens with its reply, and models may write "
                f"longer texts than the offline author: it may not fit into the {endpoint.context_window:,} of "
                f"{endpoint.model}, and generation would stop there."
            )
    lines.append(
        f"together {calls:,d} calls, {cost_in_words(total, unpriced)} (an estimate: the offline author played "
        "every role; calls that an earlier run stored are counted as well, though not paid again)"
    )
    nothing = "0 calls to make: the conversations are written, nothing is left to pay."
    return Quote(calls, total, "\n".join([*lines, *too_long]) if calls else nothing, tuple(unpriced))


def _rehearse_all(specs: Sequence[ConversationSpec], config: GenerationConfig) -> dict[Author, list[float]]:
    """Count what every role is asked, as `_Measured` does."""
    counts: dict[Author, list[float]] = {role: [0, 0, 0, 0, 0] for role in WRITERS if config.endpoint(role)}
    for size in dict.fromkeys(spec.size for spec in specs):
        same = [spec for spec in specs if spec.size == size]
        _rehearse(same[0], counts, len(same), config)
    return counts


def _refuse_long_requests(counts: Mapping[Author, Sequence[float]], config: GenerationConfig) -> None:
    """Raise `UserError` if a request that no budget bounds does not fit into the window that the models file states."""
    for role, (_, _, _, read, longest) in counts.items():
        endpoint = config.endpoint(role)
        limit = endpoint.max_output_tokens or 0
        needed = ceil(max(longest, read + limit))
        if needed > endpoint.context_window:
            cut = f", {limit:,} of them kept for the reply" if read + limit >= longest else ""
            raise UserError(
                f"{role} {endpoint.model}: its context_window is {endpoint.context_window:,}, and its longest request "
                f"needs about {needed:,} tokens{cut}. Nothing was called; name a model with a larger window for this "
                "author, or ask for smaller plans (--set bullets_per_subplan=N)"
                f"{' or shorter replies (max_output_tokens, question_output_tokens)' if cut else ''}."
            )


def _candidates(config: GenerationConfig, counts: Mapping[Author, Sequence[float]]) -> Candidates:
    """Return the authors that are about to be asked."""
    if config.folder is None:
        raise ValueError("the authors' known questions are stored in a folder")
    longest: dict[str, int] = {role: int(read) for role, (number, _, _, read, _) in counts.items() if number}
    endpoints: dict[str, Endpoint] = {role: config.endpoint(cast(Author, role)) for role in longest}
    places = config.folder, config.folder / "calls", config.prompts
    return Candidates(endpoints, longest, *places, config.calls, config.command)


def admit_authors(config: GenerationConfig, specs: Sequence[ConversationSpec]) -> GenerationConfig:
    """Ask the authors of a confirmed generation their known questions, and print what their replies show.

    Returns:
        The configuration with the concurrency and time-outs that follow.

    Raises:
        UserError: An author answers none, or reads less of a request than it is sent.
    """
    if not (config.admission and config.models and specs) or config.calls == "replay":
        return config
    tuned = admit_endpoints(_candidates(config, _rehearse_all(specs, config)))
    return replace(config, tuned={cast(Author, role): endpoint for role, endpoint in tuned.items()})


def _rehearse(
    spec: ConversationSpec, counts: Mapping[Author, list[float]], times: int, config: GenerationConfig
) -> None:
    story, repairs = spec.stood_in().story(), Repairs()
    author = offline_author(story)
    whole = _Measured(author, counts, times)
    story = run(with_biography(whole, story, repairs))
    plans = run(make_plans(whole, story, repairs))
    each = _Measured(author, counts, times * len(plans))
    questions = run(make_questions(each, story, plans[0], repairs, room=config.room("asker")))
    room = config.room("speaker", "detector")
    turns = run(generate_dialogue(each, story, plans[0], questions, [], spec.limits, repairs, room))
    if len(plans) > 1:  # a single plan's questions, counted ten times; pairs of plans give about as many
        story = replace(story, size="1M")
    run(make_probes(each, story, plans[:1], [turns], repairs))


@dataclass(frozen=True)
class GenerationOfRun:
    """The conversations that a run writes into its own folder: `found` of each size, by the parameters of `runs`."""

    runs: Sequence[RunParameters]
    found: Mapping[Size, int]
    config: GenerationConfig

    @property
    def specs(self) -> list[ConversationSpec]:
        """All conversations, the longest first: the short ones fill the time of its last plans."""
        first = {one.size: one for one in reversed(self.runs)}
        sizes = [size for size in reversed(SIZES) if size in first]
        return [ConversationSpec(first[size], number) for size in sizes for number in range(1, self.found[size] + 1)]

    @property
    def out(self) -> Path:
        """Folder of the run's conversations."""
        return self.runs[0].generated

    def estimate(self) -> Quote | None:
        """Estimate what is left to write; None for the offline author."""
        if not self.config.models:
            return None
        return estimate_generation(unfinished(self.specs, self.out, self.config), self.config)

    def stood_in(self, place: Path) -> tuple[Mapping[Size, int], Path]:
        """Let the offline author write what is missing, for an estimate of the run.

        Returns:
            The number of missing conversations of each size, and a folder below `place` with all of the run's.
        """
        missing = unfinished(self.specs, self.out, self.config)
        counts = Counter(spec.size for spec in missing)
        if not missing:
            return counts, self.out
        out = place / "conversations"
        for spec in self.specs:
            if spec not in missing:
                link = spec.folder(out)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(spec.folder(self.out).resolve(), target_is_directory=True)
        offline = replace(self.config, models=None, prompts=Prompts.read())
        generate_all([spec.stood_in() for spec in missing], out, offline, self._workers)
        return counts, out

    def make(self) -> tuple[int, int]:
        """Write all conversations; return how many needed work, and how many there are."""
        config = admit_authors(self.config, unfinished(self.specs, self.out, self.config))
        worked = generate_all(self.specs, self.out, config, self._workers)
        return sum(worked.values()), len(worked)

    @property
    def _workers(self) -> int:
        return max(one.workers for one in self.runs)


def generate_all(
    specs: Sequence[ConversationSpec], out: Path, config: GenerationConfig, workers: int
) -> dict[Path, bool]:
    """Write conversations into `out` in the released layout; finished ones are skipped.

    Conversations, and the dialogues of a 10M conversation's plans, are distributed over `workers` processes. With
    models, which are mostly waited for, they are threads of this process, which makes all calls. A killed run resumes.

    Returns:
        The folder of each conversation, and whether a stage had to be made.
    """
    folders = [spec.folder(out) for spec in specs]
    worked = dict.fromkeys(folders, False)
    if not unfinished(specs, out, config):  # no process needs to start
        return worked
    stories = [spec.story() for spec in specs]  # mistakes show before a folder is made
    for spec in specs:
        spec.begin(out)
    plans = [(folder, index) for folder, story in zip(folders, stories, strict=True) for index in range(story.plans)]
    steps = [step for folder, story in zip(folders, stories, strict=True) for step in steps_of(folder, story)]
    with (
        _threads() if config.models else process_pool(workers) as pool,
        tqdm(desc="generation", total=len(steps), unit="stage", leave=False, disable=None) as bar,
    ):

        def show() -> None:
            bar.n = sum(stage in read_record(place)["stages"] for place, stage in steps)
            if config.models:
                bar.set_postfix(calls=sum(map(stored_calls, {place for place, _ in steps})))
            bar.refresh()

        first = [(spec, folder, config) for spec, folder in zip(specs, folders, strict=True)]
        begun = _all(pool, _make_first_stages, first, show)
        spoken = _all(pool, make_dialogue_of_plan, [(*plan, config) for plan in plans], show)
        probed = _all(pool, make_probe_stage, [(folder, config) for folder in folders], show)
    for results, places in ((begun, folders), (probed, folders), (spoken, [folder for folder, _ in plans])):
        for folder, done in zip(places, results, strict=True):
            worked[folder] |= done
    return worked


def _make_first_stages(spec: ConversationSpec, folder: Path, config: GenerationConfig) -> bool:
    planned = make_plan_stage(spec, folder, config)
    return make_question_stage(folder, config) or planned


@contextmanager
def _threads() -> Iterator[Executor]:
    """Work on many conversations at once in this process; after an error none makes another call."""
    pool = ThreadPoolExecutor(_TOGETHER)
    try:
        yield pool
        pool.shutdown()
    except Exception:
        with no_new_calls():
            pool.shutdown(cancel_futures=True)
        raise
    except BaseException:  # an interrupt, which waits for pending replies itself
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def _all(
    pool: Executor, work: Callable[..., _Value], items: Sequence[tuple[Any, ...]], show: Callable[[], None]
) -> list[_Value]:
    """Return `work(*item)` of every item, in order; the first error is raised at once."""
    futures = [pool.submit(work, *item) for item in items]
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, timeout=_REFRESH)
        for future in done:
            future.result()
        show()
    return [future.result() for future in futures]
