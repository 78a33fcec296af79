"""Readers of JSON lines: past.dev and Smart Jelly, and the neutral form itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from beam_field.results import (
    ADVICE,
    Count,
    Header,
    Lenient,
    Line,
    Read,
    Row,
    Score,
    Source,
    Text,
    Texts,
    make_row,
)
from beamlib.errors import UserError
from beamlib.evaluate.imported import Provenance
from beamlib.evaluate.run_store import checked


class _PastItem(Lenient):
    text: Text = Field(default="", alias="rubricItem")
    score: Score | None
    raw_score: Annotated[float, Field(strict=True)] | None = None
    judge_reply: Text | None = ""
    reason: Text | None = ""
    error: Text | None = ""


class _PastJudge(Lenient):
    method: Line = ""
    items: tuple[_PastItem, ...] = ()
    reference: Texts = ()
    answer: Texts = Field(default=(), alias="answer_order")
    score: Score | None = None


class _PastLine(Lenient):
    question: Text = ""
    answer: Text | None = None
    gold: Texts | None = Field(default=(), alias="goldAnswers")
    evidence_tokens: Count | None = None
    recall: dict[str, Any] | None = None
    error: Text | None = ""


_VERDICT = frozenset(("method", "items", "reference", "answer_order", "score"))


def whole(source: Source) -> bool:
    """Whether a file of past.dev's kind has answers and verdicts."""
    first = next(iter(source.lines()), {})
    return "question" in first and ("judge" in first or "method" in first)


def past(sources: Sequence[Source]) -> list[Read]:
    """past.dev's results.jsonl, or answers.jsonl and verdicts.jsonl as Smart Jelly publishes them: joined by id."""
    lines: dict[str, dict[str, Any]] = {}
    files = ", ".join(source.name for source in sources)
    for source in sources:
        for number, line in enumerate(source.lines(), start=1):
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
    return make_row(
        place.removesuffix(": "),
        question=told.question,
        tier=key.partition("/")[0] if "/" in key else "",
        answer=told.answer,
        failed=told.error or ("the source says so" if judge.method == "failed" else ""),
        nuggets=[
            {
                "text": one.text,
                "score": None if one.error else one.score,
                "reason": one.error or one.reason or "",
                "reply": one.judge_reply or "",
            }
            for one in judge.items
        ],
        score=judge.score,
        order=judge.score if judge.method == "event_ordering" else None,
        events=_events(judge) if judge.method == "event_ordering" else None,
        rubric=judge.reference,
        reference=" | ".join(told.gold or ()),
        context_tokens=told.evidence_tokens or _evidence(told.recall),
    )


def _evidence(recall: Mapping[str, Any] | None) -> int | None:
    tokens = (recall or {}).get("usedEvidenceTokens")
    return tokens if type(tokens) is int and 0 <= tokens < 2**53 else None


def _events(judge: _PastJudge) -> list[dict[str, Any]]:
    """Items that were matched bear the text of their topic, the others their own."""
    places = {text: number for number, text in reversed([*enumerate(judge.reference)])}
    used: set[int] = set()
    events: list[dict[str, Any]] = []
    for text in judge.answer:
        place = places.get(text)
        events.append({"text": text, "nugget": None if place in used else place})
        used |= set() if place is None else {place}
    return events


def neutral(sources: Sequence[Source]) -> list[Read]:
    """Files in the neutral form, a run each."""
    reads = []
    for source in sources:
        first, *rest = source.lines()
        header = checked(Header, first, f"{source.name}: line 1: ", "see docs/publishing-results.md.")
        rows = []
        for number, line in enumerate(rest, start=2):
            row = checked(Row, line, f"{source.name}: line {number}: ", "see docs/publishing-results.md.")
            rows.append(row if row.tier else row.model_copy(update={"tier": header.tier}))
        provenance = Provenance(**{name: getattr(header, name) for name in Provenance.model_fields})
        label = header.system if header.run is None else f"{header.system}-run{header.run}"
        reads.append(Read(label=label, provenance=provenance, number=header.run, rows=tuple(rows)))
    return reads
