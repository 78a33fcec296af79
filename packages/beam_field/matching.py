"""Match rows of the neutral form to released questions and turn them into arms: answers, judgements, details."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from textwrap import shorten
from typing import Any

from beam_field.results import ImportedRun, OrderedEvent, ResultRow, folder_name, printable_line
from beam_field.sources import (
    QUESTIONS,
    PublishedRun,
    ReleasedQuestion,
    placeholder,
    published_runs,
    question_hash,
    released_questions,
    verdict_lines,
)
from beamlib.data.conversations import SIZES
from beamlib.errors import UserError
from beamlib.evaluate.arms import Arm
from beamlib.evaluate.beam_records import Imported, ImportedQuestion, Manifest, Provenance
from beamlib.evaluate.records import ANSWERS, JUDGEMENTS, Answer, ConversationRecord, UnitOutput, made_by
from beamlib.files import sha256, to_json
from beamlib.scoring.protocols import NOT_COMPUTABLE
from beamlib.scoring.records import Alignment, Judgement, NuggetVerdict, Parser, Reported

_MOST_NAMED = 50
"""How many unmatched questions are named; all of them are counted."""

SOURCE_SAYS = "the source says: "
ONLY_ORDER = f"{NOT_COMPUTABLE}: of a nugget only its place in the order was judged"
_STEPS = (None, 0.0, 0.5, 1.0)
"""The scores that a verdict can have here."""


ORIGIN = "questions of the released data, matched by tier and exact text; conversations not at hand"


@dataclass(frozen=True)
class ImportedArm:
    """One run as a run folder holds it, in the folder of its arm below `part`."""

    part: str
    arm: Arm
    manifest: Manifest
    answers: tuple[Answer, ...]
    judgements: tuple[Judgement, ...]
    details: tuple[ImportedQuestion, ...]

    @property
    def imported(self) -> Imported:
        """The record of the import."""
        assert self.manifest.imported is not None
        return self.manifest.imported

    @property
    def unjudged(self) -> bool:
        """Whether there are answers, and nobody has judged any."""
        return self.imported.kinds.keys() == {"none"} and any(answer.text is not None for answer in self.answers)


def match_run(
    run: ImportedRun, form: str, files: Mapping[str, str], stated: Mapping[str, str], table: Path | None = None
) -> list[ImportedArm]:
    """Match the rows of a run to released questions, by tier and exact text or by probe id; return an arm per tier.

    Args:
        run: The run.
        form: The format of its files.
        files: The SHA-256 of each file by name.
        stated: Fields of `Provenance` that the user states.
        table: Another table of questions than the shipped one.

    Raises:
        UserError: No row is a released question.
    """
    known = released_questions(table or QUESTIONS)
    by_probe = {question.probe_id: question for question in known.values()}
    usual = _usual_tier(run.rows, known)
    tiers: dict[str, dict[str, ResultRow]] = {}
    twice: dict[str, list[str]] = {}
    unmatched = []
    for row in run.rows:
        text_hash = question_hash(_known_tier(row.tier) or usual, row.question)
        question = by_probe.get(row.probe) if row.probe else known.get(text_hash)
        if question is None or _known_tier(row.tier) not in ("", question.tier):
            unmatched.append(row.question or row.probe)
        elif question.probe_id in tiers.setdefault(question.tier, {}):
            twice.setdefault(question.tier, []).append(question.probe_id)
            if row.has_verdict and not tiers[question.tier][question.probe_id].has_verdict:  # of a later try
                tiers[question.tier][question.probe_id] = row
        else:
            tiers[question.tier][question.probe_id] = row
    if not tiers:
        raise UserError(
            f"{', '.join(files)}: none of its {len(run.rows)} questions is a released one; imported questions must "
            "have the exact texts of BEAM's questions."
        )
    facts = {**run.provenance.model_dump(), **stated, "format": form, "number": run.number, "files": files}
    first = min(tiers, key=SIZES.index)
    return [
        _arm(run.label, facts, tier, tiers[tier], known, unmatched if tier == first else [], twice.get(tier, []))
        for tier in sorted(tiers, key=SIZES.index)
    ]


def _known_tier(name: str) -> str:
    """Return the tier that a row names, "" for an unknown one."""
    return next((size for size in SIZES if size == name.strip().upper()), "")


def _usual_tier(rows: Sequence[ResultRow], known: Mapping[str, ReleasedQuestion]) -> str:
    """Return the tier that knows most texts of the rows that name none."""
    texts = [row.question for row in rows if not _known_tier(row.tier)]
    return max(SIZES, key=lambda size: sum(question_hash(size, text) in known for text in texts))


def _arm(
    label: str,
    facts: Mapping[str, Any],
    tier: str,
    rows: Mapping[str, ResultRow],
    known: Mapping[str, ReleasedQuestion],
    unmatched: Sequence[str],
    twice: Sequence[str],
) -> ImportedArm:
    """Turn the rows of one tier into records, and say what matched and what did not."""
    matched = [question for question in known.values() if question.probe_id in rows]
    matched.sort(key=lambda question: question.conversation_id)  # as folders have them; questions keep their order
    conversations = {question.conversation_id for question in matched}
    expected = [question.probe_id for question in known.values() if question.conversation_id in conversations]
    pairs = [(question, rows[question.probe_id]) for question in matched]
    judgements = [_judgement(question, row) for question, row in pairs]
    answers = tuple(_answer(question, row) for question, row in pairs)
    details = tuple(_details(question, row) for question, row in pairs)
    shipped = match_shipped(judgements, {question.probe_id: len(row.answer or "") for question, row in pairs})
    if shipped is not None:
        source = {name: getattr(shipped, name) for name in Provenance.model_fields}
        facts = {**facts, **{name: value for name, value in source.items() if value not in ("", "unknown")}}
    imported = Imported(
        **facts,
        kinds=dict(Counter("failed" if own.unscored else next(iter(_parts(own)), "none") for own in judgements)),
        unmatched_count=len(unmatched),
        unmatched=tuple(shorten(printable_line(text), 100, placeholder=" ...") for text in unmatched[:_MOST_NAMED]),
        twice=tuple(twice),
        missing=tuple(probe for probe in expected if probe not in rows),
        other_rubric=tuple(own.probe_id for own, row in pairs if _nuggets(row) not in (0, own.nuggets)),
        shipped=shipped.name if shipped else "",
        details_sha256=sha256(details_text(details)),
    )
    arm, judged = Arm(memory="imported", target=folder_name(label)), tuple(_mark_gaps(judgements))
    part = f"{tier.lower()}-{folder_name(imported.reader or 'unknown')}-imported"
    return ImportedArm(part, arm, _manifest(arm, tier, answers, judged, imported), answers, judged, details)


def details_text(details: Sequence[ImportedQuestion]) -> str:
    """Return the content of the file `DETAILS`."""
    return "".join(to_json(row.model_dump(mode="json", exclude_none=True)) + "\n" for row in details)


def _manifest(
    arm: Arm, tier: str, all_answers: Sequence[Answer], all_judgements: Sequence[Judgement], imported: Imported
) -> Manifest:
    conversations, answers, judgements = {}, {}, {}
    pairs = zip(all_answers, all_judgements, strict=True)
    for key, group in groupby(pairs, lambda pair: pair[0].conversation_id):
        own_answers, own_judgements = map(list, zip(*group, strict=True))
        probes = question_set([answer.probe_id for answer in own_answers])
        record = ConversationRecord(variant="unknown", sha256="", questions_sha256=probes, origin=ORIGIN)
        conversations[key] = record
        answers[key] = UnitOutput(own_answers, record).sha256
        judgements[key] = UnitOutput(own_judgements, record).sha256
    source = sha256(to_json([imported.format, imported.files, arm.name]))
    fields = {
        "arm": arm.name,
        "size": tier,
        "configuration": (),
        "settings": {"arm": arm.model_dump()},
        "reader": imported.reader or "unknown",
        "judge": imported.judged_by,
        "models": {},
        "prompts": {},
        "token_counter": "that of the source",
        "answers_key": source,
        "judgements_key": source,
        "imported": imported,
        **made_by(),
    }
    return Manifest.over(fields, conversations, {}, {ANSWERS: answers, JUDGEMENTS: judgements})


def _nuggets(row: ResultRow) -> int:
    return len(row.nuggets) or (sum(row.counts.model_dump().values()) if row.counts else 0)


def _answer(question: ReleasedQuestion, row: ResultRow) -> Answer:
    text = None if row.failed else row.answer
    reason = f"{SOURCE_SAYS}{row.failed}" if row.failed else "the source has no text of the answer"
    unscored = reason if text is None else None
    return Answer(**question.ids, text=text, unscored=unscored, context_tokens=row.context_tokens or 0)


def _judgement(question: ReleasedQuestion, row: ResultRow) -> Judgement:
    scores = [nugget.score for nugget in row.nuggets]
    whole = tuple(score for score in scores if score is not None)
    off_step = len(whole) == len(scores) and any(score not in _STEPS for score in scores)
    counts = row.counts.model_dump() if row.counts else {}
    nuggets = whole if off_step else ()
    reported = Reported(score=row.score, nuggets=nuggets, votes=row.votes, order=row.order, **counts)
    known: dict[str, Any] = {**question.ids, "ability": question.ability, "reported": reported}
    if row.failed:
        return Judgement(**known, unscored=f"{SOURCE_SAYS}{row.failed}")
    return Judgement(**known, verdicts=_verdicts(row), alignments=_alignments(question, row))


def _verdicts(row: ResultRow) -> tuple[NuggetVerdict, ...]:
    """Build a verdict per nugget. A score between the steps is None here; `Reported.nuggets` keeps it."""
    if not row.nuggets and (row.events, row.lines) != (None, None):
        return tuple(NuggetVerdict(nugget=text, score=None, reason=ONLY_ORDER) for text in row.rubric)
    verdicts = []
    for number, nugget in enumerate(row.nuggets):
        score, reason = nugget.score, nugget.reason
        if score not in _STEPS:
            score, reason = None, f"{nugget.score} is between the steps of the scale: {reason}"
        elif score is None:
            reason = reason or "the source has no score of it"
        text = nugget.text or placeholder(number)
        verdicts.append(NuggetVerdict(nugget=text, score=score, reason=reason, reply=nugget.reply))
    return tuple(verdicts)


def _alignments(question: ReleasedQuestion, row: ResultRow) -> tuple[Alignment, ...]:
    """Build the alignments of an answer's events to the rubric, where the source has all nuggets of the rubric."""
    nuggets = len(row.nuggets) or len(row.rubric)
    if question.ability != "event_ordering" or nuggets != question.nuggets:
        return ()
    parsed: tuple[tuple[Parser, tuple[OrderedEvent, ...] | None], ...] = (("items", row.events), ("newline", row.lines))
    return tuple(
        Alignment(
            parser=parser, items=tuple(event.text for event in events), matches=tuple(event.nugget for event in events)
        )
        for parser, events in parsed
        if events is not None and all(event.nugget is None or event.nugget < nuggets for event in events)
    )


def _details(question: ReleasedQuestion, row: ResultRow) -> ImportedQuestion:
    names = {"question", "rubric", "reference", "context_chars", "context_tokens", "memories", "cut"}
    return ImportedQuestion(probe_id=question.probe_id, **row.model_dump(include=names))


def _mark_gaps(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Mark a question as unscored if it lacks what the source has of other questions on the same ability."""
    usual: dict[str, set[str]] = {}
    for judgement in judgements:
        usual.setdefault(judgement.ability, set()).update(_parts(judgement).values())
    marked = []
    for judgement in judgements:
        gaps = sorted(usual[judgement.ability] - set(_parts(judgement).values()))
        if gaps and judgement.unscored is None:
            reason = f"the source has no {' and no '.join(gaps)} of this question, as it has of others"
            judgement = judgement.model_copy(update={"unscored": reason})
        marked.append(judgement)
    return marked


def _parts(judgement: Judgement) -> dict[str, str]:
    """Name what a judgement consists of, finest first: the kind, and what a gap of it is called."""
    reported = judgement.reported or Reported()
    scored = any(verdict.score is not None for verdict in judgement.verdicts) or bool(reported.nuggets)
    parts = (
        ("nuggets", "verdicts", scored),
        ("counts", "verdicts", reported.full is not None),
        ("order", "alignment", bool(judgement.alignments)),
        ("votes", "votes", bool(reported.votes)),
        ("score", "score", reported.score is not None),
    )
    return {kind: gap for kind, gap, present in parts if present}


def match_shipped(judged: Iterable[Judgement], answer_chars: Mapping[str, int]) -> PublishedRun | None:
    """Find the shipped run with exactly these verdicts and lengths of answers (by probe id), None if there is none."""
    known = {judgement.probe_id: (_packed(judgement), answer_chars[judgement.probe_id]) for judgement in judged}
    for run in published_runs():
        if known == {line.question.probe_id: (line.verdicts, line.answer_chars) for line in verdict_lines()[run.name]}:
            return run
    return None


def _packed(judgement: Judgement) -> str:
    """Write a judgement's verdicts as verdicts.csv has them."""
    scores = [verdict.score for verdict in judgement.verdicts]
    if scores and None not in scores:
        return "".join(str(int(2 * (score or 0))) for score in scores)
    reported = judgement.reported or Reported()
    if reported.full is None:
        return "".join(str(int(vote)) for vote in reported.votes)
    return f"{reported.full}-{reported.partial}-{reported.none}"


def question_set(probes: list[str]) -> str:
    """The hash of an imported conversation's questions: their ids, as their rubrics are not at hand."""
    return sha256(to_json(["imported", *probes]))
