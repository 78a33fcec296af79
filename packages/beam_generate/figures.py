"""Where the evidence lies, as a frame and a figure."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from beam_generate.probes.selection import deciles, published_deciles, released_deciles
from beamlib.data.loading import Loaded
from beamlib.data.model import Size
from beamlib.report.figures import PAGE_WIDTH, bars, legend, style


def evidence_deciles(loaded: Sequence[Loaded], size: Size) -> pd.DataFrame:
    """Where the evidence lies, in percent per tenth of a conversation; questions weigh the same.

    Beside it the released questions, which selection aims at, and Table 7 as printed.
    """
    shares = [deciles([gold.evidence for gold in one.gold.values()], len(one.conversation.messages)) for one in loaded]
    frame = pd.DataFrame({"generated": [100 * sum(tenth) / len(shares) for tenth in zip(*shares, strict=True)]})
    frame["released questions"] = [100 * share for share in released_deciles(size)]
    frame["Table 7 as printed"] = [100 * share for share in published_deciles(size)]
    frame.index = pd.Index(range(1, 11), name="decile")
    return frame.round(2)


def decile_figure(frame: pd.DataFrame, size: Size, who: str) -> Figure:
    """Bars of deciles, a column of `frame` each; the axis names the conversations."""
    rows = frame.reset_index().melt("decile", value_name="mean").assign(low=float("nan"), high=float("nan"))
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 2.6))
        axes = figure.subplots()
        bars(axes, rows, "decile", "variable")
        axes.set(xlabel=f"tenth of the conversation, {size}; {who}", ylabel="share of evidence, %")
        legend(figure, axes, columns=3)
    return figure
