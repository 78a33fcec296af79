"""Readers of results that are one JSON value: mem0, cognee, TrueMemory, agent-memory-benchmark, Honcho.

Each turns its format into runs in the neutral form and keeps what is there. What a file holds beyond the fields named
here is passed over. What a field holds that it cannot (a score off the scale, a number for a text) refuses the file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import Field

from beam_field.results import (
    ADVICE,
    Count,
    Flag,
    Lenient,
    Line,
    Read,
    Row,
    Score,
    Signed,
    Source,
    Text,
    Texts,
    make_row,
)
from beamlib.errors import UserError
from beamlib.evaluate.imported import Provenance
from beamlib.evaluate.run_store import checked


class _Mem0Nugget(Lenient):
    nugget: Text = ""
    score: Score | None
    reason: Text | None = ""


class _Mem0Order(Lenient):
    """Its list of matches leaves out what matched nothing, so it is no alignment; the figure is kept."""

    tau_b: Signed | None = None


class _Mem0Cutoff(Lenient):
    score: Score | None = None
    generated_answer: Text | None = None
    memories_evaluated: Count | None = None
    nugget_scores: tuple[_Mem0Nugget, ...] | None = ()
    event_ordering: _Mem0Order | None = None


class _Mem0Evaluation(Lenient):
    chat_size: Line = ""
    question: Text
    ground_truth_answer: Text | None = ""
    rubric: Texts = ()
    total_memories_retrieved: Count | None = None
    # None where the question was searched for and not answered.
    cutoff_results: dict[Line, _Mem0Cutoff] = Field(default_factory=dict)


class _Mem0Metadata(Lenient):
    answerer_model: Line = ""
    judge_model: Line = ""


class _Mem0(Lenient):
    metadata: _Mem0Metadata = _Mem0Metadata()
    evaluations: tuple[_Mem0Evaluation, ...]


def mem0(sources: Sequence[Source]) -> list[Read]:
    """mem0's memory-benchmarks, unified results: a run per cutoff."""
    reads = []
    for source in sources:
        file = checked(_Mem0, source.value, f"{source.name}: ", ADVICE)
        cutoffs: dict[str, list[Row]] = {}
        for one in file.evaluations:
            for cutoff, found in one.cutoff_results.items():
                cutoffs.setdefault(cutoff, []).append(_mem0_row(one, found, source.name))
        for cutoff, rows in cutoffs.items():
            provenance = Provenance(
                system="Mem0",
                reader=file.metadata.answerer_model,
                judge=file.metadata.judge_model,
                judge_sees_question="yes",
                judge_sees_rubric="yes",
                gold_in_prompt="no",
                context=f"{cutoff[:60].removeprefix('top_')} memories",
            )
            reads.append(Read(label=f"mem0-{cutoff}", provenance=provenance, rows=tuple(rows)))
    return reads


def _mem0_row(one: _Mem0Evaluation, found: _Mem0Cutoff, name: str) -> Row:
    memories = one.total_memories_retrieved if found.memories_evaluated is None else found.memories_evaluated
    return make_row(
        name,
        question=one.question,
        tier=one.chat_size,
        answer=found.generated_answer,
        nuggets=[
            {"text": nugget.nugget, "score": nugget.score, "reason": nugget.reason or ""}
            for nugget in found.nugget_scores or ()
        ],
        score=found.score,
        order=found.event_ordering.tau_b if found.event_ordering else None,
        rubric=one.rubric,
        reference=one.ground_truth_answer or "",
        memories=memories,
    )


class _CogneeMetric(Lenient):
    score: Signed | None = None
    reason: Text | None = ""


class _CogneeAnswer(Lenient):
    question: Text
    answer: Text | None = None
    golden_answer: Text | None = ""
    retrieval_context: Text | None = None
    run_idx: Count | None = None
    rubric: Texts | None = ()
    metrics: dict[str, _CogneeMetric]


class _Cognee(Lenient):
    results: tuple[_CogneeAnswer, ...]


_COUNTED = re.compile(r"(\d{1,4}) full, (\d{1,4}) partial, (\d{1,4}) none out of (\d{1,4}) criteria")


def cognee(sources: Sequence[Source]) -> list[Read]:
    """cognee's metrics files: counts per question; a run per `run_idx`."""
    reads = []
    for source in sources:
        file = checked(_Cognee, {"results": source.value}, f"{source.name}: ", ADVICE)
        runs: dict[int | None, list[Row]] = {}
        for one in file.results:
            runs.setdefault(one.run_idx, []).append(_cognee_row(one, source.name))
        for number, rows in runs.items():
            label = "cognee" if number is None else f"cognee-run{number}"
            shown = {"judge_sees_question": "yes", "judge_sees_rubric": "yes", "judge_sees_reference": "no"}
            provenance = Provenance.model_validate({"system": "cognee", "gold_in_prompt": "no", **shown})
            reads.append(Read(label=label, provenance=provenance, number=number, rows=tuple(rows)))
    return reads


def _cognee_row(one: _CogneeAnswer, name: str) -> Row:
    rubric = one.metrics.get("beam_rubric", _CogneeMetric())
    counted = _COUNTED.search(rubric.reason or "")
    full, partial, none, total = map(int, counted.groups()) if counted else (0, 0, 0, 0)
    if full + partial + none != total:
        raise UserError(f"{name}: {counted and counted[0]!r} does not add up; correct the file.")
    return make_row(
        name,
        question=one.question,
        answer=one.answer,
        counts={"full": full, "partial": partial, "none": none} if total else None,
        score=rubric.score,
        order=one.metrics.get("kendall_tau", _CogneeMetric()).score,
        rubric=one.rubric or (),
        reference=one.golden_answer or "",
        context_chars=None if one.retrieval_context is None else len(one.retrieval_context),
    )


class _TrueMemoryAnswer(Lenient):
    question: Text
    ideal_answer: Text | None = ""
    generated_answer: Text | None = None
    correct: Flag
    judge_votes: tuple[Flag, ...] = ()
    num_retrieved: Count | None = None


class _TrueMemory(Lenient):
    system: Line = "TrueMemory"
    answer_model: Line = ""
    judge_model: Line = ""
    details: tuple[_TrueMemoryAnswer, ...]


def truememory(sources: Sequence[Source]) -> list[Read]:
    """TrueMemory's runs: votes on each answer against the reference. What a file says of its tier is not relied on."""
    reads = []
    for source in sources:
        file = checked(_TrueMemory, source.value, f"{source.name}: ", ADVICE)
        rows = tuple(
            make_row(
                source.name,
                question=one.question,
                answer=one.generated_answer,
                failed=(one.generated_answer or "") if (one.generated_answer or "").startswith("ERROR: ") else "",
                votes=one.judge_votes,
                score=float(one.correct),
                reference=one.ideal_answer or "",
                memories=one.num_retrieved,
            )
            for one in file.details
        )
        provenance = Provenance(
            system=file.system,
            reader=file.answer_model,
            judge=file.judge_model,
            judge_sees_question="yes",
            judge_sees_rubric="no",
            judge_sees_reference="yes",
            gold_in_prompt="no",
        )
        reads.append(Read(label=file.system, provenance=provenance, rows=rows))
    return reads


class _AmbMeta(Lenient):
    rubric: Texts | None = ()


class _AmbAnswer(Lenient):
    query: Text
    answer: Text | None = None
    context: Text | None = None
    context_tokens: Count | None = None
    gold_answers: Texts | None = ()
    correct: Flag | None = None
    score: Score | None = None
    meta: _AmbMeta | None = None


class _Amb(Lenient):
    split: Line = ""
    memory_provider: Line = ""
    run_name: Line | None = ""
    mode: Line | None = ""
    oracle: Flag | None = None
    answer_llm: Line | None = ""
    judge_llm: Line | None = ""
    results: tuple[_AmbAnswer, ...]


def amb(sources: Sequence[Source]) -> list[Read]:
    """agent-memory-benchmark's outputs: a score per question."""
    reads = []
    for source in sources:
        file = checked(_Amb, source.value, f"{source.name}: ", ADVICE)
        rows = tuple(_amb_row(one, file.split, source.name) for one in file.results)
        name = file.run_name or file.memory_provider
        provenance = Provenance(
            system=file.memory_provider or name,
            reader=file.answer_llm or "",
            judge=file.judge_llm or "",
            gold_in_prompt="yes" if file.oracle else "unknown",
            prompt=f"mode {file.mode}" if file.mode else "",
        )
        reads.append(Read(label=f"{name}-{file.mode}" if file.mode else name, provenance=provenance, rows=rows))
    return reads


def _amb_row(one: _AmbAnswer, split: str, name: str) -> Row:
    correct = None if one.correct is None else float(one.correct)
    return make_row(
        name,
        question=one.query,
        tier=split,
        answer=one.answer,
        score=correct if one.score is None else one.score,
        rubric=(one.meta and one.meta.rubric) or (),
        reference=" | ".join(one.gold_answers or ()),
        context_chars=None if one.context is None else len(one.context),
        context_tokens=one.context_tokens,
    )


class _HonchoNugget(Lenient):
    nugget_index: Count | None = None
    score: Score | None
    reasoning: Text | None = ""


class _HonchoAnswer(Lenient):
    question: Text
    answer: Text | None = ""
    actual_response: Text | None = None
    memory_ability: Line = ""
    rubric: Texts = ()
    nugget_scores: tuple[_HonchoNugget, ...] | None = ()
    score: Score | None = None


class _HonchoConversation(Lenient):
    context_length: Line = ""
    question_results: tuple[_HonchoAnswer, ...]


class _Honcho(Lenient):
    detailed_results: tuple[_HonchoConversation, ...]


def honcho(sources: Sequence[Source]) -> list[Read]:
    """Honcho's benchmark summaries: a verdict per nugget, all of a question from one call."""
    rows = []
    for source in sources:
        value = source.value if isinstance(source.value, dict) else {"detailed_results": source.value}
        file = checked(_Honcho, value, f"{source.name}: ", ADVICE)
        rows += [
            _honcho_row(one, conversation.context_length, source.name)
            for conversation in file.detailed_results
            for one in conversation.question_results
        ]
    provenance = Provenance(system="Honcho", judge_sees_question="yes", judge_sees_rubric="yes")
    return [Read(label="honcho", provenance=provenance, rows=tuple(rows))]


def _honcho_row(one: _HonchoAnswer, tier: str, name: str) -> Row:
    told = one.nugget_scores or ()
    if all(nugget.nugget_index is not None for nugget in told):
        told = tuple(sorted(told, key=lambda nugget: nugget.nugget_index or 0))
    texts = one.rubric if len(one.rubric) == len(told) else ("",) * len(told)
    # A judge that failed is written down as nothing earned, with the error for its reasoning.
    failed = [(nugget.reasoning or "").startswith("Error: ") and nugget.score == 0 for nugget in told]
    return make_row(
        name,
        question=one.question,
        tier=tier,
        answer=one.actual_response,
        nuggets=[
            {"text": text, "score": None if lost else nugget.score, "reason": nugget.reasoning or ""}
            for text, nugget, lost in zip(texts, told, failed, strict=True)
        ],
        score=one.score,
        order=one.score if one.memory_ability == "event_ordering" else None,
        rubric=one.rubric,
        reference=one.answer or "",
    )
