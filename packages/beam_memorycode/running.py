"""From dialogues to answers: readers and memories on MemoryCode, in worker processes.

Nothing here can reach a rule: dialogues hold texts, instructions and queries, and a memory reads the texts alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from beam_memorycode.conversation import conversation_of
from beam_memorycode.dialogues import Dialogue
from beam_memorycode.setups import (
    MEMORIES,
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
from beamlib.evaluate.calling import ResolvedParameters
from beamlib.evaluate.run_store import ANSWERS
from beamlib.llm.model import Model, Prompt, run
from beamlib.llm.roles import ModelRoles
from beamlib.params import RunParameters
from beamlib.retrieval import Encoders

SetupRecords = dict[str, dict[str, list[Answer]]]
"""Per setup, an answer per prompt, in the order of `places_of`; an answer without text has the reason."""


@dataclass(frozen=True)
class SharedQueries:
    """What many dialogues have in common: each with the setups whose prompts do not depend on it."""

    dialogues: tuple[tuple[Dialogue, tuple[Setup, ...]], ...]


def answer_dialogue(
    asked: Dialogue | SharedQueries,
    setups: Sequence[Setup],
    parameters: ResolvedParameters,
    roster: ModelRoles,
    evidence: Mapping[str, tuple[int, ...]],
) -> SetupRecords:
    """Answer a dialogue in some setups, or what many dialogues share. There is no evidence in MemoryCode."""
    if isinstance(asked, SharedQueries):
        return answer_shared(asked, roster.reader)
    return {setup: {ANSWERS: own} for setup, own in run_dialogue(asked, setups, parameters, roster).items()}


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
) -> dict[Setup, list[Answer]]:
    """Answer one dialogue in every setup.

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


def answer_shared(shared: SharedQueries, reader: Model) -> SetupRecords:
    """Answer the queries of many dialogues, equal prompts asked once.

    The paper's instruction setup is one answer per wording of an instruction, repeated for all who mention it.
    """
    asked: dict[tuple[str, ...], Asked] = {}
    placed: list[tuple[Setup, Probe, tuple[str, ...]]] = []
    for dialogue, setups in shared.dialogues:
        for setup in setups:
            for place, prompt in prompts_of(dialogue, setup):
                key, probe = (prompt.id, *prompt.variables.values()), _probe(dialogue, setup, place)
                asked.setdefault(key, Asked(probe, prompt=prompt))
                placed.append((setup, probe, key))
    answers = dict(zip(asked, run(answers_to(list(asked.values()), reader)), strict=True))
    records: SetupRecords = {}
    for setup, probe, key in placed:
        own = {"probe_id": probe.id, "conversation_id": probe.conversation_id}
        records.setdefault(setup, {}).setdefault(ANSWERS, []).append(answers[key].model_copy(update=own))
    return records


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

        def prompt(number: int, context: str, setup: Setup = setup, places: Sequence[Place] = places) -> Prompt:
            return recalled_prompt(dialogue, setup, places[number], context)

        found[setup] = ask_probes([_probe(dialogue, setup, place) for place in places], memory, prompt)
    return found


def _probe(dialogue: Dialogue, setup: Setup, place: Place) -> Probe:
    """The query at a place as a question to a memory, under an id that tells it apart in the run."""
    name = f"{dialogue.name}-{setup}-s{place.session}-q{place.query}"
    return Probe(name, dialogue.name, request(query_at(dialogue, setup, place)))
