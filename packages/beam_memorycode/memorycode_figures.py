"""Figures 3 to 9 of the MemoryCode paper from recomputed scores, and the frames behind them: a row per point.

model        how the model is named
mean         mean over dialogues of a dialogue's score, from 0 to 1
low, high    95 % interval of that mean (`beamlib.scoring.intervals.mean_interval`); NaN for fewer than two dialogues
n            number of dialogues behind it

In a verdict frame every row is one rule held against one answer that was scored: `dialogue`, `sessions` (of the
dialogue), `instruction` (its id), `kind`, `form`, `rank` (how often the instruction had been updated), `verdict`.
`answered_by` goes below the name of a figure's value axis: a model, or the stand-in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from beam_memorycode.dialogues import Dialogue
from beam_memorycode.rule_scoring import RULE_COLUMNS, Column, ScoredSetup
from beam_memorycode.rules import Rule, RuleVerdict
from beam_memorycode.scored import COLUMN_LABELS, Published, ScoredModel
from beamlib.errors import UserError
from beamlib.report.figures import COLUMN_WIDTH, PAGE_WIDTH, bars, legend, lines, style
from beamlib.scoring.intervals import mean_interval

INTERVAL = "95 % t-interval over dialogues, logit scale"

POINT = ("mean", "low", "high", "n")


def point(values: Sequence[float]) -> dict[str, float | int]:
    """Return the mean of scores from 0 to 1, its interval and their number."""
    if not values:
        return {"mean": float("nan"), "low": float("nan"), "high": float("nan"), "n": 0}
    low, high = map(float, mean_interval(np.array(values, dtype=np.float64)))
    return {"mean": float(np.mean(values)), "low": low, "high": high, "n": len(values)}


def setup_frame(models: Iterable[ScoredModel]) -> pd.DataFrame:
    """Return the frame of Figure 3: `setup` is a column of Table 4; a setup that was not run has no row."""
    rows = []
    for model in models:
        for column in RULE_COLUMNS:
            values = column_scores(model, column)
            if values:
                rows.append({"model": model.label, "setup": COLUMN_LABELS[column], **point(list(values.values()))})
    return pd.DataFrame(rows, columns=["model", "setup", *POINT])


def published_setup_frame() -> pd.DataFrame:
    """Return the frame of Figure 3 from the printed Table 4; `low` and `high` are a standard error from the mean."""
    rows = []
    for (model, column), cell in Published().scores.items():
        mean, error = float(cell.mean) / 100, float(cell.stderr) / 100
        setup = COLUMN_LABELS[cast(Column, column)]
        rows.append({"model": model, "setup": setup, "mean": mean, "low": mean - error, "high": mean + error})
    return pd.DataFrame(rows, columns=["model", "setup", "mean", "low", "high"])


def column_scores(model: ScoredModel, column: Column) -> dict[int, float]:
    """Return the score of every dialogue in a column of Table 4, by id."""
    setup: ScoredSetup = column if column in ("instruction", "session") else "history"
    return {
        number: float(score)
        for number, score in model.scores(setup).items()
        if setup != "history" or model.dialogues[number].short == (column == "short_history")
    }


def count_frame(series: Mapping[str, ScoredModel]) -> pd.DataFrame:
    """Return the frame of Figures 4, 5 and 7: the history score by `sessions`, a line per entry of `series`."""
    rows = []
    for name, model in series.items():
        groups: dict[int, list[float]] = {}
        for number, score in model.scores("history").items():
            groups.setdefault(len(model.dialogues[number].sessions), []).append(float(score))
        rows += [{"model": name, "sessions": count, **point(groups[count])} for count in sorted(groups)]
    return pd.DataFrame(rows, columns=["model", "sessions", *POINT])


def mentioned(dialogue: Dialogue) -> dict[int, int]:
    """Count the mentions of each instruction of a dialogue by id, in order of first mention: that of its rules."""
    counts: dict[int, int] = {}
    for session in dialogue.sessions:
        for mention in session.mentions:
            counts[mention.instruction] = counts.get(mention.instruction, 0) + 1
    return counts


def verdict_frame(model: ScoredModel) -> pd.DataFrame:
    """Return the verdict of every rule on every scored history answer of a model.

    `UserError` where a dialogue's rules at the end are not one for each instruction.
    """
    columns: dict[str, list[object]] = {
        name: [] for name in ("dialogue", "sessions", "instruction", "kind", "form", "rank", "verdict")
    }
    for answer in model.answers:
        if answer.setup != "history" or answer.unscored:
            continue
        dialogue = model.dialogues[answer.dialogue_id]
        counts = mentioned(dialogue)
        width = len(answer.rules)
        if len(counts) != width:
            raise UserError(
                f"{dialogue.name}: history_regex has {width} rules for {len(counts)} instructions that are mentioned; "
                "give each the rule of its newest value, in order of first mention."
            )
        columns["dialogue"] += [answer.dialogue_id] * width
        columns["sessions"] += [len(dialogue.sessions)] * width
        columns["instruction"] += counts
        columns["rank"] += [count - 1 for count in counts.values()]
        columns["kind"] += [rule.kind for rule in answer.rules]
        columns["form"] += [form_of(rule) for rule in answer.rules]
        columns["verdict"] += [verdict.value for verdict in answer.verdicts]
    return pd.DataFrame(columns)


def applied_rules(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a verdict frame whose objects are present; `held` tells whether the rule holds."""
    applied = verdicts[verdicts["verdict"] != RuleVerdict.ABSENT.value]
    return applied.assign(held=applied["verdict"] == RuleVerdict.PASS.value)


def form_of(rule: Rule) -> str:
    """Name the form of a rule, the same for all values of an instruction: "prefix", "final digit"."""
    condition = rule.condition
    if isinstance(condition, tuple):
        return condition[0]
    if isinstance(condition, bool):
        return "present" if condition else "none"
    if condition == r".*\d$":
        return "final digit"
    if rule.kind == "class":
        return "case"
    if condition.startswith("^"):
        return "prefix"
    return "suffix" if condition.endswith("$") else condition.strip(".*")


def rank_frame(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return the frame of Figure 6: the share of applicable rules that hold, by `sessions` and update `rank`.

    A rule on an answer counts for the rank of its instruction: how often the dialogue mentions it again after the first
    time. Within a dialogue all applicable rules of a rank weigh the same; the mean is over dialogues.
    """
    return _points(verdicts, ["sessions", "rank"])


def instruction_frame(verdicts: pd.DataFrame, *, updated: bool) -> pd.DataFrame:
    """Return the frame of Figures 8 and 9: the share of history answers that follow an instruction; best first.

    `updated` False: where its first value still holds at the end of the dialogue (insertion); True: where a later value
    has replaced it (update). Answers without the kind of object are left out; the mean is over dialogues.
    """
    chosen = verdicts[(verdicts["rank"] > 0) == updated]
    names = chosen.groupby("instruction")[["kind", "form"]].first()
    frame = _points(chosen, ["instruction"])
    labels = [instruction_label(*names.loc[number]) for number in frame["instruction"]]
    frame.insert(1, "label", labels)
    return frame.sort_values(["mean", "instruction"], ascending=[False, True], ignore_index=True)


def instruction_label(kind: str, form: str) -> str:
    """Name an instruction for an axis: "method: prefix", "function docstring", "import gzip"."""
    if form == "present":
        return kind
    return f"{kind} {form}" if kind == "import" else f"{kind}: {form}"


def _points(verdicts: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return a point per value of `keys`, from one score per dialogue; `applied` counts the rules behind it."""
    dialogues = applied_rules(verdicts).groupby([*keys, "dialogue"])["held"].agg(["mean", "size"]).reset_index()
    rows = []
    for key, group in dialogues.groupby(keys):
        values = key if isinstance(key, tuple) else (key,)
        rows.append(
            {**dict(zip(keys, values, strict=True)), **point(list(group["mean"])), "applied": int(group["size"].sum())}
        )
    return pd.DataFrame(rows, columns=[*keys, *POINT, "applied"])


SCORE = "score (share of rules followed)"

_PANELS = 4  # in a row of Figure 6


def setup_figure(frame: pd.DataFrame, answered_by: str = "") -> Figure:
    """Draw Figure 3: a group of bars per model, a bar per column of Table 4; a setup that was not run leaves a gap."""
    wrapped = frame.assign(model=frame["model"].str.replace(" (", "\n(", regex=False))  # a remark goes below its name
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 2.8))
        axes = figure.subplots()
        bars(axes, wrapped, "model", "setup")
        axes.set(ylim=(0, 1.02), xlabel="", ylabel=_axis(answered_by))
        legend(figure, axes, 4)
    return figure


def count_figure(frame: pd.DataFrame, answered_by: str = "") -> Figure:
    """Draw Figures 4, 5 and 7: the history score against the number of sessions, a line per `model`."""
    with style():
        figure = Figure(figsize=(PAGE_WIDTH * 0.75, 2.8))
        axes = figure.subplots()
        lines(axes, frame, "sessions", "model")
        axes.set(ylim=(0, 1.02), xlabel="number of sessions", ylabel=_axis(answered_by))
        legend(figure, axes, 2 if max(map(len, frame["model"]), default=0) > 24 else 4)
    return figure


def rank_figure(frame: pd.DataFrame, answered_by: str = "") -> Figure:
    """Draw Figure 6: the score against the update rank, a panel per number of sessions; empty axes without scores."""
    if frame.empty:
        return count_figure(frame.assign(model=""), answered_by)
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
    """Draw Figures 8 and 9: a bar per instruction, best first."""
    with style():
        figure = Figure(figsize=(COLUMN_WIDTH * 1.6, 0.7 + 0.145 * len(frame)))
        axes = figure.subplots()
        bars(axes, frame, "label", value="x")
        axes.set(xlim=(0, 1.02), xlabel=_axis(answered_by), ylabel="")
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
    return figure


def _axis(answered_by: str) -> str:
    """Label the value axis, with a line on who answered where figures need it."""
    return f"{SCORE}\n{answered_by}" if answered_by else SCORE
