"""From judgements to scores per question, and from these to means with intervals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from textwrap import shorten
from typing import TYPE_CHECKING

import numpy as np

from beamlib.data.conversations import SIZES
from beamlib.data.gold import ABILITIES
from beamlib.errors import UserError
from beamlib.llm.model import Outcome
from beamlib.scoring.intervals import Array, conversation_values, mean_interval
from beamlib.scoring.protocols import find_protocol
from beamlib.scoring.question_score import NOT_COMPUTABLE, QuestionScore
from beamlib.scoring.records import Judgement

if TYPE_CHECKING:
    import pandas as pd  # where it is used: a process that only asks a judge needs no tables, and it takes 0.4 s

SCORE_COLUMNS = ("probe_id", "conversation_id", "size", "ability", "score", "unscored")
SUMMARY_COLUMNS = (
    "size",
    "ability",
    "mean",
    "low",
    "high",
    "n_questions",
    "n_conversations",
    "unscored",
    "not_computable",
)
AVERAGE = "average"

_OUTCOMES = frozenset(outcome.value for outcome in Outcome)
_COUNT = re.compile(r"\A\d+ of \d+ nuggets unscored: ")


def score_run(judgements: Sequence[Judgement], protocol: str) -> pd.DataFrame:
    """One row per question, columns `SCORE_COLUMNS`, in the order of `judgements`.

    `score` is the mean over the repeats that have one. Where none has, it is NaN and `unscored` the reason that the
    first repeat gives; `unscored` is empty otherwise. Raises `UserError` for an unknown protocol and for a question
    that was judged twice.
    """
    import pandas as pd

    first, *others = score_repeats(judgements, protocol)
    if not others:
        return first
    means = pd.concat([first, *others]).groupby("probe_id")["score"].mean()  # leaves NaN out
    scores = first["probe_id"].map(means)
    return first.assign(score=scores, unscored=first["unscored"].where(scores.isna(), ""))


def score_repeats(judgements: Sequence[Judgement], protocol: str) -> list[pd.DataFrame]:
    """The table of `score_run` for every repeat by itself, at least one; questions without that repeat are left out."""
    known: set[str] = set()
    for judgement in judgements:
        if judgement.probe_id in known:
            raise UserError(f"judgements: {judgement.probe_id} occurs twice; keep one judgement per question.")
        known.add(judgement.probe_id)
    rounds = [judgement.rounds for judgement in judgements]
    count = max((len(own) for own in rounds), default=1)
    return [_scored([own[number] for own in rounds if len(own) > number], protocol) for number in range(count)]


def _scored(judgements: Sequence[Judgement], protocol: str) -> pd.DataFrame:
    import pandas as pd

    score_question = find_protocol(protocol).score_question
    scores = {judgement.probe_id: score_question(judgement) for judgement in judgements}
    _abort(judgements, scores)
    rows = [
        {
            "probe_id": judgement.probe_id,
            "conversation_id": judgement.conversation_id,
            "size": judgement.conversation_id.partition("-")[0],
            "ability": judgement.ability,
            "score": np.nan if (value := scores[judgement.probe_id].value) is None else value,
            "unscored": scores[judgement.probe_id].unscored or "",
        }
        for judgement in judgements
    ]
    return pd.DataFrame(rows, columns=list(SCORE_COLUMNS)).astype({"score": float})


def _abort(judgements: Sequence[Judgement], scores: dict[str, QuestionScore]) -> None:
    """Take away what a scorer that stopped never wrote: the ability it stopped in, and the later ones of the file."""
    stopped: dict[str, int] = {}
    for judgement in judgements:
        if scores[judgement.probe_id].aborts_conversation:
            place = ABILITIES.index(judgement.ability)
            stopped[judgement.conversation_id] = min(place, stopped.get(judgement.conversation_id, place))
    for judgement in judgements:
        place = stopped.get(judgement.conversation_id, len(ABILITIES))
        if ABILITIES.index(judgement.ability) >= place and scores[judgement.probe_id].unscored is None:
            scores[judgement.probe_id] = QuestionScore(None, f"the scorer stopped at {ABILITIES[place]}")


def unscored_reasons(scores: pd.DataFrame) -> dict[str, int]:
    """How many questions of `score_run`'s table failed to get a score, by reason, the most frequent first.

    A reason counts under the named outcome of a call (`truncated`, `content filter`, ...) if it holds one between
    colons, else under its first words.
    """
    reasons = scores.loc[scores["score"].isna() & ~not_computable(scores), "unscored"]
    counts = Counter(_named(str(reason)) for reason in reasons)
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def not_computable(scores: pd.DataFrame) -> pd.Series[bool]:
    """Which rows of `score_run`'s table have no score because their source lacks what the protocol needs."""
    return scores["unscored"].str.startswith(NOT_COMPUTABLE).astype(bool)


def _named(reason: str) -> str:
    # What asked may have put its own words before the outcome: "2 of 5 nuggets unscored: truncated: ...".
    for part in reason.split(": "):
        if part in _OUTCOMES:
            return part
    return shorten(_COUNT.sub("", reason), 60, placeholder=" ...") or "no reason given"


def summarise(scores: pd.DataFrame) -> pd.DataFrame:
    """Mean and 95 % interval per size and ability, and their `average`; columns `SUMMARY_COLUMNS`.

    As in the paper, a conversation's questions of one ability are averaged first, then the conversations; the average
    is the plain mean of the ability means, NaN where an ability has no score at all. Intervals are those of
    `mean_interval` over conversations; with fewer than two conversations they are NaN, because one conversation says
    nothing about the spread. `n_questions` entered the mean, `unscored` did not. An ability with a question that is
    `not_computable` from its source has no mean, nor has the average over it: the rest would not be the ability.
    """
    import pandas as pd

    parts = [_summarise_size(scores[scores["size"] == size], size) for size in present_sizes(scores)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(SUMMARY_COLUMNS))


def average_values(cells: Array) -> Array:
    """A value per conversation whose mean is the average over abilities, and whose interval is that of the average.

    `cells` are (..., conversations, abilities), NaN where there is no score but in no ability throughout; the values
    (..., conversations). Where none is NaN, a value is the conversation's own average.
    """
    by_ability = np.swapaxes(cells, -1, -2)
    held = ~np.isnan(by_ability)
    values: Array = conversation_values(np.where(held, by_ability, 0.0), held.astype(np.float64)).mean(axis=-2)
    return values


def ability_cells(scores: pd.DataFrame, abilities: Sequence[str]) -> Array:
    """Mean score per conversation (rows, by id) and ability (columns, as given), NaN where there is none."""
    means = scores.groupby(["conversation_id", "ability"])["score"].mean().unstack("ability")
    return means.reindex(columns=list(abilities)).sort_index().to_numpy(dtype=np.float64)


def present_sizes(scores: pd.DataFrame) -> list[str]:
    """The sizes in a table, the data set's in its order and any other after them."""
    present = set(scores["size"])
    return [size for size in SIZES if size in present] + sorted(present - set(SIZES))


def _summarise_size(scores: pd.DataFrame, size: str) -> pd.DataFrame:
    import pandas as pd

    present = set(scores["ability"])
    abilities = [ability for ability in ABILITIES if ability in present]
    cells = ability_cells(scores, abilities)
    never = not_computable(scores).to_numpy()
    computable = [not (never & (scores["ability"] == ability).to_numpy()).any() for ability in abilities]
    cells = np.where(computable, cells, np.nan)
    cells = cells[~np.isnan(cells).all(axis=1)]
    held = ~np.isnan(cells)
    values: dict[str, Array] = {ability: cells[held[:, column], column] for column, ability in enumerate(abilities)}
    fewest = min(map(len, values.values()))
    values[AVERAGE] = average_values(cells) if fewest else cells[:0, 0]
    asked, gone = scores["ability"].to_numpy(), scores["score"].isna().to_numpy()
    rows: list[tuple[str, str, float, float, float, int, int, int, int]] = []
    for ability, own in values.items():
        chosen = (asked == ability) | (ability == AVERAGE)
        scored, lacking = ~gone[chosen], int(never[chosen].sum())
        mean, low, high = (float(own.mean()), *mean_interval(own)) if own.size else (np.nan, np.nan, np.nan)
        if ability == AVERAGE and fewest < 2:  # one of its parts has no spread to be seen
            low, high = np.nan, np.nan
        n = len(cells) if ability == AVERAGE else own.size
        entered = int(scored.sum()) if own.size or ability == AVERAGE else 0
        counts = (entered, n, int((~scored).sum()) - lacking, lacking)
        rows.append((size, ability, mean, float(low), float(high), *counts))
    return pd.DataFrame(rows, columns=list(SUMMARY_COLUMNS))
