"""One episode with one memory: sessions read in order, both rounds of questions, what was recalled, kept and spent.

Nothing here can reach gold: an episode holds sessions and questions.
(Protocol: section 2.6 of the fact sheet.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel

from beam_meme.episode_results import CONTEXTS, Meter, contexts_record, writable_answer
from beam_meme.episodes import Episode, Phase, Round, episode_conversation
from beam_meme.meme_memories import (
    OVER_SESSIONS,
    MemeMemory,
    arm_of,
    evolving_memory,
    reads_sessions,
    session_search,
)
from beam_memories.evolving.evolving_memory import EvolvingMemory, SessionRead, sessions_of
from beamlib.data.conversations import Probe
from beamlib.evaluate.answering import Asked, answers_to, ask_probes, ingested, read_or_fail
from beamlib.evaluate.records import ANSWERS
from beamlib.llm.model import ModelError, ModelRoles, Prompt, run
from beamlib.memory import Memory
from beamlib.memory.declared import kind_of
from beamlib.memory.protocol import RetrievedContext
from beamlib.processes import at_once, tell
from beamlib.run import Run

ANSWER_PROMPT = "meme_answer"

_Evidence = Mapping[str, tuple[int, ...]]
"""By question id, the messages that tell its facts: for the ceiling alone, and handed in from outside."""

EpisodeRecords = dict[str, Sequence[BaseModel]]
"""An episode's records with one memory, by part."""


@dataclass
class _Reading:
    """A memory at work on an episode."""

    episode: Episode
    meter: Meter
    snapshots: list[Mapping[str, str]] = field(default_factory=list)

    def ask(self, phase: Phase, memory: Memory | ModelError) -> list[Asked]:
        """Put the questions of a round over what is recalled; recalling counts as retrieval, not as reading."""
        asked = self.episode.rounds[phase]
        probes = probes_of(self.episode, asked)

        def prompt(place: int, recalled: RetrievedContext) -> Prompt:
            variables = {"context": recalled.context, "question": probes[place].question}
            return Prompt(ANSWER_PROMPT, variables, about=probes[place].id)

        with self.meter.at("retrieval"):
            return ask_probes(probes, memory, prompt, episode_conversation(self.episode, asked.sessions))


def probes_of(episode: Episode, one: Round) -> list[Probe]:
    """The questions of a round as questions to a memory."""
    return [Probe(question.id, episode.id, question.text) for question in one.questions]


def answer_episode(
    asked: Episode,
    arms: Sequence[MemeMemory],
    parameters: Run,
    roster: ModelRoles,
    evidence: _Evidence,
) -> dict[str, EpisodeRecords]:
    """Answer both rounds of an episode with some memories, at once where models are called."""

    def answer(memory: MemeMemory) -> EpisodeRecords:
        return run_episode(asked, memory, parameters, roster, evidence)

    if not parameters.models:
        return {arm: answer(arm) for arm in arms}
    return dict(zip(arms, at_once(answer, [(arm,) for arm in arms]), strict=True))


def run_episode(
    episode: Episode,
    memory: MemeMemory,
    parameters: Run,
    roster: ModelRoles,
    evidence: _Evidence | None = None,
) -> EpisodeRecords:
    """Ask both rounds of an episode with a fresh memory. A failed call is an answer with a reason and no text.

    Memories read and recall first, then the questions of both rounds go to the reader at once: each is a prompt of its
    own over what was recalled for it in its round. `evidence` is looked at by `gold-facts` alone.

    Returns:
        The answers in the order asked, and the record of contexts, kept files and tokens.
    """
    tell(f"{episode.id} {memory}")
    meter = Meter()
    metered = meter.roles(roster)
    reading = _Reading(episode, meter)
    if reads_sessions(memory):
        asked = [one for _, own in _evolving(reading, memory, parameters, metered) for one in own]
    else:
        asked = [one for _, own in _plain(reading, memory, parameters, metered, evidence or {}) for one in own]
    # Over the whole conversation the first call warms the prefix of the others.
    warm = kind_of(memory).whole
    with meter.at("answer"):
        answers = run(answers_to(asked, metered.reader_of(memory), warm=warm, counter=parameters.counter))
    contexts = {one.probe.id: one.recollection.context for one in asked}
    record = contexts_record(episode.id, contexts, reading.snapshots, meter.spending)
    return {ANSWERS: [writable_answer(answer) for answer in answers], CONTEXTS: [record]}


def _plain(
    reading: _Reading, memory: MemeMemory, parameters: Run, roster: ModelRoles, evidence: _Evidence
) -> Iterator[tuple[Phase, list[Asked]]]:
    """A memory that reads the conversation so far, anew at each round."""
    for phase, one in reading.episode.rounds.items():
        conversation = episode_conversation(reading.episode, one.sessions)
        if memory in OVER_SESSIONS:
            sessions = session_search(memory, parameters, roster.embedding)
            yield phase, reading.ask(phase, read_or_fail(sessions, conversation))
            continue
        arms = [arm_of(memory, parameters)]
        for _, made in ingested(arms, conversation, parameters, roster, evidence):
            yield phase, reading.ask(phase, made)


def _evolving(
    reading: _Reading, memory: MemeMemory, parameters: Run, roster: ModelRoles
) -> Iterator[tuple[Phase, list[Asked]]]:
    """A memory that reads session by session, and goes on from the first round to the second.

    It is handed each session when its turn comes. A reading that failed is failed for all rounds after it.
    """
    episode = reading.episode
    keeper = evolving_memory(memory, roster.memory, parameters)
    sessions = sessions_of(episode_conversation(episode, len(episode.sessions)))
    failed: ModelError | None = None
    read = 0
    for phase, one in episode.rounds.items():
        failed = failed or _read(reading, keeper, sessions[read : one.sessions])
        read = one.sessions
        yield phase, reading.ask(phase, failed or keeper)


def _read(reading: _Reading, keeper: EvolvingMemory, sessions: Sequence[SessionRead]) -> ModelError | None:
    """Read sessions and finalise, with a snapshot after each; that of the last is as the questions find it."""
    try:
        for session in sessions:
            keeper.read_session(session)
            reading.snapshots.append(dict(keeper.snapshot()))
        with reading.meter.at("maintenance"):
            keeper.finalise()
    except ModelError as error:
        return error
    reading.snapshots[-1:] = [dict(keeper.snapshot())] if reading.snapshots else []
    return None
