"""Plans and narratives as text: written one way, read in every way that the released data spells them.

A plan is, for each sub-plan, a line `BATCH n PLAN` and its bullets `• **Label:** text`, the first of them the time
anchor `• **Time Anchor:** March 15, 2024`. Read as well: headers between asterisks, with a remark behind them or
repeated where a batch goes on; bullets with `-`, `*`, a number or a second sign in front, or without asterisks; a
bullet that runs over several lines; fences, separators and prose around it all; days as `2024-03-15`, `March-15-2024`
or `15 March 2024`. A header with no bullet under it is a mention, not a batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path

from beam_generate.shapes import SPECIAL_LABELS, SPECIALS, Bullet, Plan, Special, SubPlan, Timeline
from beamlib.errors import UserError
from beamlib.text import count_tokens

ANCHOR_LABEL = "Time Anchor"

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_MONTH = r"(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAYS = re.compile(
    r"(?<![0-9])(?P<iso>[0-9]{4}-[0-9]{1,2}-[0-9]{1,2})(?![0-9])"
    rf"|\b{_MONTH}[ \-]+(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?,?[ \-]+(?P<year>[0-9]{{4}})(?![0-9])"
    rf"|(?<![0-9])(?P<day2>[0-9]{{1,2}})(?:st|nd|rd|th)?[ \-]+{_MONTH.replace('month', 'month2')},?[ \-]+"
    r"(?P<year2>[0-9]{4})(?![0-9])",
    re.IGNORECASE,
)
_MONTHS_ONLY = re.compile(rf"\b{_MONTH},?[ \-]+(?P<year>[0-9]{{4}})(?![0-9])", re.IGNORECASE)

_HEADER = re.compile(r"^[\s*#>_•\-]*(?:assistant:\s*)?[\s*#_]*batch\s*(?P<number>[0-9]{1,4})\s*plan\b", re.IGNORECASE)
_SIGN = r"(?:[•\-–·+>]\s*|\*\s+|[0-9]{1,3}[.)]\s+)"
_BULLET = re.compile(rf"^\s*{_SIGN}*\*\*(?P<label>[^*]+?):?\s*\*\*\s*:?\s*(?P<text>.*)$")
_PLAIN_BULLET = re.compile(rf"^\s*{_SIGN}+(?P<label>[^:*]{{1,80}}):\s+(?P<text>.+)$")
_ANCHOR = re.compile(r"anchor", re.IGNORECASE)

_NAMED = re.compile(r"^\W*(?:[0-9]{1,3}\W+)?LABEL CATE(?:GORY|OGRY)\W*:\s*(?P<name>.*)$", re.IGNORECASE)
_DESCRIBED = re.compile(r"^\W*LABEL DESCRIPTION\W*:(?P<text>.*)$", re.IGNORECASE)
_FOCUSED = re.compile(r"^\W*FOCUS AREAS?\W*:(?P<text>.*)$", re.IGNORECASE)
_HEADING = re.compile(r"^\s*(?:[0-9]{1,3}[.)]\s*)?(?:#+\s*)?\*\*(?P<name>[^*]+)\*\*\s*:?\s*$")
_DASHED = re.compile(r"^\s*[-•–*]\s+(?P<text>.+)$")


@dataclass(frozen=True, slots=True)
class ParsedSubPlan:
    """A batch as it stands in a text: its number there, and (label, text) of each bullet."""

    number: int
    bullets: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Narrative:
    """A strand of the story: name, what it is there for, and the areas that bullets name behind it."""

    label: str
    description: str
    areas: tuple[str, ...]


def show_day(day: date) -> str:
    """`March 5, 2024`, whatever the locale."""
    return f"{MONTHS[day.month - 1]} {day.day}, {day.year}"


def show_timeline(timeline: Timeline) -> str:
    """`March 5, 2024 to June 1, 2024`."""
    return f"{show_day(timeline.start)} to {show_day(timeline.end)}"


def find_days(text: str) -> list[date]:
    """All days that a text names with their year, in order; impossible ones are passed over."""
    found = []
    for match in _DAYS.finditer(text):
        if match["iso"]:
            year, month, day = (int(part) for part in match["iso"].split("-"))
        else:
            name = match["month"] or match["month2"]
            month = _month(name)
            day, year = int(match["day"] or match["day2"]), int(match["year"] or match["year2"])
        try:
            found.append(date(year, month, day))
        except ValueError:
            continue
    return found


def with_day(text: str, day: date) -> str:
    """A time anchor's text for `day`: the day alone, or in the place of the day that a longer text begins with."""
    rest = _DAYS.sub("", text, count=1).strip(" ,.;")
    if len(rest.split()) <= 3:  # at most a time of day and its zone
        return show_day(day)
    return _DAYS.sub(show_day(day), text, count=1) if _DAYS.search(text) else f"{show_day(day)}: {text}"


def read_timeline(text: str) -> Timeline | None:
    """First and last day of a span: two days, or two months (from the first day of the one to the last of the other).

    None where a text names neither, or the end before the start.
    """
    days = find_days(text)
    if len(days) < 2:
        months = [(int(match["year"]), _month(match["month"])) for match in _MONTHS_ONLY.finditer(text)]
        if len(months) < 2 or not all(1 <= year < 9999 for year, _ in months):
            return None
        (year, month), (last_year, last_month) = months[0], months[-1]
        following = date(last_year + last_month // 12, last_month % 12 + 1, 1)
        days = [date(year, month, 1), following - timedelta(days=1)]
    return Timeline(days[0], days[-1]) if days[0] <= days[-1] else None


def special_of(label: str) -> Special | None:
    """Which of the three special bullets a label names."""
    plain = " ".join(label.casefold().split())
    for special in SPECIALS:
        if SPECIAL_LABELS[special].casefold() in plain:
            return special
    return None


def bullet_text(line: str) -> str:
    """What a bullet says, whether or not its sign and label stand before it."""
    match = _BULLET.match(line)
    return match["text"].strip() if match else line


def is_anchor(label: str) -> bool:
    """Whether a label is one of the spellings of Time Anchor and Temporal Anchor."""
    return _ANCHOR.search(label) is not None


def render_bullet(bullet: Bullet, numbered: bool = False) -> str:
    """One bullet on one line; `numbered` shows its number in place of the sign."""
    sign = f"{bullet.number}." if numbered else "•"
    return f"{sign} **{bullet.label}:** {bullet.text}"


def render_plan(subplans: Iterable[SubPlan]) -> str:
    """The text of a plan."""
    return "\n\n".join(
        "\n".join((f"BATCH {part.number} PLAN", *(render_bullet(bullet) for bullet in part.bullets)))
        for part in subplans
    )


def read_batches(text: str) -> list[ParsedSubPlan]:
    """The batches of any text, in its order. A repeated header goes on with its batch, unless an anchor follows it."""
    found: list[_Open] = []
    running = False  # whether a line may continue the bullet before it
    for line in text.replace("\r\n", "\n").split("\n"):
        if match := _HEADER.match(line):
            found.append(_Open(int(match["number"])))
            running = False
        elif not any(character.isalnum() for character in line):
            running = False
        elif found:
            running = _read_line(line, found[-1].bullets, running)
    batches: list[ParsedSubPlan] = []
    for one in found:
        bullets = tuple(_cleaned(one.bullets))
        if not bullets:
            continue
        if batches and batches[-1].number == one.number and not is_anchor(bullets[0][0]):
            bullets = (*batches.pop().bullets, *bullets)
        batches.append(ParsedSubPlan(one.number, bullets))
    return batches


def read_subplans(text: str, path: Path) -> tuple[SubPlan, ...]:
    """The sub-plans of a plan file. A `UserError` names the file where there is none, or one lacks its day."""
    batches = read_batches(text)
    if not batches:
        raise UserError(f"{path}: no line `BATCH n PLAN` with bullets under it; restore the plan or generate it again.")
    found = []
    for batch in batches:
        days = [day for label, told in batch.bullets[:3] for day in find_days(told) if is_anchor(label)]
        if not days:
            raise UserError(f"{path}: batch {batch.number} has no readable time anchor; write one as March 15, 2024.")
        found.append(SubPlan(batch.number, days[0], number_bullets(batch.bullets)))
    return tuple(found)


def number_bullets(bullets: Iterable[tuple[str, str]]) -> tuple[Bullet, ...]:
    """Bullets numbered from 1, the special ones marked by their labels."""
    return tuple(Bullet(number, label, text, special_of(label)) for number, (label, text) in enumerate(bullets, 1))


def render_narratives(narratives: Sequence[Narrative]) -> str:
    """The text of `labels.txt`: numbered blocks."""
    return "\n\n".join(
        f"{number}. LABEL CATEGORY: {one.label}\n   LABEL DESCRIPTION: {one.description}".rstrip()
        + f"\n   Focus Areas: {', '.join(one.areas)}"
        for number, one in enumerate(narratives, 1)
    )


def read_narratives(text: str) -> list[Narrative]:
    """Narratives in numbered blocks, or as bold headings with two dashed lines each. One without areas is none."""
    found: list[tuple[str, list[str]]] = []  # name, [description, areas]
    for line in text.replace("\r\n", "\n").split("\n"):
        if match := _NAMED.match(line) or _HEADING.match(line):
            found.append((_plain_name(match["name"]), ["", ""]))
        elif not found:
            continue
        elif match := _DESCRIBED.match(line):
            found[-1][1][0] = _one_line(match["text"])
        elif match := _FOCUSED.match(line):
            found[-1][1][1] = _one_line(match["text"])
        elif (match := _DASHED.match(line)) and not found[-1][1][1]:
            parts = found[-1][1]
            parts[1 if parts[0] or match["text"].count(",") > 1 else 0] = _one_line(match["text"])
    narratives = []
    for name, (description, listed) in found:
        areas = tuple(area for part in listed.split(",") if (area := part.strip(" .*")))
        if name and areas:
            narratives.append(Narrative(name, description, areas))
    return narratives


@dataclass(slots=True)
class _Open:
    number: int
    bullets: list[tuple[str, str]] = field(default_factory=list)


def _read_line(line: str, bullets: list[tuple[str, str]], running: bool) -> bool:
    """Add what a line of a batch tells; whether the next line may continue it."""
    if match := _BULLET.match(line) or _PLAIN_BULLET.match(line):
        bullets.append((match["label"], match["text"]))
        return True
    if running:
        label, before = bullets[-1]
        bullets[-1] = (label, f"{before} {line}")
    return running


def _cleaned(bullets: list[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    for label, text in bullets:
        name, told = _plain_name(label), _one_line(text)
        if not told and find_days(name):
            name, told = ANCHOR_LABEL, name  # `**Temporal Anchor: March 15, 2024**`
        if name and told:
            yield name, told


def _plain_name(text: str) -> str:
    return _one_line(text).strip("*: ")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _month(name: str) -> int:
    return next(number for number, month in enumerate(MONTHS, 1) if month.casefold().startswith(name.casefold()[:3]))


def anchor(day: date) -> str:
    """A time anchor as chats carry it: `March-05-2024`, day with two digits."""
    month, _, year = show_day(day).split(" ")
    return f"{month}-{day.day:02d}-{year}"


def bullet_lines(bullets: Iterable[Bullet]) -> str:
    """`7. **Label:** text`, one per line, numbered in their sub-plan."""
    return "\n".join(render_bullet(bullet, numbered=True) for bullet in bullets)


@lru_cache(maxsize=4096)  # every group of questions and every sub-plan's dialogue measures the same bullets again
def line_tokens(bullet: Bullet) -> int:
    """Tokens of a bullet's line."""
    return count_tokens(render_bullet(bullet, numbered=True))


def earlier_subplans(plan: Plan, before: int, budget: int) -> str:
    """The sub-plans before number `before`, newest first, bullet by bullet until `budget` tokens are used."""
    parts: list[str] = []
    for subplan in reversed(plan.subplans[: before - 1]):
        lines, budget = _within(subplan, budget)
        if not lines:
            break
        parts.append("\n".join([f"Sub-plan {subplan.number}, {show_day(subplan.anchor)}:", *lines]))
    return "\n\n".join(parts)


def _within(subplan: SubPlan, budget: int) -> tuple[list[str], int]:
    lines: list[str] = []
    for bullet in subplan.bullets:
        tokens = line_tokens(bullet)
        if tokens > budget:
            return lines, 0
        budget -= tokens
        lines.append(render_bullet(bullet, numbered=True))
    return lines, budget


def earlier_plans_text(summaries: Sequence[str]) -> str:
    """The summaries of the plans before this one, numbered from 1."""
    return "\n".join(f"{number}. {summary}" for number, summary in enumerate(summaries, start=1))
