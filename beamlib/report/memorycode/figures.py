"""Figures 3 to 9 of the MemoryCode paper from recomputed scores; the frames are those of `frames`.

Every function returns a figure that is not registered with pyplot, in the style of `beamlib.report.figures`. Scores run
from 0 to 1 as in the paper's text; whiskers are 95 % intervals over dialogues. `answered_by` goes below the name of the
value axis: a model, or the stand-in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from beamlib.report.figures import COLUMN_WIDTH, PAGE_WIDTH, style

SCORE = "score (share of rules followed)"

_MARKERS = "osD^vPX*"
_HATCHES = ("", "////", "....", "\\\\\\\\")
_LINE_SHIFT = 0.06
_BAR_SHARE = 0.82
_PANELS = 4  # in a row of Figure 6


def setup_figure(frame: pd.DataFrame, answered_by: str = "") -> Figure:
    """Figure 3: a group of bars per model, a bar per column of Table 4; a setup that was not run leaves a gap."""
    models, setups = list(dict.fromkeys(frame["model"])), list(dict.fromkeys(frame["setup"]))
    width = _BAR_SHARE / len(setups)
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 2.8))
        axes = figure.subplots()
        for place, setup in enumerate(setups):
            rows = frame[frame["setup"] == setup]
            offset = (place - (len(setups) - 1) / 2) * width
            axes.bar(
                [models.index(model) + offset for model in rows["model"]],
                rows["mean"],
                width,
                yerr=_errors(rows),
                label=setup,
                color=f"C{place}",
                hatch=_HATCHES[place],
                edgecolor="white",
                error_kw={"elinewidth": 0.6, "capthick": 0.6},
            )
        axes.set_xticks(range(len(models)), [_wrapped(model) for model in models])
        axes.set_ylim(0, 1.02)
        axes.set_ylabel(_axis(answered_by))
        _legend(figure, axes, 4)
    return figure


def count_figure(frame: pd.DataFrame, answered_by: str = "") -> Figure:
    """Figures 4, 5 and 7: the history score against the number of sessions, a line per `model`."""
    models = list(dict.fromkeys(frame["model"]))
    counts = sorted(set(frame["sessions"]))
    with style():
        figure = Figure(figsize=(PAGE_WIDTH * 0.75, 2.8))
        axes = figure.subplots()
        for place, model in enumerate(models):
            rows = frame[frame["model"] == model]
            shift = _LINE_SHIFT * (place - (len(models) - 1) / 2)
            positions = [counts.index(count) + shift for count in rows["sessions"]]
            marker = _MARKERS[place % len(_MARKERS)]
            axes.errorbar(positions, rows["mean"], yerr=_errors(rows), marker=marker, label=model, elinewidth=0.7)
        axes.set_xticks(range(len(counts)), [str(count) for count in counts])
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("Number of sessions")
        axes.set_ylabel(_axis(answered_by))
        _legend(figure, axes, 2 if max(map(len, models)) > 24 else 4)
    return figure


def rank_figure(frame: pd.DataFrame, answered_by: str = "") -> Figure:
    """Figure 6: the score against the update rank, a panel per number of sessions."""
    counts = sorted(set(frame["sessions"]))
    highest = int(frame["rank"].max())
    rows = -(-len(counts) // _PANELS)
    columns = min(_PANELS, len(counts))
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 0.5 + 1.45 * rows))
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flatten()
        for axes, count in zip(panels, counts, strict=False):
            points = frame[frame["sessions"] == count]
            axes.errorbar(points["rank"], points["mean"], yerr=_errors(points), marker="o", elinewidth=0.7)
            axes.set_title(f"{count} session{'s' if count > 1 else ''}", loc="left")
            axes.set_xticks(range(highest + 1))
            axes.set_xlim(-0.4, highest + 0.4)
            axes.set_ylim(0, 1.04)
        for axes in panels[len(counts) :]:
            axes.set_visible(False)
        for axes in panels[max(0, len(counts) - columns) : len(counts)]:
            axes.tick_params(labelbottom=True)  # also where the panel below is empty
        figure.supxlabel("Update rank (times that the dialogue updates the instruction)", fontsize="medium")
        figure.supylabel(_axis(answered_by), fontsize="medium", multialignment="center")
    return figure


def instruction_figure(frame: pd.DataFrame, answered_by: str = "") -> Figure:
    """Figures 8 and 9: a bar per instruction, best first."""
    places = np.arange(len(frame))[::-1]
    with style():
        figure = Figure(figsize=(COLUMN_WIDTH * 1.6, 0.7 + 0.145 * len(frame)))
        axes = figure.subplots()
        axes.barh(
            places,
            frame["mean"],
            _BAR_SHARE,
            xerr=_errors(frame),
            edgecolor="white",
            error_kw={"elinewidth": 0.6, "capthick": 0.6},
        )
        axes.set_yticks(places, list(frame["label"]))
        axes.set_ylim(-0.7, len(frame) - 0.3)
        axes.set_xlim(0, 1.02)
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(_axis(answered_by))
    return figure


def _axis(answered_by: str) -> str:
    """The label of the value axis, with a line on who answered where figures need one."""
    return f"{SCORE}\n{answered_by}" if answered_by else SCORE


def _errors(rows: pd.DataFrame) -> Any:
    """Lengths of the whiskers below and above, shape (2, n); none where a point has no interval."""
    mean, low, high = (rows[name].to_numpy(dtype=float) for name in ("mean", "low", "high"))
    return np.nan_to_num(np.stack([mean - low, high - mean]).clip(min=0))


def _wrapped(name: str) -> str:
    """A long model name in two lines: the stand-in's remark goes below."""
    return name.replace(" (", "\n(")


def _legend(figure: Figure, axes: Axes, columns: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(columns, len(labels)))


def caption(title: str, models: Sequence[str], revision: str, n: int, unscored: int, interval: str, order: str) -> str:
    """A figure's caption: what is shown, by which rules, on what, with how many dialogues and unscored answers."""
    return (
        f"{title} Models: {', '.join(models)}. Scored by rules on parsed code, mean share of applicable rules; "
        f"{order}. Data: {revision}; n = {n} dialogues, {unscored} unscored answers. Interval: {interval}."
    )
