"""MEME as a task: episodes of one variant, memories, both rounds of questions, and the judge's verdicts.

`<run>/meme/<variant>/<memory>/` has the records of a memory where the stand-in reads, `<run>/meme/<variant>-<reader>/`
those of another reader.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel

from beam_meme.episode_files import load_episodes
from beam_meme.episode_gold import LoadedEpisode, episode_evidence
from beam_meme.episode_results import CONTEXTS, EpisodeContexts, total_spent
from beam_meme.episode_running import ANSWER_PROMPT, answer_episode
from beam_meme.episodes import VARIANTS
from beam_meme.meme_judge import MemeVerdict, judge_memories, question_to_judge
from beam_meme.meme_memories import CEILING, OVER_SESSIONS, MemeMemory, meme_memories
from beamlib.errors import UserError
from beamlib.evaluate.jobs import AnyArm
from beamlib.evaluate.records import ANSWERS, JUDGEMENTS, RUN, Answer, ConversationRecord
from beamlib.evaluate.run_store import settings_of
from beamlib.evaluate.task import STAND_IN, Task, TaskPlan, Unit, UnitSet
from beamlib.files import inside, sha256, to_json
from beamlib.llm.prompts import prompt_ids
from beamlib.params import RunParameters
from beamlib.run import Run

if TYPE_CHECKING:
    from beamlib.report.table import Table

UNKNOWN = "episodes"
"""In place of a variant's name, where that is not known."""

_EPISODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Meme(Task):
    """MEME: does a memory know what changed, what depends on it, and what is to be forgotten?"""

    name = parameter = "meme"
    title = "MEME"
    unit_name = "episode"
    ceiling = CEILING
    batch = 4  # a memory's calls wait in line
    prompts = (ANSWER_PROMPT,)
    judge_prompts = tuple(name for name in prompt_ids() if name.startswith("meme_judge_"))
    code = (
        "beam_memories.evolving",
        *(f"beam_meme.{name}" for name in ("episode_results", "episode_running", "episodes", "meme_memories")),
    )
    judge_code = ("beam_meme.meme_judge", "beam_offline", "beam_generate.read_facts")
    records: ClassVar[Mapping[str, type[BaseModel]]] = {
        ANSWERS: Answer,
        CONTEXTS: EpisodeContexts,
        JUDGEMENTS: MemeVerdict,
    }
    answer = staticmethod(answer_episode)
    judge = staticmethod(judge_memories)

    def __init__(self, variant: str = "") -> None:
        """`variant`: which of several sets of episodes, empty for the only one."""
        self.variant = variant

    def units(self, parameters: RunParameters, *, quiet: bool = False) -> UnitSet:
        """Read the episodes of the parameter `meme`, at most `conversations` of each domain."""
        loaded = load_episodes(Path(parameters.meme), self.variant)
        chosen = choose_episodes(loaded, parameters.conversations)
        return UnitSet([unit_of(one) for one in chosen], known=len(loaded))

    def all_arms(self) -> Sequence[MemeMemory]:
        """The memories."""
        return meme_memories()

    def count(self, unit: Unit, arm: AnyArm) -> int:
        """The questions of both rounds."""
        return sum(len(one.questions) for one in unit.asked.rounds.values())

    def settings(self, arm: AnyArm, parameters: Run) -> dict[str, Any]:
        """The parameters that a memory rests on, with the variant of the episodes."""
        settings = settings_of(parameters, ("token_counter",)) | super().settings(arm, parameters)
        if arm in OVER_SESSIONS:
            settings |= settings_of(parameters, ("k", "reader_window", *(("encoder",) if arm == "dense" else ())))
        return {**settings, "variant": self.variant}

    def to_judge(self, unit: Unit, records: Sequence[Any]) -> Sequence[Any]:
        """Each answer with its question's gold."""
        gold = unit.gold.gold
        return [
            question_to_judge(one.probe_id, one.text, one.unscored, gold, transient=one.transient)
            for one in records
            if one.probe_id in gold.questions
        ]

    def folder(self, run: Path, reader: str, size: str = "") -> Path:
        """Where a run has what a reader answered about the variant; what is no known variant has one place."""
        part = self.variant if self.variant in VARIANTS else UNKNOWN
        return inside(run, self.name, part if reader == STAND_IN else f"{part}-{reader}")

    def readers(self, run: Path) -> list[str]:
        """The readers whose answers about the variant a run has."""
        usual = self.folder(run, STAND_IN).name
        names = {path.parent.parent.name for path in (run / self.name).glob(f"{usual}*/*/{RUN}")}
        readers = {name: name.removeprefix(usual).removeprefix("-") or STAND_IN for name in names}
        return sorted(reader for name, reader in readers.items() if name == usual or name.startswith(f"{usual}-"))

    def outcome(self, plan: TaskPlan, arm: str) -> Sequence[str]:
        """What a memory spent."""
        spent = total_spent(one.spent for own in plan.records(arm, CONTEXTS).values() for one in own)
        shown = ", ".join(f"{stage} {one.input_tokens + one.output_tokens:,}" for stage, one in spent.items())
        return [f"tokens: {shown}"]

    def tables(self, plan: TaskPlan) -> Mapping[str, Table]:
        """The report."""
        from beam_meme.meme_tally import score_plan

        return score_plan(plan, Path(plan.run.meme).name).tables


def open_meme(place: Path, variant: str) -> Meme:
    """The task on the episodes at a place; a `UserError` where there are several variants and none is named."""
    variants = sorted({str(one.variant) for one in load_episodes(place, variant)})
    return Meme(variants[0])


def unit_of(loaded: LoadedEpisode) -> Unit:
    """An episode as a unit; a `UserError` where its id cannot name a file."""
    episode = loaded.episode
    record = ConversationRecord(
        variant=str(loaded.variant), sha256=episode.sha256, questions_sha256=sha256(to_json(_gold_of(loaded)))
    )
    length = sum(len(line.content) for session in episode.sessions for line in session.lines)
    return Unit(check_id(episode.id), episode, record, loaded, episode_evidence(loaded), length)


def _gold_of(loaded: LoadedEpisode) -> list[list[Any]]:
    return [
        [name, gold.question, gold.task, gold.entity, list(gold.values), gold.hop]
        for name, gold in loaded.gold.questions.items()
    ]


def check_id(episode: str) -> str:
    """The id of an episode, where it can name a file; else a `UserError`."""
    if not _EPISODE_ID.fullmatch(episode):
        raise UserError(
            f"episode_id {episode!r:.80} cannot name a file; use at most 64 letters, digits, '-' and '_', beginning "
            "with a letter or digit."
        )
    return episode


def choose_episodes(loaded: Sequence[LoadedEpisode], most: int) -> list[LoadedEpisode]:
    """At most so many episodes of each domain, in the order of the data; 0 for all."""
    counts: Counter[str] = Counter()
    chosen = []
    for one in loaded:
        counts[one.episode.domain] += 1
        if not most or counts[one.episode.domain] <= most:
            chosen.append(one)
    return chosen
