"""What worker processes do: answer the questions of some units, or judge answers. Nothing here can reach gold.

A job names its function by reference, so that a worker imports that function's module and no other part of a task. It
has its calls made by the process that was started (`beamlib.llm.door`), and imports nothing of what makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel
from tqdm import tqdm

from beamlib.evaluate.roster import JUDGES, model_names, roster_of
from beamlib.files import make_folder
from beamlib.llm.entrance import Entrance
from beamlib.llm.model import ModelRoles
from beamlib.llm.prompts import prompts_in_force
from beamlib.plugins import plugins
from beamlib.processes import Workers, as_they_end, at_once, process_pool, tell
from beamlib.run import Run

if TYPE_CHECKING:
    from beamlib.llm.door import Door

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
    """Work for one process. `stores` names the call stores of its calls, `answers` what progress counts.

    `entrance` is where it has calls made; None where it opens the stores itself, since nothing is called.
    """

    @property
    def stores(self) -> Sequence[str]: ...
    @property
    def answers(self) -> int: ...
    @property
    def suite(self) -> str: ...
    @property
    def command(self) -> str: ...
    @property
    def entrance(self) -> Entrance | None: ...
    def may_ask(self, name: str) -> bool: ...
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
    entrance: Entrance | None = None

    @property
    def stores(self) -> Sequence[str]:
        """A call store per unit."""
        return [unit.id for unit in self.work]

    def may_ask(self, name: str) -> bool:
        """Tell whether it may ask a model: no judge, nor for anything that one has replied."""
        return name not in JUDGES

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
        with open_roster(self, self.run, unit.id) as roster:
            return self.answer(unit.asked, unit.arms, self.run, roster, self.evidence)


@dataclass(frozen=True)
class JudgeJob:
    """The answers to one unit, by arm, with the gold that they are judged by."""

    conversation_id: str
    asked: Mapping[str, Sequence[Any]]
    judge: Judge
    run: Run
    suite: str = ""
    command: str = ""
    entrance: Entrance | None = None

    @property
    def stores(self) -> Sequence[str]:
        """The call store of the unit."""
        return [self.conversation_id]

    @property
    def answers(self) -> int:
        """How many answers it judges."""
        return sum(map(len, self.asked.values()))

    def may_ask(self, name: str) -> bool:
        """Tell whether it may ask a model: the judges alone."""
        return name in JUDGES

    def perform(self) -> Mapping[str, Sequence[BaseModel]]:
        """Judge, and return the verdicts by arm."""
        tell(self.conversation_id)
        with open_roster(self, self.run, self.conversation_id) as roster:
            return self.judge(self.asked, self.run, roster)


@contextmanager
def open_roster(job: Job, run: Run, store: str) -> Iterator[ModelRoles]:
    """Open the models of a job: behind the door, or in this process where nothing is called."""
    if job.entrance is None:
        from beamlib.evaluate.calling import open_models  # a worker that asks at the door needs none of it

        with open_models(run, store, suite=job.suite, command=job.command) as roster:
            yield roster
        return
    names = model_names(run.endpoints)
    with prompts_in_force(run.prompt_files), job.entrance.open(store) as model:
        yield roster_of({name: model(name, run.endpoints[role].model) for name, role in names.items()})


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
    stored = _stored_calls(run, suite) if run.models_file else None
    total = sum(job.answers for jobs in rounds for job in jobs)
    with tqdm(total=total, desc=title, unit=" answers", disable=quiet or None) as bar:
        # A worker of a run that calls lets what is in flight arrive when the run is ended.
        if not (isolated or _calls(run) or plugins().cluster) and min(run.workers, most) <= 1:
            for job in (job for jobs in rounds for job in jobs):
                yield job, perform_job(job)
                bar.update(job.answers)
            return
        with _workers(run, most) as pool, _door(run, pool) as door:
            for jobs in rounds:
                admitted = [admit(door, job, run) for job in jobs]
                futures = {pool.submit(perform_job, job): job for job in admitted}
                for future in as_they_end(futures, pool, bar, stored):
                    job = futures[future]
                    yield job, future.result()
                    bar.update(job.answers)
                    if door and job.entrance:
                        door.dismiss(job.entrance)


def _stored_calls(run: Run, suite: str) -> Callable[[], int]:
    from beamlib.llm.call_store import stored_calls

    return partial(stored_calls, make_folder(run.calls_folder(suite)))


def _calls(run: Run) -> bool:
    return bool(run.models_file) and run.calls != "replay" and run.confirm_cost


def _workers(run: Run, jobs: int) -> AbstractContextManager[Workers]:
    """Processes of this machine, or the workers of the cluster that the command was given."""
    if (cluster := plugins().cluster) is not None:
        return cluster.pool(jobs)
    return process_pool(min(run.workers, jobs))


def _door(run: Run, pool: Workers) -> AbstractContextManager[Door | None]:
    """Open the door of a run that may call. In a replay, workers of this machine read the call stores themselves."""
    if run.models_file and (cluster := plugins().cluster) is not None:
        return cluster.door(pool)
    if not _calls(run):
        return nullcontext()
    from beamlib.llm.door import Door

    return Door()


def admit(door: Door | None, job: AnyJob, run: Run) -> AnyJob:
    """Give a job its entrance: to its own call stores, and to the models that it may ask."""
    if door is None:
        return job
    from beamlib.evaluate.calling import open_endpoints

    names = [name for name in model_names(run.endpoints) if job.may_ask(name)]
    stores = {store: partial(open_endpoints, run, store, job.suite, job.command) for store in job.stores}
    return replace(job, entrance=door.entrance(names, stores))  # type: ignore[type-var]
