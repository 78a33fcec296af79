"""Interventions as one study: runs over K, filler, answering model, internal model and prompt set, in one table.

What the paper's Figures 3 and 5 plot is known from captions alone: Figure 5 is prompt optimisation. The figures here
have a panel per intervention, and the published values at the settings that they were measured with.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from beam_meme.episode_gold import SHORT
from beam_meme.meme_memories import own_name
from beam_meme.meme_scoring import OVERALL
from beam_meme.meme_tables import published
from beam_meme.task import open_meme
from beamlib.commands.task_runs import TaskOptions, run_command, score_command
from beamlib.evaluate.records import RUN, TaskManifest, read_task_manifest
from beamlib.files import make_folder
from beamlib.report.figures import PAGE_WIDTH, style
from beamlib.report.table import Table

INTERVENTIONS = {"k": "K", "variant": "filler", "reader": "answering", "inside": "internal model", "prompts": "prompts"}
"""What a study varies, as columns of its frame, and their titles."""
STUDY_FIGURES = {"figure3": ("k", "variant"), "figure5": ("reader", "inside", "prompts")}
_SHOWN = {OVERALL: "overall", "cascade": "cascade", "absence": "absence"}
DEFAULT = "default"


@dataclass(frozen=True)
class Grid:
    """The values of each intervention; a models file has the internal model, a backbone the answering one."""

    ks: Sequence[int] = (5,)
    variants: Sequence[str] = ("",)
    models: Sequence[str] = ("",)
    backbones: Sequence[str] = ("",)
    prompts: Sequence[Path | None] = (None,)


def run_grid(grid: Grid, options: TaskOptions) -> None:
    """Answer and judge every cell of the grid. Cells share stored calls: what K does not change is called once.

    Args:
        options: What all cells have in common; the folder of a cell bears the name of its `folder` and its values.
    """
    calls = make_folder(options.folder / "calls")
    cells = itertools.product(grid.ks, grid.models, grid.prompts, grid.variants, grid.backbones)
    for k, models, prompts, variant, backbone in cells:
        parts = (f"k{k}", _word(Path(models).stem or "offline"), _word(prompts.name) if prompts else DEFAULT)
        folder = make_folder(options.folder.with_name("-".join((options.folder.name, *parts))))
        if not (folder / "calls").exists():
            (folder / "calls").symlink_to(os.path.relpath(calls, folder))
        shared = {name: getattr(options, name) for name in options.__dataclass_fields__}
        values = {"variant": variant, "models": models, "backbone": backbone, "prompts": prompts}
        cell = TaskOptions(**{**shared, **values, "folder": folder, "settings": {**options.settings, "k": k}})
        task = open_meme(options.data, variant)
        run_command(task, cell)
        score_command(task, TaskOptions(**{**{n: getattr(cell, n) for n in shared}, "memory": ""}))


def _word(name: str) -> str:
    """Turn a file's name into one word of a folder's name."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", name)[:40]


def study_frame(folder: Path) -> pd.DataFrame:
    """Collect the scores of the runs `<folder>-*`: a row per run, memory and task, a column per intervention."""
    rows = []
    for path in sorted(folder.parent.glob(f"{folder.name}-*/meme/*/scores/results.csv")):
        variant_folder = path.parent.parent
        run_folder = variant_folder.parent.parent
        scores = pd.read_csv(path, comment="#")
        for memory, own in scores.groupby("memory", sort=False):
            manifest = read_task_manifest(variant_folder / str(memory) / RUN, TaskManifest)
            inside = manifest.models.get("memory", {}).get("model", "")
            values = {
                "memory": memory, "k": manifest.settings.get("k", ""), "variant": manifest.settings["variant"],
                "reader": manifest.models["reader"]["model"], "inside": inside,
                "prompts": run_folder.name.rpartition("-")[2],
                "judge": manifest.judge,
            }  # fmt: skip
            rows += [{**values, **row} for row in own[["task", "real", "low", "high", "n"]].to_dict("records")]
    columns = ["memory", *INTERVENTIONS, "judge", "task", "real", "low", "high", "n"]
    return pd.DataFrame(rows, columns=columns)


def published_frame() -> pd.DataFrame:
    """The published rows in the same columns, without intervals, which are not known."""
    names = {**{str(task): short for task, short in SHORT.items()}, OVERALL: "overall"}
    rows = [
        {
            "memory": f"{row['system'].partition(' (')[0]} (published)",
            "k": 5 if row["paradigm"] == "raw retrieval" else "",
            "variant": "filler32k", "reader": row["answering"], "inside": row["inside"], "prompts": DEFAULT,
            "task": task, "real": float(row[column]), "n": int(row["episodes"]),
        }
        for row in published().to_dict("records")
        for task, column in names.items()
    ]  # fmt: skip
    return pd.DataFrame(rows).reindex(columns=study_frame(Path("none")).columns)


def study_table(frame: pd.DataFrame) -> Table:
    """Show a row per run and memory, below the published ones, with the share of each task."""
    both = pd.concat([published_frame(), frame.astype(object)], ignore_index=True)
    keys = ["memory", *INTERVENTIONS]
    both[keys] = both[keys].fillna("").astype(str)
    wide = both.pivot_table(index=keys, columns="task", values="real", sort=False, aggfunc="first").astype(float)
    wide = wide[[*map(str, SHORT), OVERALL]].rename(columns={str(task): short for task, short in SHORT.items()})
    cells = wide.map(lambda share: "–" if pd.isna(share) else f"{share:.2f}").reset_index().astype(str)
    notes = ("Shares that count. Published values rest on the released episodes, other models and another judge.",)
    return Table("MEME: interventions", cells, (), notes, csv=both, frame=both)


def study_figure(frame: pd.DataFrame, interventions: Sequence[str]) -> Figure:
    """Draw overall, cascade and absence over the values of each intervention, a line per memory.

    A panel holds the runs that have the most frequent value of every other intervention. Published values are hollow
    and have the colour of the same system here; those without a value of the intervention are left out.
    """
    theirs = published_frame()
    names = list(dict.fromkeys([*frame["memory"], *map(_system, theirs["memory"])]))
    colours = {name: f"C{number}" for number, name in enumerate(names)}
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 5.4))
        panels = figure.subplots(len(_SHOWN), len(interventions), sharex="col", sharey="row", squeeze=False)
        for column, name in enumerate(interventions):
            own = _compared(frame, name)
            own = own[own[name].astype(str) != ""]
            published = theirs[theirs[name].astype(str) != ""]
            if name in ("k", "variant"):
                strong = published["reader"].str.contains("Sonnet") | published["inside"].str.contains("Opus")
                published = published[~strong]
            values = _ordered([*own[name], *published[name]])
            for row, task in enumerate(_SHOWN):
                axes = panels[row, column]
                for memory, part in own[own["task"] == task].groupby("memory", sort=False):
                    aside = 0.06 * (names.index(str(memory)) - len(names) / 2)
                    part = part.assign(x=[values.index(str(value)) + aside for value in part[name]]).sort_values("x")
                    reach = [part["real"] - part["low"], part["high"] - part["real"]]
                    color = colours[str(memory)]
                    axes.errorbar(part["x"], part["real"], yerr=reach, marker="o", color=color, label=memory)
                for memory, part in published[published["task"] == task].groupby("memory", sort=False):
                    aside = 0.06 * (names.index(_system(memory)) - len(names) / 2)
                    x = [values.index(str(value)) + aside for value in part[name]]
                    color = colours[_system(memory)]
                    axes.plot(x, part["real"], "o", fillstyle="none", color=color, label=memory)
                axes.set(ylim=(-0.02, 1.02), xlim=(-0.5, len(values) - 0.5), ylabel="" if column else _SHOWN[task])
                axes.set_xticks(range(len(values)), values, rotation=20)
            panels[0, column].set_title(INTERVENTIONS[name], loc="left")
        labelled = {
            label: handle
            for axes in figure.axes
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(labelled.values(), labelled.keys(), loc="outside upper center", ncols=4, fontsize="small")
        figure.supxlabel(_basis(frame), fontsize=6, color="0.3")
    return figure


def _system(memory: object) -> str:
    """The name here of a published system."""
    return own_name(str(memory).removesuffix(" (published)"))


def _ordered(values: Sequence[object]) -> list[str]:
    """The different values as text: numbers by size, others in order of appearance."""
    texts = list(dict.fromkeys(map(str, values)))
    return sorted(texts, key=lambda text: int(text) if text.isdigit() else -1)


def _basis(frame: pd.DataFrame) -> str:
    counts = frame.loc[frame["task"] == OVERALL, "n"]
    judges = ", ".join(sorted(set(frame["judge"])))
    shown = " to ".join(map(str, sorted({counts.min(), counts.max()})))
    return (
        f"Filled: share that counts, overall of {shown} questions, 95 % over episodes; judge: "
        f"{judges}.\nHollow: published values (other episodes, models and judge), without intervals."
    )


def _compared(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows that differ in one intervention alone."""
    for other in INTERVENTIONS:
        if other != name and len(frame):
            usual = frame.groupby("memory")[other].transform(lambda values: values.mode().iloc[0])
            frame = frame[frame[other] == usual]
    return frame
