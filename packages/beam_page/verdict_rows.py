"""Convert judgements to rows for the page: every fact that a protocol counts, and no text.

The viewer recomputes all scores from these rows (`viewer/scoring.js`). So they contain what protocols read from texts:
the integer that the released code finds in a reply, and which lines of an answer are equal.
"""

from __future__ import annotations

from typing import Any

from beamlib.scoring.event_ordering import is_order_nugget
from beamlib.scoring.protocols import PROTOCOLS, REPORTED, released_reply, released_score
from beamlib.scoring.records import Alignment, Judgement

_STOPS = (TypeError, ValueError, KeyError, IndexError, OverflowError, RecursionError)
"""What the released code ends with at a reply that it cannot read."""


def verdict_rows(judgement: Judgement) -> list[dict[str, Any]]:
    """Return a row per repeat of the judgement.

    Keys:
        v: Verdicts in halves (0, 1, 2, None).
        r: What the released code reads, where it differs from the integer part of `v`; None where it stops; for
            event ordering, 1 where it can read the reply.
        w: Why the first nugget without a verdict has none.
        u: Why the answer, or its order, was not judged.
        o: Nuggets that ask for the order.
        i: The nugget of each item.
        l: Texts of rubric and lines as numbers; equal texts have equal numbers.
        x: Per protocol the score, why there is none, and whether the scorer stops, where verdicts alone do not give
            it.
    """
    return [_row(own) | _score_changes(own) for own in judgement.rounds]


def _score_changes(judgement: Judgement) -> dict[str, Any]:
    """Return `x` of a published judgement: protocols whose score differs from that of its verdicts alone."""
    if judgement.reported is None:
        return {}
    bare, known = judgement.model_copy(update={"reported": None}), (PROTOCOLS | REPORTED).items()
    scores = {name: (protocol.score_question(judgement), protocol.score_question(bare)) for name, protocol in known}
    return {
        "x": {
            name: [score.value, score.unscored or "", score.aborts_conversation]
            for name, (score, other) in scores.items()
            if (score.value, score.unscored) != (other.value, other.unscored)
        }
    }


def _row(judgement: Judgement) -> dict[str, Any]:
    verdicts = judgement.verdicts
    missing = [verdict.reason for verdict in verdicts if verdict.score is None]
    ordering = judgement.ability == "event_ordering"
    read = [_released(verdict.reply, whole=not ordering) for verdict in verdicts]
    usual = [1 if ordering else (None if verdict.score is None else int(verdict.score)) for verdict in verdicts]
    row: dict[str, Any] = {"v": [None if verdict.score is None else int(2 * verdict.score) for verdict in verdicts]}
    row |= {"r": read} if read != usual and judgement.reported is None else {}
    row |= {"w": missing[0]} if missing else {}
    row |= {"u": judgement.unscored} if judgement.unscored is not None else {}
    if ordering:
        row["o"] = [number for number, verdict in enumerate(verdicts) if is_order_nugget(verdict.nugget)]
        for alignment in judgement.alignments:
            name = "i" if alignment.parser == "items" else "l"
            row[name] = list(alignment.matches) if name == "i" else _lines(judgement, alignment)
    return row


def _released(reply: str, *, whole: bool) -> int | None:
    try:
        if whole:
            return released_score(reply)
        float(released_reply(reply)["score"])
        return 1
    except _STOPS:
        return None


def _lines(judgement: Judgement, alignment: Alignment) -> list[list[int]]:
    rubric = [verdict.nugget for verdict in judgement.verdicts]
    pairs = zip(alignment.items, alignment.matches, strict=True)
    lines = [item if match is None else rubric[match] for item, match in pairs]
    numbers: dict[str, int] = {}
    return [[numbers.setdefault(text, len(numbers)) for text in side] for side in (rubric, lines)]
