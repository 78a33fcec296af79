"""`beamlib data audit`: questions that a machine finds reason to doubt, each with its evidence.

This module reaches gold; nothing that answers questions imports it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, Field
from tqdm import tqdm

from beam_claims.detectors import IN_CONVERSATION, AuditedQuestion, Sheet, Suspicion, shared_reference
from beamlib.data.conversations import Treatment
from beamlib.data.errata import Detector, known_defects
from beamlib.data.loading import load, load_questions
from beamlib.data.sources import CHAT, CUT_CHAT, Source, plan_folders, present, scan
from beamlib.errors import UserError

ABOUT = {
    detector.__name__: (detector.__doc__ or "").split("\n")[0] for detector in (*IN_CONVERSATION, shared_reference)
}


class AuditReport(BaseModel):
    """What `audit_folder` found. `without_chat`: conversations whose chat is not (wholly) there, so that the detectors
    `figure_not_cited` and `date_not_said` had nothing to look at; `errors`: what could not be read."""

    folder: str
    questions: int = 0
    conversations: int = 0
    without_chat: list[str] = Field(default_factory=list)
    findings: list[Suspicion] = Field(default_factory=list)
    errors: list[str] = Field(default_factory=list)

    def render(self) -> str:
        """The report as plain text, by detector."""
        lines = [
            f"Questions in {self.folder}: {self.questions:,} of {self.conversations} conversations, "
            f"{len(self.without_chat)} of them without a whole chat",
            "A finding is a reason to read a question. [erratum]: it was read, and errata.json lists it.",
        ]
        for name in get_args(Detector):
            found = [finding for finding in self.findings if finding.detector == name]
            confirmed = sum(bool(finding.confirmed) for finding in found)
            lines += ["", f"{name}: {ABOUT[name]} {len(found)} found, {confirmed} listed as errata"]
            lines += [f"  {_line(finding)}" for finding in found]
        lines += ["", f"Errors: {len(self.errors)}", *(f"  {error}" for error in self.errors)]
        return "\n".join(lines) + "\n"


def _line(finding: Suspicion) -> str:
    names = ", ".join(name + " [erratum]" * (name in finding.confirmed) for name in finding.question_ids)
    cited = f" (cites {', '.join(map(str, finding.message_ids))})" if finding.message_ids else ""
    return f"{names}: {finding.what}{cited}"


def audit_folder(folder: Path) -> AuditReport:
    """Run all detectors over every conversation in `folder`; questions without a chat will do.

    Chats are read as the paper evaluated them (cut where a cut exists). A conversation that cannot be read is listed in
    `errors`. Raises `UserError` only where there is no conversation at all.
    """
    sources, problems = scan(folder)
    report = AuditReport(folder=str(folder), errors=[one.sentence for one in problems if one.size or not sources])
    everything: list[AuditedQuestion] = []
    for source in tqdm(sources, desc="auditing", unit="conversation", disable=None):  # shown on a terminal
        try:
            sheet = _sheet(source)
        except UserError as error:
            report.errors.append(str(error))
            continue
        report.conversations += 1
        if sheet.messages is None:
            report.without_chat.append(source.id)
        report.findings += [finding for detector in IN_CONVERSATION for finding in detector(sheet)]
        everything += sheet.items
    report.questions = len(everything)
    report.findings = _confirmed([*report.findings, *shared_reference(everything)], everything)
    return report


def _sheet(source: Source) -> Sheet:
    """The questions of a conversation and, where it is there, its chat."""
    if source.kind == "released" and not _has_chat(source.path):
        probes, gold, _ = load_questions(source)
        return Sheet([AuditedQuestion(probe, gold[probe.id]) for probe in probes])
    loaded = load(source, Treatment(errata="none"))
    whole = all(anomaly.kind != "plans_missing" for anomaly in loaded.anomalies)
    items = [AuditedQuestion(probe, loaded.gold[probe.id]) for probe in loaded.probes]
    return Sheet(items, loaded.conversation.messages if whole else None)


def _has_chat(folder: Path) -> bool:
    return any(present(folder / name) for name in (CHAT, CUT_CHAT)) or (folder.is_dir() and bool(plan_folders(folder)))


def _confirmed(findings: Iterable[Suspicion], items: Iterable[AuditedQuestion]) -> list[Suspicion]:
    """The findings, each with the questions for which `errata.json` names its detector."""
    listed = {entry.question_id: entry.detectors for entry in known_defects([item.probe for item in items])}
    return [
        finding.model_copy(
            update={"confirmed": tuple(q for q in finding.question_ids if finding.detector in listed.get(q, ()))}
        )
        for finding in findings
    ]
