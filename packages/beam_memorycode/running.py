"""What a reader is asked on MemoryCode, and its answers, in worker processes.

The paper's setups (section 4): `instruction`, `session`, `history`. Its further ones: `chain` (6.2, the instructions
without the dialogue), `retrieval` (appendix D, the best sessions alone) and `alone` (5, nothing at all). Then what a
memory recalls for the query: `full_context`, `rag`, `light`, and `own`, a memory from outside this package.

Nothing here can reach a rule: dialogues hold texts, instructions and queries, and a memory reads the texts alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal, NamedTuple, get_args

from beam_memorycode.dialogues import Dialogue, dialogue_as_conversation
from beamlib.data.conversations import Probe
from beamlib.errors import UserError
from beamlib.evaluate.answering import Asked, answer_groups, answers_to, ask_probes, ingested
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.arms import memory_arm as arm_of_memory
from beamlib.evaluate.records import ANSWERS, Answer
from beamlib.files import parse_json, to_json
from beamlib.llm.endpoints import RERANK, RERANKER, forwarded_step
from beamlib.llm.model import Model, ModelError, ModelRoles, Outcome, Prompt, complete_all, run
from beamlib.memory.declared import kind_of
from beamlib.memory.full_context import FullContext
from beamlib.memory.protocol import RetrievedContext
from beamlib.params import RunParameters
from beamlib.retrieval import Document, Encoders, build_index
from beamlib.run import Run
from beamlib.text import split_sentences

Setup = Literal[
    "instruction", "session", "history", "chain", "retrieval", "retrieval_turns", "retrieval_paragraphs", "alone",
    "full_context", "rag", "light", "own",
]  # fmt: skip

SETUPS: tuple[Setup, ...] = get_args(Setup)
OTHER_UNITS: tuple[Setup, ...] = ("retrieval_turns", "retrieval_paragraphs")
"""Retrieval of other units than sessions (appendix D, without figures there): answered only where they are named."""
_RETRIEVAL: tuple[Setup, ...] = ("retrieval", *OTHER_UNITS)
PUBLISHED_SETUPS: tuple[Setup, ...] = ("instruction", "session", "history")
"""The setups of Table 4, which the authors' output files hold."""

_WHOLE: tuple[Setup, ...] = ("history", "full_context")
MEMORY_SETUPS: tuple[Setup, ...] = ("full_context", "rag", "light", "own")
"""Setups in which a memory reads the dialogue as a conversation and recalls what bears on the query."""

WITHOUT_TEXTS: tuple[Setup, ...] = ("instruction", "chain", "alone")
"""Setups that need the template only, and not what was said."""

SHARED: tuple[Setup, ...] = ("instruction", "alone")
"""Setups whose prompts do not depend on the dialogue: each is asked once, and its answer repeated."""

SETUP_PROMPTS: dict[Setup, str] = {
    "instruction": "memorycode_instruction",
    "session": "memorycode_session",
    "history": "memorycode_history",
    "chain": "memorycode_chain",
    **dict.fromkeys(_RETRIEVAL, "memorycode_history"),
    "alone": "memorycode_alone",
    **dict.fromkeys(MEMORY_SETUPS, "memorycode_recalled"),
}
"""The reader's prompt of each setup."""

_OF_SESSIONS: tuple[Setup, ...] = ("instruction", "session")
"""Setups with the queries of each session; the others have those of the dialogue."""

_DEFAULT = Encoders()


class Place(NamedTuple):
    """Where an answer belongs: the session after which it was asked for, and which of the queries; both 0-based."""

    session: int
    query: int


def possible(dialogue: Dialogue, setup: Setup) -> bool:
    """Return whether a dialogue has what the setup shows: without texts, it is good for `WITHOUT_TEXTS` alone."""
    return dialogue.has_texts or setup in WITHOUT_TEXTS


def answer_places(dialogue: Dialogue, setup: Setup) -> list[Place]:
    """Return the places of a setup's answers in the order of its prompts: the queries of each session, or of the last.

    A setup that is asked after the last session has `Dialogue.queries`, in file order.
    """
    if setup in _OF_SESSIONS:
        return [Place(i, j) for i, session in enumerate(dialogue.sessions) for j in range(len(session.queries))]
    return [Place(len(dialogue.sessions) - 1, j) for j in range(len(dialogue.queries))]


def setup_prompts(
    dialogue: Dialogue,
    setup: Setup,
    retriever: str = "hybrid",
    encoders: Encoders = _DEFAULT,
    reranker: Model | None = None,
) -> list[tuple[Place, Prompt]]:
    """Return the prompts of a setup that needs no memory, each with the place of its answer.

    `reranker` chooses the sessions of `retrieval`; without it `retriever` and `encoders` do (see `beamlib.retrieval`).
    `UserError` where the dialogue lacks the texts or wordings that the setup shows; `ValueError` for one of
    `MEMORY_SETUPS` (see `recalled_prompt`).
    """
    if setup in MEMORY_SETUPS:
        raise ValueError(f"{setup} asks a memory: see recalled_prompt")
    if not possible(dialogue, setup):
        raise UserError(f"{dialogue.name}: has no texts, which the setup {setup} shows; give them, or leave it out.")
    if setup in ("instruction", "chain"):
        _check_wordings(dialogue, setup)
    places = answer_places(dialogue, setup)
    shown = _shown(dialogue, setup, places, retriever, encoders, reranker)
    return [(place, _prompt(dialogue, setup, place, variables)) for place, variables in zip(places, shown, strict=True)]


def recalled_prompt(dialogue: Dialogue, setup: Setup, place: Place, context: str) -> Prompt:
    """Return the prompt for the dialogue's query at `place` over the context that a memory recalls for it."""
    return _prompt(dialogue, setup, place, {"context": context})


def query_at(dialogue: Dialogue, setup: Setup, place: Place) -> str:
    """Return the query whose answer belongs at a place."""
    return (dialogue.sessions[place.session] if setup in _OF_SESSIONS else dialogue).queries[place.query]


def request(query: str) -> str:
    """Write the task as a question to a memory, in the mentee's words."""
    return f"Write a {query}, following all the newest coding guidelines of my mentor, including updates of them."


def numbered(texts: Sequence[str]) -> str:
    """Join session texts, each under a header with its number from 0."""
    return "\n\n".join(f"## Session {number}\n\n{text.strip()}" for number, text in enumerate(texts))


def guideline_list(dialogue: Dialogue) -> str:
    """List all values of coding instructions in order of mention, a line each, also those that were replaced later."""
    return "\n".join(f"- {value}" for session in dialogue.sessions for value in session.instructions)


class RetrievalUnit(NamedTuple):
    """What is retrieved: a session, a paragraph or a turn of it."""

    session: int
    text: str


def retrieval_units(dialogue: Dialogue, setup: Setup) -> list[RetrievalUnit]:
    """Split a dialogue into what `setup` retrieves, in order of time.

    A paragraph ends at a blank line. A turn begins with the name of one of the two and may have several paragraphs.
    """
    if setup == "retrieval":
        return [RetrievalUnit(number, text) for number, text in enumerate(_texts(dialogue))]
    names = (f"{dialogue.context.mentor}:", f"{dialogue.context.mentee}:")
    units: list[RetrievalUnit] = []
    for number, text in enumerate(_texts(dialogue)):
        for paragraph in filter(None, map(str.strip, re.split(r"\n[^\S\n]*\n", text))):
            goes_on = units and units[-1].session == number and not paragraph.startswith(names)
            if setup == "retrieval_turns" and goes_on:
                units[-1] = units[-1]._replace(text=f"{units[-1].text}\n\n{paragraph}")
            else:
                units.append(RetrievalUnit(number, paragraph))
    return units


def _by_session(units: Sequence[RetrievalUnit]) -> list[str]:
    """Join the units of each session, in order of time."""
    return ["\n\n".join(unit.text for unit in own) for _, own in groupby(units, key=attrgetter("session"))]


def best_units(
    queries: Sequence[str],
    dialogue: Dialogue,
    units: Sequence[RetrievalUnit],
    retriever: str,
    encoders: Encoders = _DEFAULT,
    reranker: Model | None = None,
) -> list[list[int]]:
    """Return for each query the nearest units in order of time: as many as there are sessions with instructions.

    The paper ranks by a hosted model (Cohere rerank-english-v3.0): `reranker`, the role of that name in a models file.
    Without it, one of the project's retrievers ranks over the units' texts.
    """
    k = sum(bool(session.queries) for session in dialogue.sessions)  # files may leave mentions out
    if not k:
        return [[] for _ in queries]
    if reranker:
        return [sorted(own) for own in _reranked(reranker, queries, [text for _, text in units], k)]
    documents = [Document((text,), split_sentences(text)) for _, text in units]
    index = build_index(documents, retriever, encoders)
    return [sorted(hit.owner for hit in index.search(query, k)) for query in queries]


_MOST_DOCUMENTS = 1_000
"""Texts of one request to a reranker, Cohere's limit."""


def _reranked(reranker: Model, queries: Sequence[str], texts: Sequence[str], k: int) -> list[list[int]]:
    """Return the places of the `k` best texts for each query, best first, by a `rerank` endpoint.

    Raises:
        ModelError: A call failed, or a reply ranks fewer texts than asked for, or others than were sent.
    """
    parts = [texts[start : start + _MOST_DOCUMENTS] for start in range(0, len(texts), _MOST_DOCUMENTS)]
    step = forwarded_step(RERANKER, RERANK)
    bodies: list[dict[str, Any]] = [
        {"query": query, "documents": part, "top_n": min(k, len(part))} for query in queries for part in parts
    ]
    replies = complete_all(reranker, [Prompt(step, {"body": to_json(body)}, about="retrieval") for body in bodies])
    scores: list[dict[int, float]] = [{} for _ in queries]
    for number, (body, reply) in enumerate(zip(bodies, replies, strict=True)):
        ranked = {item.get("index"): item.get("relevance_score") for item in parse_json(reply.text)["results"]}
        known = range(len(body["documents"]))
        if len(ranked) < body["top_n"] or not all(
            place in known and isinstance(score, int | float) for place, score in ranked.items()
        ):
            raise ModelError(
                f"{reranker.name} ranks {len(ranked)} of {len(known)} texts, or numbers them wrongly",
                Outcome.UNREADABLE,
            )
        start = number % len(parts) * _MOST_DOCUMENTS
        scores[number // len(parts)] |= {start + place: score for place, score in ranked.items()}
    return [sorted(own, key=lambda place: -own[place])[:k] for own in scores]


def _check_wordings(dialogue: Dialogue, setup: Setup) -> None:
    """Raise `UserError` where the instructions that a setup shows are missing; answers can be scored without them."""
    for number, session in enumerate(dialogue.sessions):
        if len(session.instructions) != len(session.queries):
            raise UserError(
                f"{dialogue.name}: sessions.{number}: topic lacks instructions, which the setup {setup} shows; give "
                "them, or leave the setup out."
            )


def _shown(
    dialogue: Dialogue,
    setup: Setup,
    places: Sequence[Place],
    retriever: str,
    encoders: Encoders,
    reranker: Model | None,
) -> list[dict[str, str]]:
    """Return the variables of each prompt of a setup that show the dialogue."""
    texts = _texts(dialogue)
    match setup:
        case "instruction":
            return [{"guideline": dialogue.sessions[place.session].instructions[place.query]} for place in places]
        case "session":
            return [{"session": texts[place.session].strip()} for place in places]
        case "retrieval" | "retrieval_turns" | "retrieval_paragraphs":
            units = retrieval_units(dialogue, setup)
            best = best_units(dialogue.queries, dialogue, units, retriever, encoders, reranker)
            return [{"sessions": numbered(_by_session([units[number] for number in own]))} for own in best]
        case "history":
            return [{"sessions": numbered(texts)}] * len(places)
        case "chain":
            return [{"guidelines": guideline_list(dialogue)}] * len(places)
        case _:
            return [{}] * len(places)


def _prompt(dialogue: Dialogue, setup: Setup, place: Place, shown: dict[str, str]) -> Prompt:
    people = dialogue.context
    names = {"mentor": people.mentor, "mentee": people.mentee, "company": people.company}
    variables = {**({} if setup in WITHOUT_TEXTS else names), **shown, "query": query_at(dialogue, setup, place)}
    return Prompt(SETUP_PROMPTS[setup], variables, f"{dialogue.name}, session {place.session}, query {place.query}")


def _texts(dialogue: Dialogue) -> list[str]:
    return [session.text or "" for session in dialogue.sessions]


SetupRecords = dict[str, dict[str, list[Answer]]]
"""Per setup, an answer per prompt, in the order of `answer_places`; an answer without text has the reason."""


@dataclass(frozen=True)
class SharedQueries:
    """What many dialogues have in common: each with the setups whose prompts do not depend on it."""

    dialogues: tuple[tuple[Dialogue, tuple[Setup, ...]], ...]


def answer_dialogue(
    asked: Dialogue | SharedQueries,
    setups: Sequence[Setup],
    parameters: Run,
    roster: ModelRoles,
    evidence: Mapping[str, tuple[int, ...]],
) -> SetupRecords:
    """Answer a dialogue in some setups, or what many dialogues share. There is no evidence in MemoryCode."""
    if isinstance(asked, SharedQueries):
        return answer_shared(asked, roster.reader)
    return {setup: {ANSWERS: own} for setup, own in run_dialogue(asked, setups, parameters, roster).items()}


def memory_arm(setup: Setup, parameters: RunParameters) -> Arm:
    """Return the memory of a setup with its settings; raise `UserError` where `own` names no class."""
    kind = kind_of(method_of(setup))
    if setup not in MEMORY_SETUPS:
        raise ValueError(f"{setup} has no memory")
    if not kind.outside:
        return arm_of_memory(kind.name, parameters)
    if not parameters.own_memory:
        raise UserError("the setup own needs a memory of your own; name it as file.py:Class in own_memory.")
    return Arm(memory=kind.name, target=parameters.own_memories[0])


def method_of(setup: str) -> str:
    """Return the method whose reader answers in a setup: the whole history is long context too, as BEAM's is."""
    return FullContext.name if setup in _WHOLE else setup


def run_dialogue(
    dialogue: Dialogue, setups: Sequence[Setup], parameters: Run, roster: ModelRoles
) -> dict[Setup, list[Answer]]:
    """Answer one dialogue in every setup.

    Memories read and recall one after the other, LIGHT in one reading; then all prompts of all setups go out at once.
    Only where prompts share a long history does the first end before the others start, so that an endpoint has read
    it. A failed call is an answer with a reason and no text.
    """
    encoders = Encoders(parameters.retrieval.encoder, parameters.retrieval.splade, roster.embedding)
    questions: dict[Setup, list[Asked]] = {}
    for setup in setups:
        if setup not in MEMORY_SETUPS:
            reranker = roster.outside.get(RERANK)
            questions[setup] = _asked(dialogue, setup, parameters.retrieval.retriever, encoders, reranker)
    questions |= _recalled(dialogue, [setup for setup in setups if setup in MEMORY_SETUPS], parameters, roster)
    groups = [(questions[setup], roster.reader_of(method_of(setup)), setup in _WHOLE) for setup in setups]
    return dict(zip(setups, run(answer_groups(groups, parameters.counter)), strict=True))


def _asked(dialogue: Dialogue, setup: Setup, retriever: str, encoders: Encoders, reranker: Model | None) -> list[Asked]:
    """Return the prompts of a setup without a memory, or why there is none: sessions may lack vectors or ranks."""
    try:
        placed = setup_prompts(dialogue, setup, retriever, encoders, reranker)
    except ModelError as error:
        return [
            Asked(_probe(dialogue, setup, place), failure=error.reason, transient=error.resent)
            for place in answer_places(dialogue, setup)
        ]
    return [Asked(_probe(dialogue, setup, place), prompt=prompt) for place, prompt in placed]


def answer_shared(shared: SharedQueries, reader: Model) -> SetupRecords:
    """Answer the queries of many dialogues, equal prompts asked once.

    The paper's instruction setup is one answer per wording of an instruction, repeated for all who mention it.
    """
    questions: dict[tuple[str, ...], Asked] = {}
    placed: list[tuple[Setup, Probe, tuple[str, ...]]] = []
    for dialogue, setups in shared.dialogues:
        for setup in setups:
            for place, prompt in setup_prompts(dialogue, setup):
                key, probe = (prompt.id, *prompt.variables.values()), _probe(dialogue, setup, place)
                questions.setdefault(key, Asked(probe, prompt=prompt))
                placed.append((setup, probe, key))
    answers = dict(zip(questions, run(answers_to(list(questions.values()), reader)), strict=True))
    records: SetupRecords = {}
    for setup, probe, key in placed:
        own = {"probe_id": probe.id, "conversation_id": probe.conversation_id}
        records.setdefault(setup, {}).setdefault(ANSWERS, []).append(answers[key].model_copy(update=own))
    return records


def _recalled(
    dialogue: Dialogue, setups: Sequence[Setup], parameters: Run, roster: ModelRoles
) -> dict[Setup, list[Asked]]:
    """Return the prompts over what each memory recalls, or why there is none."""
    if not setups:
        return {}
    arms = [memory_arm(setup, parameters) for setup in setups]
    questions: dict[Setup, list[Asked]] = {}
    memories = ingested(arms, dialogue_as_conversation(dialogue), parameters, roster, {})
    for setup, (_, memory) in zip(setups, memories, strict=True):
        places = answer_places(dialogue, setup)

        def prompt(
            number: int, recalled: RetrievedContext, setup: Setup = setup, places: Sequence[Place] = places
        ) -> Prompt:
            return recalled_prompt(dialogue, setup, places[number], recalled.context)

        questions[setup] = ask_probes([_probe(dialogue, setup, place) for place in places], memory, prompt)
    return questions


def place_id(dialogue: Dialogue, setup: Setup, place: Place) -> str:
    """Return the id of the query at a place, unique in the run."""
    return f"{dialogue.name}-{setup}-s{place.session}-q{place.query}"


def _probe(dialogue: Dialogue, setup: Setup, place: Place) -> Probe:
    """Return the query at a place as a question to a memory."""
    return Probe(place_id(dialogue, setup, place), dialogue.name, request(query_at(dialogue, setup, place)))
