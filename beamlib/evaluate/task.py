"""A benchmark as a task: where its units are, what is asked about them, how answers are judged, and what is reported.

`beamlib.evaluate.runner` does everything else for all tasks: it estimates, confirms, answers, judges, resumes, shows
progress and records failures. A new benchmark is one subclass of `Task` (see `tests/evaluate/test_toy_task.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel

from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm, baseline_memory, own_arm
from beamlib.evaluate.jobs import AnswerJob, AnyArm, Evidence, Judge, Records, UnitWork
from beamlib.evaluate.records import ANSWERS, RUN, Answer, ConversationRecord, RunManifest, TaskManifest, made_by
from beamlib.evaluate.run_store import ANSWER_CODE, RunStore, prompt_hashes, settings_of
from beamlib.files import code_hash, inside, sha256, to_json
from beamlib.llm.endpoints import EMBEDDING
from beamlib.memory.declared import DeclaredMemory, SharedReading, kind_of
from beamlib.memory.oracle import Oracle
from beamlib.memory.outside import Own
from beamlib.params import RunParameters
from beamlib.places import from_root
from beamlib.run import Run

if TYPE_CHECKING:
    from beamlib.report.table import Table

STAND_IN = "offline"
"""The reader's name where no model is called."""


@dataclass(frozen=True)
class Unit:
    """What a task asks about: a conversation, a dialogue, an episode.

    Args:
        id: Names its records and its call store.
        asked: What a worker that answers gets: the conversation and the questions, without gold.
        record: The hashes of its data; records that rest on others are computed again.
        gold: What judging and scoring get.
        evidence: The message ids that each question cites: for the ceiling alone.
        length: Longer units are answered first.
    """

    id: str
    asked: Any
    record: ConversationRecord
    gold: Any = None
    evidence: Evidence = field(default_factory=dict)
    length: int = 0


@dataclass(frozen=True)
class UnitSet:
    """The units of a run, those that cannot be read with the reason, and how many the data have (0: as many)."""

    units: Sequence[Unit]
    left_out: Mapping[str, str] = field(default_factory=dict)
    known: int = 0


class Task(ABC):
    """A benchmark. Subclasses are handed to workers by their functions only, so they may hold gold."""

    name: ClassVar[str]
    """Its name in paths and commands."""
    title: ClassVar[str]
    parameter: ClassVar[str] = "data"
    """The parameter that names the file or folder of its units."""
    unit_name: ClassVar[str] = "conversation"
    ceiling: ClassVar[str] = Oracle.name
    """The memory that is handed evidence."""
    batch: ClassVar[int] = 1
    """Units that a worker answers at a time where models are called."""
    isolated: ClassVar[bool] = False
    """Whether answers are always given in a worker process."""
    prompts: ClassVar[tuple[str, ...]] = ("answer",)
    """The prompts that all arms share."""
    judge_prompts: ClassVar[tuple[str, ...]] = ()
    code: ClassVar[tuple[str, ...]] = ()
    """The modules that answers rest on, beside those of `beamlib`."""
    judge_code: ClassVar[tuple[str, ...]] = ()
    judge_parameters: ClassVar[tuple[str, ...]] = ()
    """The parameters that verdicts rest on."""
    manifest: ClassVar[type[RunManifest]] = TaskManifest
    records: ClassVar[Mapping[str, type[BaseModel]]] = {ANSWERS: Answer}
    """The class of the records by part."""
    judge: ClassVar[Judge | None] = None
    aliases: ClassVar[Mapping[str, AnyArm]] = {}
    """Other names of arms."""

    @staticmethod
    @abstractmethod
    def answer(
        asked: Any, arms: Sequence[Any], parameters: Run, roster: Any, evidence: Evidence, /
    ) -> Mapping[str, Records]:
        """Answer the questions of one unit: records by arm and part. It runs in a worker; see `Answerer`."""

    @abstractmethod
    def units(self, parameters: RunParameters, *, quiet: bool = False) -> UnitSet:
        """Read the units that the parameters ask for."""

    @abstractmethod
    def all_arms(self) -> Sequence[AnyArm]:
        """All arms that there are, `own` for a memory of the user's own."""

    def arms(self, parameters: RunParameters) -> Sequence[AnyArm]:
        """The arms of a run that names none: of the memories that are not of this package those of `own_memory`."""
        own = parameters.own_memories
        by_name = [arm for arm in self.all_arms() if runs_outside(arm)]
        others = [memory for memory in own if memory not in by_name]
        return [
            arm for arm in self.all_arms() if not self.kind(arm).outside or (arm in own if arm in by_name else others)
        ]

    def count(self, unit: Unit, arm: AnyArm) -> int:
        """How many questions an arm is asked about a unit."""
        return len(unit.asked.probes)

    def label(self, parameters: RunParameters) -> str:
        """What progress bars call the run."""
        return self.title

    def memory(self, arm: AnyArm) -> str:
        """The memory that an arm is, by the name that BEAM's arms have."""
        return arm.memory if isinstance(arm, Arm) else Own.name if runs_outside(arm) else arm

    def kind(self, arm: AnyArm) -> type[DeclaredMemory]:
        """The class of the memory that an arm is; one that declares nothing where it is none."""
        return kind_of(self.memory(arm))

    def target(self, arm: AnyArm, parameters: RunParameters) -> str:
        """What runs an arm whose memory is `own`: a class, a program or an adapter."""
        if isinstance(arm, Arm) and arm.target:
            return arm.target
        return str(arm) if runs_outside(arm) else parameters.own_memories[0]

    def excluded(self, unit: Unit, arm: AnyArm) -> str:
        """Why an arm cannot be asked about a unit; empty where it can."""
        return ""

    def part(self, unit: Unit, questions: Collection[str]) -> Unit | None:
        """The unit with some of its questions; None where a task asks all of them."""
        return None

    def to_judge(self, unit: Unit, records: Sequence[Any]) -> Sequence[Any]:
        """The answers to a unit with the gold that the judge needs."""
        return ()

    def finish(self, plan: TaskPlan) -> dict[str, RunManifest]:
        """Write what a run has not written yet; the manifest of each arm."""
        return {name: store.finish() for name, store in plan.stores.items()}

    def outcome(self, plan: TaskPlan, arm: str) -> Sequence[str]:
        """What the last lines of a run say about an arm, beside the number of its answers."""
        return ()

    def tables(self, plan: TaskPlan) -> Mapping[str, Table]:
        """The report on the answers of a plan, by file name."""
        return {}

    def used_parameters(self) -> frozenset[str]:
        """The parameters that act on a run of this task, by name."""
        own = (name for arm in self.all_arms() for name in self.kind(arm).settings_names())
        return frozenset({"output_tokens", "preset", "released", "variant", "workers", *own})

    def parse_arms(self, names: Sequence[str]) -> list[AnyArm]:
        """The arms called `names`, without repeats; an unknown name is a `UserError`."""
        known = {arm_name(arm): arm for arm in self.all_arms()}
        plain = {_plain(name): arm for name, arm in known.items()} | dict(self.aliases)
        for name in names:
            if _plain(name) not in plain:
                raise UserError(f"--arms: {name!r:.80} does not exist; choose among {', '.join(known)}.")
        return list(dict.fromkeys(plain[_plain(name)] for name in names))

    # What is on file

    def folder(self, run: Path, reader: str, size: str = "") -> Path:
        """Where the folders of the arms lie that a reader answered in, of BEAM those of the tier `size`."""
        return inside(run, self.name, reader)

    def readers(self, run: Path) -> list[str]:
        """The readers whose answers a run has."""
        return sorted({path.parent.parent.name for path in (run / self.name).glob(f"*/*/{RUN}")})

    def settings(self, arm: AnyArm, parameters: Run) -> dict[str, Any]:
        """The parameters that an arm rests on, by name."""
        kind = self.kind(arm)
        settings = settings_of(parameters, kind.settings_names())
        if kind.released_flags:
            settings["released"] = sorted(parameters.flags)
        if kind.outside:
            target = self.target(arm, parameters)
            name = own_arm(target, parameters.own_name).name
            memory_hash, notes = parameters.identity_of(target)
            settings |= settings_of(parameters, kind_of(target).settings_names())
            if k := settings.get("adapter_k"):
                notes = (*notes, f"{name}: K = {k}")
            settings |= {"own_memory": name, "file": memory_hash, **({"notes": notes} if notes else {})}
        return settings

    def prompts_of(self, arm: AnyArm, parameters: RunParameters) -> tuple[str, ...]:
        """The prompts that an arm rests on."""
        return (*self.prompts, *self.kind(arm).prompts_for(parameters))

    def stated(self, arm: AnyArm, run: Run) -> dict[str, Any]:
        """Fields of the manifest that say more than the answers of an arm rest on, so that arms can be compared."""
        return {}

    def store(self, arm: AnyArm, run: Run) -> RunStore[Any]:
        """The records of an arm on file."""
        name, kind = arm_name(arm), self.kind(arm)
        models, settings = run.identities(self.memory(arm)), self.settings(arm, run)
        encoder = (EMBEDDING,) if settings.get("encoder") == EMBEDDING else ()
        used = {role: models[role] for role in (*kind.roles, *encoder)}
        prompts = prompt_hashes(run, self.prompts_of(arm, run))
        code = dict.fromkeys((*ANSWER_CODE, *self.code, *kind.code_names()))
        fields = {
            "task": self.name,
            "arm": name,
            "settings": settings,
            "reader": reader_name(run),
            "models": used,
            "prompts": prompts,
            "answers_key": _key([name, used, settings, prompts, code_hash(tuple(code))]),
            "notes": tuple(settings.get("notes", ())),
        }
        folder = self.folder(run.folder, reader_name(run), run.size)
        return self._store(folder / name, fields | self.stated(arm, run), run)

    def store_on_file(self, folder: Path, run: Run) -> RunStore[Any]:
        """The records in an arm's folder as they are, by whatever settings they were made; its verdicts where they are
        by the judge of `run`.
        """
        manifest = self.manifest.read(folder)
        names = ("task", "arm", "settings", "reader", "models", "prompts", "answers_key", "notes")
        store = self._store(folder, {name: getattr(manifest, name) for name in names}, run)
        store.open({}, retry=False)
        return store

    def judged_by(self, fields: Mapping[str, Any], run: Run) -> dict[str, Any]:
        """The fields of a manifest with these `fields` of the answers that follow from the judge of `run`."""
        models = run.identities()
        judges = {role: models[role] for role in ("judge", "aligner")} if self.judge else {}
        prompts, settings = prompt_hashes(run, self.judge_prompts), settings_of(run, self.judge_parameters)
        rests_on = [fields["answers_key"], judges, prompts, settings, code_hash(self.judge_code)]
        return {
            "judge": str(models["judge"]["model"]) if self.judge else "",
            "models": {**fields["models"], **judges},
            "prompts": {**fields["prompts"], **prompts},
            "judgements_key": _key(rests_on),
        }

    def _store(self, folder: Path, fields: Mapping[str, Any], run: Run) -> RunStore[Any]:
        every = {**fields, **self.judged_by(fields, run), **made_by()}
        known = {name: value for name, value in every.items() if name in self.manifest.model_fields}
        return RunStore(folder, self.manifest, self.records, known)

    # How the work is divided

    def merge_shared(self, work: Sequence[tuple[Unit, Sequence[AnyArm]]]) -> Sequence[tuple[Unit, Sequence[AnyArm]]]:
        """Move what units have in common into a unit of its own; its records name the units that they belong to."""
        return work

    def answer_jobs(
        self,
        work: Sequence[tuple[Unit, Sequence[AnyArm]]],
        run: Run,
        command: str,
        *,
        together: int = 1,
    ) -> list[list[AnswerJob]]:
        """Divide the work into jobs, in rounds that run one after another.

        The ceiling, which is handed evidence, is asked after all others: no worker that has seen evidence answers for
        another memory. Where there are fewer units than workers, a memory whose arms share a reading is asked apart as
        well. (Not where models are
        called: equal requests of a unit are one call, which takes one process at a time.)

        Args:
            together: How many units go into one job.
        """
        split = not run.models_file and len(work) < run.workers
        groups: dict[str, list[tuple[Unit, tuple[AnyArm, ...]]]] = {"": []}
        for unit, arms in work:
            own: dict[str, list[AnyArm]] = {}
            for arm in arms:
                memory = self.memory(arm)
                apart = memory == self.ceiling or (split and issubclass(self.kind(arm), SharedReading))
                own.setdefault(memory if apart else "", []).append(arm)
            for group, members in own.items():
                groups.setdefault(group, []).append((unit, tuple(members)))
        told = groups.pop(self.ceiling, [])
        first = [job for group in groups.values() for job in self._jobs(group, run, command, together)]
        return [first, self._jobs(told, run, command, together, told=True)]

    def _jobs(
        self,
        work: Iterable[tuple[Unit, tuple[AnyArm, ...]]],
        run: Run,
        command: str,
        together: int,
        *,
        told: bool = False,
    ) -> list[AnswerJob]:
        ordered = sorted(work, key=lambda one: -one[0].length * len(one[1]))
        jobs = []
        for start in range(0, len(ordered), together):
            part = ordered[start : start + together]
            units = tuple(
                UnitWork(unit.id, unit.asked, arms, sum(self.count(unit, arm) for arm in arms)) for unit, arms in part
            )
            evidence = {key: ids for unit, _ in part for key, ids in unit.evidence.items()} if told else {}
            jobs.append(AnswerJob(units, self.answer, run, evidence, self.name, command))
        return jobs

    def rehearsal(self, arms: Sequence[AnyArm], run: Run) -> list[tuple[Sequence[AnyArm], Run]]:
        """What an estimate asks in place of `arms`: a memory of the user's own counts as RAG with BM25.

        Each gets one pair more than the one before and than RAG, which may be among the arms: equal requests would
        count once.
        """
        others = [arm for arm in arms if not self.kind(arm).outside]
        parts: list[tuple[Sequence[AnyArm], Run]] = [(others, run)] if others or not arms else []
        for more in range(1, len(arms) - len(others) + 1):
            lexical = run.model_copy(update={"retriever": "bm25", "k": run.retrieval.k + more})
            own = (
                Arm(memory=baseline_memory(), retriever="bm25", k=lexical.retrieval.k)
                if isinstance(arms[0], Arm)
                else baseline_memory()
            )
            parts.append(([own], lexical))
        return parts


@dataclass(frozen=True)
class TaskPlan:
    """What is on file for the arms of a run, and what is missing.

    `answering` and `judging` are the units with the arms that lack answers or verdicts. `left_out` names the units that
    cannot be read, with the reason. `known` is the number of units of the data.
    """

    task: Task
    run: Run
    arms: Mapping[str, AnyArm]
    units: Mapping[str, Unit]
    stores: Mapping[str, RunStore[Any]]
    answering: Sequence[tuple[Unit, Sequence[AnyArm]]]
    judging: Sequence[tuple[Unit, Sequence[AnyArm]]]
    left_out: Mapping[str, str]
    known: int = 0

    @property
    def folder(self) -> Path:
        """Where the folders of the arms lie."""
        return next(iter(self.stores.values())).folder.parent

    @property
    def pending(self) -> dict[str, Unit]:
        """The units that lack anything."""
        return {unit.id: unit for unit, _ in (*self.answering, *self.judging)}

    def without_answer(self) -> list[str]:
        """Name the arms that were asked and of which no answer came, or no verdict."""
        failed = []
        for arm in self.arms:
            outputs = [own.values() for own in self.stores[arm].outputs.values()]
            parts = [[record for unit in units for record in unit.records] for units in outputs]
            if any(part and all(getattr(record, "unscored", None) for record in part) for part in parts):
                failed.append(arm)
        return failed

    def records(self, arm: str, part: str = ANSWERS) -> dict[str, list[Any]]:
        """The records of an arm by unit, of the units that have them."""
        own = self.stores[arm].outputs[part]
        return {unit: own[unit].records for unit in self.units if unit in own}


def runs_outside(arm: AnyArm) -> bool:
    """Whether an arm is named like a memory that runs in a process of its own by its name."""
    return isinstance(arm, str) and arm != Own.name and kind_of(arm).outside


class NothingScored(UserError):
    """An arm that was asked has no scored answer. What was made stays, and the same command goes on from there."""

    exit_code = 4


def refuse_unscored(arms: Sequence[str], folder: Path) -> None:
    """Raise a `NothingScored` if arms have no scored answer; the command has finished everything else by then."""
    if arms:
        raise NothingScored(
            f"{from_root(folder)}: no answer is scored of {'; '.join(arms)}; the lines above and the tables' footers "
            "say why. Correct the models file, the server or the memory, then run the same command again: it asks what "
            "failed."
        )


def arm_name(arm: AnyArm) -> str:
    """The name of an arm, which names its folder."""
    return arm.name if isinstance(arm, Arm) else arm


def reader_name(parameters: RunParameters) -> str:
    """The backbone's name in the models file, or `offline` for the stand-in; it names folders."""
    if parameters.models and parameters.backbone == STAND_IN:
        raise UserError(f"{parameters.models}: a reader is called 'offline', as the stand-in is; give it another name.")
    return parameters.backbone if parameters.models else STAND_IN


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def _key(basis: list[Any]) -> str:
    return sha256(to_json(basis))
