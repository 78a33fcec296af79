"""From a conversation and its probes to answers. Nothing here has seen a rubric."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel

from beamlib.data.conversations import Conversation, Probe
from beamlib.evaluate.arms import OF_ARMS, Arm
from beamlib.evaluate.ingest_cache import read_shared
from beamlib.evaluate.records import ANSWERS, Answer
from beamlib.evaluate.timing import TIMES, Stopwatch
from beamlib.llm.model import Completion, Model, ModelError, ModelRoles, Prompt, gather_all, run
from beamlib.memory import Memory
from beamlib.memory.declared import DeclaredMemory, Given, SharedReading, kind_of, memory_kind, recall_each
from beamlib.memory.protocol import RetrievedContext, partly_shown
from beamlib.params import RunParameters
from beamlib.processes import tell
from beamlib.run import Run
from beamlib.text import WORDS, TokenCounter

AnyMemory = TypeVar("AnyMemory", bound=Memory)
Measure = Callable[[Sequence[str]], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A probe as it goes to the reader: what was recalled for it, and the prompt; or why there is none.

    `partial_ids` are the recalled messages that the context does not show whole, None where nobody looked.
    """

    probe: Probe
    recollection: RetrievedContext = field(default_factory=lambda: RetrievedContext(""))
    partial_ids: tuple[int, ...] | None = None
    prompt: Prompt | None = None
    failure: str = ""
    transient: bool = False


Group = tuple[Sequence[Asked], Model, bool]
"""Prompts, who is asked, and whether the first of them warms the others' prefix."""


def given_to(
    arm: Arm,
    parameters: Run,
    roster: ModelRoles,
    evidence: Mapping[str, tuple[int, ...]] | None = None,
    *,
    as_turns: bool = False,
) -> Given:
    """What the memory of an arm is built of."""
    of_arm = {name: value for name in OF_ARMS if (value := getattr(arm, name)) is not None}
    return Given(
        parameters, roster, parameters.counter, of_arm, arm.without, arm.target, evidence or {}, as_turns,
        parameters.flags, arm,
    )  # fmt: skip


def ingested(
    arms: Sequence[Arm],
    conversation: Conversation,
    parameters: Run,
    roster: ModelRoles,
    evidence: Mapping[str, tuple[int, ...]],
    *,
    as_turns: bool = False,
    watch: Stopwatch | None = None,
) -> Iterator[tuple[Arm, Memory | ModelError]]:
    """Each arm with its memory, conversation read; a failed reading comes as the `ModelError` it raised.

    Arms of a `SharedReading` (all variants of LIGHT) share one, which is most of their cost: they differ only in what
    they recall. `evidence` maps a probe's id to the message ids it cites, for the ceiling alone. With `as_turns` long
    context comes as chat turns. Each arm has its own `Conversation` of the same unchangeable messages; a memory of
    one's own has a copy of these too, in its process, which ends when the next arm is asked for. `watch` times
    what they read.
    """
    watch = watch or Stopwatch(conversation.id)
    readings: dict[str, SharedReading | ModelError] = {}
    for arm in arms:
        tell(f"{conversation.id} {arm.name}")
        conversation = replace(conversation, removed=dict(conversation.removed))
        given = given_to(arm, parameters, roster, evidence, as_turns=as_turns)
        with memory_kind(arm.memory).opened(given) as memory:
            if not isinstance(memory, SharedReading):
                with watch.measure(arm.name):
                    read = read_or_fail(memory, conversation)
                yield arm, read
                continue
            try:
                if arm.memory not in readings:
                    readings[arm.memory] = read_shared(
                        memory, conversation, parameters, roster, measure=partial(watch.measure, arm.name)
                    )
                reading = readings[arm.memory]
                shared = reading if isinstance(reading, ModelError) else reading.share(given)
            except ModelError as error:
                readings.setdefault(arm.memory, error)
                shared = error
            yield arm, shared


def read_or_fail(memory: AnyMemory, conversation: Conversation) -> AnyMemory | ModelError:
    """Let `memory` ingest a conversation; return it, or the `ModelError` that this ended with."""
    try:
        memory.ingest(conversation)
    except ModelError as error:
        return error
    return memory


def ask_probes(
    probes: Sequence[Probe],
    memory: Memory | ModelError,
    prompt: Callable[[int, RetrievedContext], Prompt],
    conversation: Conversation | None = None,
    *,
    measure: Measure = lambda _: nullcontext(),
) -> list[Asked]:
    """Recall for every probe and put the context into the prompt that `prompt(place, recollection)` returns.

    Args:
        place: The probe's position among `probes`.
        conversation: Where given, recalled messages whose text is not whole in the context are noted.
        measure: Times the recalling for the questions of these ids.
    """
    if isinstance(memory, ModelError):
        reason = f"the memory could not be built: {memory.reason}"
        return [Asked(probe, failure=reason, transient=memory.resent) for probe in probes]
    texts = {message.id: message.content for message in conversation.messages} if conversation else {}
    partial: dict[str, tuple[int, ...]] = {}  # by context: the whole conversation is the same for every probe
    asked = []
    for place, (probe, recollection) in enumerate(zip(probes, recollections(probes, memory, measure), strict=True)):
        if isinstance(recollection, ModelError):
            asked.append(Asked(probe, failure=recollection.reason, transient=recollection.resent))
            continue
        if conversation and recollection.context not in partial:
            partial[recollection.context] = partly_shown(recollection, texts)
        ids = partial.get(recollection.context)
        asked.append(Asked(probe, recollection, ids, prompt(place, recollection)))
    return asked


def recollections(
    probes: Sequence[Probe], memory: Memory, measure: Measure = lambda _: nullcontext()
) -> list[RetrievedContext | ModelError]:
    """What `memory` recalls for each of `probes`, in order, or the `ModelError` that recalling ended with."""
    together = isinstance(memory, DeclaredMemory) and type(memory).recall_probes is not DeclaredMemory.recall_probes
    recalled: list[RetrievedContext | ModelError] = []
    for group in [probes] if together else [[probe] for probe in probes]:
        with measure([probe.id for probe in group]):
            recalled += (
                memory.recall_probes(group) if isinstance(memory, DeclaredMemory) else recall_each(memory, group)
            )
    return recalled


async def answers_to(
    asked: Sequence[Asked], reader: Model, *, warm: bool = False, counter: TokenCounter = WORDS
) -> list[Answer]:
    """Put the prompts to `reader`, all at once; what could not be asked or answered is unscored with its reason.

    `warm` lets the first prompt end before the others start: they share its long prefix, which an endpoint can only
    find in its cache once it has read it. `counter` counts the contexts.
    """
    prompts = [one.prompt for one in asked if one.prompt is not None]
    first = await gather_all(reader, prompts[:1]) if warm else []
    replies = iter([*first, *await gather_all(reader, prompts[len(first) :])])
    return [_answer(one, next(replies) if one.prompt is not None else None, counter) for one in asked]


async def answer_groups(groups: Sequence[Group], counter: TokenCounter = WORDS) -> list[list[Answer]]:
    """`answers_to` for several groups at once."""
    found = (answers_to(asked, reader, warm=warm, counter=counter) for asked, reader, warm in groups)
    return list(await asyncio.gather(*found))


@dataclass(frozen=True)
class Questions:
    """What a worker is asked about one conversation, and nothing else of the data."""

    conversation: Conversation
    probes: tuple[Probe, ...]


def answer_questions(
    asked: Questions,
    arms: Sequence[Arm],
    parameters: Run,
    roster: ModelRoles,
    evidence: Mapping[str, tuple[int, ...]],
) -> dict[str, dict[str, Sequence[BaseModel]]]:
    """Answer the questions with every arm; records by arm's name and part, and what was timed."""
    watch = Stopwatch(asked.conversation.id)
    answers = answer_arms(arms, asked.conversation, asked.probes, parameters, roster, evidence, watch)
    return {name: {ANSWERS: own, TIMES: watch.rows.get(name, [])} for name, own in answers.items()}


def answer_arms(
    arms: Sequence[Arm],
    conversation: Conversation,
    probes: Sequence[Probe],
    parameters: Run,
    roster: ModelRoles,
    evidence: Mapping[str, tuple[int, ...]],
    watch: Stopwatch | None = None,
) -> dict[str, list[Answer]]:
    """The answers of every arm by its name. Memories read and recall one after the other, then all prompts go out."""
    watch = watch or Stopwatch(conversation.id)
    groups = [
        (
            ask_arm(arm, probes, memory, parameters, conversation, watch),
            roster.reader_of(arm.memory),
            kind_of(arm.memory).whole,
        )
        for arm, memory in ingested(
            arms, conversation, parameters, roster, evidence, as_turns=parameters.sends_chat_turns, watch=watch
        )
    ]
    names = [arm.name for arm in arms]
    return dict(zip(names, run(answer_groups(groups, parameters.counter)), strict=True))


def ask_arm(
    arm: Arm,
    probes: Sequence[Probe],
    memory: Memory | ModelError,
    parameters: RunParameters,
    conversation: Conversation,
    watch: Stopwatch | None = None,
) -> list[Asked]:
    """Every probe as it goes to the reader of an arm: listing 44, or the conversation with the question at its end.

    Long context that comes as chat turns is sent so, else as one text.
    `questions_accumulate` reproduces the released long-context baseline, whose message list keeps every question from
    the second on (M9 of the reference: 1, 1, 2, 3, ... questions in the prompt).
    """
    whole = kind_of(arm.memory).whole
    released = "answer_full_released" if "long_context_prompt" in parameters.flags else "answer_full"

    def prompt(place: int, recalled: RetrievedContext) -> Prompt:
        question, about = probes[place].question, probes[place].id
        if whole and recalled.turns:
            return Prompt("answer_turns", {"question": question}, about=about, turns=recalled.turns)
        context = recalled.context
        if whole and "questions_accumulate" in parameters.flags:
            context = "\n\n".join([context, *(f"USER: {earlier.question}" for earlier in probes[1:place])])
        variables = {"question": question, "context": context}
        return Prompt(released if whole else "answer", variables, about=about)

    measure = partial((watch or Stopwatch(conversation.id)).measure, arm.name)
    return ask_probes(probes, memory, prompt, conversation, measure=measure)


def _answer(asked: Asked, reply: Completion | ModelError | None, counter: TokenCounter) -> Answer:
    record: dict[str, Any] = {"probe_id": asked.probe.id, "conversation_id": asked.probe.conversation_id}
    if reply is None:
        return Answer.model_validate({**record, "unscored": asked.failure, "transient": asked.transient})
    failure = reply if isinstance(reply, ModelError) else None
    context = asked.recollection
    return Answer(
        **record,
        text=None if isinstance(reply, ModelError) else reply.text,
        unscored=failure.reason if failure else None,
        transient=failure is not None and failure.resent,
        message_ids=context.message_ids,
        parts=dict(context.parts),
        partial_ids=asked.partial_ids,
        cuts=context.cuts,
        context_tokens=counter.count(context.context),
        gaps=context.gaps,
    )
