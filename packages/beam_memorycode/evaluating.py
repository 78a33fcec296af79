"""A whole run on MemoryCode: what is on file stays, what is missing is asked for, and all of it ends in output files.

Scoring is not done here: it reads the files (`beam_memorycode.outputs`), as it reads the authors'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from beam_memorycode.dialogues import Dialogue
from beam_memorycode.output_store import NO_TEXTS, OutputFolder, RunManifest, answered, arm_of_setup, dialogue_hash
from beam_memorycode.running import PART, SHARED_STORE, run_dialogue, run_shared, work_through
from beam_memorycode.setups import SHARED, Setup, possible
from beam_run.costs import Estimate
from beam_run.dry_run import CallTally
from beam_run.estimate import rehearsed_roster, stored_means, summary
from beamlib.evaluate.calling import ResolvedParameters, resolved
from beamlib.llm.endpoints import load_models
from beamlib.params import RunParameters


@dataclass(frozen=True)
class MissingSetups:
    """What a run has to do: the folder of each setup, and the setups that each dialogue is still to be asked in.

    `left_out` has the ids of the dialogues that a setup cannot be asked about, for want of texts.
    """

    parameters: ResolvedParameters
    folders: Mapping[Setup, OutputFolder]
    wanted: Sequence[tuple[Dialogue, tuple[Setup, ...]]]
    left_out: Mapping[Setup, tuple[int, ...]]


@dataclass(frozen=True)
class Ran:
    """What a run left: the folder of outputs and the manifest of each setup, and whom it could not be asked about."""

    parameters: ResolvedParameters
    folders: Mapping[Setup, Path]
    manifests: Mapping[Setup, RunManifest]
    left_out: Mapping[Setup, tuple[int, ...]]


def chosen(dialogues: Sequence[Dialogue], most: int) -> list[Dialogue]:
    """At most so many dialogues of each number of sessions, by id; 0 for all.

    Of a bundle that was published without all texts, those that have them come first.
    """
    if not most:
        return list(dialogues)
    groups: dict[int, list[Dialogue]] = {}
    for dialogue in sorted(dialogues, key=lambda one: (not one.has_texts, one.id)):
        groups.setdefault(len(dialogue.sessions), []).append(dialogue)
    return sorted((one for group in groups.values() for one in group[:most]), key=lambda one: one.id)


def plan_all(
    dialogues: Sequence[Dialogue],
    setups: Sequence[Setup],
    parameters: RunParameters,
    known: Sequence[Dialogue] = (),
) -> MissingSetups:
    """Find out what is missing; nothing is asked or written. `known` are further dialogues whose answers may stay."""
    parameters = resolved(parameters)
    left_out = {setup: tuple(one.id for one in dialogues if not possible(one, setup)) for setup in setups}
    asked = {one.id for one in dialogues}
    everything = [*dialogues, *(one for one in known if one.id not in asked)]
    data = {str(one.id): dialogue_hash(one) for one in everything}
    arms = {arm: OutputFolder(arm, parameters, everything) for arm in dict.fromkeys(map(arm_of_setup, setups))}
    for folder in arms.values():
        folder.open(data, again=parameters.calls == "record")
    folders = {setup: arms[arm_of_setup(setup)] for setup in setups}
    for setup, folder in folders.items():
        folder.left_out[setup] = dict.fromkeys(map(str, left_out[setup]), NO_TEXTS)
        for number in asked if parameters.calls == "refresh" else ():
            folder.made[setup].pop(str(number), None)
    missing = [
        (one, tuple(s for s in setups if possible(one, s) and str(one.id) not in folders[s].made[s]))
        for one in dialogues
    ]
    return MissingSetups(parameters, folders, [one for one in missing if one[1]], left_out)


def run_all(
    dialogues: Sequence[Dialogue],
    setups: Sequence[Setup],
    parameters: RunParameters,
    *,
    known: Sequence[Dialogue] = (),
    command: str = "",
    quiet: bool = False,
) -> Ran:
    """Ask every dialogue in every setup, and write the answers; what is on file by the same hashes is not asked again.

    With models nothing is called before `parameters.confirm_cost`. `known` are further dialogues of the data, whose
    answers on file may stay. `command` is the shell command that records what a replay misses. A run that is killed
    goes on where it was: no call whose reply arrived is made twice.
    """
    plan = plan_all(dialogues, setups, parameters, known)
    arms = set(plan.folders.values())
    for folder in arms:
        folder.begin()
    if parameters.models:
        load_models(Path(parameters.models)).keep(Path(parameters.run) / PART)
    by_id = {one.id: one for one in dialogues}
    try:
        for work in work_through(plan.wanted, plan.parameters, command, quiet=quiet):
            for number, answers in work.items():
                for setup, found in answers.items():
                    plan.folders[setup].take(setup, str(number), answered(by_id[number], setup, found))
    finally:
        for folder in arms:
            folder.write_manifest()
    written = {folder: folder.close() for folder in arms}
    return Ran(
        plan.parameters,
        {setup: folder.folder for setup, folder in plan.folders.items()},
        {setup: written[folder] for setup, folder in plan.folders.items()},
        plan.left_out,
    )


def estimate_all(
    dialogues: Sequence[Dialogue], setups: Sequence[Setup], parameters: RunParameters, *, quiet: bool = False
) -> Estimate:
    """Rehearse what is left to do: the code of the run, with models that call nobody. Nothing is called or written.

    What the stores hold costs nothing. A memory of one's own is rehearsed as if it recalled like RAG with BM25.
    """
    if not parameters.models:
        return Estimate(size=PART, backbone="", conversations=0, arms=tuple(setups))
    plan = plan_all(dialogues, setups, parameters)
    known = plan.parameters
    expected = stored_means(known)
    tally = CallTally()
    apart = [(one, [setup for setup in asked if setup not in SHARED]) for one, asked in plan.wanted]
    for dialogue, asked in tqdm(apart, desc=f"{PART}: counting calls", disable=quiet or None, leave=False, delay=2):
        with rehearsed_roster(known, dialogue.name, expected, suite=PART) as (roster, one):
            run_dialogue(dialogue, [setup for setup in asked if setup != "own"], known, roster)
            if "own" in asked:
                # One pair more: RAG itself may be among the setups, and equal requests would count once.
                lexical = known.model_copy(update={"retriever": "bm25", "k": known.k + 1})
                run_dialogue(dialogue, ["rag"], lexical, roster)
        tally.add(one)
    common = [(one, [setup for setup in asked if setup in SHARED]) for one, asked in plan.wanted]
    with rehearsed_roster(known, SHARED_STORE, expected, suite=PART) as (roster, one):
        run_shared([both for both in common if both[1]], roster.reader)
    tally.add(one)
    own = ("own",) if "own" in setups else ()
    return summary(parameters, tuple(setups), tally, expected, conversations=len(plan.wanted), own=own, suite=PART)
