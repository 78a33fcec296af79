"""The figures: grouped bars and lines from a long frame (`beamlib.report.tidy`), saved with what they were made of.

Every function returns a `matplotlib.figure.Figure` that is not registered with pyplot, and leaves no global state
behind. An axis names protocol and judge; bars carry their interval where the frame has one.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import as_file, files
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.style import context

import beamlib
from beamlib.errors import UserError
from beamlib.files import sha256, sha256_of_file, write_bytes, write_json
from beamlib.report.tables import Footer, is_offline
from beamlib.report.tidy import AVERAGE, COLUMNS, ROWS, ability_label, checked, series_label, series_of, sizes_of

Array = np.ndarray[Any, np.dtype[np.float64]]

COLUMN_WIDTH, PAGE_WIDTH = 3.4, 7.0  # inches: one column and both columns of a two-column page
_BAR_SHARE = 0.82  # of the space of a group; the rest keeps groups apart
_LINE_SHIFT = 0.05
_MARKERS = "osD^vPX*"
# Hatches back up the colours in grey-scale print; the first series stays plain.
_HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++", "oooo")


@contextmanager
def style() -> Iterator[None]:
    """The project's matplotlib style on top of matplotlib's defaults, for the duration of a block.

    A user's own settings do not count: figures are the same on every machine.
    """
    with as_file(files("beamlib.report") / "style.mplstyle") as path, context(["default", str(path)]):
        yield


def score_changes(frame: pd.DataFrame) -> pd.DataFrame:
    """Change of every "without" series against the one series that is complete, as a long frame without intervals.

    The intervals of two means say nothing about the interval of their difference; a run passes its own, paired ones to
    `ablation_figure`. Raises `UserError` unless exactly one series is complete in every cell.
    """
    complete = [name for name in series_of(checked(frame)) if "without" not in name]
    if len(complete) != 1:
        raise UserError(f"ablation: one series without a removal is needed, found {', '.join(complete) or 'none'}.")
    base = frame[frame["series"] == complete[0]].set_index(["size", "ability"])["mean"]
    changes = frame.loc[frame["series"] != complete[0], list(COLUMNS)].copy()
    cells = list(zip(changes["size"], changes["ability"], strict=True))
    if missing := [cell for cell in cells if cell not in base.index]:
        raise UserError(f"ablation: series {complete[0]} has no value for {' / '.join(missing[0])}; run it there too.")
    changes["mean"] = changes["mean"].to_numpy() - base.loc[cells].to_numpy()
    changes[["low", "high"]] = np.nan
    return changes.reset_index(drop=True)


def ablation_figure(changes: pd.DataFrame, footer: Footer) -> Figure:
    """Figure 3: change of the average per removed component at each length; `changes` as from `score_changes`."""
    frame = averages(changes)
    frame = frame.assign(series=[_removed(name) for name in frame["series"]])
    with style():
        figure = Figure(figsize=(COLUMN_WIDTH, 2.5))
        axes = figure.add_subplot()
        _bars(axes, frame, "size", sizes_of(frame))
        axes.axhline(0, color="black", linewidth=0.6)
        axes.set_ylabel(_axis("Change of the average", footer))
        axes.set_xlabel("Conversation length")
        _legend(figure, axes, columns=2, title="Removed component")
    return figure


def budget_figure(frame: pd.DataFrame, footer: Footer, measure: str = "Average score") -> Figure:
    """Figure 4: the average against the retrieval budget K, a line per length; K is read from the series names."""
    frame = averages(frame)
    frame = frame.assign(k=[_budget(name) for name in frame["series"]])
    budgets = sorted(set(frame["k"]))
    with style():
        figure = Figure(figsize=(COLUMN_WIDTH, 2.4))
        axes = figure.add_subplot()
        sizes = sizes_of(frame)
        for place, size in enumerate(sizes):
            rows = frame[frame["size"] == size].sort_values("k")
            shift = _LINE_SHIFT * (place - (len(sizes) - 1) / 2)  # keeps points and intervals of two lines apart
            positions = [budgets.index(k) + shift for k in rows["k"]]
            marker = _MARKERS[place % len(_MARKERS)]
            axes.errorbar(positions, rows["mean"], yerr=_errors(rows), marker=marker, label=size, elinewidth=0.7)
        axes.set_xticks(range(len(budgets)), [str(k) for k in budgets])
        axes.set_xlim(-0.3, len(budgets) - 0.7)
        axes.set_xlabel("Retrieval budget K (documents)")
        axes.set_ylabel(_axis(measure, footer))
        _legend(figure, axes, columns=4)
    return figure


def retriever_figure(
    frame: pd.DataFrame, footer: Footer, by: Literal["size", "ability"] = "size", measure: str = "Average score"
) -> Figure:
    """Figure 5: retrievers side by side, the average per length, or every ability (one panel per length)."""
    if by == "ability":
        return main_figure(frame, footer, measure="Score" if measure == "Average score" else measure)
    frame = averages(frame)
    with style():
        figure = Figure(figsize=(COLUMN_WIDTH, 2.3))
        axes = figure.add_subplot()
        _bars(axes, frame, "size", sizes_of(frame))
        axes.set_xlabel("Conversation length")
        axes.set_ylabel(_axis(measure, footer))
        _legend(figure, axes, columns=3)
    return figure


def main_figure(frame: pd.DataFrame, footer: Footer, measure: str = "Score") -> Figure:
    """Table 1 as bars: groups are abilities and their average, bars are series, one panel per length."""
    sizes = sizes_of(checked(frame))
    present = set(frame["ability"])
    rows = [ability for ability in ROWS if ability in present]
    with style():
        figure = Figure(figsize=(PAGE_WIDTH, 1.3 + 1.25 * len(sizes)))
        panels = figure.subplots(len(sizes), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, size in zip(panels, sizes, strict=True):
            _bars(axes, frame[frame["size"] == size], "ability", rows, names=series_of(frame))
            axes.set_title(size, loc="left", fontweight="bold")
        labels = [ability_label(ability) for ability in rows]
        panels[-1].set_xticks(range(len(rows)), labels, rotation=25, ha="right", rotation_mode="anchor")
        figure.supylabel(_axis(measure, footer), fontsize="medium", multialignment="center")
        _legend(figure, panels[0], columns=5)
    return figure


def averages(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the averages: what Figures 3, 4 and 5 plot, and what `save_figure` stores with them."""
    rows = checked(frame)[frame["ability"] == AVERAGE]
    if rows.empty:
        raise UserError(f"figure: the frame has no row for ability '{AVERAGE}'; pass the summary of whole runs.")
    return rows


def _removed(series: str) -> str:
    """The component that an ablation removed: "light-k5-without-noise-filter" -> "noise filter"."""
    return re.sub(r"[_-]", " ", series.rpartition("without")[2]).strip() or series


def _budget(series: str) -> int:
    found = re.search(r"(?i)(?<![a-z])k=?(\d+)", series)
    if found is None:
        raise UserError(f"figure: series {series!r} names no retrieval budget; name it like 'K=5' or 'light-k5'.")
    return int(found[1])


def _axis(measure: str, footer: Footer) -> str:
    """The label of the value axis: what is shown, by which protocol and judge, in lines short enough for any figure."""
    judge = "offline stand-in" if is_offline(footer.judge) else footer.judge.partition(" (")[0]
    lines = (measure, f"protocol: {footer.protocol}", f"judge: {judge}")
    return "\n".join(textwrap.fill(line, 40) for line in lines)


def _errors(rows: pd.DataFrame) -> Array | None:
    """Lengths of the error bars below and above, shape (2, n), or None where no row has an interval.

    A percentile interval may just miss its mean on small samples; such an end is drawn at the mean.
    """
    if rows[["low", "high"]].isna().to_numpy().all():
        return None
    ends: Array = rows[["mean", "low", "high"]].to_numpy(dtype=float).T
    return np.stack([ends[0] - ends[1], ends[2] - ends[0]]).clip(min=0)


def _bars(
    axes: Axes, frame: pd.DataFrame, column: str, groups: Sequence[str], names: Sequence[str] | None = None
) -> None:
    """A group of bars per value of `column`; a missing cell leaves its place empty."""
    names = series_of(frame) if names is None else names
    width = _BAR_SHARE / len(names)
    for place, name in enumerate(names):
        rows = frame[frame["series"] == name]
        offset = (place - (len(names) - 1) / 2) * width
        positions = [groups.index(group) + offset for group in rows[column]]
        axes.bar(
            positions,
            rows["mean"],
            width,
            yerr=_errors(rows),
            label=series_label(name),
            color=f"C{place}",
            hatch=_HATCHES[place % len(_HATCHES)],
            edgecolor="white",
            error_kw={"elinewidth": 0.6, "capthick": 0.6},
        )
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_xlim(-0.5, len(groups) - 0.5)


def _legend(figure: Figure, axes: Axes, columns: int, title: str | None = None) -> None:
    """A legend above the plot, outside of it, so that it hides no value."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(columns, len(labels)), title=title)


def _bytes(figure: Figure, kind: Literal["pdf", "png"]) -> bytes:
    """The figure as a file's bytes, without dates or versions of the programs that drew it."""
    metadata = {"pdf": {"CreationDate": None, "Producer": None, "Creator": None}, "png": {"Software": None}}
    buffer = BytesIO()
    with style():
        figure.savefig(buffer, format=kind, metadata=metadata[kind])
    return buffer.getvalue()


def _input(value: Any) -> Any:
    """An input for the sidecar: a file becomes its name and hash, anything else stays."""
    return {"file": value.name, "sha256": sha256_of_file(value)} if isinstance(value, Path) else value


def _described(data: pd.DataFrame) -> str:
    """Alternative text: the plotted values in words."""
    values = [
        f"{row['size']} {ability_label(row['ability'])} {series_label(row['series'])} {_value(row)}"
        for row in data.to_dict("records")
    ]
    return "; ".join(values) + "."


def _listed(data: pd.DataFrame) -> str:
    """Alternative text for a table of counts: row by row, each value after its column's name."""
    rows = [", ".join(f"{name} {value}" for name, value in row.items()) for row in data.to_dict("records")]
    return "; ".join(rows) + "."


def _value(row: Mapping[Any, Any]) -> str:
    if pd.isna(row["mean"]):
        return "no value"
    ends = "" if pd.isna(row["low"]) else f" ({row['low']:.3f} to {row['high']:.3f})"
    return f"{row['mean']:.3f}{ends}"


def save_figure(
    figure: Figure,
    name: str,
    folder: Path,
    data: pd.DataFrame,
    inputs: Mapping[str, Any],
    parameters: Mapping[str, Any],
    caption: str,
    *,
    scores: bool = True,
) -> list[Path]:
    """Write `name`.pdf, .png, .csv (the plotted values) and .json into `folder`; returns the four paths.

    `data` is the long frame that was plotted, or with `scores` False any table of counts. `inputs` names what it was
    made from: a `Path` is recorded by file name and SHA-256, any other JSON value as it is. The sidecar carries the
    caption, alternative text, inputs, parameters, package version and the hash of the plotted values. The same call
    gives the same bytes.
    """
    plotted = checked(data)[list(COLUMNS)] if scores else data
    if scores and plotted[["low", "high"]].isna().to_numpy().all():
        caption = f"{caption} The values have no intervals."
    values = plotted.to_csv(index=False, lineterminator="\n", float_format="%.6g").encode()
    sidecar = {
        "name": name,
        "caption": caption,
        "alt_text": f"{caption} Values: {_described(plotted) if scores else _listed(plotted)}",
        "inputs": {key: _input(value) for key, value in inputs.items()},
        "parameters": dict(parameters),
        "plotted_values": f"{name}.csv",
        "plotted_values_sha256": sha256(values),
        "package_version": beamlib.__version__,
    }
    return [
        write_bytes(folder / f"{name}.pdf", _bytes(figure, "pdf")),
        write_bytes(folder / f"{name}.png", _bytes(figure, "png")),
        write_bytes(folder / f"{name}.csv", values),
        write_json(folder / f"{name}.json", sidecar),
    ]
