"""What a reader is asked on MemoryCode: the setups of the paper, and this project's memories in place of the history.

The paper's (section 4): `instruction`, `session`, `history`. Its further ones: `chain` (6.2, the instructions without
the dialogue), `retrieval` (appendix D, the best sessions alone) and `alone` (5, nothing at all). Then what a memory
recalls for the query: `full_context`, `rag`, `light`, and `own`, a memory from outside this package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from beam_memorycode.dialogues import Dialogue
from beamlib.errors import UserError
from beamlib.llm.model import Prompt
from beamlib.retrieval import Document, Encoders, build_index
from beamlib.text import split_sentences

Setup = Literal[
    "instruction", "session", "history", "chain", "retrieval", "alone", "full_context", "rag", "light", "own"
]

SETUPS: tuple[Setup, ...] = get_args(Setup)
PUBLISHED: tuple[Setup, ...] = ("instruction", "session", "history")
"""The setups of Table 4, which the authors' output files hold."""

MEMORIES: tuple[Setup, ...] = ("full_context", "rag", "light", "own")
"""Setups in which a memory reads the dialogue as a conversation and recalls what bears on the query."""

WITHOUT_TEXTS: tuple[Setup, ...] = ("instruction", "chain", "alone")
"""Setups that need the template only, and not what was said."""

SHARED: tuple[Setup, ...] = ("instruction", "alone")
"""Setups whose prompts do not depend on the dialogue: each is asked once, and its answer repeated."""

PROMPT: dict[Setup, str] = {
    "instruction": "memorycode_instruction",
    "session": "memorycode_session",
    "history": "memorycode_history",
    "chain": "memorycode_chain",
    "retrieval": "memorycode_history",
    "alone": "memorycode_alone",
    **dict.fromkeys(MEMORIES, "memorycode_recalled"),
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
    """Whether a dialogue has what the setup shows: published without texts, it is good for `WITHOUT_TEXTS` alone."""
    return dialogue.has_texts or setup in WITHOUT_TEXTS


def places_of(dialogue: Dialogue, setup: Setup) -> list[Place]:
    """Where the answers of a setup belong, in the order of its prompts: one per query of each session, or of the last.

    A setup that is asked after the last session has `Dialogue.queries`, in file order.
    """
    if setup in _OF_SESSIONS:
        return [Place(i, j) for i, session in enumerate(dialogue.sessions) for j in range(len(session.queries))]
    return [Place(len(dialogue.sessions) - 1, j) for j in range(len(dialogue.queries))]


def prompts_of(
    dialogue: Dialogue, setup: Setup, retriever: str = "hybrid", encoders: Encoders = _DEFAULT
) -> list[tuple[Place, Prompt]]:
    """The prompts of a setup that rests on no memory, each with the place of its answer.

    `retriever` and `encoders` choose the sessions of `retrieval` (see `beamlib.retrieval`). `UserError` where the
    dialogue lacks the texts or wordings that the setup shows; `ValueError` for one of `MEMORIES` (see
    `recalled_prompt`).
    """
    if setup in MEMORIES:
        raise ValueError(f"{setup} asks a memory: see recalled_prompt")
    if not possible(dialogue, setup):
        raise UserError(f"{dialogue.name}: has no texts, which the setup {setup} shows; give them, or leave it out.")
    if setup in ("instruction", "chain"):
        _check_wordings(dialogue, setup)
    places = places_of(dialogue, setup)
    shown = _shown(dialogue, setup, places, retriever, encoders)
    return [(place, _prompt(dialogue, setup, place, one)) for place, one in zip(places, shown, strict=True)]


def recalled_prompt(dialogue: Dialogue, setup: Setup, place: Place, context: str) -> Prompt:
    """The prompt for the dialogue's query at `place` over what a memory recalls for it."""
    return _prompt(dialogue, setup, place, {"context": context})


def query_at(dialogue: Dialogue, setup: Setup, place: Place) -> str:
    """The query whose answer belongs at a place."""
    return (dialogue.sessions[place.session] if setup in _OF_SESSIONS else dialogue).queries[place.query]


def request(query: str) -> str:
    """The task as a question to a memory: what the reader will be asked, in the mentee's words."""
    return f"Write a {query}, following all the newest coding guidelines of my mentor, including updates of them."


def numbered(texts: Sequence[str]) -> str:
    """Session texts one after the other, each under a header with its number from 0."""
    return "\n\n".join(f"## Session {number}\n\n{text.strip()}" for number, text in enumerate(texts))


def guideline_list(dialogue: Dialogue) -> str:
    """All values of coding instructions in order of mention, those that were replaced later included; one per line."""
    return "\n".join(f"- {value}" for session in dialogue.sessions for value in session.instructions)


def best_sessions(
    queries: Sequence[str], dialogue: Dialogue, retriever: str, encoders: Encoders = _DEFAULT
) -> list[list[int]]:
    """For each query the sessions nearest to it, in order of time: as many as there are sessions with instructions.

    The paper ranks by a hosted model (Cohere rerank-english-v3.0); this is one of the project's retrievers over the
    session texts.
    """
    k = sum(bool(session.queries) for session in dialogue.sessions)  # files may leave mentions out
    if not k:
        return [[] for _ in queries]
    documents = [Document((text,), split_sentences(text)) for text in _texts(dialogue)]
    index = build_index(documents, retriever, encoders)
    return [sorted(hit.owner for hit in index.search(query, k)) for query in queries]


def _check_wordings(dialogue: Dialogue, setup: Setup) -> None:
    """A file can be scored without its topics; what shows them needs them."""
    for number, session in enumerate(dialogue.sessions):
        if len(session.instructions) != len(session.queries):
            raise UserError(
                f"{dialogue.name}: sessions.{number}: topic lacks instructions, which the setup {setup} shows; give "
                "them, or leave the setup out."
            )


def _shown(
    dialogue: Dialogue, setup: Setup, places: Sequence[Place], retriever: str, encoders: Encoders
) -> list[dict[str, str]]:
    """What each prompt of a setup shows of the dialogue, as variables."""
    texts = _texts(dialogue)
    match setup:
        case "instruction":
            return [{"guideline": dialogue.sessions[place.session].instructions[place.query]} for place in places]
        case "session":
            return [{"session": texts[place.session].strip()} for place in places]
        case "retrieval":
            found = best_sessions(dialogue.queries, dialogue, retriever, encoders)
            return [{"sessions": numbered([texts[session] for session in sessions])} for sessions in found]
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
    return Prompt(PROMPT[setup], variables, f"{dialogue.name}, session {place.session}, query {place.query}")


def _texts(dialogue: Dialogue) -> list[str]:
    return [session.text or "" for session in dialogue.sessions]
