"""One episode with one memory: sessions read in order, both rounds of questions, what was recalled, kept and spent.

Nothing here has seen gold: an episode holds sessions and questions. Files and manifests are `beam_meme.meme_store`'s.
(Protocol: section 2.6 of the fact sheet.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from beam_meme.episode_conversation import conversation_of
from beam_meme.episodes import Episode, Phase, Round
from beam_meme.meme_memories import (
    EVOLVING,
    OVER_SESSIONS,
    MemeMemory,
    arm_of,
    evolving_memory,
    session_search,
)
from beam_meme.stage_tokens import Meter
from beam_memories.evolving.evolving_memory import EvolvingMemory, SessionRead, sessions_of
from beamlib.data.conversations import Probe
from beamlib.evaluate.answer_record import Answer
from beamlib.evaluate.answering import Asked, Oracle, answers_to, ask_probes, ingested
from beamlib.evaluate.calling import ResolvedParameters
from beamlib.llm.model import ModelError, Prompt, run
from beamlib.llm.roles import ModelRoles
from beamlib.memory import Memory
from beamlib.processes import tell

PROMPT = "meme_answer"

Evidence = Mapping[str, tuple[int, ...]]
"""By question id, the messages that tell its facts: for the ceiling alone, and handed in from outside."""


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """An answer, the round it was asked in, and the context that the reader saw."""

    phase: Phase
    answer: Answer
    context: str


@dataclass
class EpisodeRun:
    """What an episode came to with one memory: answers in the order asked, and after each session what was kept.

    `snapshots` are texts by file name, one per session read; empty for a memory that keeps no files.
    """

    answers: list[RoundAnswer]
    snapshots: list[Mapping[str, str]]
    meter: Meter


@dataclass
class _Reading:
    """A memory at work on an episode."""

    episode: Episode
    meter: Meter
    snapshots: list[Mapping[str, str]] = field(default_factory=list)

    def ask(self, phase: Phase, memory: Memory | Oracle | ModelError) -> list[Asked]:
        """The questions of a round over what is recalled; recalling counts as retrieval, not as reading."""
        probes = probes_of(self.episode, self.episode.rounds[phase])

        def prompt(place: int, context: str) -> Prompt:
            variables = {"context": context, "question": probes[place].question}
            return Prompt(PROMPT, variables, about=probes[place].id)

        with self.meter.at("retrieval"):
            return ask_probes(probes, memory, prompt)


def probes_of(episode: Episode, one: Round) -> list[Probe]:
    """The questions of a round as questions to a memory."""
    return [Probe(question.id, episode.id, question.text) for question in one.questions]


def run_episode(
    episode: Episode,
    memory: MemeMemory,
    parameters: ResolvedParameters,
    roster: ModelRoles,
    evidence: Evidence | None = None,
) -> EpisodeRun:
    """Both rounds of an episode with a fresh memory. A failed call is an answer with a reason and no text.

    Memories read and recall first, then the questions of both rounds go to the reader at once: each is a prompt of its
    own over what was recalled for it in its round. `evidence` is looked at by `gold-facts` alone.
    """
    tell(f"{episode.id} {memory}")
    meter = Meter()
    metered = meter.roles(roster)
    reading = _Reading(episode, meter)
    if memory in EVOLVING:
        asked = dict(_evolving(reading, memory, parameters, metered))
    else:
        asked = dict(_plain(reading, memory, parameters, metered, evidence or {}))
    return EpisodeRun(_answers(asked, memory, parameters, metered, meter), reading.snapshots, meter)


def _answers(
    asked: Mapping[Phase, Sequence[Asked]],
    memory: MemeMemory,
    parameters: ResolvedParameters,
    roster: ModelRoles,
    meter: Meter,
) -> list[RoundAnswer]:
    """The reader's answers; over the whole conversation the first one warms the prefix of the others."""
    placed = [(phase, one) for phase, group in asked.items() for one in group]
    warm = memory == "full-context"
    reader = roster.reader_of(memory)
    with meter.at("answer"):
        answers = run(answers_to([one for _, one in placed], reader, warm=warm, counter=parameters.counter))
    return [
        RoundAnswer(phase, answer, one.recollection.context)
        for (phase, one), answer in zip(placed, answers, strict=True)
    ]


def _plain(
    reading: _Reading, memory: MemeMemory, parameters: ResolvedParameters, roster: ModelRoles, evidence: Evidence
) -> Iterator[tuple[Phase, list[Asked]]]:
    """A memory that reads the conversation so far, anew at each round."""
    for phase, one in reading.episode.rounds.items():
        conversation = conversation_of(reading.episode, one.sessions)
        if memory in OVER_SESSIONS:
            sessions = session_search(memory, parameters)
            sessions.ingest(conversation)
            yield phase, reading.ask(phase, sessions)
            continue
        arms = [arm_of(memory, parameters)]
        for _, made in ingested(arms, conversation, parameters, roster, evidence):
            yield phase, reading.ask(phase, made)


def _evolving(
    reading: _Reading, memory: MemeMemory, parameters: ResolvedParameters, roster: ModelRoles
) -> Iterator[tuple[Phase, list[Asked]]]:
    """A memory that reads session by session, and goes on from the first round to the second.

    It is handed each session when its turn comes. A reading that failed is failed for all rounds after it.
    """
    episode = reading.episode
    keeper = evolving_memory(memory, roster.memory, parameters)
    sessions = sessions_of(conversation_of(episode, len(episode.sessions)))
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
        keeper.finalise()
    except ModelError as error:
        return error
    reading.snapshots[-1:] = [dict(keeper.snapshot())] if reading.snapshots else []
    return None
