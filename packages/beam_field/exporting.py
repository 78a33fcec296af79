"""Export an arm as a file in the neutral form: questions by id, nuggets by place, no text of the released data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from beam_field.matching import ONLY_ORDER, SOURCE_SAYS
from beam_field.results import RESULT_FORMAT, Header, ResultRow
from beam_field.sources import placeholder
from beamlib.errors import UserError
from beamlib.evaluate.beam_records import (
    MANIFEST,
    Manifest,
    Provenance,
    ensure_finished,
    read_details,
    read_manifest,
    stored_answers,
    stored_judgements,
)
from beamlib.evaluate.records import Answer, checked
from beamlib.files import to_json, write_text
from beamlib.scoring.records import Judgement

_ABOUT_CONTEXT = {"context_chars", "context_tokens", "memories", "cut"}


def export_arm(folder: Path, target: Path) -> int:
    """Write the arm in `folder` to `target` as JSON lines; return the number of questions.

    Raises:
        UserError: `folder` is no arm, is unfinished, is not of the released questions, or was judged several times.
    """
    if not (folder / MANIFEST).exists():
        arms = ", ".join(str(path.parent) for path in sorted(folder.glob(f"**/{MANIFEST}"))[:5])
        raise UserError(f"{folder}: no arm of a run; name one{arms and f', such as {arms}'}.")
    manifest = read_manifest(folder)
    ensure_finished(manifest, str(folder))
    for key, record in manifest.conversations.items():
        if manifest.imported is None and set(record.files.values()) != {"released"}:
            raise UserError(f"{folder}: {key} is not known to have the released questions; only these can be compared.")
    answers = {answer.probe_id: answer for own in stored_answers(folder).values() for answer in own}
    judged = stored_judgements(folder)
    if again := next((judgement.probe_id for judgement in judged if judgement.repeats), ""):
        raise UserError(
            f"{folder}: {again} was judged several times; judge it with --set judge_repeats=1 to export it."
        )
    contexts: dict[str, dict[str, Any]] = {}
    if manifest.imported is not None:
        details = read_details(folder, manifest.imported)
        contexts = {key: row.model_dump(include=_ABOUT_CONTEXT, exclude_none=True) for key, row in details.items()}
    rows = [_row(answers[own.probe_id], own, contexts.get(own.probe_id, {})) for own in judged]
    lines = (to_json(line.model_dump(mode="json", exclude_unset=True)) for line in (_header(manifest), *rows))
    write_text(target, "".join(f"{line}\n" for line in lines))
    return len(judged)


def _header(manifest: Manifest) -> Header:
    imported = manifest.imported
    fields: dict[str, Any]
    if imported is not None:
        fields = imported.model_dump(include=set(Provenance.model_fields))
        # The judge stays the same only with its prompt: an import is distinguished by the prompt of its format.
        prompt = _own_prompt(manifest) if manifest.prompts else imported.judge_prompt or f"that of {imported.format}"
        fields |= {"system": imported.system or manifest.arm, "judge_prompt": prompt, "run": imported.number}
    else:
        fields = {"system": manifest.arm, "reader": manifest.reader, "judge": manifest.judge, "gold_in_prompt": "no"}
        fields |= {"judge_sees_question": "yes" if manifest.settings["question_in_prompt"] else "no"}
        fields |= {"judge_sees_rubric": "yes", "judge_sees_reference": "no", "judge_prompt": _own_prompt(manifest)}
    fields = {name: value for name, value in fields.items() if value not in ("", None)}
    return Header(format=RESULT_FORMAT, tier=manifest.size, **fields)


def _own_prompt(manifest: Manifest) -> str:
    """Name the prompt of a judge that ran here."""
    return f"beamlib {manifest.package_version}, judge_nugget {manifest.prompts['judge_nugget'][:12]}"


def _row(answer: Answer, judgement: Judgement, context: dict[str, Any]) -> ResultRow:
    reason = judgement.unscored or ""
    fields: dict[str, Any] = {"probe": judgement.probe_id, "answer": answer.text, **context}
    if not context and answer.context_tokens:
        fields["context_tokens"] = answer.context_tokens
    if reason and (reason.startswith(SOURCE_SAYS) or (answer.text is None and judgement.reported is None)):
        fields["failed"] = reason.removeprefix(SOURCE_SAYS)
    if reported := judgement.reported:
        fields |= {"votes": reported.votes, "score": reported.score, "order": reported.order}
        if reported.full is not None:
            fields["counts"] = {name: getattr(reported, name) for name in ("full", "partial", "none")}
    if any(verdict.reason == ONLY_ORDER for verdict in judgement.verdicts):
        fields["rubric"] = [placeholder(number) for number in range(len(judgement.verdicts))]
    else:
        off_step = judgement.reported.nuggets if judgement.reported else ()
        scores = off_step or [verdict.score for verdict in judgement.verdicts]
        fields["nuggets"] = [
            {"score": score} if score is not None else {"score": None, "reason": verdict.reason}
            for score, verdict in zip(scores, judgement.verdicts, strict=True)
        ]
    fields = {name: value for name, value in fields.items() if value not in (None, "", (), [])}
    # An answer without events has an empty alignment and earns nothing; that is not the same as no alignment.
    for alignment in judgement.alignments:
        pairs = zip(alignment.items, alignment.matches, strict=True)
        events = [{"text": text, "nugget": match} for text, match in pairs]
        fields["events" if alignment.parser == "items" else "lines"] = events
    return checked(ResultRow, fields, "")
