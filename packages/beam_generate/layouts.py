"""How large plans are, from a run's parameters, and what finished conversations should measure: paper Table 3.

The parameter files hold N, K and I of Table 6. M, the number of bullets asked for, is not in the paper; it is the
released code's (section 3.2 of the reference).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import get_args

from beam_generate.history import LEAST_SHOWN, USER
from beam_generate.shapes import Layout, Limits, Story, Style
from beamlib.data.conversations import Size
from beamlib.data.published import table
from beamlib.errors import UserError
from beamlib.params import RunParameters

PRINTED_SIZE: Mapping[Size, str] = {"100K": "128K", "500K": "500K", "1M": "1M", "10M": "10M"}
"""Size -> how Tables 3 and 6 print it."""

_TOKENS: Mapping[Size, int] = {"100K": 128_000, "500K": 500_000, "1M": 1_000_000, "10M": 10_000_000}
_CONVERSATIONS_100K = 20


@dataclass(frozen=True, slots=True)
class Targets:
    """What a conversation of a size should measure: tokens, and the published means per conversation.

    `turns` are main questions, `answered` replies to questions of the assistant, `followups` follow-up questions.
    """

    tokens: int
    turns: float
    answered: float
    followups: float


def layouts_of(parameters: RunParameters) -> dict[Style, Layout]:
    """N, M, K and I of the conversations of each style; a `UserError` where K groups cannot each have a bullet."""
    numbers = zip(
        parameters.subplans, parameters.bullets_per_subplan, parameters.batches_per_subplan,
        parameters.questions_per_batch, strict=True,
    )  # fmt: skip
    found: dict[Style, Layout] = {style: Layout(*four) for style, four in zip(get_args(Style), numbers, strict=True)}
    for style, layout in found.items():
        if layout.groups > layout.bullets:
            raise UserError(
                f"batches_per_subplan is {layout.groups} and bullets_per_subplan {layout.bullets} for {style} "
                f"conversations of {parameters.size}: a batch needs a bullet; give at most {layout.bullets} batches."
            )
    return found


def limits_of(parameters: RunParameters) -> Limits:
    """The bounds of a dialogue; a `UserError` where so many recent messages would each be cut to a few words."""
    most = USER.budget // LEAST_SHOWN
    if parameters.recent_messages > most:
        raise UserError(
            f"recent_messages is {parameters.recent_messages}: the user's side remembers {USER.budget:,} tokens, in "
            f"which that many messages would be cut to less than {LEAST_SHOWN} each; give at most {most}."
        )
    return Limits(parameters.recent_messages, parameters.reply_limit, parameters.followup_limit, parameters.reach)


def check_days(story: Story) -> None:
    """A `UserError` where a plan has too few days: each sub-plan plays on one of its own, with room to move it."""
    days = ((story.timeline.end - story.timeline.start).days + 1) // story.plans
    if story.layout.subplans >= days:
        raise UserError(
            f"subplans is {story.layout.subplans} for {story.style} conversations, but a plan of {story.size}-"
            f"{story.number} lasts {days} days, and each sub-plan needs one of its own; give at most {days - 1}."
        )


@cache
def targets(size: Size) -> Targets:
    """Token target and the means of Table 3. Its 216 follow-ups at 128K are the total of 20 chats: 10.8 each."""
    rows = table("table3")
    row = rows[rows.chat_size == PRINTED_SIZE[size]].iloc[0]
    followups = float(row.followup_questions)
    if size == "100K":
        followups /= _CONVERSATIONS_100K
    return Targets(_TOKENS[size], float(row.turns), float(row.answered_assistant_questions), followups)


_WORDS_PER_TOKEN: Mapping[Style, float] = {"general": 0.66, "coding": 0.44, "math": 0.55}
"""Words of the assistant to a token of the whole conversation, as in the released ones: code and formulas have few."""


def answer_words(story: Story, questions: int, said: Sequence[int]) -> int:
    """Words that the next answer should have, in fifties, so that a conversation gets its size whoever writes it.

    Of a sub-plan with `questions` main questions some are through; `said` has the tokens of each of their turns. What
    is left of the sub-plan's share of the tier goes to the questions left, over what this writer makes of a token asked
    for so far; never less than half or more than twice an even share.
    """
    wanted = targets(story.size)
    budget = wanted.tokens / (story.plans * story.layout.subplans)
    even = budget / questions
    aimed, spent, aim = 0.0, 0, even
    for done, tokens in enumerate(said, start=1):
        aimed, spent = aimed + aim, spent + tokens
        left = (budget - spent) / max(questions - done, 1)
        aim = min(max(left * aimed / max(spent, 1), even / 2), even * 2)
    exchanges = 1 + (wanted.answered + wanted.followups) / wanted.turns
    return max(50, 50 * round(aim / exchanges * _WORDS_PER_TOKEN[story.style] / 50))
