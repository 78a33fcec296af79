"""Figures 3 to 9 of the MemoryCode paper from recomputed scores; the frames are those of `frames`.

Every function returns a figure that is not registered with pyplot, in the style of `beamlib.report.figures`. Scores run
from 0 to 1 as in the paper's text; whiskers are 95 % intervals over dialogues. `answered_by` goes below the name of the
value axis: a model, or the stand-in.
"""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from beamlib.report.figures import COLUMN_WIDTH, PAGE_WIDTH, bars, legend, lines, style

SCORE = "score (share of rules followed)"

_PANELS = 4  # in a row of Figure 6


def setup_figure(frame: pd.DataFrame, answered_by: str = "") -> Figure:
    """Figure 3: a group of bars per model, a bar per column of Table 4; a setup that was not run leaves a gap."""
    wrapped = frame.assign(model=frame["model"].str.replace(" (", "\n(", regex=False))  # a remark goes below its name
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 2.8))
        axes = figure.subplots()
        bars(axes, wrapped, "model", "setup")
        axes.set(ylim=(0, 1.02), xlabel="", ylabel=_axis(answered_by))
        legend(figure, axes, 4)
    return figure


def count_figure(frame: pd.DataFrame, answered_by: str = "") -> Figure:
    """Figures 4, 5 and 7: the history score against the number of sessions, a line per `model`."""
    with style():
        figure = Figure(figsize=(PAGE_WIDTH * 0.75, 2.8))
        axes = figure.subplots()
        lines(axes, frame, "sessions", "model")
        axes.set(ylim=(0, 1.02), xlabel="number of sessions", ylabel=_axis(answered_by))
        legend(figure, axes, 2 if max(map(len, frame["model"])) > 24 else 4)
    return figure


def rank_figure(frame: pd.DataFrame, answered_by: str = "") -> Figure:
    """Figure 6: the score against the update rank, a panel per number of sessions."""
    ranks = pd.Categorical(frame["rank"], range(int(frame["rank"].max()) + 1))
    counts = frame.assign(rank=ranks).groupby("sessions")
    rows, columns = -(-len(counts) // _PANELS), min(_PANELS, len(counts))
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 0.5 + 1.45 * rows))
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flatten()
        for axes, (count, points) in zip(panels, counts, strict=False):
            lines(axes, points, "rank")
            axes.set(ylim=(0, 1.04), xlabel="", ylabel="")
            axes.set_title(f"{count} session{'' if count == 1 else 's'}", loc="left")
        for axes in panels[len(counts) :]:
            axes.set_visible(False)
        for axes in panels[max(0, len(counts) - columns) : len(counts)]:
            axes.tick_params(labelbottom=True)  # also where the panel below is empty
        figure.supxlabel("update rank (times that the dialogue updates the instruction)", fontsize="medium")
        figure.supylabel(_axis(answered_by), fontsize="medium", multialignment="center")
    return figure


def instruction_figure(frame: pd.DataFrame, answered_by: str = "") -> Figure:
    """Figures 8 and 9: a bar per instruction, best first."""
    with style():
        figure = Figure(figsize=(COLUMN_WIDTH * 1.6, 0.7 + 0.145 * len(frame)))
        axes = figure.subplots()
        bars(axes, frame, "label", value="x")
        axes.set(xlim=(0, 1.02), xlabel=_axis(answered_by), ylabel="")
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
    return figure


def _axis(answered_by: str) -> str:
    """The label of the value axis, with a line on who answered where figures need one."""
    return f"{SCORE}\n{answered_by}" if answered_by else SCORE
