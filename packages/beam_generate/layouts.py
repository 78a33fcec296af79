"""Sizes of plans, from a run's parameters, and the size that conversations should reach: paper Tables 3 and 6.

The parameter files hold N, K and I of Table 6. M, the number of bullets, is not in the paper; it is the released
code's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import get_args

from beam_generate.shapes import Layout, Story, Style
from beamlib.data.conversations import Size
from beamlib.data.published import table
from beamlib.errors import UserError
from beamlib.params import RunParameters

PRINTED_SIZE: Mapping[Size, str] = {"100K": "128K", "500K": "500K", "1M": "1M", "10M": "10M"}
"""Size -> its name in Tables 3 and 6."""

_TOKENS: Mapping[Size, int] = {"100K": 128_000, "500K": 500_000, "1M": 1_000_000, "10M": 10_000_000}
_CONVERSATIONS_100K = 20


@dataclass(frozen=True, slots=True)
class Targets:
    """Target size of a conversation: tokens, and the published means per conversation.

    `turns` counts main questions, `answered` replies to the assistant's questions, `followups` follow-up questions.
    """

    tokens: int
    turns: float
    answered: float
    followups: float


def layouts_of(parameters: RunParameters) -> dict[Style, Layout]:
    """Return N, M, K and I for each style.

    Raises:
        UserError: A sub-plan has more groups than bullets.
    """
    numbers = zip(
        parameters.subplans, parameters.bullets_per_subplan, parameters.batches_per_subplan,
        parameters.questions_per_batch, strict=True,
    )  # fmt: skip
    layouts: dict[Style, Layout] = {style: Layout(*four) for style, four in zip(get_args(Style), numbers, strict=True)}
    for style, layout in layouts.items():
        if layout.groups > layout.bullets:
            raise UserError(
                f"batches_per_subplan is {layout.groups} and bullets_per_subplan {layout.bullets} for {style} "
                f"conversations of {parameters.size}: a batch needs a bullet; give at most {layout.bullets} batches."
            )
    return layouts


def check_days(story: Story) -> None:
    """Check that a plan has more days than sub-plans: each sub-plan has a day of its own.

    Raises:
        UserError: A plan has too few days.
    """
    days = ((story.timeline.end - story.timeline.start).days + 1) // story.plans
    if story.layout.subplans >= days:
        raise UserError(
            f"subplans is {story.layout.subplans} for {story.style} conversations, but a plan of {story.size}-"
            f"{story.number} lasts {days} days, and each sub-plan needs one of its own; give at most {days - 1}."
        )


@cache
def targets(size: Size) -> Targets:
    """Return the targets of a size. Table 3's 216 follow-ups at 128K are the total of 20 chats: 10.8 each."""
    rows = table("table3")
    row = rows[rows.chat_size == PRINTED_SIZE[size]].iloc[0]
    followups = float(row.followup_questions)
    if size == "100K":
        followups /= _CONVERSATIONS_100K
    return Targets(_TOKENS[size], float(row.turns), float(row.answered_assistant_questions), followups)
