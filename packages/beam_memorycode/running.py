"""From dialogues to answers: readers and memories on MemoryCode, with what a run's parameters say of them.

Nothing here has seen a rule: the dialogues hold texts, instructions and queries, and what a memory reads is made of the
texts alone. Files and manifests are `beam_memorycode.output_store`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tqdm import tqdm

from beam_memorycode.conversation import conversation_of
from beam_memorycode.dialogues import Dialogue
from beam_memorycode.setups import (
    MEMORIES,
    SHARED,
    Place,
    Setup,
    places_of,
    prompts_of,
    query_at,
    recalled_prompt,
    request,
)
from beamlib.data.conversations import Probe
from beamlib.errors import UserError
from beamlib.evaluate.answer_record import Answer
from beamlib.evaluate.answering import Asked, answer_groups, answers_to, ask_probes, ingested
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.calling import ResolvedParameters, calls_folder, open_models
from beamlib.files import make_folder
from beamlib.llm.model import Model, ModelRoles, Prompt, run
from beamlib.llm.stored_model import THIS_RUN
from beamlib.memory.protocol import RetrievedContext
from beamlib.params import RunParameters
from beamlib.processes import as_they_end, at_once, process_pool
from beamlib.retrieval import Encoders

PART = "memorycode"
"""The part of a run folder, and of its call stores, that belongs to this benchmark."""

SHARED_STORE = "shared"
"""The call store of the prompts that many dialogues have in common."""

_TOGETHER = 8  # dialogues that a process waits for at a time where models are called: most have few calls

Answers = dict[Setup, list[Answer]]
"""Per setup, an answer per prompt, in the order of `places_of`. One without text has the reason."""

Work = dict[int, Answers]
"""Answers by the dialogue's id."""

Wanted = Sequence[tuple[Dialogue, Sequence[Setup]]]
"""Dialogues, each with the setups that it is to be asked in."""


@dataclass(frozen=True)
class _DialogueTask:
    wanted: Wanted
    parameters: ResolvedParameters
    processes: int
    run_id: str
    command: str
    shared: bool = False


def arm_of(setup: Setup, parameters: RunParameters) -> Arm:
    """The memory of one of `MEMORIES`, with its settings; `UserError` where `own` names no class."""
    match setup:
        case "full_context":
            return Arm(memory="full-context")
        case "own":
            if not parameters.own_memory:
                raise UserError("the setup own needs a memory of your own; name it as file.py:Class in own_memory.")
            return Arm(memory="own", target=parameters.own_memory)
        case "rag" | "light":
            return Arm(memory=setup, retriever=parameters.retriever, k=parameters.k)
        case _:
            raise ValueError(f"{setup} has no memory")


def method_of(setup: Setup) -> str:
    """The method whose reader answers in a setup: the whole history is long context too, as BEAM's is."""
    return {"history": "full-context", "full_context": "full-context"}.get(setup, setup)


def run_dialogue(
    dialogue: Dialogue, setups: Sequence[Setup], parameters: ResolvedParameters, roster: ModelRoles
) -> Answers:
    """The answers of one dialogue in every setup.

    Memories read and recall one after the other, LIGHT in one reading; then all prompts of all setups go out at once.
    Only where prompts share a long history does the first end before the others start, so that an endpoint has read
    it. A failed call is an answer with a reason and no text.
    """
    encoders = Encoders(parameters.encoder, parameters.splade)
    asked: dict[Setup, list[Asked]] = {}
    for setup in setups:
        if setup not in MEMORIES:
            placed = prompts_of(dialogue, setup, parameters.retriever, encoders)
            asked[setup] = [Asked(_probe(dialogue, setup, place), prompt=prompt) for place, prompt in placed]
    asked |= _recalled(dialogue, [setup for setup in setups if setup in MEMORIES], parameters, roster)
    groups = [(asked[one], roster.reader_of(method_of(one)), one in ("history", "full_context")) for one in setups]
    return dict(zip(setups, run(answer_groups(groups, parameters.counter)), strict=True))


def run_shared(wanted: Wanted, reader: Model) -> Work:
    """The answers of many dialogues in the setups of `SHARED`, equal prompts asked once.

    The paper's instruction setup is one answer per wording of an instruction, repeated for all who mention it.
    """
    asked: dict[tuple[str, ...], Asked] = {}
    placed: list[tuple[Dialogue, Setup, Place, tuple[str, ...]]] = []
    for dialogue, setups in wanted:
        for setup in setups:
            for place, prompt in prompts_of(dialogue, setup):
                key = _identity(prompt)
                asked.setdefault(key, Asked(_probe(dialogue, setup, place), prompt=prompt))
                placed.append((dialogue, setup, place, key))
    answers = run(answers_to(list(asked.values()), reader))
    answer = dict(zip(asked, answers, strict=True))
    work: Work = {dialogue.id: {setup: [] for setup in setups} for dialogue, setups in wanted}
    for dialogue, setup, place, key in placed:
        probe = _probe(dialogue, setup, place)
        own = {"probe_id": probe.id, "conversation_id": probe.conversation_id}
        work[dialogue.id][setup].append(answer[key].model_copy(update=own))
    return work


def _identity(prompt: Prompt) -> tuple[str, ...]:
    return (prompt.id, *prompt.variables.values())


def _recalled(
    dialogue: Dialogue, setups: Sequence[Setup], parameters: ResolvedParameters, roster: ModelRoles
) -> dict[Setup, list[Asked]]:
    """The prompts over what each memory recalls, or why there is none."""
    if not setups:
        return {}
    arms = [arm_of(setup, parameters) for setup in setups]
    found: dict[Setup, list[Asked]] = {}
    memories = ingested(arms, conversation_of(dialogue), parameters, roster, {})
    for setup, (_, memory) in zip(setups, memories, strict=True):
        places = places_of(dialogue, setup)

        def prompt(
            number: int, recalled: RetrievedContext, setup: Setup = setup, places: Sequence[Place] = places
        ) -> Prompt:
            return recalled_prompt(dialogue, setup, places[number], recalled.context)

        found[setup] = ask_probes([_probe(dialogue, setup, place) for place in places], memory, prompt)
    return found


def _probe(dialogue: Dialogue, setup: Setup, place: Place) -> Probe:
    """The query at a place as a question to a memory, under an id that tells it apart in the run."""
    name = f"{dialogue.name}-{setup}-s{place.session}-q{place.query}"
    return Probe(name, dialogue.name, request(query_at(dialogue, setup, place)))


def work_through(
    wanted: Wanted, parameters: ResolvedParameters, command: str, *, quiet: bool = False
) -> Iterator[Work]:
    """The answers to all that is `wanted`, as they come, in processes of their own where that pays.

    What dialogues share is asked in one step, from one store. `command` is the shell command that records what a
    replay misses.
    """
    apart = [(one, [setup for setup in setups if setup not in SHARED]) for one, setups in wanted]
    apart = sorted([one for one in apart if one[1]], key=lambda one: -len(one[0].sessions))  # the longest first
    common = [(one, [setup for setup in setups if setup in SHARED]) for one, setups in wanted]
    common = [one for one in common if one[1]]
    size = _TOGETHER if parameters.models else 1
    parts = [(apart[start : start + size], False) for start in range(0, len(apart), size)]
    parts = ([(common, True)] if common else []) + parts
    if not parts:
        return
    processes = min(parameters.workers, len(parts))
    tasks = [_DialogueTask(part, parameters, processes, THIS_RUN, command, shared) for part, shared in parts]
    calls = make_folder(calls_folder(parameters, PART)) if parameters.models else None
    with tqdm(total=len(apart) + len(common), desc=PART, unit="dialogue", disable=quiet or None) as bar:
        # A process of its own lets calls in flight arrive when a run is ended; without calls it only costs its start.
        calling = parameters.models and parameters.calls != "replay" and parameters.confirm_cost
        if processes <= 1 and not calling:
            for task in tasks:
                yield _work(task)
                bar.update(len(task.wanted))
            return
        with process_pool(processes) as pool:
            futures = {pool.submit(_work, task): task for task in tasks}
            for future in as_they_end(futures, pool, bar, calls):
                yield future.result()
                bar.update(len(futures[future].wanted))


def _work(task: _DialogueTask) -> Work:
    parameters = task.parameters
    if task.shared:
        with _open(SHARED_STORE, task, parameters) as roster:
            return run_shared(task.wanted, roster.reader)
    if len(task.wanted) == 1:
        return {task.wanted[0][0].id: _of_dialogue(*task.wanted[0], task, parameters)}
    answers = at_once(_of_dialogue, [(*one, task, parameters) for one in task.wanted])
    return {dialogue.id: found for (dialogue, _), found in zip(task.wanted, answers, strict=True)}


def _of_dialogue(
    dialogue: Dialogue, setups: Sequence[Setup], task: _DialogueTask, parameters: ResolvedParameters
) -> Answers:
    with _open(dialogue.name, task, parameters) as roster:
        return run_dialogue(dialogue, setups, parameters, roster)


def _open(name: str, task: _DialogueTask, parameters: ResolvedParameters) -> AbstractContextManager[ModelRoles]:
    return open_models(parameters, name, task.processes, task.run_id, suite=PART, command=task.command)
