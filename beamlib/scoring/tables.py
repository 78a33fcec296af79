"""From judgements to scores per question, and from these to means with intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from beamlib.benchmark.gold import ABILITIES
from beamlib.benchmark.model import SIZES
from beamlib.errors import UserError
from beamlib.scoring.protocols import QuestionScore, find_protocol
from beamlib.scoring.records import Judgement
from beamlib.scoring.statistics import cluster_bootstrap, interval

SCORE_COLUMNS = ("probe_id", "conversation_id", "size", "ability", "score", "unscored")
SUMMARY_COLUMNS = ("size", "ability", "mean", "low", "high", "n_questions", "n_conversations", "unscored")
AVERAGE = "average"


def score_run(judgements: Sequence[Judgement], protocol: str) -> pd.DataFrame:
    """One row per question, columns `SCORE_COLUMNS`, in the order of `judgements`.

    `score` is NaN and `unscored` the reason where there is no score; `unscored` is empty otherwise. Raises `UserError`
    for an unknown protocol and for a question that was judged twice.
    """
    score_question = find_protocol(protocol).score_question
    scores: dict[str, QuestionScore] = {}
    for judgement in judgements:
        if judgement.probe_id in scores:
            raise UserError(f"judgements: {judgement.probe_id} occurs twice; keep one judgement per question.")
        scores[judgement.probe_id] = score_question(judgement)
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


def summarise(scores: pd.DataFrame, seed: int = 0, resamples: int = 2000) -> pd.DataFrame:
    """Mean and 95 % interval per size and ability, and their `average`; columns `SUMMARY_COLUMNS`.

    As in the paper, a conversation's questions of one ability are averaged first, then the conversations; the average
    is the plain mean of the ability means, NaN where an ability has no score at all. Intervals come from resampling
    conversations, with the same draws for all abilities; with fewer than two conversations they are NaN, because one
    conversation says nothing about the spread. `n_questions` entered the mean, `unscored` did not.
    """
    known = [size for size in SIZES if size in set(scores["size"])]
    others = sorted(set(scores["size"]) - set(known))
    parts = [_summarise_size(scores[scores["size"] == size], size, seed, resamples) for size in [*known, *others]]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(SUMMARY_COLUMNS))


def _summarise_size(scores: pd.DataFrame, size: str, seed: int, resamples: int) -> pd.DataFrame:
    present = set(scores["ability"])
    abilities = [ability for ability in ABILITIES if ability in present]
    cells = (
        scores.groupby(["conversation_id", "ability"])["score"]
        .mean()
        .unstack("ability")
        .reindex(columns=abilities)
        .sort_index()
        .to_numpy(dtype=np.float64)
    )
    held = ~np.isnan(cells)
    samples = cluster_bootstrap(cells, seed, resamples)
    rows: list[tuple[str, str, float, float, float, int, int, int]] = []
    for column, ability in enumerate(abilities):
        n = int(held[:, column].sum())
        mean = float(cells[held[:, column], column].mean()) if n else np.nan
        low, high = interval(samples[:, column]) if n > 1 else (np.nan, np.nan)
        missing = scores.loc[scores["ability"] == ability, "score"].isna()
        rows.append((size, ability, mean, low, high, int((~missing).sum()), n, int(missing.sum())))
    low, high = interval(samples.mean(axis=1)) if held.sum(axis=0).min() > 1 else (np.nan, np.nan)
    mean = float(np.mean([row[2] for row in rows]))
    missing = scores["score"].isna()
    n = int(held.any(axis=1).sum())
    rows.append((size, AVERAGE, mean, low, high, int((~missing).sum()), n, int(missing.sum())))
    return pd.DataFrame(rows, columns=list(SUMMARY_COLUMNS))
