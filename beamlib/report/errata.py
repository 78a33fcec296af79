"""What leaving out the questions that the errata spoil does to the scores of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from beamlib.scoring.protocols import PROTOCOLS
from beamlib.scoring.records import Judgement
from beamlib.scoring.scores import AVERAGE, score_run, summarise

ALL, DROP = "none, flag", "drop"
"""The two sets of questions that `errata` leads to: `flag` marks questions and takes none away."""


def errata_effect(scores: Mapping[str, pd.DataFrame], spoilt: Collection[str]) -> pd.DataFrame:
    """Every arm over all its questions (`none`, `flag`) and, as "<arm>, drop", without those in `spoilt`: a long frame.

    `scores` are tables of `score_run` by arm. Nothing is asked again: under `flag` the judgements hold all questions.
    """
    parts = []
    for arm, frame in scores.items():
        for kept, own in ((ALL, frame), (DROP, frame[~frame["probe_id"].isin(spoilt)])):
            summary = summarise(own)
            series = arm if kept == ALL else f"{arm}, {DROP}"
            counts = {"n": summary["n_questions"], "conversations": summary["n_conversations"]}
            parts.append(summary.assign(series=series, arm=arm, errata=kept, **counts))
    return pd.concat(parts, ignore_index=True)


def effect_by_protocol(judgements: Mapping[str, Sequence[Judgement]], spoilt: Collection[str]) -> pd.DataFrame:
    """The averages of `errata_effect` under every protocol, by protocol and arm, for the judgements of one tier.

    Beside each average its rank among the arms and `n`, the questions that have a score; `unscored` counts the others.
    `conversations` says how many there are: one by itself ranks nothing.
    """
    parts = {}
    for protocol in PROTOCOLS:
        effect = errata_effect({arm: score_run(judged, protocol) for arm, judged in judgements.items()}, spoilt)
        average = effect[effect["ability"] == AVERAGE].pivot(index="arm", columns="errata")
        columns: dict[str, Any] = {}
        for kept in (ALL, DROP):
            mean = average["mean", kept]
            columns |= {
                kept: mean,
                f"rank, {kept}": mean.rank(ascending=False, method="min").astype("Int64"),
                f"n, {kept}": average["n", kept],
            }
        unscored = average["unscored", ALL]
        counts = {"unscored": unscored, "conversations": average["conversations", ALL]}
        parts[protocol] = pd.DataFrame({**columns, **counts}).loc[list(judgements)]
    return pd.concat(parts, names=["protocol", "arm"])
