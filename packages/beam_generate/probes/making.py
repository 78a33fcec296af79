"""From plans and dialogue to the twenty probing questions of a conversation (paper section 2.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from beam_generate.probes.candidates import find_candidates, windows
from beam_generate.probes.checks import examine_all
from beam_generate.probes.drafts import Draft, View, to_record
from beam_generate.probes.kinds import ABILITIES, PER_ABILITY
from beam_generate.probes.nuggets import write_rubrics
from beam_generate.probes.question_writer import ask_abstention, ask_questions
from beam_generate.probes.selection import Choice, published, select
from beam_generate.review import Decision, apply_decisions
from beam_generate.shapes import DialogueTurn, Plan, Repairs, Story
from beamlib.data.conversations import Size
from beamlib.errors import UserError
from beamlib.llm.model import Model


@dataclass(frozen=True)
class ProbeSet:
    """All drafts of a conversation, those that a check dropped among them, and the chosen ones by ability."""

    drafts: tuple[Draft, ...]
    chosen: Choice
    plans: int

    @property
    def questions(self) -> dict[str, list[dict[str, Any]]]:
        """The content of `probing_questions.json`, its keys in the published order."""
        return published(self.chosen, plans=self.plans > 1)

    @property
    def candidates(self) -> list[dict[str, Any]]:
        """The content of `candidates.json`, which `drafts.read_candidates` reads; `chosen` says which were taken."""
        taken = {draft.id for some in self.chosen.values() for draft in some}
        return [{**to_record(draft), "chosen": draft.id in taken} for draft in self.drafts]

    @property
    def dropped(self) -> dict[str, int]:
        """How many drafts each check dropped, by its name, alphabetically."""
        return dict(sorted(Counter(draft.dropped for draft in self.drafts if draft.dropped).items()))

    @property
    def missing(self) -> dict[str, int]:
        """How many questions each ability lacks, where it does."""
        return {
            ability: PER_ABILITY - len(self.chosen[ability])
            for ability in ABILITIES
            if len(self.chosen[ability]) < PER_ABILITY
        }


class TooFew(UserError):
    """Some ability has fewer than two usable questions. `probes` is what there is, for review."""

    def __init__(self, message: str, probes: ProbeSet) -> None:
        super().__init__(message)
        self.probes = probes


async def make_probes(
    model: Model, story: Story, plans: Sequence[Plan], turns: Sequence[Sequence[DialogueTurn]], repairs: Repairs,
    seed: int, decisions: Sequence[Decision] | None = None, *, allow_short: bool = False,
) -> ProbeSet:  # fmt: skip
    """Ask for candidates, questions and rubrics, check all of them, and choose two per ability.

    `turns` holds the turns of each plan, in order; message ids run over all of them. Calls that do not depend on each
    other are out at once. Everything repaired, asked again or dropped is noted in `repairs`. Too few usable questions
    are `TooFew`, unless `allow_short`; a line that is down is the `ModelError` of the call.
    """
    view = View(turns)
    seen = windows(plans)
    candidates = await find_candidates(model, seen, repairs)
    asked = [
        *await ask_abstention(model, seen["abstention"], repairs),
        *await ask_questions(model, candidates, view, repairs),
    ]
    drafts = examine_all(await write_rubrics(model, asked, repairs), view)
    return choose(drafts, view, story.size, repairs, seed, decisions, allow_short=allow_short)


def choose(
    drafts: Sequence[Draft], view: View, size: Size, repairs: Repairs, seed: int,
    decisions: Sequence[Decision] | None = None, *, allow_short: bool = False,
) -> ProbeSet:  # fmt: skip
    """Choose among drafts that were checked before, honouring a reviewer's decisions; no model is asked.

    Drafts that failed a check, and decisions without their draft, are noted.
    """
    reviewed = apply_decisions(drafts, decisions or (), view, repairs)
    for draft in reviewed.drafts:
        if draft.dropped:
            where = f"{draft.ability}, {' '.join(map(str, draft.refs)) or draft.id}"
            repairs.note("probes", where, f"{draft.dropped}: {draft.why}", "dropped")
    usable = [draft for draft in reviewed.drafts if draft.id not in reviewed.rejected]
    chosen = select(usable, reviewed.accepted, len(view.messages), size, seed)
    probes = ProbeSet(reviewed.drafts, chosen, 10 if size == "10M" else 1)
    if probes.missing:
        lacking = ", ".join(f"{ability} ({count})" for ability, count in probes.missing.items())
        repairs.note("probes", "selection", f"questions missing: {lacking}", "left short" if allow_short else "failed")
        if not allow_short:
            raise TooFew(
                f"probing questions of {size}: too few usable candidates, missing {lacking}; see in "
                "repairs-probes.jsonl why they were dropped, then edit some in notebook 04, ask for larger plans "
                "(bullets_per_subplan, questions_per_batch), or ask anew by --calls refresh or another model.",
                probes,
            )
    return probes
