"""Figures of notebook 11, in the style of `beamlib.report.figures`; `answered_by` goes below the value axis."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from beam_meme.episode_gold import SHORT
from beam_meme.failure_stages import STAGES
from beam_meme.meme_scoring import FILTERED, KINDS
from beamlib.report.figures import COLUMN_WIDTH, PAGE_WIDTH, bars, legend, style

_KIND_COLOURS = ("#0072B2", "#E69F00", "#999999", "#DDDDDD")
_STAGE_COLOURS = ("#DDDDDD", "#999999", "#E69F00", "#D55E00", "#0072B2")
"""What is right is blue in both, and what a memory never had is light."""


def filler_figure(frame: pd.DataFrame, answered_by: str) -> Figure:
    """The overall share of every memory with and without filler, as `meme_study.filler_frame` has it."""
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 2.8))
        axes = figure.subplots()
        bars(axes, frame, "memory", "variant")
        axes.set(ylim=(0, 1.02), xlabel="", ylabel=f"overall share that counts\n{answered_by}")
        for name in axes.get_xticklabels():
            name.set(rotation=25, ha="right", rotation_mode="anchor")
        legend(figure, axes, 3)
    return figure


def kinds_figure(frame: pd.DataFrame, answered_by: str) -> Figure:
    """The four kinds of outcome of each filtered task, a panel per task and a bar per memory."""
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 1.0 + 0.2 * frame["memory"].nunique()))
        panels = figure.subplots(1, len(FILTERED), sharey=True)
        for axes, task in zip(panels, FILTERED, strict=True):
            _stacked(axes, frame[frame["task"] == task], KINDS, _KIND_COLOURS)
            axes.set_title(f"{task} ({SHORT[task]})", loc="left")
        figure.supxlabel(f"questions after the change; {answered_by}", fontsize="medium")
        legend(figure, panels[0], len(KINDS))
    return figure


def stage_figure(frame: pd.DataFrame, answered_by: str) -> Figure:
    """At which stage each memory's answers failed, a bar per memory."""
    with style():
        figure = Figure(figsize=(COLUMN_WIDTH * 1.6, 1.0 + 0.2 * len(frame)))
        axes = figure.subplots()
        named = frame.rename(columns={stage: _stage_name(stage) for stage in STAGES})
        _stacked(axes, named, [_stage_name(stage) for stage in STAGES], _STAGE_COLOURS)
        axes.set(xlabel=f"answers after the change; {answered_by}")
        legend(figure, axes, 3)
    return figure


def _stage_name(stage: str) -> str:
    return stage if stage == "right" else f"not {stage}"


def _stacked(axes: Axes, frame: pd.DataFrame, parts: Sequence[str], colours: Sequence[str]) -> None:
    """A bar per memory, the first on top, its parts side by side."""
    own = frame.set_index("memory")[list(parts)].iloc[::-1]
    own.plot.barh(stacked=True, ax=axes, color=list(colours), width=0.8, edgecolor="white")
    axes.set_ylabel("")
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
