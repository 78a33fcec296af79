"""What leaving out the questions that the errata spoil does to the scores of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from beamlib.report.results import long_frame
from beamlib.scoring.protocols import PROTOCOLS
from beamlib.scoring.records import Judgement
from beamlib.scoring.scores import AVERAGE, score_run

ALL, DROP = "none, flag", "drop"
"""The two sets of questions that `errata` leads to: `flag` marks questions and takes none away."""


def errata_effect(scores: Mapping[str, pd.DataFrame], spoilt: Collection[str]) -> pd.DataFrame:
    """Every arm over all its questions (`none`, `flag`) and, as "<arm>, drop", without those in `spoilt`: a long frame.

    `scores` are tables of `score_run` by arm. Nothing is asked again: under `flag` the judgements hold all questions.
    """
    parts = []
    for arm, frame in scores.items():
        spared = frame[~frame["probe_id"].isin(spoilt)]
        parts.append(long_frame({arm: frame}).assign(arm=arm, errata=ALL))
        parts.append(long_frame({f"{arm}, {DROP}": spared}).assign(arm=arm, errata=DROP))
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
