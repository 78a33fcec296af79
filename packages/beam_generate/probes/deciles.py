"""Count in which tenth of a conversation the evidence of questions lies (paper B.5, Table 7).

`released_deciles.csv` holds the shares of all released questions that cite messages, counted by `deciles`. At 100K a
position is the message's place in the chat that the questions were made on (cut where the release cut it). For the
other sizes the length of every chat is not known: positions are over the mean length of Table 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from beamlib.data.conversations import Size
from beamlib.data.published import table

_RELEASED = Path(__file__).parent / "released_deciles.csv"


@cache
def published_deciles(size: Size) -> tuple[float, ...]:
    """Return Table 7 as printed: the share of evidence (0 to 1) in each tenth of a conversation."""
    rows = table("table7")
    return tuple(float(percent) / 100 for percent in rows.loc[rows["length"] == size, "percent"])


@cache
def released_deciles(size: Size) -> tuple[float, ...]:
    """Return the share of the released questions' evidence (0 to 1) in each tenth of a conversation."""
    import pandas as pd  # takes 0.4 s

    rows = pd.read_csv(_RELEASED)
    return tuple(float(percent) / 100 for percent in rows.loc[rows["size"] == size, "percent"])


def deciles(evidence: Iterable[Sequence[int]], messages: int) -> tuple[float, ...]:
    """Return the share of evidence (0 to 1) in each tenth of a conversation of that many messages.

    `evidence` holds the message ids of each question. Each question that cites messages has the same weight, in equal
    parts for the tenths in which it cites any: a summary that cites thirty messages counts no more than an update
    (paper B.5 counts the segments of each question).
    """
    shares = [0.0] * 10
    questions = 0
    for ids in evidence:
        tenths = sorted({min(9, i * 10 // messages) for i in ids})
        questions += bool(tenths)
        for tenth in tenths:
            shares[tenth] += 1 / len(tenths)
    return tuple(share / questions for share in shares) if questions else tuple(shares)
