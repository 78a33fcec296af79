"""What becomes of a model's plan: the rules by which it is made whole, without asking anything.

- Batches: where all numbers 1 to N occur, the fullest batch of each number is taken; where the numbers are wrong but
  there are at least N batches, the first N are numbered in order. The rest is cut. Missing batches stay missing here.
- A batch of more than twice the bullets asked for is cut to what was asked for.
- Special bullets in a base plan are dropped (the second stage adds them).
- Time anchors come first in their batch. The days kept are the most that increase strictly and leave room inside the
  timeline for those between them; every other anchor, a missing one too, gets an evenly spaced day.
- The second stage's reply gives special bullets by batch: the first of each kind in a batch is taken, and with its
  contradiction the bullet that prepares it, which goes into the middle of the batch.

Every repair is noted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any

from beam_generate.plan_text import (
    ANCHOR_LABEL,
    ParsedSubPlan,
    bullet_text,
    find_days,
    is_anchor,
    number_bullets,
    special_of,
    with_day,
)
from beam_generate.reply_json import text_of
from beam_generate.shapes import SPECIAL_LABELS, SPECIALS, Layout, Repairs, Special, SubPlan, Timeline

STAGE = "plan"
SETUP_LABEL = "Earlier Event"
"""Label of a bullet that tells of something done, so that it can be contradicted."""


@dataclass
class SpecialBullets:
    """Special bullets of one batch so far, and what a bullet tells that prepares the contradiction, if one does."""

    special: dict[Special, str] = field(default_factory=dict)
    setup: str = ""

    @property
    def lacking(self) -> list[str]:
        """Labels of the special bullets that are not there."""
        return [SPECIAL_LABELS[special] for special in SPECIALS if special not in self.special]


def order_batches(
    batches: Sequence[ParsedSubPlan], count: int, where: str, repairs: Repairs
) -> dict[int, ParsedSubPlan]:
    """The batches by number, at most `count`."""
    wanted = range(1, count + 1)
    numbers = [batch.number for batch in batches]
    if not set(wanted) <= set(numbers) and len(batches) >= count:
        repairs.note(STAGE, where, f"batches numbered {_listed(numbers)}", f"the first {count} numbered in order")
        return {number: replace(batch, number=number) for number, batch in zip(wanted, batches, strict=False)}
    chosen: dict[int, ParsedSubPlan] = {}
    for batch in batches:
        known = chosen.get(batch.number)
        if batch.number in wanted and (known is None or len(batch.bullets) > len(known.bullets)):
            chosen[batch.number] = batch
    if len(chosen) < len(batches):
        repairs.note(STAGE, where, f"batches numbered {_listed(numbers)}", f"cut to {_listed(sorted(chosen))}")
    elif numbers != sorted(numbers):
        repairs.note(STAGE, where, f"batches numbered {_listed(numbers)}", "put in order")
    return dict(sorted(chosen.items()))


def complain(batches: Mapping[int, ParsedSubPlan], layout: Layout) -> str:
    """What is missing, as a request to do it again; empty where nothing is. Less than half the bullets is missing."""
    parts = []
    if missing := [number for number in range(1, layout.subplans + 1) if number not in batches]:
        parts.append(f"these batches are missing: {_listed(missing)}")
    for number, batch in batches.items():
        if 2 * len(batch.bullets) < layout.bullets:
            parts.append(f"batch {number} has {len(batch.bullets)} of {layout.bullets} bullets")
    if not parts:
        return ""
    return f"The plan is not complete: {'; '.join(parts)}. Write all {layout.subplans} batches in full."


def assemble(
    batches: Mapping[int, ParsedSubPlan], layout: Layout, timeline: Timeline, where: str, repairs: Repairs
) -> tuple[SubPlan, ...]:
    """The base plan of batches that are all there: bullets cut and numbered, days in order inside the timeline."""
    bodies: list[tuple[tuple[str, str], ...]] = []
    anchors: list[str] = []
    for number, batch in batches.items():
        place = f"{where}, batch {number}"
        bullets = _without_special(batch.bullets, place, repairs)
        anchor, rest = _split_anchor(bullets, place, repairs)
        if len(rest) + 1 > 2 * layout.bullets:
            repairs.note(STAGE, place, f"{len(rest) + 1} bullets, {layout.bullets} asked for", "cut")
            rest = rest[: layout.bullets - 1]
        anchors.append(anchor)
        bodies.append(rest)
    told = [next(iter(find_days(anchor)), None) for anchor in anchors]
    days = fit_days(told, timeline)
    for number, (before, day) in enumerate(zip(told, days, strict=True), 1):
        if before != day:
            found = "no readable time anchor" if before is None else f"time anchor {before} out of order or timeline"
            repairs.note(STAGE, f"{where}, batch {number}", found, f"set to {day}")
    return tuple(
        SubPlan(number, day, number_bullets([(ANCHOR_LABEL, with_day(anchor, day)), *rest]))
        for number, (day, anchor, rest) in enumerate(zip(days, anchors, bodies, strict=True), 1)
    )


def fit_days(told: Sequence[date | None], timeline: Timeline) -> list[date]:
    """A day for each of `told`, strictly increasing inside the timeline, as many kept as possible.

    Raises `ValueError` where the timeline has fewer days than there are to place.
    """
    count = len(told)
    if (timeline.end - timeline.start).days + 1 < count:
        raise ValueError(f"{count} days do not fit between {timeline.start} and {timeline.end}")
    # Less its index, a day that leaves room for those before it never decreases: the longest such chain is kept.
    slack = {
        index: day - timedelta(index) for index, day in enumerate(told) if day is not None and _possible(day, index)
    }
    last = timeline.end - timedelta(count - 1)
    chains: dict[int, list[int]] = {}
    for index, value in slack.items():
        if timeline.start <= value <= last:
            before = [chain for other, chain in chains.items() if slack[other] <= value]
            chains[index] = [*max(before, key=len, default=[]), index]
    kept = max(chains.values(), key=len, default=[])
    known = {-1: timeline.start - timedelta(1), count: timeline.end + timedelta(1)}
    known |= {index: slack[index] + timedelta(index) for index in kept}
    days = []
    for index in range(count):
        left = max(place for place in known if place <= index)
        right = min(place for place in known if place >= index)
        share = 0 if left == right else (known[right] - known[left]).days * (index - left) // (right - left)
        days.append(known[left] + timedelta(share))
    return days


def take_special(
    base: Sequence[SubPlan],
    entries: Sequence[Mapping[str, Any]],
    found: dict[int, SpecialBullets],
    where: str,
    repairs: Repairs,
) -> None:
    """Add to `found` (by batch) the special bullets that a reply's objects bring and `found` lacks."""
    for part in base:
        state = found.setdefault(part.number, SpecialBullets())
        place = f"{where}, batch {part.number}"
        seen: set[Special] = set()
        for entry in entries:
            if str(entry.get("batch")).strip() != str(part.number):
                continue
            for special in SPECIALS:
                text = bullet_text(text_of(entry.get(special)))
                if text and special in seen:
                    repairs.note(STAGE, place, f"a second {SPECIAL_LABELS[special]}", "dropped")
                elif text and special not in state.special:
                    state.special[special] = text
                    if special == "contradiction":
                        state.setup = bullet_text(text_of(entry.get("setup")))
                seen |= {special} if text else set()
    numbers = {str(part.number) for part in base}
    if strange := [entry.get("batch") for entry in entries if str(entry.get("batch")).strip() not in numbers]:
        repairs.note(STAGE, where, f"special bullets for {len(strange)} batches that do not exist", "dropped")


def add_special(
    base: Sequence[SubPlan], found: Mapping[int, SpecialBullets], where: str, repairs: Repairs
) -> tuple[SubPlan, ...]:
    """The whole plan: base bullets, then what there is of the special ones, in their order."""
    plan = []
    for part in base:
        state = found.get(part.number, SpecialBullets())
        bullets = [(bullet.label, bullet.text) for bullet in part.bullets]
        if state.setup:
            bullets.insert((len(bullets) + 1) // 2, (SETUP_LABEL, state.setup))
        bullets += [
            (SPECIAL_LABELS[special], state.special[special]) for special in SPECIALS if special in state.special
        ]
        if state.lacking:
            repairs.note(STAGE, f"{where}, batch {part.number}", f"no {' and no '.join(state.lacking)}", "left without")
        plan.append(replace(part, bullets=number_bullets(bullets)))
    return tuple(plan)


def _without_special(bullets: Sequence[tuple[str, str]], place: str, repairs: Repairs) -> tuple[tuple[str, str], ...]:
    kept = tuple(bullet for bullet in bullets if special_of(bullet[0]) is None)
    if len(kept) < len(bullets):
        repairs.note(STAGE, place, f"{len(bullets) - len(kept)} special bullets in the base plan", "dropped")
    return kept


def _split_anchor(
    bullets: Sequence[tuple[str, str]], place: str, repairs: Repairs
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The anchor's text (empty where there is none among the first three bullets) and the other bullets."""
    for at, (label, text) in enumerate(bullets[:3]):
        if is_anchor(label):
            if at:
                repairs.note(STAGE, place, f"time anchor in bullet {at + 1}", "moved to the front")
            return text, (*bullets[:at], *bullets[at + 1 :])
    return "", tuple(bullets)


def _possible(day: date, index: int) -> bool:
    return (day - date.min).days >= index


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(str(number) for number in numbers) or "none"
