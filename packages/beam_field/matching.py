"""Rows of the neutral form matched to released questions, and what becomes of them: answers, judgements, details."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from textwrap import shorten

from beam_field.questions import QUESTIONS, Question, question_hash, questions
from beam_field.results import Event, Read, Row, one_line
from beam_field.sources import Source, fingerprint, placeholder, shipped_as
from beamlib.data.conversations import SIZES
from beamlib.errors import UserError
from beamlib.evaluate.answer_record import Answer
from beamlib.evaluate.imported import ImportedQuestion
from beamlib.scoring.protocols import NOT_COMPUTABLE
from beamlib.scoring.records import Alignment, Judgement, NuggetVerdict, Parser, Reported

_NAMED = 50
"""Questions that match none are named up to here; all are counted."""

SAID = "the source says: "
ONLY_ORDER = f"{NOT_COMPUTABLE}: of a nugget only its place in the order was judged"


@dataclass(frozen=True)
class Matched:
    """The rows of one run at one tier as records, ordered by conversation and question, and what did not match."""

    tier: str
    answers: tuple[Answer, ...]
    judgements: tuple[Judgement, ...]
    details: tuple[ImportedQuestion, ...]
    kinds: Mapping[str, int]
    answer_chars: Mapping[str, int]
    unmatched_count: int = 0
    unmatched: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    other_rubric: tuple[str, ...] = ()

    @cached_property
    def shipped(self) -> Source | None:
        """The shipped run that these verdicts are, if any."""
        return shipped_as(fingerprint(self.judgements, self.answer_chars))

    def by_conversation(self) -> dict[str, tuple[list[Answer], list[Judgement]]]:
        """The records of each conversation."""
        found: dict[str, tuple[list[Answer], list[Judgement]]] = {}
        for answer, judgement in zip(self.answers, self.judgements, strict=True):
            answers, judgements = found.setdefault(answer.conversation_id, ([], []))
            answers.append(answer)
            judgements.append(judgement)
        return found


@dataclass
class _Tier:
    rows: dict[str, Row] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)


def matched(read: Read, files: Iterable[str], table: Path | None = None) -> list[Matched]:
    """The rows of a run by tier, each matched by tier and exact text; a `UserError` where none is a known question."""
    known = questions(table or QUESTIONS)
    by_probe = {question.probe_id: question for question in known.values()}
    usual = _usual_tier(read.rows, known)
    tiers: dict[str, _Tier] = {}
    unmatched = []
    for row in read.rows:
        text_hash = question_hash(_tier(row.tier) or usual, row.question)
        question = by_probe.get(row.probe) if row.probe else known.get(text_hash)
        if question is None or _tier(row.tier) not in ("", question.tier):
            unmatched.append(row.question or row.probe)
            continue
        own = tiers.setdefault(question.tier, _Tier())
        if question.probe_id in own.rows:
            own.twice.append(question.probe_id)
        else:
            own.rows[question.probe_id] = row
    if not tiers:
        raise UserError(
            f"{', '.join(files)}: none of its {len(read.rows)} questions is a released one; what is imported must "
            "have the exact texts of BEAM's questions."
        )
    ordered = sorted(tiers.items(), key=lambda found: SIZES.index(found[0]))
    return [_records(tier, own, known, unmatched if n == 0 else []) for n, (tier, own) in enumerate(ordered)]


def _tier(said: str) -> str:
    """The tier that a row names, empty for none that is known."""
    return next((size for size in SIZES if size == said.strip().upper()), "")


def _usual_tier(rows: Sequence[Row], known: Mapping[str, Question]) -> str:
    """The tier that knows most texts of the rows that name none."""
    texts = [row.question for row in rows if not _tier(row.tier)]
    return max(SIZES, key=lambda size: sum(question_hash(size, text) in known for text in texts))


def _records(tier: str, own: _Tier, known: Mapping[str, Question], unmatched: Sequence[str]) -> Matched:
    asked = [question for question in known.values() if question.probe_id in own.rows]
    asked.sort(key=lambda one: one.conversation_id)  # as folders have them; questions keep their order
    conversations = {question.conversation_id for question in asked}
    pairs = [(question, own.rows[question.probe_id]) for question in asked]
    judgements = [_judgement(question, row) for question, row in pairs]
    return Matched(
        tier=tier,
        answers=tuple(_answer(question, row) for question, row in pairs),
        judgements=tuple(_gaps_are_failures(judgements)),
        details=tuple(_details(question, row) for question, row in pairs),
        answer_chars={question.probe_id: len(row.answer or "") for question, row in pairs},
        kinds=dict(Counter(_kind(judgement) for judgement in judgements)),
        unmatched_count=len(unmatched),
        unmatched=tuple(shorten(one_line(text), 100, placeholder=" ...") for text in unmatched[:_NAMED]),
        twice=tuple(own.twice),
        missing=tuple(
            one.probe_id
            for one in known.values()
            if one.conversation_id in conversations and one.probe_id not in own.rows
        ),
        other_rubric=tuple(one.probe_id for one, row in pairs if _nuggets(row) not in (0, one.nuggets)),
    )


def _nuggets(row: Row) -> int:
    return len(row.nuggets) or (sum(row.counts.model_dump().values()) if row.counts else 0)


def _answer(question: Question, row: Row) -> Answer:
    why = f"{SAID}{row.failed}" if row.failed else "the source has no text of the answer"
    text = None if row.failed else row.answer
    return Answer(
        probe_id=question.probe_id,
        conversation_id=question.conversation_id,
        text=text,
        unscored=why if text is None else None,
        context_tokens=row.context_tokens or 0,
    )


def _judgement(question: Question, row: Row) -> Judgement:
    scores = [nugget.score for nugget in row.nuggets]
    between = any(score not in (None, 0.0, 0.5, 1.0) for score in scores)
    counts = row.counts.model_dump() if row.counts else {}
    return Judgement(
        probe_id=question.probe_id,
        conversation_id=question.conversation_id,
        ability=question.ability,
        verdicts=() if row.failed else _verdicts(row),
        alignments=() if row.failed else _alignments(question, row),
        unscored=f"{SAID}{row.failed}" if row.failed else None,
        reported=Reported(
            score=row.score,
            nuggets=tuple(score for score in scores if score is not None) if between and None not in scores else (),
            votes=row.votes,
            order=row.order,
            **counts,
        ),
    )


def _verdicts(row: Row) -> tuple[NuggetVerdict, ...]:
    """A verdict per nugget. One between the steps of 0, 0.5 and 1 has no score here: `Reported.nuggets` keeps it."""
    found = []
    for number, nugget in enumerate(row.nuggets):
        step = nugget.score in (None, 0.0, 0.5, 1.0)
        reason = nugget.reason if step and not (nugget.score is None and not nugget.reason) else ""
        reason = reason or ("the source has no score of it" if nugget.score is None else "")
        reason = reason if step else f"{nugget.score} is between the steps of the scale: {nugget.reason}"
        text = nugget.text or placeholder(number)
        found.append(
            NuggetVerdict(nugget=text, score=nugget.score if step else None, reason=reason, reply=nugget.reply)
        )
    named = row.rubric if not row.nuggets and (row.events, row.lines) != (None, None) else ()
    return (*found, *(NuggetVerdict(nugget=text, score=None, reason=ONLY_ORDER) for text in named))


def _alignments(question: Question, row: Row) -> tuple[Alignment, ...]:
    """The alignment of an answer's events to the rubric, where the source has it for as many nuggets."""
    nuggets = len(row.nuggets) or len(row.rubric)
    if question.ability != "event_ordering" or nuggets != question.nuggets:
        return ()
    cuts: tuple[tuple[Parser, tuple[Event, ...] | None], ...] = (("items", row.events), ("newline", row.lines))
    return tuple(
        Alignment(parser=parser, items=tuple(one.text for one in events), matches=tuple(one.nugget for one in events))
        for parser, events in cuts
        if events is not None and all(one.nugget is None or one.nugget < nuggets for one in events)
    )


def _details(question: Question, row: Row) -> ImportedQuestion:
    told = row.model_dump(
        include={"question", "rubric", "reference", "context_chars", "context_tokens", "memories", "cut"}
    )
    return ImportedQuestion(probe_id=question.probe_id, **told)


def _gaps_are_failures(judgements: Sequence[Judgement]) -> list[Judgement]:
    """What a source has of other questions on an ability and not of this one is missing, and not beyond the source."""
    there: dict[str, set[str]] = {}
    for one in judgements:
        there.setdefault(one.ability, set()).update(_held(one))
    found = []
    for one in judgements:
        gone = sorted(there[one.ability] - _held(one))
        why = f"the source has no {' and no '.join(gone)} of this question, as it has of others"
        found.append(one.model_copy(update={"unscored": why}) if gone and one.unscored is None else one)
    return found


def _held(judgement: Judgement) -> set[str]:
    reported = judgement.reported or Reported()
    scored = bool(reported.nugget_scores) or any(verdict.score is not None for verdict in judgement.verdicts)
    held = {"verdicts": scored, "votes": bool(reported.votes), "score": reported.score is not None}
    return {what for what, has in {**held, "alignment": bool(judgement.alignments)}.items() if has}


def _kind(judgement: Judgement) -> str:
    reported = judgement.reported or Reported()
    if judgement.unscored:
        return "failed"
    if any(verdict.score is not None for verdict in judgement.verdicts) or reported.nuggets:
        return "nuggets"
    if reported.full is not None:
        return "counts"
    if judgement.alignments:
        return "order"
    return "votes" if reported.votes else "none" if reported.score is None else "score"
