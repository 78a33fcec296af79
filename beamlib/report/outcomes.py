"""Where answers are lost: for every arm and ability, why questions were not answered right."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from beamlib.data.errata import spoilt_probes
from beamlib.report.figures import PAGE_WIDTH, style
from beamlib.report.long_frame import AVERAGE_ABILITY, ROWS, ability_label, series_label
from beamlib.report.results import Results, long_frame, recall_rows
from beamlib.report.table import Table
from beamlib.report.tables import with_interval

RIGHT = 0.5
"""From this score on, half of the rubric, a question counts as answered right."""

OUTCOMES: Mapping[str, str] = {
    "right": "#4c9f70",
    "shown whole, answered wrong": "#e6b34d",
    "shown in part": "#e07b39",
    "not shown": "#b5403a",
    "cites nothing, answered wrong": "#8d6bb8",
    "oracle loses it too": "#7a8ca5",
    "defective question": "#b9b9b9",
    "unscored": "#e4e4e4",
}
"""What can become of a question, with its colour. Of several that hold, the last counts, but for those that are right.

"Shown": the messages that the question cites, whole in the context. "Oracle loses it too": with the cited messages
alone the reader loses the question as well, so reader, question or judge is at fault and no memory. "Defective": by the
errata a defect can spoil its score.
"""


def outcome_rows(
    scores: pd.DataFrame,
    whole: Mapping[str, float],
    in_part: Mapping[str, float],
    oracle: Mapping[str, float],
    spoilt: Collection[str],
) -> pd.DataFrame:
    """Return `scores`, a row per question of one arm, with a column `outcome`.

    Args:
        whole: Evidence recall by question, for those that cite messages: messages shown whole.
        in_part: The same, counting messages that are shown in part too.
        oracle: The oracle arm's scores by question; empty for the oracle itself and where it was not run.
        spoilt: Questions whose score a defect can spoil.
    """

    def outcome(row: Any) -> str:
        if np.isnan(row.score):
            return "unscored"
        if row.score >= RIGHT:
            return "right"
        if row.probe_id in spoilt:
            return "defective question"
        if oracle.get(row.probe_id, RIGHT) < RIGHT:
            return "oracle loses it too"
        if row.probe_id not in whole:
            return "cites nothing, answered wrong"
        if whole[row.probe_id] == 1:
            return "shown whole, answered wrong"
        return "shown in part" if in_part[row.probe_id] > 0 else "not shown"

    return scores.assign(outcome=[outcome(row) for row in scores.itertuples()])


def outcomes_of(measured: Results) -> dict[str, pd.DataFrame]:
    """Return `outcome_rows` of every arm of an experiment."""
    evaluation = measured.evaluation
    gold = {key: value for loaded in evaluation.loaded.values() for key, value in loaded.gold.items()}
    spoilt = spoilt_probes([probe for loaded in evaluation.loaded.values() for probe in loaded.probes])
    oracle = _by_question(measured.scores["oracle"]) if "oracle" in measured.scores else {}
    rows = {}
    for name, scores in measured.scores.items():
        in_part = _by_question(recall_rows(evaluation.answers[name], gold, "partial"))
        whole = _by_question(measured.recalls[name])
        rows[name] = outcome_rows(scores, whole, in_part, {} if name == "oracle" else oracle, spoilt)
    return rows


def _by_question(scores: pd.DataFrame) -> dict[str, float]:
    return dict(zip(scores["probe_id"], scores["score"], strict=True))


def outcome_frame(rows: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the share of every outcome per arm and ability, and over all abilities (`average`).

    A long frame with a column `outcome`: shares are means over conversations, as scores are, with their intervals. The
    shares of an arm and ability sum to 1. An outcome that no question has is no sample's mean.
    """
    parts = []
    for outcome in OUTCOMES:
        shares = {name: own.assign(score=(own["outcome"] == outcome) * 1.0, unscored="") for name, own in rows.items()}
        parts.append(long_frame(shares).assign(outcome=outcome))
    frame = pd.concat(parts, ignore_index=True)
    frame["equal"] &= frame["mean"].ne(0)
    return frame


def outcome_table(frame: pd.DataFrame, measured: Results) -> Table:
    """Show the shares over all abilities, a row per arm; the CSV has those of every ability."""
    average = frame[frame["ability"] == AVERAGE_ABILITY]
    rows = []
    for series, own in average.groupby("series", sort=False):
        cells = own.set_index("outcome").loc[list(OUTCOMES)]
        n = int(cells["conversations"].iloc[0])
        shown = [
            with_interval(
                f"{row['mean']:.3f}", row["low"], row["high"], n if row["equal"] else None, equal=row["equal"]
            )
            for row in cells.to_dict("records")
        ]
        rows.append((str(series), str(cells["n"].iloc[0]), str(n), *shown))
    header = ["memory", "questions", "conversations", *OUTCOMES]
    title = f"Where answers are lost, this run, {measured.evaluation.run.size}"
    notes = (f"Right: a score of at least {RIGHT}. Of several reasons the last column that holds counts.",)
    footer = measured.footer
    return Table(
        title, pd.DataFrame(rows, columns=header), tuple(footer.lines()), notes, "costs", 1, csv=frame, basis=footer
    )


def outcome_figure(frame: pd.DataFrame) -> Figure:
    """Draw stacked bars of the shares: a panel per arm, a bar per ability and one for all."""
    series = list(dict.fromkeys(frame["series"]))
    rows = [name for name in ROWS if name in set(frame["ability"])]
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 0.9 + 0.16 * len(rows) * -(-len(series) // 3) + 0.5), layout="constrained")
        panels = figure.subplots(-(-len(series) // 3), 3, sharex=True, sharey=True, squeeze=False).flat
        for name, axes in zip(series, panels, strict=False):
            shares = frame[frame["series"] == name].pivot(index="ability", columns="outcome", values="mean").loc[rows]
            left = np.zeros(len(rows))
            for outcome, colour in OUTCOMES.items():
                axes.barh(range(len(rows)), shares[outcome], left=left, color=colour, label=outcome, height=0.75)
                left += shares[outcome].to_numpy()
            axes.set_title(series_label(name).replace("\n", " "), loc="left", fontsize=7)
            axes.set_yticks(range(len(rows)), map(ability_label, rows), fontsize=6)
            axes.set(xlim=(0, 1), ylim=(len(rows) - 0.4, -0.6))
        for axes in list(panels):
            axes.set_visible(False)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=6)
    return figure
