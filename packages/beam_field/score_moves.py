"""What moves a score of one set of answers, and how far systems differ: the numbers, one figure, sentences."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from beam_field.comparing import HEADLINE, FieldSystem, average_of, only_printed, run_averages
from beam_field.judged_offline import judged_by_offline
from beamlib.report.figures import PAGE_WIDTH, style
from beamlib.report.footer import OFFLINE, is_offline
from beamlib.scoring.records import Judgement

_BY_GOLD = {"yes": "systems, gold shown", "no": "systems, gold not shown"}
_UNCLEAR = "systems, gold in part or unclear"
_HALVES = {"0.5 as 0": 0.0, "0.5 as 1": 1.0}
"""The released code floors half points; some sources count a nugget from a half on."""


def moves(systems: Sequence[FieldSystem], tier: str = "1M") -> pd.DataFrame:
    """How far a score moves by each choice that is not the system, and how far systems differ.

    A row per value: `what` is varied, `setting`, `value`, `low`, `high` (NaN where not known), `system`, `basis`
    (verdicts or printed). Averages over questions, as sources print them, but for the printed ones.
    """
    own = [one for one in systems if one.source.tier == tier and not is_offline(one.source.judge)]
    graded = [one for one in own if one.source.kind == "nuggets"]
    graded = [one for one in graded if one.group == graded[0].group]
    rows: list[tuple[object, ...]] = []
    if graded:
        best = graded[0]
        for protocol in ("nugget-mean", "binary"):
            rows.append(("protocol", protocol, *average_of(best, protocol), best.name, "verdicts"))
        for setting, worth in _HALVES.items():
            rows.append(
                ("protocol", setting, *average_of(_with_halves(best, worth), "nugget-mean"), best.name, "verdicts")
            )
        if judged := judged_by_offline(best):
            rows.append(("judge", best.source.judge, *average_of(best, "nugget-mean"), best.name, "verdicts"))
            rows.append(("judge", OFFLINE, *average_of(judged, "nugget-mean"), best.name, "verdicts"))
        for one in graded:
            rows.append(("context shown", one.source.context, *average_of(one, "nugget-mean"), one.name, "verdicts"))
    for one in own:
        if len(one.runs) > 1:
            for (source, _), value in zip(one.runs, run_averages(one), strict=True):
                rows.append(("the same again", source.run, value, np.nan, np.nan, one.name, "verdicts"))
    printed = only_printed()
    for _, row in printed[printed["system"].str.contains("Smart Jelly")].iterrows():
        told = f"gold {row['gold_in_answer_prompt']}, {row['tier']}"
        rows.append(("gold in the prompt", told, row["score_percent"] / 100, np.nan, np.nan, row["system"], "printed"))
    for one in own:
        found = average_of(one, HEADLINE[one.source.kind])
        rows.append((_BY_GOLD.get(one.source.gold_in_prompt, _UNCLEAR), one.name, *found, one.name, "verdicts"))
    for _, row in printed[printed["tier"] == tier].iterrows():
        what = _BY_GOLD.get(str(row["gold_in_answer_prompt"]), _UNCLEAR)
        rows.append((what, row["system"], row["score_percent"] / 100, np.nan, np.nan, row["system"], "printed"))
    return pd.DataFrame(rows, columns=["what", "setting", "value", "low", "high", "system", "basis"])


def _with_halves(system: FieldSystem, worth: float) -> FieldSystem:
    """The system with half points counted as `worth`."""

    def changed(one: Judgement) -> Judgement:
        verdicts = (v.model_copy(update={"score": worth}) if v.score == 0.5 else v for v in one.verdicts)
        return one.model_copy(update={"verdicts": tuple(verdicts)})

    return FieldSystem(tuple((source, tuple(map(changed, own))) for source, own in system.runs))


def moves_figure(frame: pd.DataFrame, tier: str) -> Figure:
    """One line per choice: every score that it leads to, and the span from the lowest to the highest."""
    choices = list(dict.fromkeys(frame["what"]))[::-1]
    basis = (
        f"{tier}, but gold in the prompt: 100K. Filled: computed from verdicts; open: printed by its author. The rows "
        "above those of systems vary one choice on one set of answers, repeat a system, or are as its author says."
    )
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 0.55 * len(choices) + 1.2))
        axes = figure.add_subplot()
        for place, what in enumerate(choices):
            _draw(axes, place, frame[frame["what"] == what])
        axes.set_yticks(range(len(choices)), choices)
        axes.set(xlim=(0, 1.08), ylim=(-0.6, len(choices) - 0.4), xlabel="score")
        figure.set_label(basis)
        figure.supxlabel(textwrap.fill(basis, 150), fontsize=6, color="0.3")
    return figure


def _draw(axes: Axes, place: int, own: pd.DataFrame) -> None:
    """One choice: its span, its scores, and above them what was chosen."""
    low, high = own["value"].min(), own["value"].max()
    colour = "C1" if str(own["what"].iloc[0]).startswith("systems") else "C0"
    axes.plot([low, high], [place, place], color=colour, linewidth=5, alpha=0.3, solid_capstyle="round")
    for basis, filled in (("verdicts", colour), ("printed", "white")):
        values = own.loc[own["basis"] == basis, "value"]
        axes.plot(values, [place] * len(values), "o", color=colour, markerfacecolor=filled, markersize=5)
    told: dict[str, Any] = {"textcoords": "offset points", "fontsize": 5.5}
    names = own.sort_values("value")["setting"].map(lambda name: str(name).partition(",")[0].partition(" (")[0])
    for number, (value, name) in enumerate(zip(own["value"].sort_values(), names, strict=True)):
        offset = (5, -5, 12, -12)[number % 4]  # neighbours stand apart
        axes.annotate(name, (value, place), (0, offset), ha="center", va="bottom" if offset > 0 else "top", **told)
    axes.annotate(f"{100 * (high - low):.0f} points", (high, place), (16, 0), va="center", **{**told, "fontsize": 7})


def span_sentences(frame: pd.DataFrame) -> list[str]:
    """How far each choice moves a score, in words, the widest first."""
    spans = frame.groupby("what")["value"].agg(["min", "max", "count"])
    spans = (
        spans[spans["count"] > 1]
        .assign(width=lambda own: own["max"] - own["min"])
        .sort_values("width", ascending=False)
    )
    return [
        f"{str(what).capitalize()}: {100 * row['min']:.1f} to {100 * row['max']:.1f}, {100 * row['width']:.1f} points."
        for what, row in spans.iterrows()
    ]
