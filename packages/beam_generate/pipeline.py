"""A conversation from its story to its probing questions, stage by stage (paper Algorithms 1 to 3, section 2.3).

Stages are `plans`, `questions`, `dialogue`, `probes`. Each reads the files that the one before wrote and ends in files
of its own; a stage that is on record and agrees with what it was made from is not done again, one that a hand has
edited is kept. The dialogues of the ten plans of a 10M conversation are independent of one another.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from beam_generate.casting import GenerationConfig, Stage, open_author
from beam_generate.dialogue import JournalEntry, generate_dialogue
from beam_generate.folder import (
    PLAN,
    USER_MESSAGES,
    combine_chats,
    plan_folder,
    read_plan,
    read_questions,
    read_story,
    read_turns,
    write_chat,
    write_plan,
    write_probing_questions,
    write_questions,
    write_story,
)
from beam_generate.journal import Journal, fingerprint
from beam_generate.layouts import limits_of
from beam_generate.long_plans import ask_summaries, make_plans
from beam_generate.plans import with_biography
from beam_generate.probes.making import TooFew, make_probes
from beam_generate.questions import make_questions
from beam_generate.review import read_decisions
from beam_generate.seeds import make_story, topic_within_reach
from beam_generate.shapes import Limits, Repairs, Story
from beam_generate.stages import begin, making, recognised, settings_of, stage_state
from beamlib.data.conversations import Seed, Size
from beamlib.data.sources import CHAT
from beamlib.errors import UserError
from beamlib.files import read_json, read_jsonl, write_json, write_jsonl
from beamlib.llm.model import Model, ModelError, run
from beamlib.params import RunParameters

Value = TypeVar("Value")
STAGES: tuple[Stage, ...] = get_args(Stage)
DECISIONS = "decisions.jsonl"
CANDIDATES = "candidates.json"
SUMMARIES = "plan_summaries.json"
_CALLS = "calls.sqlite"
JOURNAL = "dialogue.jsonl"


@dataclass(frozen=True, slots=True)
class ConversationSpec:
    """Which conversation is wanted: number `number` of a run's size, on `topic` where that is not the run's to draw."""

    parameters: RunParameters
    number: int = 1
    topic: Seed | None = None

    @property
    def size(self) -> Size:
        """The tier."""
        return self.parameters.size

    @property
    def limits(self) -> Limits:
        """What bounds its dialogue."""
        return limits_of(self.parameters)

    def folder(self, out: Path) -> Path:
        """Where the conversation lies under `out`, as in the released data."""
        return out / self.size / str(self.number)

    def begin(self, out: Path) -> Path:
        """Make the folder, or recognise it; a folder with another conversation is a `UserError`."""
        folder = self.folder(out)
        begin(folder, self._drawn(), self.story().layout, self.limits)
        return folder

    def begun(self, out: Path) -> bool:
        """Whether it was begun under `out`; nothing is written. A folder with another conversation is a `UserError`."""
        return recognised(self.folder(out), self._drawn())

    def _drawn(self) -> dict[str, Any]:
        story = self.story()
        topic = {"category": story.topic.category, "title": story.topic.title}
        if self.topic is not None:
            topic |= {"theme": story.topic.theme, "subtopics": "; ".join(story.topic.subtopics)}
        return {"size": self.size, "number": self.number, "seed": story.seed, **topic, "strategy": story.strategy}

    def story(self) -> Story:
        """The story, drawn from the seed; what is wrong with the parameters is a `UserError`."""
        limits_of(self.parameters)
        return make_story(self.parameters, self.number, self.topic)

    def stood_in(self) -> ConversationSpec:
        """What the offline author can write in its place, for an estimate: another domain where it lacks this one's."""
        return replace(self, topic=topic_within_reach(self.story().topic))


def make_plan_stage(spec: ConversationSpec, folder: Path, writing: GenerationConfig) -> bool:
    """Plans of a conversation (Algorithm 1); whether there was anything to do."""
    story = spec.story()
    made_by = _made_by("plans", story, spec.limits, writing)
    if stage_state(folder, "plans", made_by) in ("done", "edited"):
        return False
    with _doing(folder, story, "plans", (), made_by, writing) as (model, repairs, files):
        story = _waited(with_biography(model, story, repairs))
        files += write_story(folder, story)
        plans = _waited(make_plans(model, story, repairs))
        for plan in plans:
            files += write_plan(folder, story, plan)
        if story.plans > 1:
            files.append(write_json(folder / SUMMARIES, _waited(ask_summaries(model, story, plans[:-1], repairs))))
    return True


def make_question_stage(folder: Path, writing: GenerationConfig) -> bool:
    """Main questions of all plans (Algorithm 2); whether there was anything to do."""
    story = read_story(folder)
    made_by = _made_by("questions", story, settings_of(folder)[1], writing)
    made_from = [_name(folder, plan_folder(folder, story, k) / PLAN) for k in range(story.plans)]
    if stage_state(folder, "questions", made_by) in ("done", "edited"):
        return False
    said = set[str]()
    with _doing(folder, story, "questions", made_from, made_by, writing) as (model, repairs, files):
        for index in range(story.plans):
            plan = read_plan(folder, story, index)
            made = make_questions(model, story, plan, repairs, said=said)
            files.append(write_questions(folder, story, plan, _waited(made)))
    return True


def make_dialogue_of_plan(folder: Path, index: int, writing: GenerationConfig) -> bool:
    """The dialogue of one plan (Algorithm 3), resumed after the last turn on file; whether there was anything to do.

    Its stage is on record in the plan's own folder, so that plans can be worked on by different processes.
    """
    story, limits = read_story(folder), settings_of(folder)[1]
    place, made_by = plan_folder(folder, story, index), _made_by("dialogue", story, limits, writing)
    if stage_state(place, "dialogue", made_by) in ("done", "edited"):
        return False
    plan = read_plan(folder, story, index)
    questions = read_questions(folder, story, plan)
    rests_on = fingerprint("dialogue", made_by, story, plan, questions)
    with (
        _doing(place, story, "dialogue", [PLAN, USER_MESSAGES], made_by, writing) as (model, repairs, files),
        closing(Journal(place / JOURNAL, rests_on, repairs)) as journal,
    ):
        held = generate_dialogue(
            model,
            story,
            plan,
            questions,
            _summaries(folder, index),
            limits,
            repairs,
            said_before=[JournalEntry.from_json(value) for value in journal.entries],
            keep=lambda entry: journal.append(entry.to_json()),
        )
        files.append(write_chat(folder, story, plan, _waited(held)))
    (place / JOURNAL).unlink(missing_ok=True)  # everything in it stands in chat.json now
    return True


def make_probe_stage(folder: Path, writing: GenerationConfig) -> bool:
    """The combined chat of a 10M conversation, then candidates and probing questions; whether there was anything to do.

    A file `decisions.jsonl` in the folder is honoured; when it changes, the questions are chosen anew.
    """
    story, made_by = read_story(folder), writing.made_by("probes")
    chats = [_name(folder, plan_folder(folder, story, k) / CHAT) for k in range(story.plans)]
    spoken_by = writing.made_by("dialogue")
    if story.plans > 1 and stage_state(folder, "combined", spoken_by) not in ("done", "edited"):
        with making(folder, "combined", chats, spoken_by) as files:
            files.append(combine_chats(folder, story))
    if stage_state(folder, "probes", made_by) in ("done", "edited"):
        return False
    sources = [*chats, DECISIONS]
    with _doing(folder, story, "probes", sources, made_by, writing) as (model, repairs, files):
        decisions = read_decisions(folder / DECISIONS)
        plans = [read_plan(folder, story, index) for index in range(story.plans)]
        turns = [read_turns(folder, story, plan) for plan in plans]
        try:
            probes = _waited(make_probes(model, story, plans, turns, repairs, story.seed, decisions))
        except TooFew as error:  # what there is can be reviewed and edited; the stage stays undone
            write_json(folder / CANDIDATES, error.probes.candidates)
            raise UserError(str(error)) from None  # one that a pool of processes can hand on: `TooFew` takes two values
        files.append(write_json(folder / CANDIDATES, probes.candidates))
        files.append(write_probing_questions(folder, probes.questions))
    return True


def unfinished(specs: Sequence[ConversationSpec], out: Path, writing: GenerationConfig) -> list[ConversationSpec]:
    """Those of `specs` that have a stage left to do under `out`; nothing is written.

    A folder there with another conversation is a `UserError`.
    """
    return [one for one in specs if not (one.begun(out) and _complete(one, one.folder(out), writing))]


def _complete(spec: ConversationSpec, folder: Path, writing: GenerationConfig) -> bool:
    story = spec.story()
    by = {stage: _made_by(stage, story, spec.limits, writing) for stage in STAGES}
    stages: list[tuple[Path, Stage]] = [(folder, stage) for stage in STAGES if stage != "dialogue"]
    stages += [(plan_folder(folder, story, index), "dialogue") for index in range(story.plans)]
    return all(stage_state(place, stage, by[stage]) in ("done", "edited") for place, stage in stages)


def _made_by(stage: Stage, story: Story, limits: Limits, writing: GenerationConfig) -> dict[str, Any]:
    """What a stage rests on beside the files it is made from, for its record."""
    own: dict[Stage, dict[str, Any]] = {
        "plans": {"subplans": story.layout.subplans, "bullets": story.layout.bullets},
        "questions": {"batches": story.layout.groups, "questions": story.layout.questions},
        "dialogue": asdict(limits),
        "probes": {},
    }
    return {**writing.made_by(stage), **own[stage]}


def finished(folder: Path) -> bool:
    """Whether a conversation is complete, whoever wrote it."""
    return stage_state(folder, "probes") in ("done", "edited")


def repairs_of(folder: Path) -> dict[str, list[dict[str, str]]]:
    """What was repaired, asked again or dropped, by stage; the plans of a 10M conversation together."""
    found: dict[str, list[dict[str, str]]] = {}
    for stage in STAGES:
        paths = [folder / _repairs(stage), *sorted(folder.glob(f"plan-*/{_repairs(stage)}"))]
        found[stage] = [row for path in paths if path.exists() for row in read_jsonl(path)]
    return found


def _summaries(folder: Path, index: int) -> list[str]:
    """Summaries of the plans before plan `index`."""
    return [str(text) for text in read_json(folder / SUMMARIES)[:index]] if index else []


def _waited(work: Coroutine[Any, Any, Value]) -> Value:
    """The result of `work`; what no model could be brought to give is a `UserError`."""
    try:
        return run(work)
    except ModelError as error:
        # A final answer is in the call store: the same command would read it there and stop at the same place.
        again = "run again" if error.transient else "run again with --calls refresh or with another model"
        raise UserError(f"generation stopped: {error.reason}; what is finished stays on file, {again}.") from None


@contextmanager
def _doing(
    folder: Path, story: Story, stage: Stage, made_from: Sequence[str], made_by: Mapping[str, Any],
    writing: GenerationConfig,
) -> Iterator[tuple[Model, Repairs, list[Path]]]:  # fmt: skip
    """A stage being done: who writes it, what it notes, and the list that its files are put into.

    Where it fails, what it noted is written too, since it tells why.
    """
    repairs = Repairs()
    try:
        with (
            making(folder, stage, made_from, made_by) as files,
            open_author(writing, story, stage, folder / _CALLS) as model,
        ):
            yield model, repairs, files
            files.append(_write_repairs(folder, stage, repairs))
    except UserError:
        _write_repairs(folder, stage, repairs)
        raise


def _write_repairs(folder: Path, stage: str, repairs: Repairs) -> Path:
    names = ("stage", "where", "found", "done")
    return write_jsonl(folder / _repairs(stage), (dict(zip(names, entry, strict=True)) for entry in repairs.entries))


def _repairs(stage: str) -> str:
    return f"repairs-{stage}.jsonl"


def _name(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()
