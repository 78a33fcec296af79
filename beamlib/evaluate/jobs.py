"""What worker processes do: answer the questions of some units, or judge answers. Nothing here can reach gold.

A job names its function by reference, so that a worker imports that function's module and no other part of a task.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel
from tqdm import tqdm

from beamlib.evaluate.calling import open_models
from beamlib.files import make_folder
from beamlib.llm.model import ModelRoles
from beamlib.llm.stored_model import THIS_RUN
from beamlib.plugins import plugins
from beamlib.processes import Workers, as_they_end, at_once, process_pool, tell
from beamlib.run import Run

AnyArm: TypeAlias = Any
"""One of BEAM's arms, or the name of a memory or setup of another task."""
Records = Mapping[str, Sequence[BaseModel]]
"""The records of one unit and arm, by part."""
Evidence = Mapping[str, tuple[int, ...]]
"""The message ids that each question cites, by its id: for the memory that is the ceiling, and for no other."""


class Answerer(Protocol):
    """Answers all questions of one unit with some arms; a failed call is an answer with a reason and no text."""

    def __call__(
        self,
        asked: Any,
        arms: Sequence[Any],
        run: Run,
        roster: ModelRoles,
        evidence: Evidence,
        /,
    ) -> Mapping[str, Records]: ...


class Judge(Protocol):
    """Judges the answers of some arms, by the arm's name, in their order."""

    def __call__(
        self, asked: Mapping[str, Sequence[Any]], run: Run, roster: ModelRoles, /
    ) -> Mapping[str, Sequence[BaseModel]]: ...


class Job(Protocol):
    """Work for one process. `conversation_id` names the call store that it writes, `answers` what progress counts."""

    @property
    def conversation_id(self) -> str: ...
    @property
    def answers(self) -> int: ...
    def perform(self) -> Any: ...


AnyJob = TypeVar("AnyJob", bound=Job)


@dataclass(frozen=True)
class UnitWork:
    """One unit as it goes to a worker: its questions without gold, and the arms that are to answer them."""

    id: str
    asked: Any
    arms: tuple[AnyArm, ...]
    answers: int


@dataclass(frozen=True)
class AnswerJob:
    """Units to answer, several at a time where models are called.

    `evidence` is empty but in a job of the ceiling alone. `suite` is the task's name in paths, `command` the shell
    command that records a call that a replay misses, empty for that of a BEAM run.
    """

    work: tuple[UnitWork, ...]
    answer: Answerer
    run: Run
    evidence: Evidence = field(default_factory=dict)
    suite: str = ""
    command: str = ""
    processes: int = 1
    run_id: str = THIS_RUN  # the parent's: a worker is of the same run

    @property
    def conversation_id(self) -> str:
        """The first unit; on a cluster, whose workers take a lease of one call store, it is the only one."""
        return self.work[0].id

    @property
    def answers(self) -> int:
        """How many answers it gives."""
        return sum(unit.answers for unit in self.work)

    def perform(self) -> dict[str, Mapping[str, Records]]:
        """Answer, and return the records by unit and arm."""
        if len(self.work) == 1:
            return {self.work[0].id: self._answer(self.work[0])}
        return dict(zip([unit.id for unit in self.work], at_once(self._answer, [(u,) for u in self.work]), strict=True))

    def _answer(self, unit: UnitWork) -> Mapping[str, Records]:
        with self.open(unit.id) as roster:
            return self.answer(unit.asked, unit.arms, self.run, roster, self.evidence)

    def open(self, store: str) -> AbstractContextManager[ModelRoles]:
        """The models, behind the call store of this name."""
        return open_models(self.run, store, self.processes, self.run_id, suite=self.suite, command=self.command)


@dataclass(frozen=True)
class JudgeJob:
    """The answers to one unit, by arm, with the gold that they are judged by."""

    conversation_id: str
    asked: Mapping[str, Sequence[Any]]
    judge: Judge
    run: Run
    suite: str = ""
    command: str = ""
    processes: int = 1
    run_id: str = THIS_RUN

    @property
    def answers(self) -> int:
        """How many answers it judges."""
        return sum(map(len, self.asked.values()))

    def perform(self) -> Mapping[str, Sequence[BaseModel]]:
        """Judge, and return the verdicts by arm."""
        tell(self.conversation_id)
        with open_models(
            self.run, self.conversation_id, self.processes, self.run_id, suite=self.suite, command=self.command
        ) as roster:
            return self.judge(self.asked, self.run, roster)


def perform_job(job: Job) -> Any:
    """Perform a job in a worker."""
    return job.perform()


def run_jobs(
    rounds: Sequence[Sequence[AnyJob]],
    title: str,
    run: Run,
    *,
    suite: str = "",
    isolated: bool = True,
    quiet: bool = False,
) -> Generator[tuple[AnyJob, Any], None, None]:
    """Yield `(job, result)` pairs as workers finish. Rounds run one after another.

    Args:
        isolated: Whether a single process is a worker too. Without it, work that calls no model and has but one
            process to go to is done in this one: starting a worker takes a second.
    """
    most = max(map(len, rounds), default=0)
    if not most:
        return
    calls = make_folder(run.calls_folder(suite)) if run.models_file else None
    total = sum(job.answers for jobs in rounds for job in jobs)
    # A worker lets calls in flight arrive when a run is ended.
    calling = run.models_file and run.calls != "replay" and run.confirm_cost
    with tqdm(total=total, desc=title, unit=" answers", disable=quiet or None) as bar:
        if not (isolated or calling or plugins().cluster) and min(run.workers, most) <= 1:
            for job in (job for jobs in rounds for job in jobs):
                yield job, perform_job(job)
                bar.update(job.answers)
            return
        with _workers(run, most, suite) as pool:
            for jobs in rounds:
                futures = {pool.submit(perform_job, replace(job, processes=pool.size)): job for job in jobs}  # type: ignore[type-var]
                for future in as_they_end(futures, pool, bar, calls):
                    yield futures[future], future.result()
                    bar.update(futures[future].answers)


def _workers(run: Run, jobs: int, suite: str) -> AbstractContextManager[Workers]:
    """Processes of this machine, or the workers of the cluster that the command was given."""
    if (cluster := plugins().cluster) is not None:
        return cluster.pool(run, jobs, suite)
    return process_pool(min(run.workers, jobs))
