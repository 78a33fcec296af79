"""Make a conversation stage by stage, from its story to its probing questions (paper Algorithms 1 to 3, section 2.3).

The stages are `plans`, `questions`, `dialogue` and `probes`. Each reads the files of the one before and ends in files
of its own, written in one go. A stage that is complete and agrees with its sources is skipped. A stage that was killed
starts again: its calls are in the call store, so no paid call is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from beam_generate import folder as storage
from beam_generate.authors import GenerationConfig, Stage, open_author
from beam_generate.dialogue import generate_dialogue, limits_of
from beam_generate.plans import ask_summaries, make_plans, with_biography
from beam_generate.probes.making import make_probes, read_decisions
from beam_generate.questions import make_questions
from beam_generate.seeds import make_story, topic_within_reach
from beam_generate.shapes import Limits, Repairs, Story
from beamlib.data.conversations import Seed, Size
from beamlib.errors import UserError
from beamlib.files import read_json, read_jsonl, write_json, write_jsonl
from beamlib.llm.model import Model, ModelError, Outcome, run
from beamlib.params import RunParameters
from beamlib.places import CHAT

_Value = TypeVar("_Value")
STAGES: tuple[Stage, ...] = get_args(Stage)
DECISIONS, CANDIDATES, SUMMARIES = "decisions.jsonl", "candidates.json", "plan_summaries.json"
_CALLS = "calls.sqlite"
_COMPLETE = ("done", "edited")


@dataclass(frozen=True, slots=True)
class ConversationSpec:
    """Conversation `number` of a run's size, on `topic` or, without one, on the topic that the parameters choose."""

    parameters: RunParameters
    number: int = 1
    topic: Seed | None = None

    @property
    def size(self) -> Size:
        """Its tier."""
        return self.parameters.size

    @property
    def limits(self) -> Limits:
        """Limits of its dialogue."""
        return limits_of(self.parameters)

    def folder(self, out: Path) -> Path:
        """Return its folder under `out`, as in the released data."""
        return out / self.size / str(self.number)

    def begin(self, out: Path) -> Path:
        """Create its folder or recognize it; a folder with another conversation is a `UserError`."""
        folder = self.folder(out)
        storage.begin_conversation(folder, self._drawn(), self.story().layout, self.limits)
        return folder

    def is_complete(self, out: Path, config: GenerationConfig) -> bool:
        """Tell whether no stage is left to do; a folder with another conversation is a `UserError`."""
        folder, story = self.folder(out), self.story()
        if not storage.is_begun(folder, self._drawn()):
            return False
        by = {stage: _made_by(stage, story, self.limits, config) for stage in STAGES}
        steps = steps_of(folder, story)
        return all(storage.stage_state(place, stage, by[stage]) in _COMPLETE for place, stage in steps)

    def _drawn(self) -> dict[str, Any]:
        story = self.story()
        topic = {"category": story.topic.category, "title": story.topic.title}
        if self.topic is not None:
            topic |= {"theme": story.topic.theme, "subtopics": "; ".join(story.topic.subtopics)}
        return {"size": self.size, "number": self.number, "seed": story.seed, **topic, "strategy": story.strategy}

    def story(self) -> Story:
        """Draw its story; parameters that do not fit are a `UserError`."""
        limits_of(self.parameters)
        return make_story(self.parameters, self.number, self.topic)

    def stood_in(self) -> ConversationSpec:
        """Return a conversation that the offline author can write, for estimates: another domain if it lacks this."""
        return replace(self, topic=topic_within_reach(self.story().topic))


def steps_of(folder: Path, story: Story) -> list[tuple[Path, Stage]]:
    """Return all stages of a conversation with the folders that record them: a dialogue is recorded with its plan."""
    steps: list[tuple[Path, Stage]] = [(folder, stage) for stage in STAGES if stage != "dialogue"]
    return steps + [(storage.plan_folder(folder, story, index), "dialogue") for index in range(story.plans)]


def make_plan_stage(spec: ConversationSpec, folder: Path, config: GenerationConfig) -> bool:
    """Write the plans (Algorithm 1). Returns False if there was nothing to do."""
    story = spec.story()

    def write(model: Model, repairs: Repairs) -> Iterator[Path]:
        whole = _result(with_biography(model, story, repairs))
        yield from storage.write_story(folder, whole)
        plans = _result(make_plans(model, whole, repairs))
        for plan in plans:
            yield from storage.write_plan(folder, story, plan)
        if story.plans > 1:
            yield write_json(folder / SUMMARIES, _result(ask_summaries(model, whole, plans[:-1], repairs)))

    return _make_stage(folder, story, "plans", (), _made_by("plans", story, spec.limits, config), config, write)


def make_question_stage(folder: Path, config: GenerationConfig) -> bool:
    """Write the main questions of all plans (Algorithm 2). Returns False if there was nothing to do."""
    story = storage.read_story(folder)
    sources = _of_plans(folder, story, storage.PLAN)

    def write(model: Model, repairs: Repairs) -> Iterator[Path]:
        earlier_texts, room = set[str](), config.room("asker")
        for index in range(story.plans):
            plan = storage.read_plan(folder, story, index)
            questions = _result(make_questions(model, story, plan, repairs, earlier_texts=earlier_texts, room=room))
            yield storage.write_questions(folder, story, plan, questions)

    made_by = _made_by("questions", story, storage._settings_of(folder)[1], config)
    return _make_stage(folder, story, "questions", sources, made_by, config, write)


def make_dialogue_of_plan(folder: Path, index: int, config: GenerationConfig) -> bool:
    """Write the dialogue of one plan (Algorithm 3). Returns False if there was nothing to do."""
    story, limits = storage.read_story(folder), storage._settings_of(folder)[1]

    def write(model: Model, repairs: Repairs) -> Iterator[Path]:
        plan = storage.read_plan(folder, story, index)
        questions = storage.read_questions(folder, story, plan)
        summaries = [str(text) for text in read_json(folder / SUMMARIES)[:index]] if index else []
        room = config.room("speaker", "detector")
        turns = _result(generate_dialogue(model, story, plan, questions, summaries, limits, repairs, room))
        yield storage.write_chat(folder, story, plan, turns)

    place, made_by = storage.plan_folder(folder, story, index), _made_by("dialogue", story, limits, config)
    sources = [storage.PLAN, storage.USER_MESSAGES]
    return _make_stage(place, story, "dialogue", sources, made_by, config, write)


def make_probe_stage(folder: Path, config: GenerationConfig) -> bool:
    """Write the probing questions, at 10M the combined chat first. Returns False if there was nothing to do.

    A reviewer's `decisions.jsonl` is applied; when it changes, the questions are chosen again.
    """
    story = storage.read_story(folder)
    chats = _of_plans(folder, story, CHAT)
    spoken_by = config.made_by("dialogue")
    if story.plans > 1 and storage.stage_state(folder, "combined", spoken_by) not in _COMPLETE:
        with storage.record_stage(folder, "combined", chats, spoken_by) as files:
            files.append(storage.combine_chats(folder, story))

    def write(model: Model, repairs: Repairs) -> Iterator[Path]:
        decisions = read_decisions(folder / DECISIONS)
        plans = [storage.read_plan(folder, story, index) for index in range(story.plans)]
        turns = [storage.read_turns(folder, story, plan) for plan in plans]
        probes = _result(make_probes(model, story, plans, turns, repairs, decisions))
        yield write_json(folder / CANDIDATES, probes.candidates)
        if probes.missing:  # the drafts can be reviewed; the stage stays undone
            raise UserError(
                f"probing questions of {story.size}: too few usable candidates, missing {probes.missing}; see in "
                "repairs-probes.jsonl why they were dropped, then ask for larger plans (bullets_per_subplan, "
                "questions_per_batch), or ask again by --calls refresh or another model."
            )
        yield storage.write_probing_questions(folder, probes.questions)

    return _make_stage(folder, story, "probes", [*chats, DECISIONS], config.made_by("probes"), config, write)


def unfinished(specs: Sequence[ConversationSpec], out: Path, config: GenerationConfig) -> list[ConversationSpec]:
    """Return the conversations that have a stage left to do under `out`; nothing is written."""
    return [spec for spec in specs if not spec.is_complete(out, config)]


def repairs_of(folder: Path) -> dict[str, list[dict[str, str]]]:
    """Return what was repaired, asked again or dropped, by stage; for 10M over all plans."""
    rows: dict[str, list[dict[str, str]]] = {}
    for stage in STAGES:
        paths = [folder / _repairs(stage), *sorted(folder.glob(f"plan-*/{_repairs(stage)}"))]
        rows[stage] = [row for path in paths if path.exists() for row in read_jsonl(path)]
    return rows


def _made_by(stage: Stage, story: Story, limits: Limits, config: GenerationConfig) -> dict[str, Any]:
    """Return what a stage depends on besides its source files, for its record."""
    sizes: dict[Stage, dict[str, Any]] = {
        "plans": {"subplans": story.layout.subplans, "bullets": story.layout.bullets},
        "questions": {"batches": story.layout.groups, "questions": story.layout.questions},
        "dialogue": asdict(limits),
        "probes": {},
    }
    return {**config.made_by(stage), **sizes[stage]}


def _of_plans(folder: Path, story: Story, name: str) -> list[str]:
    """Return the paths of a file of all plans, relative to the conversation's folder."""
    return [(storage.plan_folder(folder, story, k) / name).relative_to(folder).as_posix() for k in range(story.plans)]


_CURES = {
    Outcome.TRUNCATED: "raise max_output_tokens of that role in the models file, or name another model there, and give "
    "the same command",
    Outcome.CONTEXT_LENGTH: "name a model with a larger context_window for that role, and give the same command",
}
"""What makes another request of the same command, so that the stored reply is not read again."""


def _result(work: Coroutine[Any, Any, _Value]) -> _Value:
    """Run a coroutine; a `ModelError` becomes a `UserError` that says what to do."""
    try:
        return run(work)
    except ModelError as error:
        # A final reply is in the call store: the same command would read it again and stop at the same place.
        again = _CURES.get(error.outcome, "run again with --calls refresh or with another model")
        if error.transient:
            again = "run again"
        raise UserError(f"generation stopped: {error.reason}; what is finished stays on file, {again}.") from None


def _make_stage(
    folder: Path, story: Story, stage: Stage, made_from: Sequence[str], made_by: Mapping[str, Any],
    config: GenerationConfig, write: Callable[[Model, Repairs], Iterator[Path]],
) -> bool:  # fmt: skip
    """Write and record a stage, unless it is complete (False). The log of repairs is written in any case."""
    if storage.stage_state(folder, stage, made_by) in _COMPLETE:
        return False
    repairs = Repairs()
    with (
        storage.record_stage(folder, stage, made_from, made_by) as files,
        open_author(config, story, stage, folder / _CALLS) as model,
    ):
        try:
            files += write(model, repairs)
        finally:
            rows = (dict(zip(("stage", "where", "found", "done"), entry, strict=True)) for entry in repairs.entries)
            files.append(write_jsonl(folder / _repairs(stage), rows))
    return True


def _repairs(stage: str) -> str:
    return f"repairs-{stage}.jsonl"
