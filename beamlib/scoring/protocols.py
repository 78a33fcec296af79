"""Scoring protocols: turn the same judgements into scores in different ways, without another model call.

- `paper` (section 2.4): the mean of the nugget scores 0, 0.5 and 1 with half credit. Event ordering: max(0, tau-b) over
  aligned items. The paper is silent on how an answer is cut into events (here: the items parser), on how missing events
  are ranked (here: as released, see `event_ordering`) and on what a negative tau means on a scale that starts at 0. It
  mentions no normalisation, so (tau + 1) / 2 is not applied: that would give .14 to .29 to an answer that names no
  event. A negative tau counts as 0: it mostly measures how many wrong items were listed (one unmatched item gives -.58
  against five nuggets, five give -.71, ten -.66), and the paper averages it with nine abilities that end at 0. An
  answer without a matched event scores 0. Nuggets that ask for the correct order are not events. The published cells of
  event ordering cannot be this number: they all lie inside the no-match range of the normalised tau.
- `released-code`: the authors' released scorer, bug for bug; see `score_as_released`.
- `f1-weighted`: as `paper`, but event ordering is (tau-b + 1) / 2 x F1 over aligned items. The released code computes
  this product (`final_score`), over lines, and does not report it.
- `nugget-mean`: the mean of the nugget scores for all ten abilities. The released code stores it for event ordering and
  does not report it. The order of events counts only where a nugget asks for it (1 of the 200 published rubrics).
- `binary`: 1 if every nugget is fully satisfied, else 0, as other long-term memory benchmarks report pass rates; the
  paper has no such number. Harder for long rubrics; order as in `nugget-mean`.

All of them use the prompts of listing 20, with the question filled in, and listing 21.

Two more are for published results only (`REPORTED`):

- `as-published`: the question's score as its source states it, whatever it means there.
- `majority-vote`: 1 if most judges, who saw no rubric, voted that the answer is correct.

A published judgement may lack verdicts per nugget or alignments. A protocol that needs them then says "not computable
from this source" (`NOT_COMPUTABLE`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from beamlib.errors import UserError
from beamlib.files import MOST_MENDED, mend_json
from beamlib.scoring.event_ordering import OrderScores, is_order_nugget, order_scores, released_order
from beamlib.scoring.records import Alignment, Judgement

NOT_COMPUTABLE = "not computable from this source"
"""Begins the reason where a published judgement lacks what a protocol needs: nothing failed."""
UNDEFINED_TAU = "Kendall's tau-b is undefined: fewer than two different events"

_FENCED = re.compile(r"```(?:json)?\s*(\[.*\]|\{.*\})\s*```", re.DOTALL)
_STOPS = (TypeError, ValueError, KeyError, IndexError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class QuestionScore:
    """The score of one question.

    Attributes:
        value: The score; None if the question is unscored.
        unscored: The reason why there is no value.
        detail: Other quantities of the question by name.
        aborts_conversation: The reproduced scorer would stop here and leave the rest of the conversation unscored.
    """

    value: float | None
    unscored: str | None = None
    detail: Mapping[str, float] = field(default_factory=dict)
    aborts_conversation: bool = False


@dataclass(frozen=True, slots=True)
class Protocol:
    """A named way of turning judgements into scores. `caption` is a line for tables and axes."""

    name: str
    caption: str
    score_question: Callable[[Judgement], QuestionScore]


def lacking(judgement: Judgement, what: str) -> QuestionScore:
    """Return an unscored question for missing data: a call failed, or the published source never had it."""
    absent = f"the judgement holds no {what}" if judgement.reported is None else f"{NOT_COMPUTABLE}: it holds no {what}"
    return QuestionScore(None, judgement.unscored or absent)


def nugget_scores(judgement: Judgement) -> list[float] | QuestionScore:
    """Return the scores of all nuggets, or an unscored question if one of them has none.

    For a published judgement that only counts its nuggets the order is arbitrary.
    """
    if reported := judgement.reported.nugget_scores if judgement.reported else ():
        return list(reported)
    if not judgement.verdicts:
        return lacking(judgement, "verdicts")
    scores = [verdict.score for verdict in judgement.verdicts if verdict.score is not None]
    missing = [verdict.reason for verdict in judgement.verdicts if verdict.score is None]
    if missing and missing[0].startswith(NOT_COMPUTABLE):
        return QuestionScore(None, missing[0])
    if missing:
        return QuestionScore(None, f"{len(missing)} of {len(judgement.verdicts)} nuggets unscored: {missing[0]}")
    return scores


def rubric_mean(judgement: Judgement) -> QuestionScore:
    """Average the nugget scores, half credit kept (paper section 2.4)."""
    return _of_nuggets(judgement, lambda scores: sum(scores) / len(scores))


def _of_nuggets(judgement: Judgement, value: Callable[[list[float]], float]) -> QuestionScore:
    scores = nugget_scores(judgement)
    return scores if isinstance(scores, QuestionScore) else QuestionScore(value(scores))


def _find_alignment(judgement: Judgement, parser: str) -> Alignment | QuestionScore:
    """Return the alignment by a parser, or an unscored question if there is none."""
    alignments = (alignment for alignment in judgement.alignments if alignment.parser == parser)
    return next(alignments, None) or lacking(judgement, f"{parser!r} alignment")


def _score_order(judgement: Judgement, value: Callable[[OrderScores], float]) -> QuestionScore:
    """Score event ordering by `value` of its order scores, 0 without a matched event; else by the rubric mean."""
    if judgement.ability != "event_ordering":
        return rubric_mean(judgement)
    alignment = _find_alignment(judgement, "items")
    if isinstance(alignment, QuestionScore):
        return alignment
    # Nuggets that ask for the order itself are no events.
    events = [index for index, verdict in enumerate(judgement.verdicts) if not is_order_nugget(verdict.nugget)]
    event_of = {nugget: event for event, nugget in enumerate(events)}
    matches = [None if match is None else event_of.get(match) for match in alignment.matches]
    order = order_scores(len(events), matches)
    score = 0.0 if order.f1 == 0 else value(order)
    undefined = math.isnan(score)
    return QuestionScore(None if undefined else score, UNDEFINED_TAU if undefined else None, order.detail)


def _paper(judgement: Judgement) -> QuestionScore:
    return _score_order(judgement, lambda order: order.tau if math.isnan(order.tau) else max(0.0, order.tau))


def _of_report(judgement: Judgement, value: float | None, what: str) -> QuestionScore:
    if value is None and not judgement.reported and not judgement.unscored:
        return QuestionScore(None, f"{NOT_COMPUTABLE}: no {what}")
    return lacking(judgement, what) if value is None else QuestionScore(value)


def _majority_vote(judgement: Judgement) -> QuestionScore:
    votes = judgement.reported.votes if judgement.reported else ()
    return _of_report(judgement, float(2 * sum(votes) > len(votes)) if votes else None, "votes")


def score_as_released(judgement: Judgement) -> QuestionScore:
    """Score a question as the authors' released scorer does, bug for bug. A judge's 5 counts as 5.

    - Formula: sum of int(score) / number of nuggets, so that half credit is lost and a score above 1 is kept. Event
      ordering: (tau-b + 1) / 2 over the lines of the answer as they stand.
    - Prompts: as `paper`. The released prompt leaves the question's placeholder unfilled, which judging with
      `question_in_prompt: false` reproduces and a protocol cannot.
    - Source: the behaviour of mohammadtavakoli78/BEAM at b2a3ee8, written down in our own words. The published tables
      fit it: 336 of 336 cells with known denominators lie on the integer-score grid.
    - An unreadable reply stops the released scorer. Abilities are written one by one in file order, so the ability that
      it happens in and all later ones of that conversation have no score.
    - Known deviations: a reply without a score on the scale was retried once before it was stored, which saves this
      scorer some stops. A failed call stops the conversation as it does there, but an answer that never came is
      unscored here, where the released code judges the text of the error. Lines without a letter or digit were not
      compared with any nugget. The aligner saw the bare item of a line, "Fence" for "2. **Fence**", where the released
      code sends the line as it stands: this moved 6 of 2,480 real questions in an audit against an independent port.
      Where tau-b is undefined the released code averages a NaN; here the question is unscored.

    Published judgements have scores instead of replies: there a score counts by its integer.
    """
    if not judgement.verdicts and judgement.reported is None:
        return lacking(judgement, "verdicts")
    if judgement.ability == "event_ordering":
        return _released_event_ordering(judgement)
    if judgement.reported is not None:
        return _of_nuggets(judgement, lambda scores: sum(map(int, scores)) / len(scores))
    total = 0
    for number, verdict in enumerate(judgement.verdicts, start=1):
        try:
            total += released_score(verdict.reply)
        except _STOPS:
            return _released_stop(number)
    return QuestionScore(total / len(judgement.verdicts))


def _released_event_ordering(judgement: Judgement) -> QuestionScore:
    alignment = _find_alignment(judgement, "newline")
    if isinstance(alignment, QuestionScore):
        not_in_source = (alignment.unscored or "").startswith(NOT_COMPUTABLE)
        return QuestionScore(None, alignment.unscored, aborts_conversation=not not_in_source)
    for number, verdict in enumerate(judgement.verdicts if judgement.reported is None else (), start=1):
        # The score of the verdicts is stored and not reported, but reading it can stop the scorer all the same.
        try:
            float(released_reply(verdict.reply)["score"])
        except _STOPS:
            return _released_stop(number)
    rubric = [verdict.nugget for verdict in judgement.verdicts]
    pairs = zip(alignment.items, alignment.matches, strict=True)
    order = released_order(rubric, [item if match is None else rubric[match] for item, match in pairs])
    undefined = math.isnan(order.tau_norm)
    return QuestionScore(None if undefined else order.tau_norm, UNDEFINED_TAU if undefined else None, order.detail)


def _released_stop(number: int) -> QuestionScore:
    reason = f"the released scorer stops: it cannot read the reply to nugget {number}"
    return QuestionScore(None, reason, aborts_conversation=True)


def released_reply(reply: str) -> Any:
    """Parse a judge's reply as the released code does; the result has any type.

    A fence is removed only if the reply starts with one. If neither the rest nor its first `{...}` or `[...]` is
    JSON, json-repair gets the whole reply, fence included.

    Raises:
        ValueError: If json-repair makes nothing of it.
    """
    text = reply.strip()
    try:
        fenced = _FENCED.search(text) if text.startswith("```") and len(text) <= MOST_MENDED else None
        body = fenced.group(1).strip() if fenced else text
        try:
            return json.loads(body)
        except json.JSONDecodeError:
            # From the first `{` to the next `}`, or `[` to `]`, whichever begins first.
            starts = {start: body.find(end, start) for begin, end in ("{}", "[]") if (start := body.find(begin)) >= 0}
            spans = [(start, end + 1) for start, end in starts.items() if end >= 0]
            return json.loads(body[slice(*min(spans))] if spans else "")
    except (ValueError, RecursionError):
        mended = mend_json(text, MOST_MENDED)
        if mended == "":
            raise ValueError("nothing that could be JSON") from None
        return mended


def released_score(reply: str) -> int:
    """Return the integer that the released code adds for a nugget: 0.5 and 0.99 give 0, "1" and true give 1.

    Raises:
        TypeError, ValueError, KeyError, OverflowError: Exactly where the released code raises: for "0.5" or "1.0" as
            strings, a list, a reply without a score or without JSON, NaN.
    """
    return int(released_reply(reply)["score"])


def _by_name(*protocols: Protocol) -> dict[str, Protocol]:
    return {protocol.name: protocol for protocol in protocols}


PROTOCOLS = _by_name(
    Protocol("paper", "rubric mean with half credit; event ordering: tau-b, negative as 0", _paper),
    Protocol(
        "released-code", "rubric mean of int(score); event ordering: (tau-b + 1) / 2 over lines", score_as_released
    ),
    Protocol(
        "f1-weighted", "rubric mean with half credit; event ordering: (tau-b + 1) / 2 x F1",
        lambda judgement: _score_order(judgement, lambda order: order.final),
    ),
    Protocol("nugget-mean", "rubric mean with half credit, event ordering too", rubric_mean),
    Protocol(
        "binary", "share of questions with every nugget fully satisfied",
        lambda judgement: _of_nuggets(judgement, lambda scores: float(all(score == 1.0 for score in scores))),
    ),
)  # fmt: skip
REPORTED = _by_name(
    Protocol(
        "as-published", "the question's score as its source has it",
        lambda judgement: _of_report(
            judgement, judgement.reported.score if judgement.reported else None, "score of the question"
        ),
    ),
    Protocol("majority-vote", "share of questions that most votes call correct", _majority_vote),
)  # fmt: skip
"""For published results; `PROTOCOLS` are for this project's own verdicts."""


def find_protocol(name: str) -> Protocol:
    """Return the protocol with a name, or raise `UserError` with the known names."""
    known = PROTOCOLS | REPORTED
    if name not in known:
        raise UserError(f"protocol: {name!r} is not one of {', '.join(known)}; choose one of these.")
    return known[name]
