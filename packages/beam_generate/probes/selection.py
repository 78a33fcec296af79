"""Two questions per ability, different in their bullets and spread over the conversation as the released ones are.

Selection aims at where the evidence of the released questions lies, so that generated deciles agree with it by
construction and not as a finding. `released_deciles.csv` holds that, counted by `deciles` over all released questions
that cite messages. At 100K a position is the message's place in the chat that the questions were made on (cut where the
release cut it). Of the other sizes the ids of all questions are known but not the length of every chat: positions are
over the mean length by Table 3. Table 7 as printed is no aim: see docs/generation.md.
"""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from beam_generate.probes.drafts import Draft
from beam_generate.probes.kinds import ABILITIES, KINDS, PER_ABILITY, Ability
from beamlib.data.conversations import Size
from beamlib.data.published import published_file
from beamlib.files import read_text

_RELEASED = Path(__file__).parent / "released_deciles.csv"
_ROUNDS = 8
"""Rounds of exchanging single questions; three were the most that any of 40 random pools needed to come to rest."""

Choice = dict[Ability, list[Draft]]


@cache
def published_deciles(size: Size) -> tuple[float, ...]:
    """Table 7 as printed: the share of evidence (0 to 1) in each tenth of a conversation, in order."""
    return _shares(published_file("table7"), "length", size)


@cache
def released_deciles(size: Size) -> tuple[float, ...]:
    """The same of the released questions, counted by `deciles`: what selection aims at."""
    return _shares(_RELEASED, "size", size)


def _shares(path: Path, column: str, size: Size) -> tuple[float, ...]:
    rows = csv.DictReader(io.StringIO(read_text(path)))
    return tuple(float(row["percent"]) / 100 for row in rows if row[column] == size)


def deciles(evidence: Iterable[Sequence[int]], messages: int) -> tuple[float, ...]:
    """The share (0 to 1) of evidence in each tenth of a conversation of that many messages.

    `evidence` holds the message ids of each question. Each question has the same weight, in equal parts for the tenths
    in which it has evidence: a summary that cites thirty messages counts no more than an update (paper B.5 counts the
    segments of each question). All zero where nothing is cited.
    """
    shares = [0.0] * 10
    questions = 0
    for ids in evidence:
        tenths = sorted({min(9, i * 10 // messages) for i in ids})
        questions += bool(tenths)
        for tenth in tenths:
            shares[tenth] += 1 / len(tenths)
    return tuple(share / questions for share in shares) if questions else tuple(shares)


def select(drafts: Sequence[Draft], accepted: frozenset[str], messages: int, size: Size, seed: int) -> Choice:
    """Up to two usable drafts per ability; the same for the same arguments.

    In this order: accepted by a reviewer (ids in `accepted`), bullets that no other chosen question rests on, deciles
    near those of the released questions (sum of absolute differences). Greedy, then single exchanges while one is
    better.
    """
    rng = random.Random(f"selection of probes, seed {seed}")
    pools: Choice = {ability: [] for ability in ABILITIES}
    for draft in drafts:
        if not draft.dropped:
            pools[draft.ability].append(draft)
    for pool in pools.values():
        pool.sort(key=lambda draft: draft.id)
        rng.shuffle(pool)
    weigh = _Weighing(accepted, messages, released_deciles(size))
    chosen: Choice = {ability: [] for ability in ABILITIES}
    for _ in range(PER_ABILITY):
        for ability, pool in pools.items():
            free = [draft for draft in pool if draft not in chosen[ability]]
            if free:
                chosen[ability].append(min(free, key=lambda draft: weigh.cost(_all(chosen), draft)))
    for _ in range(_ROUNDS):
        if not sum(_exchange(chosen, ability, place, pools[ability], weigh) for ability, place in _places(chosen)):
            break
    return {ability: sorted(some, key=lambda draft: draft.evidence_ids) for ability, some in chosen.items()}


class _Weighing:
    """How good a choice is; smaller is better."""

    def __init__(self, accepted: frozenset[str], messages: int, target: tuple[float, ...]) -> None:
        self._accepted, self._target = accepted, target
        self._messages = messages
        self._shares: dict[str, tuple[float, ...]] = {}

    def cost(self, others: Sequence[Draft], draft: Draft) -> tuple[int, int, float]:
        """Of adding `draft` to `others`."""
        used = {ref for other in others for ref in other.refs}
        shares = [self._share(one) for one in (*others, draft) if one.evidence]
        mean = [sum(column) / len(shares) for column in zip(*shares, strict=True)] if shares else [0.0] * 10
        apart = sum(abs(one - wanted) for one, wanted in zip(mean, self._target, strict=True))
        # Rounded: the order in which a sum was added up must not decide.
        return draft.id not in self._accepted, sum(ref in used for ref in draft.refs), round(apart, 9)

    def _share(self, draft: Draft) -> tuple[float, ...]:
        if draft.id not in self._shares:
            self._shares[draft.id] = deciles([draft.evidence_ids], self._messages)
        return self._shares[draft.id]


def _all(chosen: Choice) -> list[Draft]:
    return [draft for some in chosen.values() for draft in some]


def _places(chosen: Choice) -> list[tuple[Ability, int]]:
    return [(ability, place) for ability, some in chosen.items() for place in range(len(some))]


def _exchange(chosen: Choice, ability: Ability, place: int, pool: Sequence[Draft], weigh: _Weighing) -> bool:
    """Put the best draft of the pool in this place; whether that changed anything."""
    old = chosen[ability][place]
    others = [draft for draft in _all(chosen) if draft is not old]
    free = [draft for draft in pool if all(draft is not other for other in chosen[ability])]
    best = min([old, *free], key=lambda draft: weigh.cost(others, draft))
    chosen[ability][place] = best
    return best is not old


def published(chosen: Mapping[Ability, Sequence[Draft]], *, plans: bool) -> dict[str, list[dict[str, Any]]]:
    """The content of `probing_questions.json`: published fields in their order, abilities in alphabetical order.

    With `plans` (10M) every question has `plan_reference`, "Plan k" or "Plan a-b", 0-based; without, only those of
    abstention, as text of their own.
    """
    return {ability: [_published(draft, plans) for draft in chosen[ability]] for ability in ABILITIES}


def _published(draft: Draft, plans: bool) -> dict[str, Any]:
    kind = KINDS[draft.ability]
    evidence: Any = {part: list(ids) for part, ids in draft.evidence.items()}
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
