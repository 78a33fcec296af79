"""State traces (Figures 4 and 30 of the paper) and the effect of filler by task (Figure 29).

Of the paper's drawings only the captions were at hand: "traced across encoding, maintenance, retrieval" and "per-task
accuracy under three filler conditions for each system".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from beam_meme.episode_gold import SHORT, TASKS
from beam_meme.meme_scoring import FAILURE_STAGES, OVERALL
from beam_meme.meme_tally import Scored
from beamlib.errors import UserError
from beamlib.report.figures import PAGE_WIDTH, bars, legend, style
from beamlib.report.table import Table

_STAGES = FAILURE_STAGES[:-1]
_REACHED, _LOST, _UNKNOWN = "yes", "no", ""
_COLOURS = {_REACHED: "#0072B2", _LOST: "#D55E00", _UNKNOWN: "#DDDDDD"}


def trace_frame(scored: Scored, episode: str) -> pd.DataFrame:
    """Trace what each question after the change needs through every memory: `yes`, `no` at the stage that failed.

    Stages after the failed one are empty. `kept` is what the memory had kept of its own at the end, in characters, 0
    for one that keeps messages as they are; `answer` and `context` are what it said and was handed.
    """
    pairs = [pair for pair in scored.pairs if pair.loaded.episode.id == episode]
    if not pairs:
        known = ", ".join(dict.fromkeys(pair.loaded.episode.id for pair in scored.pairs))
        raise UserError(f"--episode: {episode!r:.80} was not asked about; choose one of {known}.")
    rows = []
    for pair in pairs:
        for answer in pair.answers:
            gold = pair.loaded.gold.questions.get(answer.probe_id)
            if gold is None or gold.phase != "after":
                continue
            failed = pair.stage(answer)
            place = FAILURE_STAGES.index(failed) if failed else -1
            states: dict[str, str] = {
                stage: _UNKNOWN if not failed or place < number else _LOST if place == number else _REACHED
                for number, stage in enumerate(_STAGES)
            }
            rows.append(
                {
                    "memory": pair.arm, "task": str(gold.task), "hop": gold.hop or 0, "question": gold.question,
                    **states,
                    "answer": answer.text or "", "unscored": answer.unscored or "",
                    "kept": len(pair.snapshots[-1]) if pair.snapshots else 0,
                    "context": len(pair.record.context(answer.probe_id)),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def trace_table(scored: Scored, episode: str) -> Table:
    """Show the trace of one episode: a row per memory and question."""
    frame = trace_frame(scored, episode)
    cells = frame.assign(task=frame["task"].map(SHORT), answer=frame["answer"].str.slice(0, 80)).astype(str)
    notes = (
        f"Episode {episode}. {', '.join(_STAGES)}: yes if all that the answer needs got through, no at the first stage "
        "that lost it. A paraphrase in a memory that keeps files counts as lost. kept, context: characters.",
    )
    lines = tuple(scored.basis.lines())
    return Table("MEME: state trace", cells, lines, notes, csv=frame, frame=frame, basis=scored.basis)


def trace_figure(scored: Scored, episode: str) -> Figure:
    """Draw the trace as a panel per memory: a column per question, a row per stage."""
    frame = trace_frame(scored, episode)
    memories = list(dict.fromkeys(frame["memory"]))
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 0.8 + 1.0 * -(-len(memories) // 3)))
        panels = figure.subplots(-(-len(memories) // 3), min(3, len(memories)), squeeze=False, sharey=True).flatten()
        for axes, memory in zip(panels, memories, strict=False):
            own = frame[frame["memory"] == memory].reset_index(drop=True)
            for row, stage in enumerate(_STAGES):
                for column, state in enumerate(own[stage]):
                    axes.plot(column, -row, "s", color=_COLOURS[state], markersize=7)
            axes.set_title(memory, loc="left")
            axes.set_xticks(range(len(own)), [SHORT[task] for task in own["task"]], rotation=60)
            axes.set_yticks([-row for row in range(len(_STAGES))], _STAGES)
            axes.set(xlim=(-0.6, len(own) - 0.4), ylim=(-len(_STAGES) + 0.4, 0.6))
            axes.grid(visible=False)
        for axes in panels[len(memories) :]:
            axes.set_visible(False)
        figure.supxlabel(f"{episode}; blue: got through, red: lost here; reader: {scored.basis.reader}", fontsize=6)
    return figure


def filler_by_task(results: Mapping[str, Scored]) -> pd.DataFrame:
    """Collect Figure 29: `memory`, `task`, `variant`, `mean`, `low`, `high`, `n`."""
    return pd.DataFrame(
        [
            {"memory": row["memory"], "task": row["task"], "variant": variant, "mean": row["real"], "low": row["low"],
             "high": row["high"], "n": row["n"]}
            for variant, scored in results.items()
            for row in scored.scores[scored.scores["hop"] == 0].to_dict("records")
        ]
    )  # fmt: skip


def filler_by_task_figure(frame: pd.DataFrame, answered_by: str) -> Figure:
    """Draw Figure 29: a panel per task, a group of bars per memory, a bar per variant."""
    return task_panels(frame, "variant", [*map(str, TASKS), OVERALL], answered_by)


def task_panels(frame: pd.DataFrame, hue: str, tasks: Sequence[str], basis: str) -> Figure:
    """Draw a panel per task, a group of bars per memory and a bar per value of `hue`; `basis` stands at the axis."""
    rows = -(-len(tasks) // 2)
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 0.6 + 1.6 * rows))
        panels = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False).flatten()
        for axes, task in zip(panels, tasks, strict=False):
            bars(axes, frame[frame["task"] == task], "memory", hue)
            axes.set(ylim=(0, 1.02), xlabel="", ylabel="")
            axes.set_title(task.replace("_", " "), loc="left")
        for axes in panels[len(tasks) :]:
            axes.set_visible(False)
        for axes in panels[max(0, len(tasks) - 2) : len(tasks)]:
            axes.tick_params(labelbottom=True)  # also where the panel below is empty
            for label in axes.get_xticklabels():
                label.set(rotation=30, ha="right", rotation_mode="anchor")
        figure.supylabel(f"share that counts\n{basis}", fontsize="medium", multialignment="center")
        legend(figure, panels[0], 3)
    return figure
