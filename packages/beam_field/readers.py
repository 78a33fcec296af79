"""Readers of what others publish: each turns a format into runs in the neutral form, and keeps what is there.

What a file holds beyond the fields named here is passed over. What a field holds that it cannot (a score off the
scale, a number for a text) refuses the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from beam_field.results import FORMAT, Count, Event, Flag, Header, Line, Nugget, Read, Row, Score, Text
from beamlib.errors import UserError
from beamlib.evaluate.imported import Provenance
from beamlib.evaluate.run_store import checked

ADVICE = "correct the file, or name its format with --format if it is of another one."
Texts = Annotated[tuple[Text, ...], Field(max_length=1_000)]
_REPLACED = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Source:
    """The content of one file: its name, and the JSON value or the list of a JSON-lines file's values."""

    name: str
    value: Any


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


def plain(label: str) -> str:
    """A label as it can name a folder."""
    return _REPLACED.sub("-", label)[:60].strip("-._") or "run"


class _Mem0Nugget(_Lenient):
    nugget: Text = ""
    score: Score | None
    reason: Text | None = ""


class _Mem0Cutoff(_Lenient):
    score: Score | None = None
    generated_answer: Text | None = None
    memories_evaluated: Count | None = None
    nugget_scores: tuple[_Mem0Nugget, ...] | None = ()


class _Mem0Evaluation(_Lenient):
    chat_size: Line = ""
    question: Text
    ground_truth_answer: Text | None = ""
    rubric: Texts = ()
    total_memories_retrieved: Count | None = None
    cutoff_results: dict[str, _Mem0Cutoff]


class _Mem0Metadata(_Lenient):
    answerer_model: Line = ""
    judge_model: Line = ""


class _Mem0(_Lenient):
    metadata: _Mem0Metadata = _Mem0Metadata()
    evaluations: tuple[_Mem0Evaluation, ...]


def mem0(sources: Sequence[Source]) -> list[Read]:
    """mem0's memory-benchmarks, unified results: a run per cutoff."""
    reads = []
    for source in sources:
        file = checked(_Mem0, source.value, f"{source.name}: ", ADVICE)
        cutoffs = dict.fromkeys(cutoff for one in file.evaluations for cutoff in one.cutoff_results)
        for cutoff in cutoffs:
            rows = [
                _mem0_row(one, one.cutoff_results[cutoff]) for one in file.evaluations if cutoff in one.cutoff_results
            ]
            provenance = Provenance(
                system="Mem0",
                reader=file.metadata.answerer_model,
                judge=file.metadata.judge_model,
                judge_sees_question="yes",
                judge_sees_rubric="yes",
                context=f"{cutoff[:60].removeprefix('top_')} memories",
            )
            reads.append(Read(label=f"mem0-{cutoff}", provenance=provenance, rows=tuple(rows)))
    return reads


def _mem0_row(one: _Mem0Evaluation, found: _Mem0Cutoff) -> Row:
    memories = one.total_memories_retrieved if found.memories_evaluated is None else found.memories_evaluated
    return Row(
        question=one.question,
        tier=one.chat_size,
        answer=found.generated_answer,
        nuggets=tuple(
            Nugget(text=nugget.nugget, score=nugget.score, reason=nugget.reason or "")
            for nugget in found.nugget_scores or ()
        ),
        score=found.score,
        rubric=one.rubric,
        reference=one.ground_truth_answer or "",
        memories=memories,
    )


class _CogneeMetric(_Lenient):
    score: Annotated[float, Field(strict=True, ge=-1, le=1)] | None = None
    reason: Text | None = ""


class _CogneeAnswer(_Lenient):
    question: Text
    answer: Text | None = None
    golden_answer: Text | None = ""
    retrieval_context: Text | None = None
    run_idx: Count | None = None
    rubric: Texts | None = ()
    metrics: dict[str, _CogneeMetric]


class _Cognee(_Lenient):
    results: tuple[_CogneeAnswer, ...]


_COUNTED = re.compile(r"(\d{1,4}) full, (\d{1,4}) partial, (\d{1,4}) none out of (\d{1,4}) criteria")


def cognee(sources: Sequence[Source]) -> list[Read]:
    """cognee's metrics files: counts per question; a run per `run_idx`."""
    reads = []
    for source in sources:
        file = checked(_Cognee, {"results": source.value}, f"{source.name}: ", ADVICE)
        for number in dict.fromkeys(one.run_idx for one in file.results):
            rows = tuple(_cognee_row(one, source.name) for one in file.results if one.run_idx == number)
            label = "cognee" if number is None else f"cognee-run{number}"
            provenance = Provenance(system="cognee", judge_sees_rubric="yes")
            reads.append(Read(label=label, provenance=provenance, number=number, rows=rows))
    return reads


def _cognee_row(one: _CogneeAnswer, name: str) -> Row:
    rubric = one.metrics.get("beam_rubric", _CogneeMetric())
    counted = _COUNTED.search(rubric.reason or "")
    full, partial, none, total = map(int, counted.groups()) if counted else (0, 0, 0, 0)
    if full + partial + none != total:
        raise UserError(f"{name}: {counted and counted[0]!r} does not add up; correct the file.")
    row = {"question": one.question, "answer": one.answer, "reference": one.golden_answer or ""}
    row |= {"score": rubric.score, "order": one.metrics.get("kendall_tau", _CogneeMetric()).score}
    row |= {"counts": {"full": full, "partial": partial, "none": none}} if total else {}
    context = None if one.retrieval_context is None else len(one.retrieval_context)
    return checked(Row, {**row, "rubric": one.rubric or (), "context_chars": context}, f"{name}: ", ADVICE)


class _TrueMemoryAnswer(_Lenient):
    question: Text
    ideal_answer: Text | None = ""
    generated_answer: Text | None = None
    correct: Flag
    judge_votes: tuple[Flag, ...] = ()
    num_retrieved: Count | None = None


class _TrueMemory(_Lenient):
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
            Row(
                question=one.question,
                answer=one.generated_answer,
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
            judge_sees_rubric="no",
            judge_sees_reference="yes",
        )
        reads.append(Read(label=file.system, provenance=provenance, rows=rows))
    return reads


class _AmbAnswer(_Lenient):
    query: Text
    answer: Text | None = None
    context: Text | None = None
    context_tokens: Count | None = None
    gold_answers: Texts | None = ()
    correct: Flag | None = None
    score: Score | None = None
    meta: dict[str, Any] | None = None


class _Amb(_Lenient):
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
        rows = tuple(_amb_row(one, file.split) for one in file.results)
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


def _amb_row(one: _AmbAnswer, split: str) -> Row:
    correct = None if one.correct is None else float(one.correct)
    return Row(
        question=one.query,
        tier=split,
        answer=one.answer,
        score=correct if one.score is None else one.score,
        reference=" | ".join(one.gold_answers or ()),
        context_chars=None if one.context is None else len(one.context),
        context_tokens=one.context_tokens,
    )


class _PastItem(_Lenient):
    text: Text = Field(default="", alias="rubricItem")
    score: Score | None
    raw_score: Annotated[float, Field(strict=True)] | None = None
    judge_reply: Text | None = ""
    reason: Text | None = ""
    error: Text | None = ""


class _PastJudge(_Lenient):
    method: Line = ""
    items: tuple[_PastItem, ...] = ()
    reference: Texts = ()
    answer: Texts = Field(default=(), alias="answer_order")
    score: Score | None = None


class _PastLine(_Lenient):
    question: Text = ""
    answer: Text | None = None
    goldAnswers: Texts | None = ()
    evidence_tokens: Count | None = None
    recall: dict[str, Any] | None = None
    error: Text | None = ""


_VERDICT = frozenset(("method", "items", "reference", "answer_order", "score"))


def past(sources: Sequence[Source]) -> list[Read]:
    """past.dev's results.jsonl, or answers.jsonl and verdicts.jsonl as Smart Jelly publishes them: joined by id."""
    lines: dict[str, dict[str, Any]] = {}
    files = ", ".join(source.name for source in sources)
    for source in sources:
        for number, line in enumerate(_lines(source), start=1):
            key = line.get("questionId", line.get("id"))
            if not isinstance(key, str) or not key:
                raise UserError(f"{source.name}: line {number} has no `id` or `questionId`; {ADVICE}")
            known = lines.setdefault(key, {})
            if again := (known.keys() & line.keys()) - {"id", "questionId", "category", "conversation", "index"}:
                raise UserError(f"{source.name}: {key!r} has {min(again)!r} twice; give the files of one run.")
            known |= line
    where = next(iter(lines.values()), {})
    rows = tuple(_past_row(key, line, files) for key, line in lines.items())
    harness = "recall" in where or "goldAnswers" in where  # its prompts always hold parts of the gold
    provenance = Provenance(
        system="past.dev" if harness else "",
        judge_sees_question="yes" if harness else "unknown",
        judge_sees_rubric="yes",
        gold_in_prompt="yes" if harness else "unknown",
    )
    return [Read(label="past", provenance=provenance, rows=rows)]


def _past_row(key: str, line: Mapping[str, Any], name: str) -> Row:
    place = f"{name}: {key}: "
    told = checked(_PastLine, line, place, ADVICE)
    if not told.question:
        raise UserError(f"{place}its verdict has no question; give the file of answers with that of verdicts.")
    verdict = line.get("judge", {part: line[part] for part in _VERDICT & line.keys()})
    if isinstance(verdict, dict) and "answer" in verdict:  # past.dev's name for what Smart Jelly calls answer_order
        verdict = {**verdict, "answer_order": verdict["answer"]}
    judge = checked(_PastJudge, verdict, place, ADVICE)
    judge = judge.model_copy(update={"score": checked(_PastJudge, {"score": line.get("score")}, place, ADVICE).score})
    failed = told.error or ("the source says so" if judge.method == "failed" else "")
    return Row(
        question=told.question,
        tier=key.partition("/")[0] if "/" in key else "",
        answer=told.answer,
        failed=failed,
        nuggets=tuple(
            Nugget(
                text=one.text,
                score=None if one.error else one.score,
                reason=one.error or one.reason or "",
                reply=one.judge_reply or "",
            )
            for one in judge.items
        ),
        score=judge.score,
        order=judge.score if judge.method == "event_ordering" else None,
        events=_events(judge) if judge.method == "event_ordering" else None,
        rubric=judge.reference,
        reference=" | ".join(told.goldAnswers or ()),
        context_tokens=told.evidence_tokens or _evidence(told.recall),
    )


def _evidence(recall: Mapping[str, Any] | None) -> int | None:
    tokens = (recall or {}).get("usedEvidenceTokens")
    return tokens if type(tokens) is int and 0 <= tokens < 2**53 else None


def _events(judge: _PastJudge) -> tuple[Event, ...]:
    """Items that were matched bear the text of their topic, the others their own."""
    places = {text: number for number, text in reversed([*enumerate(judge.reference)])}
    used: set[int] = set()
    events = []
    for text in judge.answer:
        place = places.get(text)
        events.append(Event(text=text, nugget=None if place in used else place))
        used |= set() if place is None else {place}
    return tuple(events)


class _HonchoNugget(_Lenient):
    nugget_index: Count | None = None
    score: Score | None
    reasoning: Text | None = ""


class _HonchoAnswer(_Lenient):
    question: Text
    answer: Text | None = ""
    actual_response: Text | None = None
    memory_ability: Line = ""
    rubric: Texts = ()
    nugget_scores: tuple[_HonchoNugget, ...] | None = ()
    score: Score | None = None


class _HonchoConversation(_Lenient):
    context_length: Line = ""
    question_results: tuple[_HonchoAnswer, ...]


class _Honcho(_Lenient):
    detailed_results: tuple[_HonchoConversation, ...]


def honcho(sources: Sequence[Source]) -> list[Read]:
    """Honcho's benchmark summaries: a verdict per nugget, all of a question from one call."""
    rows = []
    for source in sources:
        value = source.value if isinstance(source.value, dict) else {"detailed_results": source.value}
        file = checked(_Honcho, value, f"{source.name}: ", ADVICE)
        rows += [
            _honcho_row(one, conversation.context_length)
            for conversation in file.detailed_results
            for one in conversation.question_results
        ]
    provenance = Provenance(system="Honcho", judge_sees_question="yes", judge_sees_rubric="yes")
    return [Read(label="honcho", provenance=provenance, rows=tuple(rows))]


def _honcho_row(one: _HonchoAnswer, tier: str) -> Row:
    told = one.nugget_scores or ()
    if all(nugget.nugget_index is not None for nugget in told):
        told = tuple(sorted(told, key=lambda nugget: nugget.nugget_index or 0))
    texts = one.rubric if len(one.rubric) == len(told) else ("",) * len(told)
    # A judge that failed is written down as nothing earned, with the error for its reasoning.
    failed = [(nugget.reasoning or "").startswith("Error: ") and nugget.score == 0 for nugget in told]
    return Row(
        question=one.question,
        tier=tier,
        answer=one.actual_response,
        nuggets=tuple(
            Nugget(text=text, score=None if lost else nugget.score, reason=nugget.reasoning or "")
            for text, nugget, lost in zip(texts, told, failed, strict=True)
        ),
        score=one.score,
        order=one.score if one.memory_ability == "event_ordering" else None,
        rubric=one.rubric,
        reference=one.answer or "",
    )


def neutral(sources: Sequence[Source]) -> list[Read]:
    """Files in the neutral form, a run each."""
    reads = []
    for source in sources:
        first, *rest = _lines(source)
        header = checked(Header, first, f"{source.name}: line 1: ", "see docs/publishing-results.md.")
        rows = []
        for number, line in enumerate(rest, start=2):
            row = checked(Row, line, f"{source.name}: line {number}: ", "see docs/publishing-results.md.")
            rows.append(row if row.tier else row.model_copy(update={"tier": header.tier}))
        provenance = Provenance(**{name: getattr(header, name) for name in Provenance.model_fields})
        label = header.system if header.run is None else f"{header.system}-run{header.run}"
        reads.append(Read(label=label, provenance=provenance, number=header.run, rows=tuple(rows)))
    return reads


def _lines(source: Source) -> list[dict[str, Any]]:
    values = source.value if isinstance(source.value, list) else [source.value]
    for number, line in enumerate(values, start=1):
        if not isinstance(line, dict):
            raise UserError(f"{source.name}: line {number} is no JSON object; {ADVICE}")
    return values


Reader = Callable[[Sequence[Source]], list[Read]]
READERS: Mapping[str, Reader] = {
    "mem0": mem0,
    "cognee": cognee,
    "truememory": truememory,
    "amb": amb,
    "past": past,
    "honcho": honcho,
    "beam-results": neutral,
}

_MARKS: Iterable[tuple[str, frozenset[str]]] = (
    ("mem0", frozenset(("evaluations",))),
    ("truememory", frozenset(("details",))),
    ("honcho", frozenset(("detailed_results",))),
    ("amb", frozenset(("results", "memory_provider"))),
    ("beam-results", frozenset(("format",))),
    ("cognee", frozenset(("question", "metrics"))),
    ("honcho", frozenset(("question_results",))),
    ("past", frozenset(("questionId",))),
    ("past", frozenset(("id", "method"))),
    ("past", frozenset(("id", "question", "answer"))),
)


def recognised(source: Source) -> str:
    """The format of a file by the fields of its value, or of its first value; a `UserError` for none that is known."""
    first = source.value[0] if isinstance(source.value, list) and source.value else source.value
    if isinstance(first, dict):
        for name, fields in _MARKS:
            if fields <= first.keys() and (name != "beam-results" or first["format"] == FORMAT):
                return name
    raise UserError(
        f"{source.name}: it is none of the formats that are known ({', '.join(READERS)}); name one with --format, or "
        "write the results in beam-results/1 (docs/publishing-results.md)."
    )
