"""What notebooks on generation show: where the evidence lies, as a frame and a figure, and what was repaired."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from beam_generate.estimate import estimate_generation
from beam_generate.of_run import config_of, spec_of
from beam_generate.pipeline import STAGES, repairs_of, unfinished
from beam_generate.probes.selection import deciles, published_deciles, released_deciles
from beamlib.data.loading import Loaded
from beamlib.data.model import Size
from beamlib.llm.model import OFFLINE_NAME
from beamlib.report.figures import PAGE_WIDTH, bars, legend, style
from beamlib.report.notebooks import Workspace


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


def repair_counts(folders: Sequence[Path]) -> pd.DataFrame:
    """How many entries the logs of the stages have, by what was done; without any, a row of zero for each stage."""
    rows = []
    for folder in folders:
        for stage, entries in repairs_of(folder).items():
            rows += [{"stage": stage, "done": str(entry["done"])} for entry in entries]
    if not rows:
        return pd.DataFrame({"entries": 0}, index=pd.Index(STAGES, name="stage"))
    return pd.DataFrame(rows).value_counts().rename("entries").to_frame()


def announce(work: Workspace) -> None:
    """Print where a notebook's conversation is written, by whom, and what that would cost where models write it.

    What a notebook on generation writes goes into the run folder, to the part of its tier, whatever `data` is.
    """
    work.generating = True
    parameters = work.parameters
    spec, writing, out = spec_of(parameters), config_of(parameters), parameters.generated
    print(f"conversation: {spec.folder(out).as_posix()} (generation writes below the run folder alone)")
    if not parameters.authors:
        print(f"author: {OFFLINE_NAME}; nothing is called and nothing is paid")
        return
    print(f"author: {writing.names}; what is left of the conversation, over notebooks 01 to 04:")
    print(estimate_generation(unfinished([spec], out, writing), writing).render())
    work.say_unconfirmed()
