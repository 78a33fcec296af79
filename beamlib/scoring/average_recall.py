"""Average evidence recall of measured arms, as rows for commands; tables and figures use `beamlib.report.released`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np

from beamlib.errors import UserError
from beamlib.scoring.intervals import conversation_values, mean_interval
from beamlib.scoring.measured import (
    ARMS,
    BEST,
    COUNTINGS,
    RETRIEVERS,
    Measurement,
    check_budgets,
    context_shown,
    recall_scores,
)
from beamlib.scoring.scores import AVERAGE, summarise


def average_recall(
    measurements: Iterable[Measurement],
    arms: Sequence[str] = ARMS,
    retrievers: Sequence[str] = RETRIEVERS,
    ks: Sequence[int] = (5, 10, 15, 20),
) -> list[dict[str, Any]]:
    """Average evidence recall as scores are averaged (`beamlib.scoring.scores.summarise`).

    Returns:
        Rows `arm, retriever, size, k, ability, recall, low, high, partial, noted, tokens, n, conversations`. `recall`
        is the mean share of cited messages that the context shows whole, with its 95 % interval over `conversations`
        (None for one, for equal means, and for `BEST`, a bound of the data). `partial` also counts messages shown in
        part, `noted` those that a note comes from as well. `tokens` is the context's mean over the `n` questions, None
        for `BEST`. `ability` is one of the ten, "average" for the mean over abilities, which every table and figure
        shows, or "all" for the mean over questions.

    Raises:
        UserError: An arm, a retriever or a budget was not measured.
    """
    measurements = list(measurements)
    ranked = {name for each in measurements for question in each.questions for name in question.ranks}
    known = list(dict.fromkeys((*RETRIEVERS, *sorted(name.partition(" ")[2] for name in ranked))))
    check_choices("arm", arms, (*ARMS, BEST))
    check_choices("retriever", retrievers, known)
    check_budgets(ks)
    by_size: dict[str, list[Measurement]] = {}
    for measurement in measurements:
        by_size.setdefault(measurement.size, []).append(measurement)
    rows = []
    for (size, group), arm, retriever, k in product(by_size.items(), arms, retrievers, ks):
        common = {"arm": arm, "retriever": retriever, "size": size, "k": k}
        rows += [common | row for row in _means(group, arm, retriever, k)]
    return rows


def _means(group: Sequence[Measurement], arm: str, retriever: str, k: int) -> list[dict[str, Any]]:
    """Average the questions of one size: per ability in the usual order, over abilities, over questions."""
    scores = {counting: recall_scores(group, arm, retriever, k, counting) for counting in COUNTINGS}
    if scores["whole"].empty:
        return []
    tokens = scores["whole"].assign(
        tokens=[
            np.nan if arm == BEST else context_shown(measurement, question, arm, retriever, k).tokens
            for measurement in group
            for question in measurement.questions
            if question.cited
        ]
    )
    summary = summarise(scores["whole"])
    for counting in ("partial", "noted"):
        summary[counting] = summarise(scores[counting])["mean"]
    rows = []
    for row in summary.to_dict("records"):
        low, high = (None if arm == BEST or np.isnan(row[end]) else row[end] for end in ("low", "high"))
        chosen = tokens if row["ability"] == AVERAGE else tokens[tokens["ability"] == row["ability"]]
        values = {"ability": row["ability"], "recall": row["mean"], "low": low, "high": high}
        values |= {counting: row[counting] for counting in COUNTINGS[1:]}
        values |= {"tokens": None if arm == BEST else round(float(chosen["tokens"].mean())), "n": row["n_questions"]}
        rows.append(values | {"conversations": row["n_conversations"]})
    whole = scores["whole"].groupby("conversation_id")["score"].agg(["sum", "count"]).to_numpy(dtype=np.float64).T
    ends = mean_interval(conversation_values(*whole))
    low, high = (None if arm == BEST or np.isnan(end) else float(end) for end in ends)
    means = {counting: float(frame["score"].mean()) for counting, frame in scores.items()}
    over_questions = {"ability": "all", "recall": means["whole"], "low": low, "high": high}
    return [rows[-1] | over_questions | {name: means[name] for name in COUNTINGS[1:]}, *rows]


def check_choices(option: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Raise `UserError` unless `names` has some, all of them in `known`."""
    for name in names:
        if name not in known:
            raise UserError(f"--{option} names {name!r}, which does not exist; choose from {', '.join(known)}.")
    if not names:
        raise UserError(f"--{option} is empty; choose from {', '.join(known)}.")
