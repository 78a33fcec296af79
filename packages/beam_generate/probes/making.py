"""Make the twenty probing questions of a conversation and choose two per ability (paper section 2.3, Appendix D).

Chosen questions differ in their bullets, and their evidence is spread over the conversation like that of the released
questions. Selection aims at that spread, so generated deciles agree with it by construction, not as a finding. Table 7
as printed is no aim: see docs/generation.md.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from beam_generate.folder import Text, validate
from beam_generate.probes.checks import examine_all
from beam_generate.probes.deciles import deciles, released_deciles
from beam_generate.probes.drafts import PER_ABILITY, PROBE_KINDS, Draft, View
from beam_generate.probes.writing import (
    ask_abstention,
    ask_questions,
    candidate_windows,
    find_candidates,
    write_rubrics,
)
from beam_generate.shapes import DialogueTurn, Plan, Repairs, Story
from beamlib.data.conversations import ABILITIES, Ability, Size
from beamlib.errors import UserError
from beamlib.files import read_jsonl, write_jsonl
from beamlib.llm.model import Model

_ROUNDS = 8
"""Rounds of exchanging single questions; 40 random pools needed three at most."""

Choice = dict[Ability, list[Draft]]
Verdict = Literal["accept", "reject"]


class Decision(BaseModel):
    """A reviewer's decision on a candidate."""

    model_config = ConfigDict(frozen=True)

    candidate: Text
    verdict: Verdict
    reviewer: Text


@dataclass(frozen=True)
class ProbeSet:
    """All drafts of a conversation, dropped ones included, and the chosen ones by ability."""

    drafts: tuple[Draft, ...]
    chosen: Choice
    plans: int

    @property
    def questions(self) -> dict[str, list[dict[str, Any]]]:
        """Content of `probing_questions.json`, abilities in the published order."""
        return {ability: [_published(draft, self.plans > 1) for draft in self.chosen[ability]] for ability in ABILITIES}

    @property
    def candidates(self) -> list[dict[str, Any]]:
        """Content of `candidates.json`; `chosen` marks the chosen drafts."""
        chosen = {draft.id for some in self.chosen.values() for draft in some}
        return [{**draft.to_record(), "chosen": draft.id in chosen} for draft in self.drafts]

    @property
    def missing(self) -> str:
        """The abilities that lack questions and how many, as `summarization (2)`; empty if none does."""
        lacking = {ability: PER_ABILITY - len(self.chosen[ability]) for ability in ABILITIES}
        return ", ".join(f"{ability} ({count})" for ability, count in lacking.items() if count)


async def make_probes(
    model: Model, story: Story, plans: Sequence[Plan], turns: Sequence[Sequence[DialogueTurn]], repairs: Repairs,
    decisions: Sequence[Decision] = (),
) -> ProbeSet:  # fmt: skip
    """Write candidates, questions and rubrics, check them, and choose two per ability, as far as there are two.

    `turns` are given by plan, in order; message ids count through all of them.

    Raises:
        ModelError: A call failed and may succeed later.
    """
    view = View(turns)
    plan_windows = candidate_windows(plans)
    candidates = await find_candidates(model, plan_windows, repairs)
    drafts = [
        *await ask_abstention(model, plan_windows["abstention"], repairs),
        *await ask_questions(model, candidates, view, repairs),
    ]
    checked = examine_all(await write_rubrics(model, drafts, repairs), view)
    return choose(checked, len(view.messages), story.size, repairs, story.seed, decisions)


def choose(
    drafts: Sequence[Draft], messages: int, size: Size, repairs: Repairs, seed: int, decisions: Sequence[Decision] = (),
) -> ProbeSet:  # fmt: skip
    """Choose among checked drafts, with a reviewer's decisions; arguments as in `make_probes`."""
    accepted, rejected = apply_decisions(drafts, decisions, repairs)
    for draft in drafts:
        if draft.dropped:
            where = f"{draft.ability}, {' '.join(map(str, draft.refs)) or draft.id}"
            repairs.note("probes", where, f"{draft.dropped}: {draft.why}", "dropped")
    usable = [draft for draft in drafts if draft.id not in rejected]
    chosen = select(usable, accepted, messages, size, seed)
    probes = ProbeSet(tuple(drafts), chosen, 10 if size == "10M" else 1)
    if probes.missing:
        repairs.note("probes", "selection", f"questions missing: {probes.missing}", "left short")
    return probes


def select(drafts: Sequence[Draft], accepted: frozenset[str], messages: int, size: Size, seed: int) -> Choice:
    """Choose up to two usable drafts per ability; the same for the same arguments.

    Drafts accepted by a reviewer (ids in `accepted`) come first, then those on bullets that no other chosen question
    rests on, then those that bring the deciles near the released ones (sum of absolute differences). The choice is
    greedy; then single questions are exchanged while that improves it.
    """
    rng = random.Random(f"selection of probes, seed {seed}")
    pools: Choice = {ability: [] for ability in ABILITIES}
    for draft in drafts:
        if not draft.dropped:
            pools[draft.ability].append(draft)
    for pool in pools.values():
        pool.sort(key=lambda draft: draft.id)
        rng.shuffle(pool)
    shares = {draft.id: deciles([draft.evidence_ids], messages) for pool in pools.values() for draft in pool}
    target = released_deciles(size)
    chosen: Choice = {ability: [] for ability in ABILITIES}

    def cost(draft: Draft, others: Sequence[Draft]) -> tuple[int, int, float]:
        used = {ref for other in others for ref in other.refs}
        spread = [shares[one.id] for one in (*others, draft) if one.evidence]
        mean = [sum(column) / len(spread) for column in zip(*spread, strict=True)] if spread else [0.0] * 10
        apart = sum(abs(share - aim) for share, aim in zip(mean, target, strict=True))
        # Rounded, so that the order of additions does not decide.
        return draft.id not in accepted, sum(ref in used for ref in draft.refs), round(apart, 9)

    def others(left_out: Draft | None = None) -> list[Draft]:
        return [draft for some in chosen.values() for draft in some if draft is not left_out]

    def best(free: Sequence[Draft], rest: Sequence[Draft]) -> Draft:
        return min(free, key=lambda draft: cost(draft, rest))

    for _ in range(PER_ABILITY):
        for ability, pool in pools.items():
            if free := [draft for draft in pool if draft not in chosen[ability]]:
                chosen[ability].append(best(free, others()))
    for _ in range(_ROUNDS):
        changed = False
        for ability, some in chosen.items():
            for place, old in enumerate(some):
                free = [draft for draft in pools[ability] if all(draft is not other for other in some)]
                some[place] = best([old, *free], others(old))
                changed |= some[place] is not old
        if not changed:
            break
    return {ability: sorted(some, key=lambda draft: draft.evidence_ids) for ability, some in chosen.items()}


def _published(draft: Draft, plans: bool) -> dict[str, Any]:
    """Return the published fields of a draft, in order.

    With `plans` (10M) each question has a `plan_reference`, "Plan k" or "Plan a-b", 0-based. Without, only those of
    abstention have one, as free text.
    """
    kind = PROBE_KINDS[draft.ability]
    evidence: Mapping[str, Any] = {part: list(ids) for part, ids in draft.evidence.items()}
    values = {
        **draft.fields,
        "question": draft.question,
        kind.reference: draft.reference,
        "difficulty": draft.difficulty,
        "source_chat_ids": evidence if kind.parts else evidence.get("", []),
        "rubric": list(draft.rubric),
    }
    if plans:
        values["plan_reference"] = "Plan " + "-".join(map(str, draft.plans))
    elif draft.ability == "abstention":
        places = [f"Batch {ref.batch}, bullet {ref.bullet}" for ref in draft.refs]
        values["plan_reference"] = ", ".join(places) or "The whole plan"
    return {name: values[name] for name in kind.fields if name in values}


def read_decisions(path: Path) -> tuple[Decision, ...]:
    """Read the decisions of one reviewer's file (JSON lines), none without a file; a `UserError` names a wrong one."""
    rows = read_jsonl(path) if path.exists() else ()
    decisions = [validate(Decision, row, f"{path}: entry {number}") for number, row in enumerate(rows, start=1)]
    for candidate, times in Counter(decision.candidate for decision in decisions).items():
        if times > 1:
            raise UserError(f"{path}: {candidate} is decided on twice; delete one of the two.")
    return tuple(decisions)


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
