"""Many conversations at once: their stages as work for a pool of processes, with a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from beam_generate.casting import GenerationConfig
from beam_generate.folder import USER_MESSAGES
from beam_generate.pipeline import (
    JOURNAL,
    ConversationSpec,
    make_dialogue_of_plan,
    make_plan_stage,
    make_probe_stage,
    make_question_stage,
)
from beam_generate.plan_files import plan_folder, read_story
from beamlib.data.sources import CHAT
from beamlib.files import read_json
from beamlib.processes import at_once, process_pool

Value = TypeVar("Value")
_LOOK = 0.5  # seconds between two looks at how far the dialogues are


@dataclass(frozen=True, slots=True)
class GeneratedConversation:
    """A finished conversation: its folder, and whether any stage had to be done."""

    folder: Path
    worked: bool


def generate_all(
    specs: Sequence[ConversationSpec], out: Path, writing: GenerationConfig, workers: int, *, quiet: bool = False
) -> list[GeneratedConversation]:
    """Write conversations into `out` in the released layout; what is finished there is not done again.

    Conversations, and the dialogues of a 10M conversation's plans, are spread over `workers` processes; with models,
    which mostly have to be waited for, each process works on many of them at once. Every stage ends in files, so a run
    that is killed goes on where it stopped. Errors are `UserError`s.
    """
    together = workers if writing.models else 0
    for spec in specs:
        spec.story()  # a mistake in the last one should show before the first one's folder is made
    folders = [spec.begin(out) for spec in specs]
    writing = replace(writing, processes=workers)
    with process_pool(workers) as pool, tqdm(desc="plans, questions", unit="turn", leave=False, disable=quiet) as bar:
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
