"""What can be said of the field: sentences per tier, every score in one figure, and what moves a score."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from beam_field.comparing import (
    FieldSystem,
    SystemPair,
    comparable_pairs,
    judged_by_offline,
    only_printed,
)
from beam_field.field_tables import p_text
from beamlib.data.conversations import SIZES
from beamlib.report.figures import PAGE_WIDTH, style
from beamlib.report.footer import OFFLINE, is_offline
from beamlib.report.table import markdown_text
from beamlib.report.tables import with_interval
from beamlib.scoring.records import Judgement
from beamlib.text import count


def tiers(systems: Sequence[FieldSystem]) -> list[str]:
    """Return the tiers that any system has."""
    return [size for size in SIZES if any(system.source.tier == size for system in systems)]


def tier_answer(systems: Sequence[FieldSystem], tier: str) -> list[str]:
    """Say who is better on BEAM at this tier and how sure that is: by group, by pair, and what is only printed."""
    own = [system for system in systems if system.source.tier == tier]
    pairs = comparable_pairs(own)
    lines = [_headline(own, pairs, tier)]
    groups = list(dict.fromkeys(system.group for system in own))
    lines += [_group_sentence([system for system in own if system.group == group]) for group in groups]
    lines += map(_pair_sentence, pairs)
    if len(groups) > 1:
        lines.append("Between these groups nothing can be said: another judge decided, or by another measure.")
    if printed := _printed_sentence(tier):
        lines.append(printed)
    return lines


def answers_in_markdown(answers: Mapping[str, Sequence[str]]) -> str:
    """Write `tier_answer` of several tiers as Markdown: a heading and a list for each."""
    return "\n".join(
        "\n".join([f"**{tier}**\n", *(f"- {markdown_text(line)}" for line in lines), ""])
        for tier, lines in answers.items()
    )


def _headline(own: Sequence[FieldSystem], pairs: Sequence[SystemPair], tier: str) -> str:
    """Say how much of the ranking is known at all."""
    judged = {system.name for system in own}  # answers judged by several judges are one system
    several = len(judged) + int((only_printed()["tier"] == tier).sum())
    by_names = {frozenset((pair.first.name, pair.second.name)): pair for pair in pairs}
    better = [f"{pair.first.name} above {pair.second.name}" for pair in by_names.values() if pair.is_better]
    verdict = f"told apart: {'; '.join(better)}" if better else "none is told apart"
    return (
        f"{several} systems have a score, {len(judged)} of them verdicts that can be checked. Of "
        f"{several * (several - 1) // 2} pairs {len(by_names)} may be compared (one judge and prompt, one kind of "
        f"verdict, the same questions); {verdict}. Which of all systems is best is not known."
    )


def _group_sentence(members: Sequence[FieldSystem]) -> str:
    ranked = sorted(members, key=lambda system: -system.average()[0])
    source, shown, conversations = ranked[0].source, [], []
    for system in ranked:
        mean, low, high = system.average()
        conversations.append(system.scores()["conversation_id"].nunique())
        interval = "" if np.isnan(low) else f" [{low:.3f}, {high:.3f}]"
        shown.append(f"{system.name} {mean:.3f}{interval}{' (one conversation)' * (conversations[-1] == 1)}")
    readers = " or ".join(dict.fromkeys(system.source.reader or "nobody says whom" for system in ranked))
    gold = "" if source.gold_in_prompt == "no" else f"; gold in the answer prompt: {source.gold_in_prompt}"
    basis = f"{ranked[0].headline}, {count(max(conversations), 'conversation')}; answered by {readers}{gold}"
    doubt = f" Not compared: {ranked[0].doubt}." if ranked[0].doubt else ""
    return f"Judged by {source.judged_by} ({basis}): {', '.join(shown)}.{doubt}"


def _pair_sentence(pair: SystemPair) -> str:
    gap = pair.comparison
    if gap.n < 2:
        return f"{pair.first.name} against {pair.second.name}: one conversation, no test."
    equal = bool(np.isnan(gap.low) and gap.n > 1)
    difference = with_interval(f"{gap.difference:+.3f}", gap.low, gap.high, gap.n, equal=equal, form="+.3f")
    verdict = "better" if pair.is_better else "not told apart"
    names = f"{pair.first.name} minus {pair.second.name}"
    return f"{names}, paired: {difference}, {p_text(gap.p_value)} over {gap.n} conversations: {verdict}."


def _printed_sentence(tier: str) -> str:
    frame = only_printed()
    own = frame[frame["tier"] == tier]
    gold = own["gold_in_answer_prompt"]
    groups = {
        "gold not in the answer prompt": own[gold == "no"],
        "gold in the answer prompt": own[gold == "yes"],
        "in part": own[~gold.isin(["yes", "no"])],
    }
    parts = [
        f"{words}: " + ", ".join(f"{row['system']} {row['score_percent']}" for _, row in rows.iterrows())
        for words, rows in groups.items()
        if len(rows)
    ]
    return f"Printed only, so not checked and not comparable with the above ({'; '.join(parts)})." if parts else ""


def systems_frame(systems: Sequence[FieldSystem]) -> pd.DataFrame:
    """Return every score of the field by tier, highest first: those of verdicts with intervals, then printed ones.

    Columns: `tier`, `system`, `value` (mean over questions, 0 to 1), `low`, `high` (95 % over conversations; NaN for
    one conversation, or unknown), `judge` (with its prompt), `gold` (in the answer prompt), `basis` (verdicts or
    printed).
    """
    columns = ["tier", "system", "value", "low", "high", "judge", "gold", "basis"]
    rows: list[tuple[object, ...]] = [
        (own.source.tier, own.name, *own.average(), own.source.judged_by, own.source.gold_in_prompt, "verdicts")
        for own in systems
    ]
    for _, row in only_printed().iterrows():
        gold = row["gold_in_answer_prompt"] if row["gold_in_answer_prompt"] in ("yes", "no") else "in part"
        value = row["score_percent"] / 100
        rows.append((row["tier"], row["system"], value, np.nan, np.nan, row["judge"], gold, "printed"))
    frame = pd.DataFrame(rows, columns=columns)
    order = frame.assign(place=frame["tier"].map(SIZES.index)).sort_values(["place", "value"], ascending=[True, False])
    return frame.loc[order.index].reset_index(drop=True)


_SHAPES = "oDs^vPX*hpd<>8"
_SYSTEMS = (
    "One shape per judge and prompt: scores of different shapes are not comparable. Filled: verdicts are public and "
    "gold was not in the answer prompt; hollow: gold was in the answer prompt (all or in part), or no verdicts are "
    "public. Bars: 95 % intervals over conversations, where verdicts of several are public."
)


def systems_figure(frame: pd.DataFrame) -> Figure:
    """Draw `systems_frame`: a panel per tier, a row per system, a shape per judge and prompt."""
    judges = {name: (_SHAPES[n % len(_SHAPES)], f"C{n % 8}") for n, name in enumerate(dict.fromkeys(frame["judge"]))}
    groups = dict(list(frame.groupby("tier", sort=False)))
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 0.17 * len(frame) + 0.3 * len(groups) + 1.6), layout="constrained")
        heights = [len(own) + 1 for own in groups.values()]
        panels = figure.subplots(len(groups), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
        for axes, (tier, own) in zip(panels, groups.items(), strict=True):
            for place, (_, row) in enumerate(own.iterrows()):
                marker, colour = judges[row["judge"]]
                filled = row["basis"] == "verdicts" and row["gold"] == "no"
                axes.hlines(place, row["low"], row["high"], color=colour, linewidth=1)
                face = colour if filled else "white"
                axes.plot(row["value"], place, marker, color=colour, markerfacecolor=face, markersize=5)
            axes.set_yticks(range(len(own)), own["system"], fontsize=6)
            axes.set(xlim=(0, 1), ylim=(len(own) - 0.4, -0.6))
            axes.set_title(tier, loc="left")
        panels[-1].set_xlabel("score, mean over questions")
        marks = [
            Line2D([], [], marker=marker, color=colour, linestyle="", markersize=4)
            for marker, colour in judges.values()
        ]
        figure.legend(
            marks, [textwrap.shorten(name, 60) for name in judges], loc="outside lower center", ncols=2, fontsize=6
        )
        figure.set_label(_SYSTEMS)
    return figure


_BY_GOLD = {"yes": "systems, gold shown", "no": "systems, gold not shown"}
_UNCLEAR = "systems, gold in part or unclear"
_HALVES = {"0.5 as 0": 0.0, "0.5 as 1": 1.0}
"""The released code floors half points; some sources count a nugget from a half on."""


def score_effects(systems: Sequence[FieldSystem], tier: str = "1M") -> pd.DataFrame:
    """Return how far a score moves by each choice that is not the system, and how far systems differ.

    Columns: `what` varies, `setting`, `value`, `low` and `high` (NaN if unknown), `system`, `basis` (verdicts or
    printed). Values are averages over questions, but for the printed ones.
    """
    own = [system for system in systems if system.source.tier == tier and not is_offline(system.source.judge)]
    graded = [system for system in own if system.source.kind == "nuggets"]
    graded = [system for system in graded if system.group == graded[0].group]
    rows: list[tuple[object, ...]] = []

    def add(what: str, setting: str, system: FieldSystem, protocol: str = "") -> None:
        rows.append((what, setting, *system.average(protocol), system.name, "verdicts"))

    if graded:
        best = graded[0]
        for protocol in ("nugget-mean", "binary"):
            add("protocol", protocol, best, protocol)
        for setting, worth in _HALVES.items():
            add("protocol", setting, _with_halves(best, worth), "nugget-mean")
        if judged := judged_by_offline(best):
            add("judge", best.source.judge, best, "nugget-mean")
            add("judge", OFFLINE, judged, "nugget-mean")
        for system in graded:
            add("context shown", system.source.context, system, "nugget-mean")
    for system in own:
        if len(system.runs) > 1:
            for (run, _), value in zip(system.runs, system.run_averages(), strict=True):
                rows.append(("the same again", run.run, value, np.nan, np.nan, system.name, "verdicts"))
    printed = only_printed().assign(value=lambda frame: frame["score_percent"] / 100)
    for _, row in printed[printed["system"].str.contains("Smart Jelly")].iterrows():
        setting = f"gold {row['gold_in_answer_prompt']}, {row['tier']}"
        rows.append(("gold in the prompt", setting, row["value"], np.nan, np.nan, row["system"], "printed"))
    for system in own:
        add(_BY_GOLD.get(system.source.gold_in_prompt, _UNCLEAR), system.name, system)
    for _, row in printed[printed["tier"] == tier].iterrows():
        what = _BY_GOLD.get(str(row["gold_in_answer_prompt"]), _UNCLEAR)
        rows.append((what, row["system"], row["value"], np.nan, np.nan, row["system"], "printed"))
    return pd.DataFrame(rows, columns=["what", "setting", "value", "low", "high", "system", "basis"])


def _with_halves(system: FieldSystem, worth: float) -> FieldSystem:
    """Return the system with half points counted as `worth`."""

    def change(judgement: Judgement) -> Judgement:
        verdicts = (v.model_copy(update={"score": worth}) if v.score == 0.5 else v for v in judgement.verdicts)
        return judgement.model_copy(update={"verdicts": tuple(verdicts)})

    return FieldSystem(tuple((run, tuple(map(change, own))) for run, own in system.runs))


def effects_figure(frame: pd.DataFrame, tier: str) -> Figure:
    """Draw one line per choice of `score_effects`: every score and the span from the lowest to the highest."""
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
    """Draw one choice: its span, its scores, and above them the settings."""
    low, high = own["value"].min(), own["value"].max()
    colour = "C1" if str(own["what"].iloc[0]).startswith("systems") else "C0"
    axes.plot([low, high], [place, place], color=colour, linewidth=5, alpha=0.3, solid_capstyle="round")
    for basis, filled in (("verdicts", colour), ("printed", "white")):
        values = own.loc[own["basis"] == basis, "value"]
        axes.plot(values, [place] * len(values), "o", color=colour, markerfacecolor=filled, markersize=5)
    text: dict[str, Any] = {"textcoords": "offset points", "fontsize": 5.5}
    names = own.sort_values("value")["setting"].map(lambda name: str(name).partition(",")[0].partition(" (")[0])
    for number, (value, name) in enumerate(zip(own["value"].sort_values(), names, strict=True)):
        offset = (5, -5, 12, -12)[number % 4]  # labels of neighbours do not overlap
        axes.annotate(name, (value, place), (0, offset), ha="center", va="bottom" if offset > 0 else "top", **text)
    axes.annotate(f"{100 * (high - low):.0f} points", (high, place), (16, 0), va="center", **{**text, "fontsize": 7})


def effect_sentences(frame: pd.DataFrame) -> list[str]:
    """Say how far each choice of `score_effects` moves a score, the widest span first."""
    spans = frame.groupby("what")["value"].agg(["min", "max", "count"]).query("count > 1")
    spans = spans.assign(width=spans["max"] - spans["min"]).sort_values("width", ascending=False)
    return [
        f"{str(what).capitalize()}: {100 * row['min']:.1f} to {100 * row['max']:.1f}, {100 * row['width']:.1f} points."
        for what, row in spans.iterrows()
    ]
