"""From a run's parameters to its generated conversations: one stage by stage, or many in a pool of processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from beam_generate.author_costs import GenerationEstimate, estimate_generation
from beam_generate.casting import GenerationConfig, Stage
from beam_generate.folder import USER_MESSAGES, plan_folder, read_story
from beam_generate.pipeline import (
    JOURNAL,
    STAGES,
    ConversationSpec,
    make_dialogue_of_plan,
    make_plan_stage,
    make_probe_stage,
    make_question_stage,
    unfinished,
)
from beamlib.data.conversations import SIZES, Size
from beamlib.data.sources import CHAT
from beamlib.files import read_json
from beamlib.params import OF_GENERATION, RunParameters, usual_parameters
from beamlib.places import from_root
from beamlib.processes import at_once, process_pool
from beamlib.text import shell_command

Value = TypeVar("Value")
_LOOK = 0.5  # seconds between two looks at how far the dialogues are
OPTIONS = {
    "generation_seed": "--seed", "domain": "--domain", "title": "--title", "strategy": "--strategy",
    "reach": "--reach", "workers": "--workers", "authors": "--models", "calls": "--calls", "prompts": "--prompts",
    "confirm_cost": "--yes",
}  # fmt: skip
"""Parameters that options of `beamlib generate` set."""

NOT_WRITTEN = ("calls", "confirm_cost", "workers")
"""Those that a command which records what is missing leaves out."""

SETTINGS = (*(name for name in OF_GENERATION if name not in OPTIONS), "output_tokens")
"""The other parameters that generated conversations rest on, for its `--set`."""


def config_of(parameters: RunParameters) -> GenerationConfig:
    """How the run's conversations are written."""
    return GenerationConfig(
        models=parameters.authors,
        prompts=parameters.prompts,
        calls=parameters.calls,
        confirmed=parameters.confirm_cost,
        command=_command(parameters) if parameters.authors else "",
        output_tokens=parameters.output_tokens,
        question_output_tokens=parameters.question_output_tokens,
    )


def _command(parameters: RunParameters) -> str:
    """The command line that writes the run's conversations into the very same place."""
    usual = usual_parameters(parameters.size)
    names = [name for name in (*OPTIONS, *SETTINGS) if name not in NOT_WRITTEN]
    changed = {name: value for name in names if (value := getattr(parameters, name)) != getattr(usual, name)}
    given = {
        "--size": parameters.size.lower(), "--conversations": max(1, parameters.conversations),
        "--out": from_root(parameters.generated),
        **{OPTIONS[name]: value for name, value in changed.items() if name in OPTIONS},
    }  # fmt: skip
    settings = {name: value for name, value in changed.items() if name not in OPTIONS}
    return shell_command("beamlib generate", given, settings, ["--yes"])


def written(parameters: RunParameters, stage: Stage) -> Path:
    """The folder of the run's first conversation, all stages up to `stage` done; what is on file is not done again.

    It lies in the run folder, also where `data` is given: nobody writes there.
    """
    spec, writing = ConversationSpec(parameters), config_of(parameters)
    folder = spec.begin(parameters.generated)
    wanted = STAGES[: STAGES.index(stage) + 1]
    make_plan_stage(spec, folder, writing)
    if "questions" in wanted:
        make_question_stage(folder, writing)
    if "dialogue" in wanted:
        for index in range(read_story(folder).plans):
            make_dialogue_of_plan(folder, index, writing)
    if "probes" in wanted:
        make_probe_stage(folder, writing)
    return folder


@dataclass(frozen=True)
class GenerationOfRun:
    """The conversations that a run writes into its own folder: `found` of each size, by the parameters of `runs`."""

    runs: Sequence[RunParameters]
    found: Mapping[Size, int]

    @property
    def wanted(self) -> list[ConversationSpec]:
        """All of them, the longest first: the short ones fill the time of its last plans."""
        first = {one.size: one for one in reversed(self.runs)}
        sizes = [size for size in reversed(SIZES) if size in first]
        return [ConversationSpec(first[size], number) for size in sizes for number in range(1, self.found[size] + 1)]

    @property
    def writing(self) -> GenerationConfig:
        """How they are written."""
        return config_of(self.runs[0])

    @property
    def names(self) -> str:
        """Who writes."""
        return self.writing.names

    def estimate(self) -> GenerationEstimate | None:
        """What is left to write would call; None where the offline author writes."""
        if not self.runs[0].authors:
            return None
        return estimate_generation(unfinished(self.wanted, self.runs[0].generated, self.writing), self.writing)

    def ready(self) -> None:
        """A `UserError` where the key of a model is missing."""
        self.writing.ready()

    def stood_in(self, place: Path) -> tuple[Mapping[Size, int], Path]:
        """How many conversations of a size are not written yet, and a folder that has the offline author's instead."""
        made = self.runs[0].generated
        missing = unfinished(self.wanted, made, self.writing)
        counts = Counter(one.size for one in missing)
        if not missing:
            return counts, made
        out = place / "conversations"
        for one in self.wanted:
            if one not in missing:
                link = one.folder(out)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(one.folder(made).resolve(), target_is_directory=True)
        offline = replace(self.writing, models="", prompts="")
        generate_all([one.stood_in() for one in missing], out, offline, self._workers)
        return counts, out

    def make(self) -> tuple[int, int]:
        """Write them: how many had to be worked on, and how many there are."""
        done = generate_all(self.wanted, self.runs[0].generated, self.writing, self._workers)
        return sum(one.worked for one in done), len(done)

    @property
    def _workers(self) -> int:
        return max(one.workers for one in self.runs)


@dataclass(frozen=True, slots=True)
class GeneratedConversation:
    """A finished conversation: its folder, and whether any stage had to be done."""

    folder: Path
    worked: bool


def generate_all(
    specs: Sequence[ConversationSpec], out: Path, writing: GenerationConfig, workers: int
) -> list[GeneratedConversation]:
    """Write conversations into `out` in the released layout; what is finished there is not done again.

    Conversations, and the dialogues of a 10M conversation's plans, are spread over `workers` processes; with models,
    which mostly have to be waited for, each process works on many of them at once. Every stage ends in files, so a run
    that is killed goes on where it stopped. Errors are `UserError`s.
    """
    together = workers if writing.models else 0
    if not unfinished(specs, out, writing):  # no process needs to start
        return [GeneratedConversation(spec.folder(out), worked=False) for spec in specs]
    for spec in specs:
        spec.story()  # a mistake in the last one should show before the first one's folder is made
    folders = [spec.begin(out) for spec in specs]
    writing = replace(writing, processes=workers)
    with process_pool(workers) as pool, tqdm(desc="plans, questions", unit="turn", leave=False, disable=None) as bar:
        begun = _all(pool, _begin_one, [(one, at, writing) for one, at in zip(specs, folders, strict=True)], together)
        stories = [read_story(folder) for folder in folders]
        plans = [(at, index) for at, story in zip(folders, stories, strict=True) for index in range(story.plans)]
        places = [
            plan_folder(at, story, k) for at, story in zip(folders, stories, strict=True) for k in range(story.plans)
        ]
        questions = {place: len(list(_questions(place))) for place in places}
        bar.reset(sum(questions.values()))
        bar.set_description("dialogue")
        spoken = _all(
            pool, make_dialogue_of_plan, [(*plan, writing) for plan in plans], together, lambda: _show(bar, questions)
        )
        bar.set_description("probing questions")
        asked = _all(pool, make_probe_stage, [(folder, writing) for folder in folders], together)
    talked = {folder for (folder, _), done in zip(plans, spoken, strict=True) if done}
    return [
        GeneratedConversation(folder, made or done or folder in talked)
        for folder, made, done in zip(folders, begun, asked, strict=True)
    ]


def _begin_one(spec: ConversationSpec, folder: Path, writing: GenerationConfig) -> bool:
    """Plans and questions of one conversation."""
    made = make_plan_stage(spec, folder, writing)
    return make_question_stage(folder, writing) or made


def _all(
    pool: ProcessPoolExecutor,
    work: Callable[..., Value],
    items: Sequence[tuple[Any, ...]],
    together: int,
    look: Callable[[], None] = lambda: None,
) -> list[Value]:
    """`work(*item)` for every item, in order; the first error is raised at once, which ends the others.

    With `together` 0 each item goes to the next free process; else they are dealt out to that many at the beginning.
    """
    count = min(together, len(items)) or len(items)
    futures = [pool.submit(at_once, work, items[first::count]) for first in range(count)]
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, timeout=_LOOK)
        for future in done:
            future.result()
        look()
    found = [future.result() for future in futures]
    return [found[number % count][number // count] for number in range(len(items))]


def _questions(place: Path) -> Iterator[object]:
    """The main questions of the plan that lies at `place`."""
    for batch in read_json(place / USER_MESSAGES):
        yield from batch["messages"]


def _show(bar: tqdm[Any], questions: Mapping[Path, int]) -> None:
    """Move the bar: a plan's turns are on record in its journal, and all of them in its chat once that is written."""
    turns = 0
    for place, count in questions.items():
        try:
            turns += max(0, (place / JOURNAL).read_bytes().count(b"\n") - 1)
        except FileNotFoundError:  # not begun, or finished, which may be between two looks at the file
            turns += count if (place / CHAT).exists() else 0
    bar.n = turns
    bar.refresh()
