"""The field as a whole: every score in tables and a figure, what can be said of it per tier, what moves a score."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from beam_field.comparing import FieldSystem, SystemPair, comparable_pairs, over_questions
from beam_field.field_tables import BASIS, INTERVAL, TITLES, cell_text, p_text
from beam_field.sources import offline_judgements, published_runs, published_scores
from beamlib.data.conversations import SIZES
from beamlib.data.gold import ABILITIES
from beamlib.report.figures import PAGE_WIDTH, style
from beamlib.report.footer import OFFLINE, is_offline
from beamlib.report.long_frame import ability_label
from beamlib.report.table import Table, markdown_text
from beamlib.report.tables import ends_text
from beamlib.scoring.protocols import PROTOCOLS, REPORTED
from beamlib.scoring.records import Judgement
from beamlib.scoring.scores import AVERAGE, not_computable, summarise
from beamlib.text import count

_GOLD = {"yes": "in the prompt", "no": "not shown", "unknown": "nobody says"}
_SUFFIXES = {"no": "", "yes": "_gold_shown", "unknown": "_gold_unknown", "in part": "_gold_in_part"}


def tiers(systems: Sequence[FieldSystem]) -> list[str]:
    return [size for size in SIZES if any(system.source.tier == size for system in systems)]


def tier_answer(systems: Sequence[FieldSystem], tier: str) -> list[str]:
    """Say who is better on BEAM at this tier and how sure that is: by group, by pair, and what is only printed."""
    members = [system for system in systems if system.source.tier == tier]
    pairs = comparable_pairs(members)
    lines = [_headline(members, pairs, tier)]
    groups = list(dict.fromkeys(system.group for system in members))
    lines += [_group_sentence([system for system in members if system.group == group]) for group in groups]
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


def _headline(members: Sequence[FieldSystem], pairs: Sequence[SystemPair], tier: str) -> str:
    """Say how much of the ranking is known at all."""
    judged = {system.name for system in members}  # answers judged by several judges are one system
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
    difference = f"{gap.difference:+.3f} {ends_text(gap.low, gap.high, gap.n, '+.3f')}"
    verdict = "better" if pair.is_better else "not told apart"
    names = f"{pair.first.name} minus {pair.second.name}"
    return f"{names}, paired: {difference}, {p_text(gap.p_value)} over {gap.n} conversations: {verdict}."


def _printed_sentence(tier: str) -> str:
    frame = only_printed()
    of_tier = frame[frame["tier"] == tier]
    gold = of_tier["gold_in_answer_prompt"]
    groups = {
        "gold not in the answer prompt": of_tier[gold == "no"],
        "gold in the answer prompt": of_tier[gold == "yes"],
        "in part": of_tier[~gold.isin(["yes", "no"])],
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
        (source.tier, system.name, *system.average(), source.judged_by, source.gold_in_prompt, "verdicts")
        for system in systems
        for source in [system.source]
    ]
    for _, row in only_printed().iterrows():
        gold = row["gold_in_answer_prompt"] if row["gold_in_answer_prompt"] in ("yes", "no") else "in part"
        value = row["score_percent"] / 100
        rows.append((row["tier"], row["system"], value, np.nan, np.nan, row["judge"], gold, "printed"))
    frame = pd.DataFrame(rows, columns=columns)
    order = frame.assign(place=frame["tier"].map(SIZES.index)).sort_values(["place", "value"], ascending=[True, False])
    return frame.loc[order.index].reset_index(drop=True)


_SHAPES = "oDs^vPX*<>dphH8"
"""Markers. Those that are a circle to the eye at this size come last: colours repeat after eight judges."""
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
        heights = [len(rows) + 1 for rows in groups.values()]
        panels = figure.subplots(len(groups), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
        for axes, (tier, rows) in zip(panels, groups.items(), strict=True):
            for place, (_, row) in enumerate(rows.iterrows()):
                marker, colour = judges[row["judge"]]
                filled = row["basis"] == "verdicts" and row["gold"] == "no"
                axes.hlines(place, row["low"], row["high"], color=colour, linewidth=1)
                face = colour if filled else "white"
                axes.plot(row["value"], place, marker, color=colour, markerfacecolor=face, markersize=5)
            axes.set_yticks(range(len(rows)), rows["system"], fontsize=6)
            axes.set(xlim=(0, 1), ylim=(len(rows) - 0.4, -0.6))
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
    members = [system for system in systems if system.source.tier == tier and not is_offline(system.source.judge)]
    graded = [system for system in members if system.source.kind == "nuggets"]
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
    for system in members:
        if len(system.runs) > 1:
            for (run, _), value in zip(system.runs, system.run_averages(), strict=True):
                rows.append(("the same again", run.run, value, np.nan, np.nan, system.name, "verdicts"))
    printed = only_printed().assign(value=lambda frame: frame["score_percent"] / 100)
    for _, row in printed[printed["system"].str.contains("Smart Jelly")].iterrows():
        setting = f"gold {row['gold_in_answer_prompt']}, {row['tier']}"
        rows.append(("gold in the prompt", setting, row["value"], np.nan, np.nan, row["system"], "printed"))
    for system in members:
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

    return FieldSystem(tuple((run, tuple(map(change, judged))) for run, judged in system.runs))


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


def _draw(axes: Axes, place: int, rows: pd.DataFrame) -> None:
    """Draw one choice: its span, its scores, and above them the settings."""
    low, high = rows["value"].min(), rows["value"].max()
    colour = "C1" if str(rows["what"].iloc[0]).startswith("systems") else "C0"
    axes.plot([low, high], [place, place], color=colour, linewidth=5, alpha=0.3, solid_capstyle="round")
    for basis, filled in (("verdicts", colour), ("printed", "white")):
        values = rows.loc[rows["basis"] == basis, "value"]
        axes.plot(values, [place] * len(values), "o", color=colour, markerfacecolor=filled, markersize=5)
    text: dict[str, Any] = {"textcoords": "offset points", "fontsize": 5.5}
    names = rows.sort_values("value")["setting"].map(lambda name: str(name).partition(",")[0].partition(" (")[0])
    for number, (value, name) in enumerate(zip(rows["value"].sort_values(), names, strict=True)):
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


def judged_by_offline(system: FieldSystem) -> FieldSystem | None:
    """Return the system with the offline judge's verdicts for the published ones, None where there are none."""
    runs = tuple((run, offline_judgements(run.name)) for run, _ in system.runs)
    return FieldSystem(runs) if all(own for _, own in runs) else None


def field_frame(systems: Sequence[FieldSystem], protocols: Sequence[str] = (*PROTOCOLS, *REPORTED)) -> pd.DataFrame:
    """Score every system by every protocol: a row each with its average over abilities and 95 % interval.

    `over_questions` is the plain mean over questions with its own interval. Where an ability is not computable the
    average is NaN and `missing` names the abilities; nothing is filled in.
    """
    rows: list[dict[str, Any]] = []
    for system in systems:
        run = system.source
        facts: dict[str, Any] = {"tier": run.tier, "system": system.name, "reader": run.reader, "judge": run.judged_by}
        facts |= {"kind": run.kind, "gold": run.gold_in_prompt, "runs": len(system.runs)}
        for protocol in protocols:
            scores = system.scores(protocol)
            gone = not_computable(scores)
            missing = [name for name in ABILITIES if name in set(scores.loc[gone, "ability"])]
            average = summarise(scores).set_index("ability").loc[AVERAGE, ["mean", "low", "high"]]
            means = [np.nan] * 6 if missing else [*average, *over_questions(scores)]
            names = ("mean", "low", "high", "over_questions", "over_low", "over_high")
            counts = {
                "n": int(scores["score"].notna().sum()),
                "conversations": scores["conversation_id"].nunique(),
                "unscored": int((scores["score"].isna() & ~gone).sum()),
            }
            values = dict(zip(names, means, strict=True))
            rows.append({**facts, "protocol": protocol, **values, **counts, "missing": ", ".join(missing)})
    return pd.DataFrame(rows)


def reproduced_averages(systems: Sequence[FieldSystem]) -> pd.DataFrame:
    """Compare each average that a source states with that of its verdicts: the same number as printed?

    A source averages over questions, and over runs where it has several.
    """
    printed = published_scores()
    averages = printed[(printed["ability"] == AVERAGE) & (printed["verdicts_at_hand"] != "no")]
    rows = []
    for system in systems:
        if system.source not in published_runs():  # another judge's verdicts on the same answers reproduce nothing
            continue
        tier = system.source.tier
        for stated in averages[(averages["system"] == system.name) & (averages["tier"] == tier)]["score_percent"]:
            ours = 100 * system.average()[0]
            same = round(ours, len(str(stated).partition(".")[2])) == stated
            rows.append((system.name, tier, system.headline, stated, round(ours, 2), same))
    return pd.DataFrame(rows, columns=["system", "tier", "protocol", "published", "from verdicts", "reproduced"])


def only_printed() -> pd.DataFrame:
    """Return the published averages without verdicts, which nobody can check, by tier and gold in the prompt."""
    printed = published_scores()
    rows = printed[(printed["ability"] == AVERAGE) & (printed["verdicts_at_hand"] == "no")]
    columns = ["tier", "gold_in_answer_prompt", "system", "score_percent", "reader", "judge", "scoring", "questions"]
    rows = rows.assign(order=rows["tier"].map(SIZES.index))
    order = ["order", "gold_in_answer_prompt", "score_percent"]
    rows = rows.sort_values(order, ascending=[True, True, False], kind="stable")
    return rows[columns].reset_index(drop=True)


def split_by_gold_leak(systems: Sequence[FieldSystem]) -> dict[str, list[FieldSystem]]:
    """Split systems by gold in the answer prompt, so that no column mixes them; keys are suffixes of table names."""
    groups = {gold: [system for system in systems if system.source.gold_in_prompt == gold] for gold in _SUFFIXES}
    return {_SUFFIXES[gold]: members for gold, members in groups.items() if members}


def scores_table(frame: pd.DataFrame) -> Table:
    """Show systems of one group of `split_by_gold_leak` by every protocol; `frame` comes from `field_frame`."""
    shown = frame.dropna(subset=["mean"])
    protocols = [name for name in dict.fromkeys(frame["protocol"]) if name in set(shown["protocol"])]
    rows = []
    for (tier, system, judge, reader, kind), of_system in frame.groupby(
        ["tier", "system", "judge", "reader", "kind"], sort=False
    ):
        first, by_protocol = of_system.iloc[0], of_system.set_index("protocol").to_dict("index")
        size = f"{first['conversations']} / {of_system['n'].max()}"
        facts = (tier, system, f"{judge}: {kind}", reader, _GOLD[str(first["gold"])], str(first["runs"]), size)
        rows.append((*facts, *(cell_text(by_protocol[name]) for name in protocols)))
    header = ["tier", "system", "judge: verdicts", "reader", "gold", "runs", "conversations / questions", *protocols]
    unscored = int(frame.groupby(["tier", "system"])["unscored"].max().sum())
    footer = (
        BASIS,
        f"{INTERVAL} Average over the ten abilities. Unscored: {unscored}.",
        f"A dash, or no column: not computable from this source, so there is no average. {_gaps(frame)}.",
    )
    title = f"BEAM scores of the field, from published verdicts{TITLES[str(frame['gold'].iloc[0])]}"
    return Table(title, pd.DataFrame(rows, columns=header), footer, kind="costs", csv=frame)


def _gaps(frame: pd.DataFrame) -> str:
    """Say which abilities a protocol cannot compute from which kind of verdict."""
    gaps: dict[str, dict[str, list[str]]] = {}
    for (kind, missing), rows in frame[frame["missing"] != ""].groupby(["kind", "missing"], sort=False):
        protocols = ", ".join(dict.fromkeys(rows["protocol"]))
        gaps.setdefault(str(missing), {}).setdefault(protocols, []).append(str(kind))
    return "; ".join(
        f"{_abilities(missing)}: " + ", and ".join(f"{names} of {' and '.join(kinds)}" for names, kinds in rows.items())
        for missing, rows in gaps.items()
    )


def _abilities(names: str) -> str:
    listed = names.split(", ")
    return "All ten abilities" if len(listed) == len(ABILITIES) else ", ".join(map(ability_label, listed))


def reproduced_table(systems: Sequence[FieldSystem]) -> Table:
    """Show the averages that sources state beside those of their verdicts."""
    frame = reproduced_averages(systems)
    cells = frame.assign(reproduced=frame["reproduced"].map({True: "yes", False: "no"}))
    footer = (BASIS, "In percent, over questions, as sources average; the protocol is the one nearest to theirs.")
    return Table("Published averages, reproduced", cells.astype(str), footer, kind="costs", csv=frame)


def printed_tables() -> dict[str, Table]:
    """Show published averages that nobody can check, by the suffixes of `split_by_gold_leak`."""
    frame = only_printed()
    gold = frame["gold_in_answer_prompt"].where(frame["gold_in_answer_prompt"].isin(["yes", "no"]), "in part")
    footer = (
        "Printed by their authors; no verdict is at hand, so nothing of it was computed here and no interval is known.",
    )
    headings = {"gold_in_answer_prompt": "gold in the answer prompt", "score_percent": "percent"}
    tables = {}
    for kind, rows in frame.groupby(gold, sort=False):
        cells = rows.rename(columns=headings).astype(str)
        title = f"Published without verdicts{TITLES[str(kind)]}"
        tables[_SUFFIXES[str(kind)]] = Table(title, cells, footer, kind="costs", csv=rows)
    return tables
