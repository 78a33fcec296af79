"""A run on file as a file in the neutral form: questions by id, nuggets by place, no text of the released data."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from beam_field.matching import ONLY_ORDER, SAID
from beam_field.results import FORMAT, Header, Row
from beam_field.sources import placeholder
from beamlib.errors import UserError
from beamlib.evaluate.answer_record import Answer
from beamlib.evaluate.arm_folder import (
    MANIFEST,
    Manifest,
    ensure_finished,
    read_manifest,
    stored_answers,
    stored_judgements,
)
from beamlib.evaluate.imported import Provenance, read_details
from beamlib.evaluate.run_store import checked
from beamlib.files import to_json, write_text
from beamlib.scoring.records import Alignment, Judgement

_OF_CONTEXT = {"context_chars", "context_tokens", "memories", "cut"}


def export_arm(folder: Path, target: Path) -> int:
    """Write the arm in `folder` to `target` as JSON lines; how many questions it has.

    A `UserError` for what is no arm, is not finished, is not of the released questions, or was judged several times.
    """
    if not (folder / MANIFEST).exists():
        arms = ", ".join(str(path.parent) for path in sorted(folder.glob(f"**/{MANIFEST}"))[:5])
        raise UserError(f"{folder}: no arm of a run; name one{arms and f', such as {arms}'}.")
    found = read_manifest(folder)
    ensure_finished(found, str(folder))
    for key, record in found.conversations.items():
        if found.imported is None and set(record.files.values()) != {"released"}:
            raise UserError(f"{folder}: {key} is not known to have the released questions; only these can be compared.")
    answers = {one.probe_id: one for own in stored_answers(folder).values() for one in own}
    judged = stored_judgements(folder)
    if again := next((one.probe_id for one in judged if one.repeats), ""):
        raise UserError(
            f"{folder}: {again} was judged several times; judge it with --set judge_repeats=1 to export it."
        )
    told: dict[str, dict[str, Any]] = {}
    if found.imported is not None:
        rows = read_details(folder, found.imported)
        told = {key: one.model_dump(include=_OF_CONTEXT, exclude_none=True) for key, one in rows.items()}
    lines = [_header(found), *(_row(answers[one.probe_id], one, told.get(one.probe_id, {})) for one in judged)]
    text = (to_json(line.model_dump(mode="json", exclude_unset=True)) for line in lines)
    write_text(target, "".join(f"{line}\n" for line in text))
    return len(judged)


def _header(found: Manifest) -> Header:
    if found.imported is not None:
        told = Provenance(**{name: getattr(found.imported, name) for name in Provenance.model_fields})
        # By this the judge stays the one that it was: an import is told apart by its format's prompt.
        prompt = _ours(found) if found.prompts else told.judge_prompt or f"that of {found.imported.format}"
        fields = told.model_dump() | {"system": told.system or found.arm, "judge_prompt": prompt}
        fields |= {"run": found.imported.number}
    else:
        seen = "yes" if found.settings["question_in_prompt"] else "no"
        fields = {"system": found.arm, "reader": found.reader, "judge": found.judge, "gold_in_prompt": "no"}
        fields |= {"judge_sees_question": seen, "judge_sees_rubric": "yes", "judge_sees_reference": "no"}
        fields |= {"judge_prompt": _ours(found)}
    said = {name: value for name, value in fields.items() if value not in ("", None)}
    return Header(format=FORMAT, tier=found.size, **said)


def _ours(found: Manifest) -> str:
    """The prompt of a judge who was asked here."""
    return f"beamlib {found.package_version}, judge_nugget {found.prompts['judge_nugget'][:12]}"


def _row(answer: Answer, one: Judgement, told: dict[str, Any]) -> Row:
    why = one.unscored or ""
    fields: dict[str, Any] = {"probe": one.probe_id, "answer": answer.text, **told}
    if not told and answer.context_tokens:
        fields["context_tokens"] = answer.context_tokens
    if why and (why.startswith(SAID) or (answer.text is None and one.reported is None)):
        fields["failed"] = why.removeprefix(SAID)
    if reported := one.reported:
        fields |= {"votes": reported.votes, "score": reported.score, "order": reported.order}
        if reported.full is not None:
            fields["counts"] = {name: getattr(reported, name) for name in ("full", "partial", "none")}
    if any(verdict.reason == ONLY_ORDER for verdict in one.verdicts):
        fields["rubric"] = [placeholder(number) for number in range(len(one.verdicts))]
    else:
        between = one.reported.nuggets if one.reported else ()
        scores = between or [verdict.score for verdict in one.verdicts]
        fields["nuggets"] = [
            {"score": score} if score is not None else {"score": None, "reason": verdict.reason}
            for score, verdict in zip(scores, one.verdicts, strict=True)
        ]
    fields = {name: value for name, value in fields.items() if value not in (None, "", (), [])}
    # An answer without events has an alignment, an empty one, and earns nothing: that is not the lack of one.
    fields |= {{"items": "events", "newline": "lines"}[cut.parser]: [*_events(cut)] for cut in one.alignments}
    return checked(Row, fields, "")


def _events(cut: Alignment) -> Iterable[dict[str, Any]]:
    return ({"text": text, "nugget": match} for text, match in zip(cut.items, cut.matches, strict=True))
