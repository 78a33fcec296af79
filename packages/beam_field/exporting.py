"""A run's answers and verdicts in the neutral form, to be published: the way back of `beamlib import`.

docs/publishing-results.md describes the form. It cannot hold what the released code needs of event ordering, and has
scores in place of what that code reads in replies; every other protocol gives the same scores after an import.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from beam_field.questions import QUESTIONS, Question, question_hash, questions
from beam_field.results import FORMAT, Header, Row, make_row
from beamlib.data.loading import load_questions
from beamlib.data.sources import find_conversations
from beamlib.errors import UserError
from beamlib.evaluate.answer_record import Answer
from beamlib.evaluate.arm_folder import MANIFEST, Manifest, read_manifest, stored_answers, stored_judgements
from beamlib.evaluate.imported import ImportedQuestion, Provenance, read_details
from beamlib.files import inside, to_json, write_text
from beamlib.params import GENERATED
from beamlib.scoring.event_ordering import is_order_nugget
from beamlib.scoring.question_score import NOT_COMPUTABLE
from beamlib.scoring.records import Alignment, Judgement, NuggetVerdict

EXPORTED = "exported"
"""The folder of a run that its files are written into, where no other is named."""


def export_runs(run: Path, data: Path | None = None, out: Path | None = None, table: Path | None = None) -> list[Path]:
    """Write a file per arm of a run, or of a part of one, and per time that its judge was asked; returns the paths.

    `data` are the released questions, for arms that were not imported, `table` another table of questions. A
    `UserError` where there is no arm, and where its questions are not the released ones: nobody could match them.
    """
    found = [path.parent for pattern in (f"*/{MANIFEST}", f"*/*/{MANIFEST}") for path in sorted(run.glob(pattern))]
    if not found:
        raise UserError(f"{run}: no results to export; name a run folder, or a part of one.")
    place = out or (run if found[0].parent != run else run.parent) / EXPORTED
    files = {
        path: text for folder in found for path, text in _files(folder, data, place, questions(table or QUESTIONS))
    }
    return [write_text(path, text) for path, text in files.items()]


def _files(folder: Path, data: Path | None, out: Path, known: Mapping[str, Question]) -> Iterator[tuple[Path, str]]:
    manifest = read_manifest(folder)
    told = read_details(folder, manifest.imported) if manifest.imported else _asked(folder, manifest, data)
    if not any(question_hash(manifest.size, one.question) in known for one in told.values()):
        raise UserError(
            f"{folder}: none of its {len(told)} questions is a released one, so nobody could match them; export a run "
            "over the released data."
        )
    answers = {one.probe_id: one for own in stored_answers(folder).values() for one in own}
    rounds = [one.rounds for one in stored_judgements(folder)]
    times = max(map(len, rounds), default=1)
    for number in range(times):
        rows = [_row(own[number], answers, told) for own in rounds if number < len(own)]
        run = number + 1 if times > 1 else manifest.imported.number if manifest.imported else None
        header = Header(format=FORMAT, tier=manifest.size, run=run, **_provenance(manifest))
        name = f"{folder.parent.name}-{folder.name}{f'-run{run}' if times > 1 else ''}.jsonl"
        lines = (one.model_dump(mode="json", exclude_defaults=True) for one in [header, *rows])
        yield inside(out, name), "".join(to_json(line) + "\n" for line in lines)


def _asked(folder: Path, manifest: Manifest, data: Path | None) -> dict[str, ImportedQuestion]:
    """The questions of an arm of this project, by probe id."""
    made = folder.parent.parent / GENERATED
    place = data or (made if made.is_dir() else None)
    if place is None:
        raise UserError(f"{folder}: it holds no texts of its questions; name the released questions with --data.")
    sources = [one for one in find_conversations(place, [manifest.size]) if one.id in manifest.conversations]
    probes = [probe for source in sources for probe in load_questions(source)[0]]
    return {probe.id: ImportedQuestion(probe_id=probe.id, question=probe.question) for probe in probes}


def _provenance(manifest: Manifest) -> dict[str, Any]:
    """What is told of the results: of imported ones what their source told, else how this project made them."""
    if manifest.imported:
        told = {name: getattr(manifest.imported, name) for name in Provenance.model_fields}
        return {**told, "system": manifest.imported.system or manifest.arm}
    judge = {name: manifest.prompts[name][:12] for name in ("judge_nugget",) if name in manifest.prompts}
    return {
        "system": f"{manifest.arm}, beamlib {manifest.package_version}",
        "reader": manifest.reader,
        "judge": manifest.judge,
        "judge_prompt": "beamlib's" + "".join(f" {name}, SHA-256 {digest}" for name, digest in judge.items()),
        "judge_sees_question": "yes" if manifest.settings.get("question_in_prompt") else "no",
        "judge_sees_rubric": "yes",
        "judge_sees_reference": "no",
        "gold_in_prompt": "no",
        "commit": manifest.commit,
    }


def _row(judgement: Judgement, answers: Mapping[str, Answer], told: Mapping[str, ImportedQuestion]) -> Row:
    asked, answer = told.get(judgement.probe_id), answers.get(judgement.probe_id)
    if asked is None:
        raise UserError(f"{judgement.probe_id}: the data hold no such question; name those of the run with --data.")
    failed = (answer.unscored if answer else None) or ("" if judgement.verdicts else judgement.unscored)
    reported = judgement.reported.model_dump(mode="json") if judgement.reported else {}
    counts = {name: reported.pop(name) for name in ("full", "partial", "none") if name in reported}
    between = reported.pop("nuggets", [])
    # Of some sources only the order of events is known: their nuggets have texts and no score.
    scored = not any(verdict.reason.startswith(NOT_COMPUTABLE) for verdict in judgement.verdicts)
    nuggets = [_nugget(verdict, place, between) for place, verdict in enumerate(judgement.verdicts) if scored]
    events = [one for one in judgement.alignments if one.parser == "items"]
    values = asked.model_dump(exclude={"schema_version", "probe_id"}, exclude_defaults=True) | reported
    return make_row(
        judgement.probe_id,
        **values,
        answer=answer.text if answer else None,
        failed=(failed or "").removeprefix("the source says: "),
        nuggets=nuggets,
        counts=counts or None,
        events=_events(events[0]) if events else None,
    )


def _events(found: Alignment) -> list[dict[str, Any]]:
    return [{"text": item, "nugget": match} for item, match in zip(found.items, found.matches, strict=True)]


def _nugget(verdict: NuggetVerdict, place: int, between: list[float]) -> dict[str, Any]:
    """A verdict; with its text where that says whether it is one on the order of events, which is no event."""
    return {
        "text": verdict.nugget if is_order_nugget(verdict.nugget) else "",
        "score": between[place] if between else verdict.score,
        "reason": verdict.reason,
        "reply": verdict.reply,
    }
