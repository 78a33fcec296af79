"""Apply reviewers' decisions on probing questions, and measure how far two reviewers agree (paper section 2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from beam_generate.folder import Text, validate
from beam_generate.probes.drafts import Draft
from beam_generate.shapes import Repairs
from beamlib.errors import UserError
from beamlib.files import read_jsonl, write_jsonl

Verdict = Literal["accept", "reject"]


class Decision(BaseModel):
    """A reviewer's decision on a candidate."""

    model_config = ConfigDict(frozen=True)

    candidate: Text
    verdict: Verdict
    reviewer: Text


def read_decisions(path: Path) -> tuple[Decision, ...]:
    """Read the decisions of one reviewer's file (JSON lines), none without a file; a `UserError` names a wrong one."""
    decisions: dict[str, Decision] = {}
    for number, row in enumerate(read_jsonl(path) if path.exists() else (), start=1):
        decision = validate(Decision, row, f"{path}: entry {number}")
        if decision.candidate in decisions:
            raise UserError(f"{path}: entry {number}: {decision.candidate} is decided on twice; delete one of the two.")
        decisions[decision.candidate] = decision
    return tuple(decisions.values())


def write_decisions(path: Path, decisions: Sequence[Decision]) -> Path:
    """Write decisions atomically, sorted by candidate."""
    return write_jsonl(path, (one.model_dump() for one in sorted(decisions, key=lambda one: one.candidate)))


def apply_decisions(
    drafts: Sequence[Draft], decisions: Sequence[Decision], repairs: Repairs
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the ids of the accepted and of the rejected drafts; a decision without effect is noted.

    A draft that failed a check is not used even if it is accepted.
    """
    by_id = {draft.id: draft for draft in drafts}
    for decision in decisions:
        draft = by_id.get(decision.candidate)
        if draft is None:
            problem = f"{decision.verdict} of a candidate that is gone"
            repairs.note("review", decision.candidate, problem, "no effect")
        elif draft.dropped and decision.verdict == "accept":
            repairs.note("review", draft.id, f"accepted, but {draft.dropped}: {draft.why}", "not chosen")
    known = [decision for decision in decisions if decision.candidate in by_id]
    accepted, rejected = (
        frozenset(one.candidate for one in known if one.verdict == verdict) for verdict in ("accept", "reject")
    )
    return accepted, rejected


def review_agreement(first: Sequence[Decision], second: Sequence[Decision]) -> str:
    """Report Cohen's kappa of two reviewers' verdicts over the candidates that both decided on."""
    verdicts = {decision.candidate: decision.verdict for decision in second}
    pairs = [(one.verdict, verdicts[one.candidate]) for one in first if one.candidate in verdicts]
    n = len(pairs)
    by_chance = sum(mine == other for mine, _ in pairs for _, other in pairs) / n**2 if pairs else 1.0
    if by_chance == 1:
        return f"kappa is not defined: {n} candidates decided on by both, or one verdict alone"
    observed = sum(mine == other for mine, other in pairs) / n
    return f"kappa {(observed - by_chance) / (1 - by_chance):.2f} over {n} candidates"
