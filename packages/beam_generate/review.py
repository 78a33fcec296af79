"""Human review of probing questions: decisions on file, their effect, and how far two reviewers agree (section 2.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, get_args

from beam_generate.probes.checks import examine_all
from beam_generate.probes.drafts import Draft, View
from beam_generate.probes.kinds import KINDS
from beam_generate.shapes import Repairs
from beamlib.errors import UserError
from beamlib.files import read_jsonl, write_jsonl

Verdict = Literal["accept", "edit", "reject"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
EDITABLE = ("question", "reference", "rubric", "evidence", "difficulty", "fields")
"""What an edit may replace, in the form of `candidates.json`."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a reviewer decided on a candidate. `changes` holds the replaced fields of an edit. No time is kept: equal
    decisions are equal bytes."""

    candidate: str
    verdict: Verdict
    reviewer: str
    changes: Mapping[str, Any] = field(default_factory=dict)


def read_decisions(path: Path) -> tuple[Decision, ...]:
    """The decisions of one reviewer's file (JSON lines); none where there is no file. Faults are a `UserError`."""
    if not path.exists():
        return ()
    found: dict[str, Decision] = {}
    for number, row in enumerate(read_jsonl(path), start=1):
        decision = _decision(row, f"{path}: entry {number}")
        if decision.candidate in found:
            raise UserError(f"{path}: entry {number}: {decision.candidate} is decided on twice; delete one of the two.")
        found[decision.candidate] = decision
    return tuple(found.values())


def write_decisions(path: Path, decisions: Sequence[Decision]) -> Path:
    """Write decisions, atomically, sorted by candidate."""
    rows = [
        {"candidate": one.candidate, "verdict": one.verdict, "reviewer": one.reviewer, "changes": dict(one.changes)}
        for one in sorted(decisions, key=lambda one: one.candidate)
    ]
    return write_jsonl(path, rows)


def _decision(row: Any, where: str) -> Decision:
    if not isinstance(row, dict):
        raise UserError(f"{where}: expected an object with candidate, verdict, reviewer and changes, not {row!r:.60}.")
    unknown = sorted(set(row) - {"candidate", "verdict", "reviewer", "changes"})
    if unknown:
        raise UserError(f"{where}: unknown field `{unknown[0]}`; remove it.")
    for name in ("candidate", "reviewer"):
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise UserError(f"{where}: `{name}` must be a text, not {row.get(name)!r:.60}.")
    if row.get("verdict") not in VERDICTS:
        raise UserError(f"{where}: `verdict` is {row.get('verdict')!r:.60}; write accept, edit or reject.")
    changes = row.get("changes", {})
    if not isinstance(changes, dict):
        raise UserError(f"{where}: `changes` must be an object of replaced fields, not {changes!r:.60}.")
    if bool(changes) != (row["verdict"] == "edit"):
        raise UserError(
            f"{where}: `changes` belong to an edit, and an edit needs some; correct `verdict` or `changes`."
        )
    for name, value in changes.items():
        if (wrong := _wrong(name, value)) is not None:
            raise UserError(f"{where}: `changes`, `{name}`: {wrong}.")
    return Decision(row["candidate"], row["verdict"], row["reviewer"], changes)


def _wrong(name: str, value: Any) -> str | None:
    """What is wrong with a replaced field."""
    if name not in EDITABLE:
        return f"no field that can be edited; use {', '.join(EDITABLE)}"
    if name == "rubric":
        whole = isinstance(value, list) and value and all(isinstance(item, str) and item.strip() for item in value)
        return None if whole else "must be a list of texts, none empty"
    if name == "evidence":
        whole = isinstance(value, dict) and all(
            isinstance(ids, list) and all(type(i) is int for i in ids) for ids in value.values()
        )
        return None if whole else "must be an object of lists of message ids"
    if name == "fields":
        return None if isinstance(value, dict) else "must be an object of published fields"
    return None if isinstance(value, str) and value.strip() else "must be a text, not empty"


@dataclass(frozen=True)
class Reviewed:
    """Drafts after review, edited ones under their old ids; ids of the accepted and edited, and of the rejected."""

    drafts: tuple[Draft, ...]
    accepted: frozenset[str]
    rejected: frozenset[str]


def apply_decisions(drafts: Sequence[Draft], decisions: Sequence[Decision], view: View, repairs: Repairs) -> Reviewed:
    """Put edits in place and check them again; an acceptance does not outweigh a check that failed, and says so.

    A decision whose candidate no longer exists, or whose edit does not fit its ability, is noted and has no effect.
    """
    by_id = {decision.candidate: decision for decision in decisions}
    known = {draft.id for draft in drafts}
    for decision in decisions:
        if decision.candidate not in known:
            repairs.note("review", decision.candidate, f"{decision.verdict} of a candidate that is gone", "no effect")
    found = []
    for draft in drafts:
        decided = by_id.get(draft.id)
        if decided is not None and decided.verdict == "edit":
            wrong = _unfit(draft, decided.changes)
            if wrong:
                repairs.note("review", draft.id, wrong, "edit left out")
            else:
                draft = _edited(draft, decided.changes)
        found.append(draft)
    if any(one is not other for one, other in zip(found, drafts, strict=True)):
        found = examine_all(found, view)
    taken = {draft.id for draft in found if draft.id in by_id and by_id[draft.id].verdict != "reject"}
    for draft in found:
        if draft.id in taken and draft.dropped:
            repairs.note("review", draft.id, f"taken, but {draft.dropped}: {draft.why}", "not chosen; edit it")
    rejected = frozenset(decision.candidate for decision in decisions if decision.verdict == "reject")
    return Reviewed(tuple(found), frozenset(taken), rejected & known)


def _unfit(draft: Draft, changes: Mapping[str, Any]) -> str:
    parts = KINDS[draft.ability].parts
    allowed = set(parts.values()) if parts else set() if draft.ability == "abstention" else {""}
    if set(changes.get("evidence", {})) - allowed:
        return f"evidence of {draft.ability} has the parts {sorted(allowed)}"
    for name, value in changes.get("fields", {}).items():
        wanted = KINDS[draft.ability].fields.get(name)
        if name not in draft.fields or wanted is None or not isinstance(value, wanted):
            return f"`{name}` is no such field of {draft.ability}"
    return ""


def _edited(draft: Draft, changes: Mapping[str, Any]) -> Draft:
    plain = {name: changes[name] for name in ("question", "reference", "difficulty") if name in changes}
    if "rubric" in changes:
        plain["rubric"] = tuple(changes["rubric"])
    if "evidence" in changes:
        plain["evidence"] = {**draft.evidence, **{part: tuple(ids) for part, ids in changes["evidence"].items()}}
    if "fields" in changes:
        plain["fields"] = {**draft.fields, **changes["fields"]}
    return draft.changed(**plain)


@dataclass(frozen=True)
class Agreement:
    """Cohen's kappa between two raters over the `n` items that both rated.

    `observed` and `expected` are agreements from 0 to 1 (weighted ones where weights are used), None for no items.
    `kappa` is None where it is undefined, and `reason` says why. `counts` maps (first's, second's) to how often.
    """

    n: int
    observed: float | None
    expected: float | None
    kappa: float | None
    reason: str
    counts: Mapping[tuple[Any, Any], int]


def cohens_kappa(
    pairs: Sequence[tuple[Any, Any]], credit: Callable[[Any, Any], Fraction] = lambda a, b: Fraction(a == b)
) -> Agreement:
    """Kappa of paired ratings: (observed - expected) / (1 - expected), each the mean of `credit` (1 for the same).

    Exact: fractions until the end. Undefined without items, and where chance alone would give full agreement.
    """
    counts = dict(sorted(Counter(pairs).items()))
    n = len(pairs)
    if not n:
        return Agreement(0, None, None, None, "no item was rated by both", counts)
    rows, columns = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    observed = sum((credit(*pair) * count for pair, count in counts.items()), Fraction()) / n
    expected = sum((credit(a, b) * rows[a] * columns[b] for a in rows for b in columns), Fraction()) / n**2
    if expected == 1:
        return Agreement(n, float(observed), 1.0, None, "both gave all items one and the same rating", counts)
    return Agreement(n, float(observed), float(expected), float((observed - expected) / (1 - expected)), "", counts)


def agreement(first: Sequence[Decision], second: Sequence[Decision]) -> Agreement:
    """Kappa of two reviewers' verdicts over the candidates both decided on."""
    other = {decision.candidate: decision.verdict for decision in second}
    return cohens_kappa([(one.verdict, other[one.candidate]) for one in first if one.candidate in other])


class Review:
    """One reviewer's decisions on a set of candidates, written after every change."""

    def __init__(self, drafts: Sequence[Draft], path: Path, reviewer: str) -> None:
        """`path` is this reviewer's own file; what it holds already is kept."""
        if not reviewer.strip():
            raise UserError("The reviewer has no name; give `reviewer` one, so that decisions can be told apart.")
        self._drafts = {draft.id: draft for draft in drafts}
        self._path, self._reviewer = path, reviewer
        self._decisions = {decision.candidate: decision for decision in read_decisions(path)}
        foreign = sorted({one.reviewer for one in self._decisions.values()} - {reviewer})
        if foreign:
            raise UserError(f"{path}: holds decisions of {foreign[0]}; give {reviewer} a file of their own.")

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All decisions so far."""
        return tuple(self._decisions.values())

    def of(self, candidate: str) -> Decision | None:
        """The decision on a candidate, if there is one."""
        return self._decisions.get(candidate)

    def decide(self, candidate: str, verdict: Verdict, changes: Mapping[str, Any] | None = None) -> None:
        """Keep a decision in place of an earlier one; changes that cannot be are a `UserError`, and nothing is kept."""
        row = {"candidate": candidate, "verdict": verdict, "reviewer": self._reviewer, "changes": dict(changes or {})}
        decision = _decision(row, candidate)
        if candidate not in self._drafts:
            raise UserError(f"{candidate}: no such candidate; show the candidates again.")
        if wrong := _unfit(self._drafts[candidate], decision.changes):
            raise UserError(f"{candidate}: {wrong}; correct the edit.")
        kept = {**self._decisions, candidate: decision}
        write_decisions(self._path, list(kept.values()))
        self._decisions = kept
