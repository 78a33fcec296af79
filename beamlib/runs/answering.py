"""From a conversation and its probes to answers. Nothing here has seen a rubric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from beamlib.benchmark.model import Conversation, Probe
from beamlib.memory import FullContext, Light, LightSettings, Memory, NoMemory, Rag
from beamlib.models.base import Model, ModelError, Prompt, complete_all
from beamlib.params import RunParameters
from beamlib.runs.arms import Arm
from beamlib.runs.oracle import Oracle
from beamlib.runs.own import own_memory
from beamlib.runs.records import Answer
from beamlib.text import count_tokens

AnyMemory = TypeVar("AnyMemory", bound=Memory | Oracle)


def light_settings(arm: Arm, parameters: RunParameters) -> LightSettings:
    """LIGHT's settings for an arm: `without` switches one component off."""
    return LightSettings(
        k=arm.k or parameters.k,
        retriever=arm.retriever or parameters.retriever,
        working_pairs=parameters.working_pairs,
        reader_window=parameters.reader_window,
        scratchpad_threshold=parameters.scratchpad_threshold,
        scratchpad_target=parameters.scratchpad_target,
        use_retrieval=arm.without != "retrieval",
        use_scratchpad=arm.without != "scratchpad",
        use_working=arm.without != "working-memory",
        use_filter=arm.without != "noise-filter",
    )


def ingested(
    arms: Sequence[Arm],
    conversation: Conversation,
    parameters: RunParameters,
    model: Model,
    evidence: Mapping[str, tuple[int, ...]],
) -> Iterator[tuple[Arm, Memory | Oracle | ModelError]]:
    """Each arm with its memory, conversation read; a failed reading comes as the `ModelError` it raised.

    All variants of LIGHT share one reading, which is most of their cost: they differ only in what they recall.
    `evidence` maps a probe's id to the message ids it cites, for the oracle alone.
    """
    read: Light | ModelError | None = None
    for arm in arms:
        if arm.memory == "light":
            settings = light_settings(arm, parameters)
            if read is None:
                read = _read(Light(model, settings), conversation)
            elif isinstance(read, Light) and settings.retriever != read.settings.retriever:
                read = read.variant(settings)  # another index over the same keys and notes
            yield arm, read if isinstance(read, ModelError) else read.variant(settings)
        else:
            yield arm, _read(_plain_memory(arm, parameters, evidence), conversation)


def _read(memory: AnyMemory, conversation: Conversation) -> AnyMemory | ModelError:
    try:
        memory.ingest(conversation)
    except ModelError as error:
        return error
    return memory


def _plain_memory(arm: Arm, parameters: RunParameters, evidence: Mapping[str, tuple[int, ...]]) -> Memory | Oracle:
    match arm.memory:
        case "none":
            return NoMemory()
        case "oracle":
            return Oracle(evidence)
        case "own":
            return own_memory(arm.target or "")
        case "full-context":
            return FullContext(window_tokens=parameters.full_context_window)
        case _:
            return Rag(
                k=arm.k or parameters.k,
                retriever=arm.retriever or parameters.retriever,
                window_tokens=parameters.reader_window,
            )


def answer_probes(
    probes: Sequence[Probe], memory: Memory | Oracle | ModelError, reader: Model, prompt_id: str
) -> list[Answer]:
    """Ask `reader` every probe over what `memory` recalls, by the prompt `answer` or `answer_full`.

    A memory that could not be built, or a call that failed, gives unscored answers with the reason.
    """
    if isinstance(memory, ModelError):
        return [_unscored(probe, f"the memory could not be built: {memory}") for probe in probes]
    answers = []
    for probe in probes:
        try:
            recollection = memory.recall_for(probe) if isinstance(memory, Oracle) else memory.recall(probe.question)
            prompt = Prompt(prompt_id, {"question": probe.question, "context": recollection.context})
            text = complete_all(reader, [prompt])[0].text
        except ModelError as error:
            answers.append(_unscored(probe, str(error)))
            continue
        answers.append(
            Answer(
                probe_id=probe.id,
                conversation_id=probe.conversation_id,
                text=text,
                message_ids=recollection.message_ids,
                parts=dict(recollection.parts),
                context_tokens=count_tokens(recollection.context),
            )
        )
    return answers


def _unscored(probe: Probe, reason: str) -> Answer:
    return Answer(probe_id=probe.id, conversation_id=probe.conversation_id, unscored=reason)
