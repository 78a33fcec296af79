"""From judgements to scores per question, to means with intervals, and to the spread over repeats."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from textwrap import shorten
from typing import TYPE_CHECKING

import numpy as np

from beamlib.data.conversations import SIZES
from beamlib.data.gold import ABILITIES
from beamlib.errors import UserError
from beamlib.llm.exchange import Outcome
from beamlib.scoring.intervals import Array, are_equal, conversation_values, mean_interval
from beamlib.scoring.protocols import NOT_COMPUTABLE, QuestionScore, find_protocol
from beamlib.scoring.records import Judgement

if TYPE_CHECKING:
    import pandas as pd  # imported where it is used: it takes 0.4 s, and a process that only judges needs no tables

SCORE_COLUMNS = ("probe_id", "conversation_id", "size", "ability", "score", "unscored")
_COUNTS = ("n_questions", "n_conversations", "unscored", "not_computable")
SUMMARY_COLUMNS = ("size", "ability", "mean", "low", "high", *_COUNTS, "equal")
SPREAD_COLUMNS = ("size", "ability", "sd", "changed", "n_nuggets", "n_questions", "missing")
"""The columns of `judge_spread`; `mean_1` to `mean_R` follow, one per repeat."""
AVERAGE = "average"

_OUTCOMES = frozenset(outcome.value for outcome in Outcome)
_COUNT = re.compile(r"\A\d+ of \d+ nuggets unscored: ")


def score_run(judgements: Sequence[Judgement], protocol: str) -> pd.DataFrame:
    """Score judgements under a protocol.

    Returns:
        One row per question, columns `SCORE_COLUMNS`, in the order of `judgements`. `score` is the mean over the
        repeats that have one. If none has, it is NaN and `unscored` has the reason of the first repeat.

    Raises:
        UserError: For an unknown protocol and for a question that was judged twice.
    """
    import pandas as pd

    first, *others = score_repeats(judgements, protocol)
    if not others:
        return first
    means = pd.concat([first, *others]).groupby("probe_id")["score"].mean()  # leaves NaN out
    scores = first["probe_id"].map(means)
    return first.assign(score=scores, unscored=first["unscored"].where(scores.isna(), ""))


def score_repeats(judgements: Sequence[Judgement], protocol: str) -> list[pd.DataFrame]:
    """Score every repeat by itself, as `score_run` does; questions without that repeat are left out."""
    counts = Counter(judgement.probe_id for judgement in judgements)
    if repeated := [probe_id for probe_id, times in counts.items() if times > 1]:
        raise UserError(f"judgements: {repeated[0]} occurs twice; keep one judgement per question.")
    rounds = [judgement.rounds for judgement in judgements]
    count = max(map(len, rounds), default=1)
    return [_score([by_round[n] for by_round in rounds if len(by_round) > n], protocol) for n in range(count)]


def _score(judgements: Sequence[Judgement], protocol: str) -> pd.DataFrame:
    import pandas as pd

    score_question = find_protocol(protocol).score_question
    scores = [score_question(judgement) for judgement in judgements]
    stopped: dict[str, int] = {}
    for judgement, score in zip(judgements, scores, strict=True):
        if score.aborts_conversation:
            place = ABILITIES.index(judgement.ability)
            stopped[judgement.conversation_id] = min(place, stopped.get(judgement.conversation_id, place))
    rows: list[tuple[object, ...]] = []
    for judgement, score in zip(judgements, scores, strict=True):
        # A stopped scorer never wrote the ability that it stopped in, nor any later one.
        place = stopped.get(judgement.conversation_id, len(ABILITIES))
        if ABILITIES.index(judgement.ability) >= place and score.unscored is None:
            score = QuestionScore(None, f"the scorer stopped at {ABILITIES[place]}")
        size = judgement.conversation_id.partition("-")[0]
        key = (judgement.probe_id, judgement.conversation_id, size, judgement.ability)
        rows.append((*key, np.nan if score.value is None else score.value, score.unscored or ""))
    return pd.DataFrame(rows, columns=list(SCORE_COLUMNS)).astype({"score": float})


def unscored_reasons(scores: pd.DataFrame) -> dict[str, int]:
    """Count the unscored questions of `score_run`'s table by reason, the most frequent first.

    A reason counts under the named outcome of a call (`truncated`, `content filter`, ...) if one of its parts between
    colons is one, else under its first words.
    """

    def name(reason: str) -> str:
        # A caller may have put its own words before the outcome: "2 of 5 nuggets unscored: truncated: ...".
        words = shorten(_COUNT.sub("", reason), 60, placeholder=" ...") or "no reason given"
        return next((part for part in reason.split(": ") if part in _OUTCOMES), words)

    reasons = scores.loc[scores["score"].isna() & ~not_computable(scores), "unscored"]
    counts = Counter(name(str(reason)) for reason in reasons)
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def not_computable(scores: pd.DataFrame) -> pd.Series[bool]:
    """Mark the rows without a score because their source lacks what the protocol needs."""
    return scores["unscored"].str.startswith(NOT_COMPUTABLE).astype(bool)


def summarise(scores: pd.DataFrame) -> pd.DataFrame:
    """Compute the mean and its 95 % interval per size and ability, and of their `average`; columns `SUMMARY_COLUMNS`.

    As in the paper, a conversation's questions of one ability are averaged first, then the conversations. The average
    is the plain mean of the ability means, NaN if an ability has no score at all. Intervals are those of
    `mean_interval` over conversations, NaN with fewer than two (one conversation shows no spread) and where all
    conversations have the same mean (`equal`). `n_questions` entered the mean, `unscored` did not. An ability with a
    question that is not computable from its source has no mean, nor has the average over it: the rest would not be the
    ability.
    """
    import pandas as pd

    parts = [_summarise_size(scores[scores["size"] == size], size) for size in present_sizes(scores)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(SUMMARY_COLUMNS))


def average_values(cells: Array) -> Array:
    """Compute a value per conversation whose mean is the average over abilities, for its interval.

    Args:
        cells: Scores of shape (..., conversations, abilities), NaN where there is none. Each ability needs a score.

    Returns:
        Values of shape (..., conversations). Without NaN a value is the conversation's own average.
    """
    by_ability = np.swapaxes(cells, -1, -2)
    scored = ~np.isnan(by_ability)
    values: Array = conversation_values(np.where(scored, by_ability, 0.0), scored.astype(np.float64)).mean(axis=-2)
    return values


def ability_cells(scores: pd.DataFrame, abilities: Sequence[str]) -> Array:
    """Average scores per conversation (rows, by id) and ability (columns, in this order), NaN where there is none."""
    means = scores.groupby(["conversation_id", "ability"])["score"].mean().unstack("ability")
    return means.reindex(columns=list(abilities)).sort_index().to_numpy(dtype=np.float64)


def present_sizes(scores: pd.DataFrame) -> list[str]:
    """List the sizes in a table, those of the data set first and in its order."""
    present = set(scores["size"])
    return [size for size in SIZES if size in present] + sorted(present - set(SIZES))


def _summarise_size(scores: pd.DataFrame, size: str) -> pd.DataFrame:
    import pandas as pd

    abilities = [ability for ability in ABILITIES if ability in set(scores["ability"])]
    absent = not_computable(scores)
    computable = [not absent[scores["ability"] == ability].any() for ability in abilities]
    cells = np.where(computable, ability_cells(scores, abilities), np.nan)
    cells = cells[~np.isnan(cells).all(axis=1)]
    columns: dict[str, Array] = {
        ability: column[~np.isnan(column)] for ability, column in zip(abilities, cells.T, strict=True)
    }
    fewest = min(map(len, columns.values()))
    columns[AVERAGE] = average_values(cells) if fewest else cells[:0, 0]
    rows: list[tuple[object, ...]] = []
    for ability, values in columns.items():
        chosen = (scores["ability"] == ability) | (ability == AVERAGE)
        n_absent, n_unscored = int(absent[chosen].sum()), int(scores.loc[chosen, "score"].isna().sum())
        mean, low, high = (float(values.mean()), *map(float, mean_interval(values))) if values.size else (np.nan,) * 3
        if ability == AVERAGE and fewest < 2:  # one of the abilities shows no spread
            low, high = np.nan, np.nan
        equal = bool(are_equal(values)) and not (ability == AVERAGE and fewest < 2)
        n_conversations = len(cells) if ability == AVERAGE else values.size
        n_scored = int(chosen.sum()) - n_unscored if values.size or ability == AVERAGE else 0
        rows.append((size, ability, mean, low, high, n_scored, n_conversations, n_unscored - n_absent, n_absent, equal))
    return pd.DataFrame(rows, columns=list(SUMMARY_COLUMNS))


def judge_spread(judgements: Sequence[Judgement], protocol: str) -> pd.DataFrame:
    """Measure how much scores change when the judge is asked again (parameter `judge_repeats`).

    Returns:
        A row per size and ability, and for the `average`; columns `SPREAD_COLUMNS` and `mean_1` to `mean_R`.
        `mean_r` is the mean of repeat r, computed as in `summarise`, `sd` the standard deviation of these R means (with
        R - 1; NaN for one repeat). `changed` is the share of the `n_nuggets` nuggets with at least two verdicts whose
        verdicts differ. `n_questions` have a score in some repeat; `missing` counts the scores that these lack in
        other repeats, whose means leave them out.

    Raises:
        UserError: As `score_run`.
    """
    import pandas as pd

    repeats = score_repeats(judgements, protocol)
    changes: dict[tuple[str, str], list[bool]] = defaultdict(list)  # for each nugget with at least two verdicts
    for judgement in judgements:
        size = judgement.conversation_id.partition("-")[0]
        for verdicts in zip(*(by_round.verdicts for by_round in judgement.rounds), strict=True):
            scored = [verdict.score for verdict in verdicts if verdict.score is not None]
            if len(scored) > 1:
                changes[size, judgement.ability].append(len(set(scored)) > 1)
    rows: list[dict[str, float | int | str]] = []
    for size in present_sizes(repeats[0]):
        frames = [frame[frame["size"] == size] for frame in repeats]
        abilities = [ability for ability in ABILITIES if ability in set(frames[0]["ability"])]
        cells = [[column[~np.isnan(column)] for column in ability_cells(frame, abilities).T] for frame in frames]
        means = np.array([[column.mean() if column.size else np.nan for column in columns] for columns in cells])
        for ability, values in zip([*abilities, AVERAGE], [*means.T, means.mean(axis=1)], strict=True):
            chosen = abilities if ability == AVERAGE else [ability]
            changed = [flag for name in chosen for flag in changes[size, name]]
            scores = [frame.loc[frame["ability"].isin(chosen)].set_index("probe_id")["score"] for frame in frames]
            n_scores = pd.concat(scores, axis=1).notna().sum(axis=1)
            rows.append(
                {
                    "size": size,
                    "ability": ability,
                    "sd": float(values.std(ddof=1)) if len(values) > 1 else np.nan,
                    "changed": float(np.mean(changed)) if changed else np.nan,
                    "n_nuggets": len(changed),
                    "n_questions": int((n_scores > 0).sum()),
                    "missing": int((len(repeats) - n_scores[n_scores > 0]).sum()),
                    **{f"mean_{number}": float(value) for number, value in enumerate(values, start=1)},
                }
            )
    columns = [*SPREAD_COLUMNS, *(f"mean_{number}" for number in range(1, len(repeats) + 1))]
    return pd.DataFrame(rows, columns=columns)
