"""How large plans are, and what finished conversations should measure: paper Tables 3 and 6.

M, the number of bullets asked for, is not in the paper; it is the released code's (section 3.2 of the reference).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from beamlib.benchmark.model import Size
from beamlib.generate.shapes import Layout, Style
from beamlib.published import table

PRINTED_SIZE: Mapping[Size, str] = {"100K": "128K", "500K": "500K", "1M": "1M", "10M": "10M"}
"""Size -> how Tables 3 and 6 print it."""

_TOKENS: Mapping[Size, int] = {"100K": 128_000, "500K": 500_000, "1M": 1_000_000, "10M": 10_000_000}
_BULLETS: Mapping[Size, Mapping[Style, int]] = {
    "100K": {"general": 20, "coding": 23, "math": 25},
    "500K": {"general": 30, "coding": 30, "math": 30},
    "1M": {"general": 30, "coding": 30, "math": 30},
    "10M": {"general": 30, "coding": 30, "math": 30},
}
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


@cache
def layout(size: Size, style: Style) -> Layout:
    """N, M, K and I of a size and style: N, K, I of Table 6, M as released (the time anchor is one of the M)."""
    rows = table("table6")
    row = rows[(rows.chat_size == PRINTED_SIZE[size]) & (rows.category == style.title())].iloc[0]
    return Layout(
        subplans=int(row.num_subplans),
        bullets=_BULLETS[size][style],
        groups=int(row.batches_per_subplan_k),
        questions=int(row.questions_per_batch_i),
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
