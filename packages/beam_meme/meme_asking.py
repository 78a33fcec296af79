"""A whole run on MEME: what is on file stays, what is missing is asked for, in processes of its own where that pays.

Scoring is not done here: it reads the files (`beam_meme.meme_store.read_results`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from beam_meme.episode_results import EpisodeResults, check_id, results_of
from beam_meme.episode_running import Evidence, run_episode
from beam_meme.episodes import Episode
from beam_meme.meme_memories import MemeMemory
from beam_meme.meme_store import PART, MemeFolder, MemeManifest, made
from beam_run.costs import Estimate
from beam_run.dry_run import CallTally
from beam_run.estimate import rehearsed_roster, stored_means, summary
from beamlib.errors import UserError
from beamlib.evaluate.calling import ResolvedParameters, calls_folder, open_models, resolved
from beamlib.files import make_folder
from beamlib.llm.endpoints import load_models
from beamlib.llm.roles import ModelRoles
from beamlib.llm.stored_model import THIS_RUN
from beamlib.params import RunParameters
from beamlib.processes import as_they_end, at_once, process_pool

Wanted = Sequence[tuple[Episode, tuple[MemeMemory, ...]]]
"""Episodes, each with the memories that are still to be asked about it."""

CEILING: MemeMemory = "gold-facts"
"""The memory that is handed evidence; where it is at work, no other is."""

_TOGETHER = 4  # episodes that a process waits for at a time where models are called: a memory's calls wait in line


@dataclass(frozen=True)
class Plan:
    """What a run has to do: the folder of each memory, and what is missing in them."""

    parameters: ResolvedParameters
    folders: Mapping[MemeMemory, MemeFolder]
    wanted: Wanted


@dataclass(frozen=True)
class Ran:
    """What a run left: the folder of each memory and its manifest."""

    parameters: ResolvedParameters
    folders: Mapping[MemeMemory, Path]
    manifests: Mapping[MemeMemory, MemeManifest]


@dataclass(frozen=True)
class _EpisodeTask:
    """What a process is handed. `evidence` is empty but in a task of the ceiling alone."""

    wanted: Wanted
    parameters: ResolvedParameters
    processes: int
    run_id: str
    command: str
    evidence: Evidence = field(default_factory=dict)

    @property
    def answers(self) -> int:
        """How many it asks for."""
        return sum(_questions(episode) * len(arms) for episode, arms in self.wanted)


def plan_episodes(
    episodes: Sequence[Episode],
    arms: Sequence[MemeMemory],
    parameters: RunParameters,
    *,
    variant: str = "",
    known: Sequence[Episode] = (),
) -> Plan:
    """Find out what is missing; nothing is asked or written. `known` are further episodes whose results may stay."""
    parameters = resolved(parameters)
    _check_episodes(episodes)
    data = {one.id: one.sha256 for one in [*known, *episodes]}
    folders = {arm: MemeFolder(arm, parameters, variant) for arm in arms}
    for folder in folders.values():
        folder.open(data, again=parameters.calls == "record")
        for episode in set(folder.done) - set(data):
            del folder.done[episode]
        for one in episodes if parameters.calls == "refresh" else ():
            folder.done.pop(one.id, None)
    missing = [(one, tuple(arm for arm in arms if one.id not in folders[arm].done)) for one in episodes]
    return Plan(parameters, folders, [one for one in missing if one[1]])


def run_episodes(
    episodes: Sequence[Episode],
    arms: Sequence[MemeMemory],
    parameters: RunParameters,
    *,
    evidence: Evidence | None = None,
    variant: str = "",
    known: Sequence[Episode] = (),
    quiet: bool = False,
    command: str = "",
) -> Ran:
    """Ask about every episode with every memory, and write the results; what is on file by the same hashes stays.

    With models nothing is called before `parameters.confirm_cost`. `evidence` is what `gold-facts` is handed (made by
    `beam_meme.gold_evidence`). `known` are further episodes of the data, whose results on file may stay. `command` is
    the shell command that records what a replay misses. A run that is killed goes on where it was: no call whose reply
    arrived is made twice.
    """
    plan = plan_episodes(episodes, arms, parameters, variant=variant, known=known)
    for folder in plan.folders.values():
        folder.begin()
    if parameters.models:
        load_models(Path(parameters.models)).keep(Path(parameters.run) / PART)
    try:
        for results in work_through(plan, evidence or {}, command, quiet=quiet):
            plan.folders[results.arm].take("results", results.episode, made(results))
    finally:
        for folder in plan.folders.values():
            folder.write_manifest()
    manifests = {arm: folder.close() for arm, folder in plan.folders.items()}
    return Ran(plan.parameters, {arm: folder.folder for arm, folder in plan.folders.items()}, manifests)


def estimate_episodes(
    episodes: Sequence[Episode],
    arms: Sequence[MemeMemory],
    parameters: RunParameters,
    *,
    evidence: Evidence | None = None,
    variant: str = "",
    quiet: bool = False,
    after: Callable[[EpisodeResults, ModelRoles], object] | None = None,
) -> Estimate:
    """Rehearse what is left to do: the code of the run, with models that call nobody. Nothing is called or written.

    What the stores hold costs nothing. A memory of one's own is rehearsed as if it recalled like RAG with BM25. What
    is to be counted beside the answers is done by `after`, with those on file and those rehearsed.
    """
    if not parameters.models:
        return Estimate(size=PART, backbone="", conversations=0, arms=tuple(arms))
    plan = plan_episodes(episodes, arms, parameters, variant=variant)
    expected = stored_means(plan.parameters)
    tally = CallTally()
    title = f"{PART}: counting calls"
    missing = {episode.id: arms for episode, arms in plan.wanted}
    looked_at = episodes if after else [episode for episode, _ in plan.wanted]
    for episode in tqdm(looked_at, desc=title, unit="episode", disable=quiet or None, leave=False, delay=2):
        with rehearsed_roster(plan.parameters, episode.id, expected, suite=PART) as (roster, one):
            for arm in missing.get(episode.id, ()):
                found = _rehearse(episode, arm, plan.parameters, roster, evidence)
                if after:
                    after(found, roster)
            for folder in plan.folders.values():
                if after and episode.id in folder.done:
                    after(folder.done[episode.id].value, roster)
        tally.add(one)
    own = ("own",) if "own" in arms else ()
    return summary(plan.parameters, tuple(arms), tally, expected, conversations=len(plan.wanted), own=own, suite=PART)


def _rehearse(
    episode: Episode,
    arm: MemeMemory,
    parameters: ResolvedParameters,
    roster: ModelRoles,
    evidence: Evidence | None,
) -> EpisodeResults:
    rehearsed = arm
    if arm == "own":
        # One pair more: RAG itself may be among the memories, and equal requests would count once.
        parameters, rehearsed = parameters.model_copy(update={"retriever": "bm25", "k": parameters.k + 1}), "rag"
    ran = run_episode(episode, rehearsed, parameters, roster, evidence if arm == CEILING else None)
    return results_of(episode, arm, ran)


def work_through(plan: Plan, evidence: Evidence, command: str, *, quiet: bool) -> Iterator[EpisodeResults]:
    """The results of all that is missing, as they come. The bar counts answers and names the memory at work."""
    tasks = _tasks(plan, evidence, command)
    if not tasks:
        return
    parameters = plan.parameters
    calls = make_folder(calls_folder(parameters, PART)) if parameters.models else None
    processes = tasks[0].processes
    with tqdm(total=sum(task.answers for task in tasks), desc=PART, unit="answer", disable=quiet or None) as bar:
        # A process of its own lets calls in flight arrive when a run is ended; without calls it only costs its start.
        calling = parameters.models and parameters.calls != "replay" and parameters.confirm_cost
        if processes <= 1 and not calling:
            for task in tasks:
                yield from _counted(_results(task, bar.set_postfix_str), bar)
            return
        with process_pool(processes) as pool:
            futures = [pool.submit(_work, task) for task in tasks]
            for future in as_they_end(futures, pool, bar, calls):
                yield from _counted(future.result(), bar)


def _counted(results: Iterable[EpisodeResults], bar: tqdm[Any]) -> Iterator[EpisodeResults]:
    for one in results:
        yield one
        bar.update(len(one.answers))


def _tasks(plan: Plan, evidence: Evidence, command: str) -> list[_EpisodeTask]:
    """The work in parts, the longest first; the ceiling's apart, for it alone is handed evidence."""
    others = [(one, tuple(arm for arm in arms if arm != CEILING)) for one, arms in plan.wanted]
    ceiling = [(one, tuple(arm for arm in arms if arm == CEILING)) for one, arms in plan.wanted]
    size = _TOGETHER if plan.parameters.models else 1
    parts: list[tuple[Wanted, Evidence]] = [(part, {}) for part in _parts(others, size)]
    parts += [(part, _evidence_of(part, evidence)) for part in _parts(ceiling, size)]
    processes = min(plan.parameters.workers, len(parts))
    return [_EpisodeTask(part, plan.parameters, processes, THIS_RUN, command, told) for part, told in parts]


def _parts(wanted: Wanted, size: int) -> list[Wanted]:
    left = sorted((one for one in wanted if one[1]), key=lambda one: -len(one[1]) * _length(one[0]))
    return [left[start : start + size] for start in range(0, len(left), size)]


def _evidence_of(wanted: Wanted, evidence: Evidence) -> dict[str, tuple[int, ...]]:
    ids = [question.id for episode, _ in wanted for one in episode.rounds.values() for question in one.questions]
    return {question: evidence[question] for question in ids if question in evidence}


def _length(episode: Episode) -> int:
    return sum(len(line.content) for session in episode.sessions for line in session.lines)


def _questions(episode: Episode) -> int:
    return sum(len(one.questions) for one in episode.rounds.values())


def _work(task: _EpisodeTask) -> list[EpisodeResults]:
    """A task in a process of its own. Where models are called, all its episodes and memories are at work at once."""
    if not task.parameters.models:
        return list(_results(task, lambda arm: None))
    found = at_once(_of_episode, [(episode, arms, task) for episode, arms in task.wanted])
    return [one for results in found for one in results]


def _of_episode(episode: Episode, arms: Sequence[MemeMemory], task: _EpisodeTask) -> list[EpisodeResults]:
    with _open(episode, task) as roster:
        return at_once(_one, [(episode, arm, task, roster) for arm in arms])


def _results(task: _EpisodeTask, say: Callable[[str], None]) -> Iterator[EpisodeResults]:
    """One memory after the other."""
    for episode, arms in task.wanted:
        with _open(episode, task) as roster:
            for arm in arms:
                say(arm)
                yield _one(episode, arm, task, roster)


def _one(episode: Episode, arm: MemeMemory, task: _EpisodeTask, roster: ModelRoles) -> EpisodeResults:
    return results_of(episode, arm, run_episode(episode, arm, task.parameters, roster, task.evidence))


def _open(episode: Episode, task: _EpisodeTask) -> AbstractContextManager[ModelRoles]:
    return open_models(task.parameters, episode.id, task.processes, task.run_id, suite=PART, command=task.command)


def _check_episodes(episodes: Sequence[Episode]) -> None:
    """A `UserError` where an id cannot name a file, or names two episodes."""
    for episode, times in Counter(check_id(one.id) for one in episodes).items():
        if times > 1:
            raise UserError(f"episode_id {episode!r}: {times} episodes have it; give each one of its own.")
