"""Interventions as one study: runs over K, filler, answering model, internal model and prompt set, in one table.

What the paper's Figures 3 and 5 plot is known from captions alone: Figure 3 is the effect of each axis, Figure 5a
prompt optimisation. The figures here have a panel per intervention, and the published values at the settings that they
were measured with; 5a has the systems whose prompts were varied, Figure 29 a panel per task.
"""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from beam_commands.task_runs import TaskOptions, run_command, run_of, score_command
from beam_meme.episode_gold import SHORT
from beam_meme.meme_memories import own_name
from beam_meme.meme_scoring import OVERALL
from beam_meme.meme_tables import published
from beam_meme.meme_traces import task_panels
from beam_meme.task import open_meme
from beamlib.errors import UserError
from beamlib.evaluate.records import RUN, TaskManifest, read_task_manifest
from beamlib.files import make_folder, sha256, to_json
from beamlib.report.figures import PAGE_WIDTH, style
from beamlib.report.table import Table
from beamlib.run import Run

INTERVENTIONS = {"k": "K", "variant": "filler", "reader": "answering", "inside": "internal model", "prompts": "prompts"}
"""What a study varies, as columns of its frame, and their titles."""
STUDY_FIGURES = {"figure3": ("k", "variant"), "figure5": ("reader", "inside", "prompts")}
_PUBLISHED_K = {"Mem0": 20, "Graphiti": 10}
"""How many facts the published systems returned, by the one episode that is at hand."""
_SHOWN = {OVERALL: "overall", "cascade": "cascade", "absence": "absence"}
DEFAULT, OFFLINE = "default", "offline"


@dataclass(frozen=True)
class Grid:
    """The values of each intervention; a models file has the internal model, a backbone the answering one."""

    ks: Sequence[int | None] = (None,)
    variants: Sequence[str] = ("",)
    models: Sequence[str] = ("",)
    backbones: Sequence[str] = ("",)
    prompts: Sequence[Path | None] = (None,)


@dataclass(frozen=True)
class _Cell:
    """One combination: its run folder, named by content, what its run is asked, and the values in words."""

    folder: Path
    options: TaskOptions
    values: Mapping[str, str]


def run_grid(grid: Grid, options: TaskOptions) -> None:
    """Answer and judge every cell of the grid. Cells share stored calls: what K does not change is called once.

    Args:
        options: What all cells have in common; the folder of a cell bears the name of its `folder` and its values.

    Raises:
        UserError: A file of one cell is wrong, or two cells ask the same; nothing has been run then.
    """
    cells = _cells(grid, options)
    calls = make_folder(options.folder / "calls")
    for cell in cells:
        folder = make_folder(cell.folder)
        if not (folder / "calls").exists():
            (folder / "calls").symlink_to(os.path.relpath(calls, folder))
        task = open_meme(cell.options.data, cell.options.variant)
        run_command(task, cell.options)
        score_command(task, replace(cell.options, memory=""))


def _cells(grid: Grid, options: TaskOptions) -> list[_Cell]:
    """Read what every cell names, and name its folder by what was read."""
    found: dict[tuple[Path, str], _Cell] = {}
    values = itertools.product(grid.ks, grid.models, grid.prompts, grid.variants, grid.backbones)
    for k, models, prompts, variant, backbone in dict.fromkeys(values):
        settings = options.settings if k is None else {**options.settings, "k": k}
        cell = replace(options, variant=variant, models=models, backbone=backbone, prompts=prompts, settings=settings)
        run = run_of(open_meme(options.data, variant), cell)
        folder = _cell_folder(run, k, cell)
        said = {"--models": models or "offline", "--backbones": backbone, "--prompts": str(prompts or DEFAULT)}
        if same := found.get((folder, variant)):
            option = next(name for name, value in said.items() if same.values[name] != value)
            raise UserError(
                f"{option}: {same.values[option]} and {said[option]} say the same, so that both would be one run; "
                "leave one out."
            )
        found[folder, variant] = _Cell(folder, replace(cell, folder=folder), said)
    return list(found.values())


def _cell_folder(run: Run, k: int | None, options: TaskOptions) -> Path:
    """Return the folder of a cell: `<study>-k<K>-<models>-<prompts>`, the last two with a hash of their content.

    Equal names with other content are other cells.
    """
    models, prompts = OFFLINE, DEFAULT
    if run.models_file:
        names = (Path(options.models).stem, *([options.backbone] if options.backbone else []))
        models = f"{_word('_'.join(names))}.{sha256(to_json(run.identities()))[:8]}"
    if options.prompts:
        overridden = run.prompt_files.hashes(sorted(run.prompt_files.overridden))
        prompts = f"{_word(options.prompts.name)}.{sha256(to_json(overridden))[:8]}"
    # Without a K, systems of others keep their own: another run than with the same K for all.
    study, depth = options.folder.name, run.retrieval.k if k or not run.models_file else "usual"
    return options.folder.with_name("-".join((study, f"k{depth}", models, prompts)))


def _word(name: str) -> str:
    """Turn a file's name into one word of a folder's name."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", name)[:40]


def study_frame(folder: Path) -> pd.DataFrame:
    """Collect the scores of the runs `<folder>-k…`: a row per run, memory and task, a column per intervention.

    Runs are told apart by their manifests: where one name stands for different models or prompts, the values have what
    the run's folder calls them.
    """
    cell = re.compile(rf"{re.escape(folder.name)}-(k\w+-([\w.]+)-([\w.]+))")
    rows = []
    for path in sorted(folder.parent.glob(f"{glob.escape(folder.name)}-*/meme/*/scores/results.csv")):
        variant_folder = path.parent.parent
        if not (named := cell.fullmatch(variant_folder.parent.parent.name)):
            continue  # of a study with a longer name
        scores = pd.read_csv(path, comment="#")
        for memory, shares in scores.groupby("memory", sort=False):
            manifest = read_task_manifest(variant_folder / str(memory) / RUN, TaskManifest)
            own = manifest.settings
            inside, reader = manifest.models.get("memory", {}), manifest.models["reader"]
            values = {
                "memory": memory, "k": next((own[name] for name in ("k", "adapter_k") if name in own), ""),
                "variant": own["variant"],
                "reader": (reader["model"], to_json(reader), f"{named[2]}, {manifest.reader}"),
                "inside": (inside.get("model", ""), to_json(inside), named[2]),
                "prompts": (named[3].partition(".")[0], to_json(manifest.prompts), named[3]),
                "judge": manifest.judge, "run": named[1],
            }  # fmt: skip
            rows += [{**values, **row} for row in shares[["task", "real", "low", "high", "n"]].to_dict("records")]
    columns = ["memory", *INTERVENTIONS, "run", "judge", "task", "real", "low", "high", "n"]
    frame = pd.DataFrame(rows, columns=columns)
    for name in ("reader", "inside", "prompts"):
        frame[name] = _told_apart(frame["memory"], frame[name])
    return frame


def _told_apart(memories: pd.Series, values: pd.Series) -> list[str]:
    """Return the names of `values` (name, content, label), with the label where a name stands for several contents.

    Contents are compared within a memory: memories use different prompts.
    """
    contents: dict[str, dict[str, set[str]]] = {}
    for memory, (name, content, _) in zip(memories, values, strict=True):
        contents.setdefault(name, {}).setdefault(memory, set()).add(content)
    several = {name for name, own in contents.items() if any(len(found) > 1 for found in own.values())}
    return [f"{name} ({label})" if name in several else name for name, _, label in values]


def published_frame() -> pd.DataFrame:
    """The published rows in the same columns, without intervals, which are not known."""
    names = {**{str(task): short for task, short in SHORT.items()}, OVERALL: "overall"}
    rows = [
        {
            "memory": f"{row['system'].partition(' (')[0]} (published)",
            "k": 5 if row["paradigm"] == "raw retrieval" else _PUBLISHED_K.get(row["system"], ""),
            "variant": "filler32k", "reader": row["answering"], "inside": row["inside"], "prompts": DEFAULT,
            "run": "", "task": task, "real": float(row[column]), "n": int(row["episodes"]),
        }
        for row in published().to_dict("records")
        for task, column in names.items()
    ]  # fmt: skip
    return pd.DataFrame(rows).reindex(columns=study_frame(Path("none")).columns)


def study_table(frame: pd.DataFrame) -> Table:
    """Show a row per run and memory, below the published ones, with the share of each task."""
    both = pd.concat([published_frame(), frame.astype(object)], ignore_index=True)
    keys = ["memory", *INTERVENTIONS, "run"]
    both[keys] = both[keys].fillna("").astype(str)
    # pivot refuses two rows of one key, and keeps systems without any score.
    wide = both.pivot(index=keys, columns="task", values="real").astype(float)
    wide = wide.reindex(pd.MultiIndex.from_frame(both[keys].drop_duplicates()))
    wide = wide.reindex(columns=[*map(str, SHORT), OVERALL])
    wide = wide.rename(columns={str(task): short for task, short in SHORT.items()})
    cells = wide.map(lambda share: "–" if pd.isna(share) else f"{share:.2f}").reset_index().astype(str)
    fixed = sorted(set(frame.loc[frame["k"].astype(str) == "", "memory"]))
    notes = (
        "Shares that count; – where nothing could be scored. Published values rest on the released episodes, other "
        "models and another judge. run: the run folder, after the study's name.",
        *([f"Without a K, or none was given: {', '.join(fixed)}."] if fixed else []),
    )
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
        hollow = "Hollow: published values (other episodes, models and judge), without intervals."
        figure.supxlabel(f"Filled: share that counts, {_basis(frame)}.\n{hollow}", fontsize=6, color="0.3")
    return figure


def study_figures(frame: pd.DataFrame) -> dict[str, Figure]:
    """Draw what a study shows, by the figure of the paper; 5a and 29 only where prompts or filler were varied."""
    figures = {name: study_figure(frame, interventions) for name, interventions in STUDY_FIGURES.items()}
    for name, intervention in (("figure5a", "prompts"), ("figure29", "variant")):
        compared = _compared(frame, intervention)
        varied = compared.groupby("memory")[intervention].nunique() > 1
        own = compared[compared["memory"].isin(varied[varied].index)].rename(columns={"real": "mean"})
        if len(own):
            tasks = [*map(str, SHORT), OVERALL] if name == "figure29" else list(_SHOWN)
            figures[name] = task_panels(own, intervention, tasks, _basis(own))
    return figures


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
    return f"overall of {shown} questions, 95 % over episodes; judge: {judges}"


def _compared(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows that differ in one intervention alone."""
    for other in INTERVENTIONS:
        if other != name and len(frame):
            usual = frame.groupby("memory")[other].transform(lambda values: values.mode().iloc[0])
            frame = frame[frame[other] == usual]
    return frame
