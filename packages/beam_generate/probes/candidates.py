"""Which bullets of a plan could be asked about, per ability (paper section 2.3, Listings 1 to 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from beam_generate.probes.drafts import Ref, read_ref
from beam_generate.probes.kinds import ABILITIES, KINDS, Ability
from beam_generate.reply_json import ask_json
from beam_generate.shapes import Plan, Repairs
from beamlib.llm.model import Model, Prompt


@dataclass(frozen=True)
class CandidateWindow:
    """The plans that one call sees: one, or two consecutive ones at 10M. `count` candidates are asked for."""

    plans: tuple[Plan, ...]
    count: str

    @property
    def indices(self) -> tuple[int, ...]:
        """0-based numbers of the plans."""
        return tuple(plan.index for plan in self.plans)

    @property
    def text(self) -> str:
        """The plans with the reference of each bullet: a line `PLAN p, BATCH b, date` per sub-plan, then
        `[p.b.n] **label:** text` per bullet."""
        lines = []
        for plan in self.plans:
            for subplan in plan.subplans:
                lines += ["", f"PLAN {plan.index}, BATCH {subplan.number}, {subplan.anchor:%Y-%m-%d}"]
                for bullet in subplan.bullets:
                    ref = Ref(plan.index, subplan.number, bullet.number)
                    lines.append(f"[{ref}] **{bullet.label}:** {bullet.text}")
        return "\n".join(lines).strip()

    @cached_property
    def bullets(self) -> dict[Ref, str]:
        """`label: text` of each bullet by its reference."""
        return {
            Ref(plan.index, subplan.number, bullet.number): f"{bullet.label}: {bullet.text}"
            for plan in self.plans
            for subplan in plan.subplans
            for bullet in subplan.bullets
        }


@dataclass(frozen=True, slots=True)
class Candidate:
    """Bullets worth a question. `parts` names two of them (`original`, `updated`; `first`, `second`) where needed."""

    ability: Ability
    window: CandidateWindow
    refs: tuple[Ref, ...]
    about: str
    parts: Mapping[str, Ref] = field(default_factory=dict)


def windows(plans: Sequence[Plan]) -> dict[Ability, list[CandidateWindow]]:
    """What each ability's calls see: the plan; at 10M each plan, or plans 0-1, 2-3, ... (reference 3.5).

    An odd last plan is paired with the one before it, as in the released code.
    """
    singles = [(plan,) for plan in plans]
    pairs = [tuple(plans[start : start + 2]) for start in range(0, len(plans), 2)]
    if len(plans) > 1 and len(pairs[-1]) == 1:
        pairs[-1] = tuple(plans[-2:])
    many = len(plans) > 1
    return {
        ability: [
            CandidateWindow(window, KINDS[ability].count_10m if many else KINDS[ability].count)
            for window in (pairs if KINDS[ability].pairs else singles)
        ]
        for ability in ABILITIES
    }


async def find_candidates(
    model: Model, windows: Mapping[Ability, Sequence[CandidateWindow]], repairs: Repairs
) -> list[Candidate]:
    """Candidates of every ability but abstention, in order; one call per ability and window, all at once.

    A candidate that cites a bullet which does not exist, too few bullets, or bullets that another candidate of its
    ability already has, is dropped and noted.
    """
    calls = [(ability, window) for ability in ABILITIES if ability != "abstention" for window in windows[ability]]
    texts = {window.indices: window.text for _, window in calls}
    prompts = [
        Prompt(f"candidates_{ability}", {"plan": texts[window.indices], "count": window.count}, about=plan_name(window))
        for ability, window in calls
    ]
    replies = await ask_json(model, prompts, list, repairs)
    found: list[Candidate] = []
    for (ability, window), reply in zip(calls, replies, strict=True):
        bullets = window.bullets
        seen: set[tuple[Ref, ...]] = set()
        for number, entry in enumerate(reply or [], start=1):
            candidate = _candidate(entry, ability, window, bullets)
            if not isinstance(candidate, str) and candidate.refs in seen:
                candidate = "the same bullets as another"
            if isinstance(candidate, str):
                where = f"candidates_{ability}, {plan_name(window)}, entry {number}"
                repairs.note("probes", where, candidate, "dropped")
            else:
                seen.add(candidate.refs)
                found.append(candidate)
    return found


def plan_name(window: CandidateWindow) -> str:
    """`Plan 3` or `Plan 2-3`, as `plan_reference` has it."""
    return "Plan " + "-".join(map(str, window.indices))


def _candidate(entry: Any, ability: Ability, window: CandidateWindow, bullets: Mapping[Ref, str]) -> Candidate | str:
    """A candidate, or what is wrong with it."""
    if not isinstance(entry, dict):
        return f"no object: {entry!r:.60}"
    plan = window.indices[0] if len(window.plans) == 1 else None
    kind = KINDS[ability]
    parts: dict[str, Ref] = {}
    for part in kind.parts or {}:
        ref = read_ref(entry.get(part), plan)
        if ref not in bullets or ref is None:
            return f"`{part}` is no bullet of the plan: {entry.get(part)!r:.60}"
        parts[part] = ref
    cited = entry.get("bullets", [])
    cited = cited if isinstance(cited, list) else [cited]
    refs = []
    for value in cited:
        ref = read_ref(value, plan)
        if ref is None or ref not in bullets:
            return f"no bullet of the plan: {value!r:.60}"
        refs.append(ref)
    unique = tuple(sorted({*refs, *parts.values()}))
    if len(unique) < kind.least:
        return f"{len(unique)} bullets where {kind.least} are needed"
    about = entry.get("about")
    return Candidate(ability, window, unique, about.strip() if isinstance(about, str) else "", parts)
