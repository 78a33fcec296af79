"""Plans and earlier parts as the prompts of questions and dialogue show them, and texts made fit to be kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date
from functools import lru_cache

from beam_generate.plan_text import render_bullet, show_day
from beam_generate.shapes import Bullet, Plan, SubPlan
from beamlib.text import count_tokens

_SURROGATE = re.compile("[\ud800-\udfff]")
_REFUSAL = re.compile(
    r"\W*(?:(?:(?:i[’']m|i am) (?:very )?)?sorry\W+(?:but )?i (?:can[’']t|cannot|can not|am unable|won[’']t)\b"
    r"|i (?:can[’']t|cannot|am unable to) (?:help (?:you|with)|assist|comply|fulfil)\b"
    r"|as an ai (?:language model|model|assistant)\b)",
    re.IGNORECASE,
)


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


def refuses(text: str) -> bool:
    """Whether a text begins as a model does that will not do what it was asked for."""
    return _REFUSAL.match(text) is not None


def clean(text: str) -> str:
    """`text` without null characters and half characters, which no file could carry, and without space around it."""
    if not text.isascii():
        text = _SURROGATE.sub("\ufffd", text)
    return text.replace("\x00", "").strip()
