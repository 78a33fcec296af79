"""Generated conversations beside what the paper prints of its own: Tables 3 and 7, as frames and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from beamlib.benchmark.loading import Loaded
from beamlib.benchmark.model import Size
from beamlib.benchmark.statistics import ChatTally
from beamlib.generate.layouts import targets
from beamlib.generate.pipeline import STAGES, repairs_of
from beamlib.generate.probes.selection import deciles, published_deciles, released_deciles
from beamlib.report.figures import PAGE_WIDTH, style


def structure(loaded: Sequence[Loaded], size: Size, author: str) -> pd.DataFrame:
    """Means per conversation of `loaded` (not empty) beside Table 3 and the token target; a row per quantity.

    Table 3's 216 follow-ups at 128K are the total of twenty conversations and stand here as 10.8. Its means are of a
    tier's mixture of domains: conversations on coding and mathematics have fewer turns by Table 6.
    """
    tally = ChatTally()
    for one in loaded:
        tally.add(one.conversation)
    counts, goal, n = tally.result(), targets(size), len(loaded)
    rows = {
        "tokens": (counts.tokens_mean, goal.tokens),
        "turns": (counts.turns / n, goal.turns),
        "answered assistant questions": (counts.answer_ai_question / n, goal.answered),
        "follow-up questions": (counts.followup_question / n, goal.followups),
    }
    frame = pd.DataFrame(rows, index=["generated", "published"]).T
    frame["difference"] = (frame["generated"] / frame["published"] - 1).map("{:+.1%}".format)
    frame[["generated", "published"]] = frame[["generated", "published"]].map("{:,.1f}".format)
    return frame.rename_axis(f"{size}, mean of {n}; author: {author}")


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


def decile_figure(frame: pd.DataFrame, size: Size, author: str) -> Figure:
    """Bars of `evidence_deciles`; the axis names who wrote the conversations."""
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 2.6), layout="constrained")
        axes = figure.subplots()
        for position, name in enumerate(frame.columns):
            places = [tenth + (position - 1) * 0.28 for tenth in frame.index]
            axes.bar(
                places, frame[name], width=0.26, label=name, hatch=("", "////", "....")[position], edgecolor="white"
            )
        axes.set_xticks(list(frame.index))
        axes.set_xlabel(f"tenth of the conversation, {size}; author: {author}")
        axes.set_ylabel("share of evidence, %")
        axes.legend(frameon=False)
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
