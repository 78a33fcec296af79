"""MemoryCode as a task: dialogues, setups, and the answers in the authors' layout.

`<run>/memorycode/<reader>/<setup>/` has the records of a setup. `<run>/memorycode/outputs/` has the same answers as the
authors' scripts read them: `<reader>/` the setups of Table 4, `<reader>-<setup>/` each of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from beam_memorycode.dialogue_files import LoadedDialogue, dialogues_revision, load_dialogues
from beam_memorycode.dialogues import Dialogue
from beam_memorycode.outputs import OUTPUTS, Outputs, write_outputs
from beam_memorycode.running import (
    MEMORY_SETUPS,
    OTHER_UNITS,
    PUBLISHED_SETUPS,
    SETUP_PROMPTS,
    SETUPS,
    SHARED,
    Place,
    Setup,
    SharedQueries,
    answer_dialogue,
    answer_places,
    method_of,
    possible,
)
from beamlib.evaluate.jobs import AnyArm
from beamlib.evaluate.records import ANSWERS, Answer, ConversationRecord, RunManifest
from beamlib.evaluate.run_store import settings_of
from beamlib.evaluate.task import STAND_IN, Task, TaskPlan, Unit, UnitSet, reader_name
from beamlib.files import sha256, to_json
from beamlib.llm.endpoints import RERANKER
from beamlib.params import RunParameters
from beamlib.run import Run

if TYPE_CHECKING:
    from beamlib.report.table import Table

NO_TEXTS = "no texts"
"""Why a setup is not asked about a dialogue."""

_SHARED_STORE = "shared"
"""The call store of the prompts that many dialogues have in common."""


class MemoryCode(Task):
    """MemoryCode: is code written by the instructions that a mentor gave over many sessions?"""

    name = parameter = "memorycode"
    title = "MemoryCode"
    unit_name = "dialogue"
    batch = 8  # most dialogues have few calls
    prompts = ()
    code = ("beam_memorycode.dialogues", "beam_memorycode.running")
    answer = staticmethod(answer_dialogue)
    aliases: ClassVar[Mapping[str, AnyArm]] = {"none": "alone"}

    def units(self, parameters: RunParameters, *, quiet: bool = False) -> UnitSet:
        """Read the dialogues in the folder `memorycode`, at most `conversations` of each number of sessions."""
        items = load_dialogues(Path(parameters.memorycode))
        chosen = choose_dialogues(items, parameters.conversations)
        return UnitSet([dialogue_unit(item) for item in chosen], known=len(items))

    def all_arms(self) -> Sequence[Setup]:
        """Return the setups."""
        return SETUPS

    def arms(self, parameters: RunParameters) -> Sequence[AnyArm]:
        """Return the setups of a run that names none: all but the retrieval of other units than sessions."""
        return [arm for arm in super().arms(parameters) if arm not in OTHER_UNITS]

    def count(self, unit: Unit, arm: AnyArm) -> int:
        """Count the queries of a unit in a setup."""
        shared = unit.asked.dialogues if isinstance(unit.asked, SharedQueries) else ((unit.asked, (arm,)),)
        return sum(len(answer_places(dialogue, arm)) for dialogue, setups in shared if arm in setups)

    def memory(self, arm: AnyArm) -> str:
        """Return the method whose reader answers in a setup."""
        return method_of(str(arm))

    def excluded(self, unit: Unit, arm: AnyArm) -> str:
        """Return why a setup is not asked about a dialogue: it was published without texts."""
        return "" if possible(unit.asked, arm) else NO_TEXTS

    def settings(self, arm: AnyArm, parameters: Run) -> dict[str, Any]:
        """Return the parameters that a setup depends on."""
        if arm in MEMORY_SETUPS:
            return super().settings(arm, parameters)
        if not str(arm).startswith("retrieval"):
            return settings_of(parameters, ())
        if reranker := parameters.endpoints.get(RERANKER):
            return {**settings_of(parameters, ()), "reranker": reranker.settings}
        return settings_of(parameters, ("retriever", "encoder", "splade"))

    def prompts_of(self, arm: AnyArm, parameters: RunParameters) -> tuple[str, ...]:
        """Return the reader's prompt of a setup, and those of its memory."""
        return (SETUP_PROMPTS[arm], *super().prompts_of(arm, parameters))

    def merge_shared(self, work: Sequence[tuple[Unit, Sequence[AnyArm]]]) -> Sequence[tuple[Unit, Sequence[AnyArm]]]:
        """Move prompts that do not depend on the dialogue into a unit of their own, where each is asked once."""
        shared = [(unit.asked, tuple(arm for arm in arms if arm in SHARED)) for unit, arms in work]
        shared = [(dialogue, setups) for dialogue, setups in shared if setups]
        others = [(unit, tuple(arm for arm in arms if arm not in SHARED)) for unit, arms in work]
        apart = [(unit, arms) for unit, arms in others if arms]
        if not shared:
            return apart
        record = ConversationRecord(variant="", sha256="", questions_sha256="")
        setups = tuple(setup for setup in SHARED if any(setup in own for _, own in shared))
        return [(Unit(_SHARED_STORE, SharedQueries(tuple(shared)), record), setups), *apart]

    def finish(self, plan: TaskPlan) -> dict[str, RunManifest]:
        """Write the answers in the authors' layout too."""
        for folder, setups in self.output_folders(plan).items():
            stores = {setup: plan.stores.get(setup) or self.store(setup, plan.run) for setup in setups}
            for setup in setups:
                if setup not in plan.stores:  # of an earlier run: one file has all setups of Table 4
                    stores[setup].open({unit.id: unit.record for unit in plan.units.values()}, retry=False)
            for unit in plan.units.values():
                laid_out = {
                    setup if setup in PUBLISHED_SETUPS else "history": _laid_out(
                        unit.asked, setup, own[unit.id].records
                    )
                    for setup in setups
                    if unit.id in (own := stores[setup].outputs[ANSWERS])
                }
                if laid_out:
                    write_outputs(folder, Outputs(unit.gold.dialogue.id, **laid_out))
        return super().finish(plan)

    def output_folders(self, plan: TaskPlan) -> dict[Path, tuple[Setup, ...]]:
        """Return the folders in the authors' layout that a run writes, each with its setups."""
        reader = reader_name(plan.run)
        top = Path(plan.run.run) / self.name / OUTPUTS
        folders: dict[Path, tuple[Setup, ...]] = {}
        for setup in SETUPS:
            if setup in plan.arms and setup in PUBLISHED_SETUPS:
                folders[top / reader] = PUBLISHED_SETUPS
            elif setup in plan.arms:
                folders[top / f"{reader}-{setup}"] = (setup,)
        return folders

    def tables(self, plan: TaskPlan) -> dict[str, Table]:
        """Show the columns of Table 4 for the run's answers."""
        from beam_memorycode.memorycode_tables import own_table
        from beam_memorycode.scored import score_model

        items = [unit.gold for unit in plan.units.values()]
        self.finish(plan)
        reader = plan.stores[next(iter(plan.arms))].fields["reader"]
        models = [
            score_model(folder.name, folder, items, own=True, offline=reader == STAND_IN)
            for folder in self.output_folders(plan)
        ]
        return {"results": own_table(models, "MemoryCode: this run", dialogues_revision(items))}


MEMORYCODE = MemoryCode()


def dialogue_unit(item: LoadedDialogue) -> Unit:
    """Make a unit of a dialogue; its rules are kept apart."""
    dialogue = item.dialogue
    queries = [dialogue.queries, *(session.queries for session in dialogue.sessions)]
    record = ConversationRecord(
        variant="", sha256=dialogue_hash(dialogue), questions_sha256=sha256(to_json([list(texts) for texts in queries]))
    )
    return Unit(dialogue.name, dialogue, record, item, length=len(dialogue.sessions))


def choose_dialogues(items: Sequence[LoadedDialogue], most: int) -> list[LoadedDialogue]:
    """Choose at most so many dialogues of each number of sessions, by id; 0 for all.

    Of a bundle that was published without all texts, those that have them come first.
    """
    groups: dict[int, list[LoadedDialogue]] = {}
    for item in sorted(items, key=lambda item: (not item.dialogue.has_texts, item.dialogue.id)):
        groups.setdefault(len(item.dialogue.sessions), []).append(item)
    kept = {item.dialogue.id for group in groups.values() for item in (group[:most] if most else group)}
    return [item for item in items if item.dialogue.id in kept]


def dialogue_hash(dialogue: Dialogue) -> str:
    """Hash all that a prompt can show of a dialogue."""
    people = dialogue.context
    sessions = [[session.text, list(session.instructions), list(session.queries)] for session in dialogue.sessions]
    return sha256(to_json([[people.mentor, people.mentee, people.company], sessions, list(dialogue.queries)]))


def _laid_out(dialogue: Dialogue, setup: Setup, answers: Sequence[Answer]) -> tuple[Any, ...]:
    """Arrange answers as `Outputs` does: by session, or those after the last."""
    texts = {place: answer.text for place, answer in zip(answer_places(dialogue, setup), answers, strict=True)}
    if setup not in ("instruction", "session"):
        return tuple(texts.values())
    return tuple(
        tuple(texts[Place(number, query)] for query in range(len(session.queries)))
        for number, session in enumerate(dialogue.sessions)
    )
