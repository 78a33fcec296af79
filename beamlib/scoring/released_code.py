"""`released-code`: the authors' released scorer, bug for bug.

- Formula: sum of int(score) / number of nuggets, so that half credit is lost and an over-range score goes through;
  event ordering (tau-b + 1) / 2 over the lines of the answer as they stand.
- Prompts: as `paper`; the released prompt leaves the question's placeholder unfilled, which a protocol cannot undo but
  judging with `question_in_prompt: false` does.
- Source: behaviour of the repository mohammadtavakoli78/BEAM at b2a3ee8, written down in our own words. The published
  tables fit it: 336 of 336 cells with known denominators lie on the integer-score grid.
- An unreadable reply stops the released scorer. Abilities are written one by one in file order, so the ability it
  happens in and all later ones of that conversation have no score.
- Known deviations: a reply without a score on the scale was asked for once more before it was stored, which spares this
  scorer some of its stops. A failed call stops the conversation as it does there, but an answer that was never given
  is unscored here, where the released code judges the text of the error. Lines without a letter or digit were not
  compared with any nugget. The aligner was asked about the bare item of a line, "Fence" for "2. **Fence**", where the
  released code asks about the line as it stands: this moved 6 of 2,480 real questions in an audit against an
  independent port. Where tau-b is undefined the released code averages a NaN; here the question is unscored.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from beamlib.files import MOST_MENDED, mend_json
from beamlib.scoring.event_ordering import released_order
from beamlib.scoring.question_score import (
    UNDEFINED_TAU,
    Protocol,
    QuestionScore,
    find_alignment,
    lacking,
    not_computable,
    nugget_scores,
)
from beamlib.scoring.records import Judgement
from beamlib.scoring.replies import first_bracketed

_FENCED = re.compile(r"```(?:json)?\s*(\[.*\]|\{.*\})\s*```", re.DOTALL)
_STOPS = (TypeError, ValueError, KeyError, IndexError, OverflowError, RecursionError)


def released_reply(reply: str) -> Any:
    """What the released code takes a judge's reply for; of any type, and it may raise ValueError.

    A fence is removed only if the reply starts with one. If neither the rest nor its first `{...}` or `[...]` is
    JSON, the whole reply goes through json-repair, fence included.
    """
    text = reply.strip()
    try:
        return _parsed(text)
    except (ValueError, RecursionError):
        mended = mend_json(text, MOST_MENDED)
        if mended == "":
            raise ValueError("nothing that could be JSON") from None
        return mended


def _parsed(text: str) -> Any:
    fenced = _FENCED.search(text) if text.startswith("```") and len(text) <= MOST_MENDED else None
    body = fenced.group(1).strip() if fenced else text
    try:
        return json.loads(body)
    except json.JSONDecodeError:
        return json.loads(first_bracketed(body))


def released_score(reply: str) -> int:
    """The integer the released code adds for one nugget: 0.5 and 0.99 give 0, "1" gives 1, true gives 1.

    Raises TypeError, ValueError, KeyError or OverflowError exactly where the released code raises: for "0.5" or "1.0"
    as strings, a list, a reply without a score or without JSON, NaN.
    """
    return int(released_reply(reply)["score"])


def score_question(judgement: Judgement) -> QuestionScore:
    """Value as the released code reports it; not bounded, because a judge's 5 counts as 5.

    What others published has scores and not the replies they were read from: there a score counts by its integer.
    """
    if not judgement.verdicts and judgement.reported is None:
        return lacking(judgement, "verdicts")
    if judgement.ability == "event_ordering":
        return _event_ordering(judgement)
    if judgement.reported is not None:
        scores = nugget_scores(judgement)
        return scores if isinstance(scores, QuestionScore) else QuestionScore(sum(map(int, scores)) / len(scores))
    total = 0
    for number, verdict in enumerate(judgement.verdicts, start=1):
        try:
            total += released_score(verdict.reply)
        except _STOPS:
            return _stopped(number)
    return QuestionScore(total / len(judgement.verdicts))


def _event_ordering(judgement: Judgement) -> QuestionScore:
    alignment = find_alignment(judgement, "newline")
    if isinstance(alignment, QuestionScore):
        return QuestionScore(None, alignment.unscored, aborts_conversation=not not_computable(alignment))
    for number, verdict in enumerate(judgement.verdicts if judgement.reported is None else (), start=1):
        # The score of the verdicts is stored and not reported, but reading it can stop the scorer all the same.
        try:
            float(released_reply(verdict.reply)["score"])
        except _STOPS:
            return _stopped(number)
    rubric = [verdict.nugget for verdict in judgement.verdicts]
    lines = [
        item if match is None else rubric[match] for item, match in zip(alignment.items, alignment.matches, strict=True)
    ]
    order = released_order(rubric, lines)
    if math.isnan(order.tau_norm):
        return QuestionScore(None, UNDEFINED_TAU, order.detail)
    return QuestionScore(order.tau_norm, detail=order.detail)


def _stopped(number: int) -> QuestionScore:
    return QuestionScore(
        None, f"the released scorer stops: it cannot read the reply to nugget {number}", aborts_conversation=True
    )


RELEASED_CODE = Protocol(
    "released-code", "rubric mean of int(score); event ordering: (tau-b + 1) / 2 over lines", score_question
)
