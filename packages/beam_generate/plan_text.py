"""Plans and narratives as text: how they are rendered, and how they are read from replies and edited files.

A plan is, for each sub-plan, a line `BATCH n PLAN` and a bullet `• **Label:** text` per line. The first bullet is the
time anchor `• **Time Anchor:** March 15, 2024`. Markdown around a header and other list marks are accepted; other lines
are skipped, and so is a header without bullets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path

from beam_generate.probes.wording import MONTHS, days
from beam_generate.shapes import SPECIAL_LABELS, SPECIALS, Bullet, Plan, Special, SubPlan, Timeline
from beamlib.errors import UserError
from beamlib.text import count_tokens

ANCHOR_LABEL = "Time Anchor"

_HEADER = re.compile(r"[\s*#]*BATCH (?P<number>[0-9]{1,4}) PLAN\b", re.IGNORECASE)
_BULLET = re.compile(r"\s*(?:[•*-]|[0-9]{1,3}[.)])?\s*\*\*(?P<label>[^*]+)\*\*(?P<text>.*)")
_NARRATIVE = re.compile(
    r"^[^\w\n]*(?:[0-9]{1,3}[^\w\n]*)?(LABEL CATEGORY|LABEL DESCRIPTION|FOCUS AREAS)\**:(.*)$",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class ParsedSubPlan:
    """A batch as it stands in a text: its number and (label, text) of each bullet."""

    number: int
    bullets: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Narrative:
    """A theme of the story: label, description, and the areas that bullets name after the label."""

    label: str
    description: str
    areas: tuple[str, ...]


def show_day(day: date) -> str:
    """Format a day as `March 5, 2024` in any locale."""
    return f"{MONTHS[day.month - 1]} {day.day}, {day.year}"


def show_timeline(timeline: Timeline) -> str:
    """Format a timeline as `March 5, 2024 to June 1, 2024`."""
    return f"{show_day(timeline.start)} to {show_day(timeline.end)}"


def anchor(day: date) -> str:
    """Format a time anchor as chats have it: `March-05-2024`."""
    return f"{MONTHS[day.month - 1]}-{day.day:02d}-{day.year}"


def find_days(text: str) -> list[date]:
    """Return the days that a text names with their year, in order."""
    return [date(day.year, day.month, day.day) for day in days(text) if day.year]


def read_timeline(text: str) -> Timeline | None:
    """Return the timeline from the first to the last day of a text; None without two days in order."""
    named = find_days(text)
    return Timeline(named[0], named[-1]) if len(named) > 1 and named[0] <= named[-1] else None


def special_of(label: str) -> Special | None:
    """Return which of the three special bullets a label names."""
    plain = " ".join(label.casefold().split())
    return next((special for special in SPECIALS if SPECIAL_LABELS[special].casefold() in plain), None)


def bullet_text(line: str) -> str:
    """Return the text of a bullet without its list mark and label."""
    match = _BULLET.fullmatch(line)
    return match["text"].strip().lstrip(": ") if match else line


def is_anchor(label: str) -> bool:
    """Tell whether a label is that of a time anchor."""
    return "anchor" in label.casefold()


def render_bullet(bullet: Bullet, numbered: bool = False) -> str:
    """Render a bullet on one line; `numbered` shows its number instead of the list mark."""
    sign = f"{bullet.number}." if numbered else "•"
    return f"{sign} **{bullet.label}:** {bullet.text}"


def bullet_lines(bullets: Iterable[Bullet]) -> str:
    """Render bullets, `7. **Label:** text` per line."""
    return "\n".join(render_bullet(bullet, numbered=True) for bullet in bullets)


def render_plan(subplans: Iterable[SubPlan]) -> str:
    """Render a plan."""
    return "\n\n".join(
        "\n".join((f"BATCH {part.number} PLAN", *(render_bullet(bullet) for bullet in part.bullets)))
        for part in subplans
    )


def read_batches(text: str) -> list[ParsedSubPlan]:
    """Return the batches of a text that have bullets, in order."""
    batches: list[tuple[int, list[tuple[str, str]]]] = []
    for line in text.split("\n"):
        if header := _HEADER.match(line):
            batches.append((int(header["number"]), []))
        elif batches and (bullet := _BULLET.fullmatch(line)):
            label = " ".join(bullet["label"].split()).strip(": ")
            body = " ".join(bullet["text"].split()).lstrip(": ")
            if label and body:
                batches[-1][1].append((label, body))
    return [ParsedSubPlan(number, tuple(bullets)) for number, bullets in batches if bullets]


def read_subplans(text: str, path: Path) -> tuple[SubPlan, ...]:
    """Return the sub-plans of a plan file, numbered from 1 with the special bullets last.

    Raises:
        UserError: The text is no such plan.
    """
    batches = read_batches(text)
    if not batches:
        raise UserError(f"{path}: no line `BATCH n PLAN` with bullets under it; restore the plan or generate it again.")
    subplans = []
    for number, batch in enumerate(batches, start=1):
        if batch.number != number:
            raise UserError(f"{path}: 'BATCH {batch.number} PLAN' stands where batch {number} belongs; correct it.")
        anchors = [day for label, body in batch.bullets[:3] for day in find_days(body) if is_anchor(label)]
        if not anchors:
            raise UserError(f"{path}: batch {number} has no readable time anchor; write one as March 15, 2024.")
        bullets = number_bullets(batch.bullets)
        kinds = [bullet.special for bullet in bullets]
        special = [kind for kind in kinds if kind is not None]
        if len(set(special)) != len(special) or kinds[len(kinds) - len(special) :] != special:
            labels = ", ".join(SPECIAL_LABELS.values())
            raise UserError(
                f"{path}: in batch {number} the bullets {labels} must be the last ones, once each; correct it."
            )
        subplans.append(SubPlan(number, anchors[0], bullets))
    return tuple(subplans)


def number_bullets(bullets: Iterable[tuple[str, str]]) -> tuple[Bullet, ...]:
    """Number bullets from 1 and mark the special ones by their labels."""
    return tuple(Bullet(number, label, text, special_of(label)) for number, (label, text) in enumerate(bullets, 1))


def render_narratives(narratives: Sequence[Narrative]) -> str:
    """Render `labels.txt`: numbered blocks."""
    return "\n\n".join(
        f"{number}. LABEL CATEGORY: {one.label}\n   LABEL DESCRIPTION: {one.description}".rstrip()
        + f"\n   Focus Areas: {', '.join(one.areas)}"
        for number, one in enumerate(narratives, 1)
    )


def read_narratives(text: str) -> list[Narrative]:
    """Return the narratives of a text; a block without a name or areas is left out."""
    blocks: list[dict[str, str]] = []
    for field, value in _NARRATIVE.findall(text):
        if field.upper() == "LABEL CATEGORY":
            blocks.append({})
        if blocks:
            blocks[-1][field.upper()] = " ".join(value.split()).lstrip("*: ")
    narratives = []
    for block in blocks:
        areas = tuple(area for part in block.get("FOCUS AREAS", "").split(",") if (area := part.strip(" .*")))
        if block["LABEL CATEGORY"] and areas:
            narratives.append(Narrative(block["LABEL CATEGORY"], block.get("LABEL DESCRIPTION", ""), areas))
    return narratives


@lru_cache(maxsize=4096)  # every group of questions and every sub-plan's dialogue measures the same bullets again
def line_tokens(bullet: Bullet) -> int:
    """Count the tokens of a bullet's line."""
    return count_tokens(render_bullet(bullet, numbered=True))


def earlier_subplans(plan: Plan, before: int, budget: int) -> str:
    """Render the sub-plans before number `before`, newest first, bullet by bullet until `budget` tokens are used."""
    parts: list[str] = []
    for subplan in reversed(plan.subplans[: before - 1]):
        lines: list[str] = []
        for bullet in subplan.bullets:
            if line_tokens(bullet) > budget:
                budget = 0
                break
            budget -= line_tokens(bullet)
            lines.append(render_bullet(bullet, numbered=True))
        if not lines:
            break
        parts.append("\n".join([f"Sub-plan {subplan.number}, {show_day(subplan.anchor)}:", *lines]))
    return "\n\n".join(parts)


def earlier_plans_text(summaries: Sequence[str]) -> str:
    """Number the summaries of earlier plans from 1, one per line."""
    return "\n".join(f"{number}. {summary}" for number, summary in enumerate(summaries, start=1))
