"""Recall contexts again, and replay one question, without any call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from beam_page.run_folder import RunFolder, StoredArm
from beamlib.data.loading import Loaded, load
from beamlib.errors import UserError
from beamlib.evaluate.answering import ingested, recollections
from beamlib.evaluate.beam_records import recorded_parameters
from beamlib.evaluate.calling import open_models
from beamlib.evaluate.judging import evidence_of, work
from beamlib.evaluate.kept_settings import ELSEWHERE, NOBODY_ELSES, kept_values
from beamlib.evaluate.records import Answer
from beamlib.files import to_json
from beamlib.llm.endpoints import MODELS
from beamlib.llm.model import ModelError
from beamlib.memory.declared import kind_of
from beamlib.memory.protocol import RetrievedContext
from beamlib.params import parse_parameters
from beamlib.run import PARAMETERS, Run

OWN = "its memory is a program of its own, which a page does not run"
OTHERWISE = "recalled again, its context is not the one on record (other messages, or as many tokens less or more)"

Remade = dict[str, dict[str, RetrievedContext | str]]
"""By series and probe id: the context, or the sentence why there is none."""


def replay_parameters(run: RunFolder, arm: StoredArm) -> Run:
    """Return the parameters that replay an arm: the recorded ones except paths, in replay mode."""
    origin = arm.folder.parent / PARAMETERS
    recorded = kept_values(origin)
    if arm.manifest is None or recorded is None:
        raise UserError(f"{origin}: no parameters that this arm could be replayed by; run it again.")
    values = {
        **recorded,
        **ELSEWHERE,
        **NOBODY_ELSES,
        **recorded_parameters(arm.manifest),
        "data": str(run.data),
        "run": str(arm.run),
        "models": str(origin.parent / MODELS) if recorded.get("models") else "",
        "prompts": str(origin.parent / "prompts") if recorded.get("prompts") else "",
        "own_memory": recorded.get("own_memory", ""),
        "calls": "replay",
    }
    return Run.of(parse_parameters(values, str(origin)))


def remade_contexts(run: RunFolder, arms: Sequence[StoredArm], loaded: Loaded) -> Remade:
    """Recall the contexts of `arms` for a conversation's questions, where they equal the recorded ones."""
    contexts: Remade = {}
    groups: dict[str, list[StoredArm]] = {}
    for arm in arms:
        if arm.arm is None or kind_of(arm.arm.memory).outside:
            contexts[arm.series] = {probe.id: OWN for probe in loaded.probes} if arm.arm else {}
        elif arm.manifest:
            groups.setdefault(to_json([arm.part, recorded_parameters(arm.manifest)]), []).append(arm)
    for group in groups.values():
        try:
            contexts |= _recalled(run, group, loaded)
        except UserError as error:  # a call that is not on file, an encoder that is not installed
            reason = str(error).replace(f"{group[0].run}/", "")
            contexts |= {arm.series: {probe.id: reason for probe in loaded.probes} for arm in group}
    return contexts


def _recalled(run: RunFolder, arms: Sequence[StoredArm], loaded: Loaded) -> Remade:
    parameters = replay_parameters(run, arms[0])
    series = {arm_record.arm: arm_record for arm_record in arms if arm_record.arm}
    remade: Remade = {}
    with open_models(parameters, loaded.conversation.id) as roster:
        evidence = evidence_of(loaded)
        turns = parameters.sends_chat_turns
        memories = ingested(tuple(series), loaded.conversation, parameters, roster, evidence, as_turns=turns)
        for arm, memory in memories:
            arm_record = series[arm]
            if isinstance(memory, ModelError):
                remade[arm_record.series] = {probe.id: memory.reason for probe in loaded.probes}
                continue
            count = cache(parameters.counter.count)  # many contexts are equal
            pairs = zip(loaded.probes, recollections(loaded.probes, memory), strict=True)
            remade[arm_record.series] = {
                probe.id: _checked(context, arm_record.answers.get(probe.id), count) for probe, context in pairs
            }
    return remade


def _checked(
    context: RetrievedContext | ModelError, answer: Answer | None, count: Callable[[str], int]
) -> RetrievedContext | str:
    """Return a context that equals the record of its answer, else the sentence why there is none."""
    if isinstance(context, ModelError):
        return context.reason
    if answer is None or answer.text is None:  # a failed call keeps no record of its context
        return context
    same = (context.message_ids, count(context.context)) == (answer.message_ids, answer.context_tokens)
    return context if same else OTHERWISE


def replay_question(run: RunFolder, arm: StoredArm, probe_id: str) -> Iterator[str]:
    """Answer and judge one question of an arm again; yield lines that compare it with the record.

    Raises:
        UserError: A call is missing, or the memory is the user's own.
    """
    if arm.arm is None or kind_of(arm.arm.memory).outside:
        raise UserError(f"{arm.folder}: {OWN if arm.arm else 'an imported run is not replayed'}.")
    source = run.sources.get(probe_id.rpartition("-")[0])
    if source is None:
        raise UserError(f"{probe_id}: its conversation is not at hand; name the folder of the data with --data.")
    loaded = load(source, arm.treatment)
    probes = tuple(probe for probe in loaded.probes if probe.id == probe_id)
    if not probes:
        raise UserError(f"{probe_id}: {source.id} has no such question; name one such as {loaded.probes[0].id}.")
    parameters = replay_parameters(run, arm)
    context = remade_contexts(run, [arm], replace(loaded, probes=probes))[arm.series][probe_id]
    with open_models(parameters, loaded.conversation.id) as roster:
        computed = work(replace(loaded, probes=probes), [arm.arm], parameters, roster)[arm.arm.name]
    answer, judgement = computed[0][0], computed[1][0]
    recorded: Mapping[str, object] = {judged.probe_id: judged for judged in arm.judgements}
    yield f"question   {probes[0].question}"
    yield f"context    {context if isinstance(context, str) else context.context}"
    if isinstance(context, RetrievedContext) and context.turns:
        yield f"sent as    {len(context.turns)} chat turns, the question last"
    yield f"answer     {answer.text if answer.text is not None else f'unscored: {answer.unscored}'}"
    for verdict in judgement.verdicts:
        yield f"verdict    {verdict.score}  {verdict.nugget}  {verdict.reply or verdict.reason}"
    equal = answer == arm.answers.get(probe_id) and judgement == recorded.get(probe_id)
    yield "record     " + ("the same answer and verdicts" if equal else "DIFFERS from the answer or verdicts on file")
