"""The memories that are compared on MEME, by name, and the two of its own: BM25 and vectors over whole sessions.

Nothing here has seen gold. (Sections 2.6 and 2.8 of the fact sheet.)
"""

from __future__ import annotations

from typing import TypeAlias

from beam_memories.evolving.evolving_memory import EvolvingMemory
from beamlib.data.conversations import Batch, Conversation, Message
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm, memory_arm
from beamlib.llm.model import Model, ModelRoles
from beamlib.memory.budget import RESERVE_TOKENS, fit_pairs, most_pairs
from beamlib.memory.declared import Given, kind_of, memories, memory_kind
from beamlib.memory.protocol import Passage, RetrievedContext
from beamlib.params import RunParameters
from beamlib.retrieval import Document, Encoders, Index, build_index
from beamlib.run import Run
from beamlib.text import WORDS, TokenCounter, split_sentences

MemeMemory: TypeAlias = str
"""Names an arm, its folder and its column: one of `meme_memories`."""

CEILING = "gold-facts"
"""What MEME calls the memory that is handed evidence."""
_DENSE = "text-embedding-3-small"
OVER_SESSIONS: tuple[MemeMemory, ...] = ("bm25", "dense")


def meme_memories() -> tuple[MemeMemory, ...]:
    """Return the memories in the order of tables: those of BEAM's runs, and `OVER_SESSIONS` after the long context."""
    names: list[MemeMemory] = []
    for name, kind in memories().items():
        if kind.joins == "by target" and not kind.outside:  # published results are no memory to ask
            continue
        names += [CEILING if kind.ceiling else name, *(OVER_SESSIONS if kind.whole else ())]
    names.remove(CEILING)
    return (names[0], CEILING, *names[1:])


def own_name(system: str) -> str:
    """Return the memory that is of the same make as a published system; its name in small letters where none is."""
    names = {kind.published_as: name for name, kind in memories().items() if kind.published_as}
    return {**names, _DENSE: "dense"}.get(system, system.lower())


def reads_sessions(memory: MemeMemory) -> bool:
    """Tell whether a memory reads session by session and shows what it keeps.

    The others read the conversation so far at each round.
    """
    return issubclass(kind_of(memory), EvolvingMemory)


_SPEAKERS = {"user": "USER", "assistant": "ASSISTANT"}
_DEFAULT = Encoders()


def arm_of(memory: MemeMemory, parameters: RunParameters) -> Arm:
    """The arm of this project's runs that a memory is, with its settings; `UserError` where `own` names no class.

    `ValueError` for one that is made here: of `OVER_SESSIONS`, or one that reads sessions.
    """
    kind = kind_of(memory)
    if memory == CEILING:
        return Arm(memory=next(name for name, kind in memories().items() if kind.ceiling))
    if not kind.name or reads_sessions(memory):
        raise ValueError(f"{memory} is no arm of BEAM's runs")
    if kind.joins == "by target":
        if not parameters.own_memory:
            raise UserError("the memory own needs a class of your own; name it as file.py:Class in own_memory.")
        return Arm(memory=memory, target=parameters.own_memories[0])
    return memory_arm(memory, parameters)


def evolving_memory(memory: MemeMemory, model: Model, parameters: Run) -> EvolvingMemory:
    """A memory that keeps files, empty; `model` works inside it."""
    keeper = memory_kind(memory).build(Given(parameters, ModelRoles.of(model), parameters.counter))
    assert isinstance(keeper, EvolvingMemory)
    return keeper


class SessionSearch:
    """Recalls the `k` sessions whose text suits the question best, best first, in the reader's window.

    A document is a whole session: its date, then its lines under who said them. No model reads anything. Where the
    sessions exceed the window, the lowest-ranked are dropped.
    """

    def __init__(
        self,
        retriever: str,
        k: int = 5,
        window_tokens: int = 131_072,
        *,
        encoder: str = _DEFAULT.dense,
        embedding: Model | None = None,
        counter: TokenCounter = WORDS,
    ) -> None:
        self._tokens = window_tokens - RESERVE_TOKENS
        if not 1 <= k <= most_pairs(self._tokens):
            raise UserError(
                f"sessions: k is {k} in a window of {window_tokens} tokens less a reserve of {RESERVE_TOKENS}; give a "
                "k of at least 1 and a larger window."
            )
        self._retriever, self._k, self._counter = retriever, k, counter
        self._encoders = Encoders(encoder, endpoint=embedding)
        self._sessions: list[Passage] = []
        self._index: Index = build_index([], "bm25")

    @property
    def name(self) -> str:
        """`<retriever>-sessions-k<k>`."""
        return f"{self._retriever}-sessions-k{self._k}"

    def ingest(self, conversation: Conversation) -> None:
        """Index the conversation's sessions, replacing what was indexed before."""
        self._sessions = [session_passage(batch) for batch in conversation.batches if batch.turns]
        documents = [Document((one.text,), split_sentences(one.text)) for one in self._sessions]
        self._index = build_index(documents, self._retriever, self._encoders)

    def recall(self, question: str) -> RetrievedContext:
        """The best sessions in rank order."""
        if not self._sessions:
            return RetrievedContext("")
        found = [self._sessions[hit.owner] for hit in self._index.search(question, self._k)]
        return RetrievedContext.of(*fit_pairs(found, self._tokens, self._counter))


def session_passage(batch: Batch) -> Passage:
    """A session as one text: a date header, then its lines; the ids are of all its messages."""
    messages = [message for turn in batch.turns for message in turn.messages]
    date = f"[{batch.time_anchor}]" if batch.time_anchor else ""
    said = [(message.role, _words(message, date)) for message in messages]
    lines = [f"{_SPEAKERS[role]}: {text}" for role, text in said if text]
    return Passage("\n".join(filter(None, [date, *lines])), tuple(message.id for message in messages))


def _words(message: Message, date: str) -> str:
    """What a message says, without the date that the header has."""
    return message.content.removeprefix(date).lstrip() if date else message.content


def session_search(memory: MemeMemory, parameters: Run, embedding: Model | None) -> SessionSearch:
    """One of `OVER_SESSIONS`; `ValueError` for any other. `embedding` embeds where the encoder is `embedding`."""
    if memory not in ("bm25", "dense"):
        raise ValueError(f"{memory} does not search sessions")
    window, counter, retrieval = parameters.context.reader_window, parameters.counter, parameters.retrieval
    return SessionSearch(memory, retrieval.k, window, encoder=retrieval.encoder, embedding=embedding, counter=counter)
