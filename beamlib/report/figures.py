"""The figures: grouped bars and lines from a frame of `beamlib.report.long_frame`, saved with their data.

Every function returns a `matplotlib.figure.Figure` that is not registered with pyplot, and changes no global state. A
line below the figure, also in the caption, names protocol and judge. Values have the intervals of the frame.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import as_file, files
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.style import context

from beamlib import __version__
from beamlib.errors import UserError
from beamlib.evaluate.records import left_out_line
from beamlib.files import sha256, write_bytes, write_json
from beamlib.report.csv_cells import safe_cells
from beamlib.report.footer import Footer, model_shown
from beamlib.report.long_frame import (
    AVERAGE_ABILITY,
    COLUMNS,
    ROWS,
    ability_label,
    check_frame,
    series_label,
    series_of,
    sizes_of,
)
from beamlib.report.series import HATCHES, in_order, looks_of

COLUMN_WIDTH, PAGE_WIDTH = 3.4, 7.0  # inches: one column and both columns of a two-column page
_MARKERS = "osD^vPX*"
_WHISKERS = {"linewidth": 0.7, "color": "0.15"}
# With the rows of `_ends`, seaborn draws the mean and its interval unchanged.
_INTERVAL: Final[dict[str, Any]] = {"estimator": "median", "errorbar": ("pi", 100)}


@contextmanager
def style() -> Iterator[None]:
    """Use the project's matplotlib style within a block; a user's own settings are ignored."""
    with as_file(files("beamlib.report") / "style.mplstyle") as path, context(["default", str(path)]):
        yield


def score_changes(frame: pd.DataFrame) -> pd.DataFrame:
    """Compute the change of every series with a removed component against the complete one, as a long frame.

    It has no intervals: those of two means do not give that of their difference. A run passes paired ones to
    `ablation_figure`.

    Raises:
        UserError: Unless exactly one series is complete in every cell.
    """
    complete = series_of(frame[_field(check_frame(frame), "removed").isna()])
    if len(complete) != 1:
        raise UserError(f"ablation: one series without a removal is needed, found {', '.join(complete) or 'none'}.")
    base = frame[frame["series"] == complete[0]].set_index(["size", "ability"])["mean"]
    changes = frame.loc[frame["series"] != complete[0], [*COLUMNS, "removed"]].copy()
    cells = list(zip(changes["size"], changes["ability"], strict=True))
    if missing := [cell for cell in cells if cell not in base.index]:
        raise UserError(f"ablation: series {complete[0]} has no value for {' / '.join(missing[0])}; run it there too.")
    changes["mean"] = changes["mean"].to_numpy() - base.loc[cells].to_numpy()
    changes[["low", "high"]] = np.nan
    return changes.reset_index(drop=True)


def ablation_figure(changes: pd.DataFrame, footer: Footer, measure: str = "change of the average score") -> Figure:
    """Draw Figure 3: the change of the average per removed component at each length, from `score_changes`."""
    frame = averages(changes)
    frame = frame.assign(series=_field(frame, "removed").str.replace("-", " "))
    return _by_size(frame, footer, measure, "removed component")


def retriever_figure(frame: pd.DataFrame, footer: Footer, measure: str = "average score") -> Figure:
    """Draw Figure 5: the average of each retriever per length."""
    return _by_size(averages(frame), footer, measure)


def _by_size(frame: pd.DataFrame, footer: Footer, measure: str, title: str | None = None) -> Figure:
    frame = _sized(frame).assign(series=pd.Categorical(frame["series"], in_order(series_of(frame))))
    with _drawn(footer, COLUMN_WIDTH, 2.5) as figure:
        axes = figure.add_subplot()
        bars(axes, frame, "size", "series")
        axes.axhline(0, color="black", linewidth=0.6)
        axes.set(xlabel="conversation length", ylabel=measure)
        legend(figure, axes, columns=2, title=title)
    return figure


def budget_figure(frame: pd.DataFrame, footer: Footer, measure: str = "average score") -> Figure:
    """Draw Figure 4: the average over the retrieval budget, the column `k`, with a line per length.

    The axis starts at zero, or below if an interval does.
    """
    frame = averages(frame)
    if (unknown := _field(frame, "k").isna()).any():
        raise UserError(f"figure: series {frame.loc[unknown, 'series'].iloc[0]!r} has no retrieval budget.")
    frame = frame.astype({"k": int})
    with _drawn(footer, COLUMN_WIDTH, 2.4) as figure:
        axes = figure.add_subplot()
        lines(axes, _sized(frame), "k", "size")
        axes.axhline(0, linewidth=0)  # so that the room above the highest marker is a share of the whole axis
        axes.set_ylim(bottom=min(0, frame["low"].min()))
        axes.set(xlabel="retrieval budget K (documents)", ylabel=measure)
        legend(figure, axes, columns=4)
    return figure


def main_figure(frame: pd.DataFrame, footer: Footer, measure: str = "score") -> Figure:
    """Draw Table 1 as bars: groups are abilities and their average, bars are series, a panel per length."""
    rows = [ability for ability in ROWS if ability in set(check_frame(frame)["ability"])]
    frame = _sized(frame).assign(
        ability=pd.Categorical(frame["ability"], rows).rename_categories(ability_label),
        series=pd.Categorical(frame["series"], series_of(frame)),
    )
    panels = frame.groupby("size", observed=True)
    with _drawn(footer, PAGE_WIDTH, 1.3 + 1.25 * len(panels)) as figure:
        places = figure.subplots(len(panels), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, (size, rows_of_size) in zip(places, panels, strict=True):
            bars(axes, rows_of_size, "ability", "series")
            axes.set_title(str(size).replace("\n", " "), loc="left", fontweight="bold")
            axes.set(xlabel="", ylabel=measure)
        for name in places[-1].get_xticklabels():
            name.set(rotation=25, ha="right", rotation_mode="anchor")
        legend(figure, places[0], columns=5)
    return figure


def averages(frame: pd.DataFrame) -> pd.DataFrame:
    """Select the rows of the averages, for Figures 3, 4 and 5."""
    rows = check_frame(frame)[frame["ability"] == AVERAGE_ABILITY]
    if rows.empty:
        raise UserError(
            f"figure: the frame has no row for ability '{AVERAGE_ABILITY}'; pass the summary of whole runs."
        )
    return rows


def bars(axes: Axes, frame: pd.DataFrame, x: str, hue: str | None = None, value: str = "y") -> None:
    """Draw a group of bars per value of `x` and a bar per value of `hue`, with intervals `low` to `high`.

    Categories keep their order, other values that of appearance; a missing cell stays empty.

    Args:
        value: The axis of the bars' lengths, "x" or "y".
    """
    import seaborn  # here: it takes 1.5 s, and most importers of this module draw nothing

    shown = list(dict.fromkeys(frame[hue].dropna())) if hue else []
    if hue and isinstance(frame[hue].dtype, pd.CategoricalDtype):
        shown = list(frame[hue].cat.categories)
    looks = looks_of(list(map(str, shown)))
    cycled = rcParams["axes.prop_cycle"].by_key()["color"]
    palette = {name: cycled[looks[str(name)].colour % len(cycled)] for name in shown} or None
    hatches = [HATCHES[look.hatch] for look in looks.values()] or [HATCHES[0]]
    groups = {"x": x, "y": x} | {value: "value"}
    look = {
        "palette": palette,
        "width": 0.82,
        "saturation": 1,
        "edgecolor": "white",
        "capsize": 0.12,
        "err_kws": _WHISKERS,
    }
    seaborn.barplot(_ends(frame), **groups, hue=hue, ax=axes, **_INTERVAL, **look)
    handles, _ = axes.get_legend_handles_labels()
    for patches in (axes.containers, [[handle] for handle in handles]):
        for hatch, alike in zip(cycle(hatches), patches, strict=False):
            for patch in alike:
                patch.set_hatch(hatch)


def lines(axes: Axes, frame: pd.DataFrame, x: str, hue: str | None = None) -> None:
    """Draw a line per value of `hue` over the values of `x`, with intervals; orders as in `bars`.

    Points of a value are exactly above it, even if their intervals overlap.
    """
    import seaborn

    look = {"markersize": 4, "linewidth": 1.3, "capsize": 0.05, "err_kws": {"linewidth": 0.7}}
    markers = list(_MARKERS) * frame[hue].nunique() if hue else "o"
    seaborn.pointplot(_ends(frame), x=x, y="value", hue=hue, markers=markers, ax=axes, **_INTERVAL, **look)


def legend(figure: Figure, axes: Axes, columns: int, title: str | None = None) -> None:
    """Put a legend above the plot, so that it hides no value."""
    handles, labels = axes.get_legend_handles_labels()
    for inner in filter(None, (each.get_legend() for each in figure.axes)):
        inner.remove()
    words = [series_label(label).replace("\n", " ") for label in labels]
    figure.legend(handles, words, loc="outside upper center", ncols=min(columns, len(words)), title=title)


@contextmanager
def _drawn(footer: Footer, width: float, height: float) -> Iterator[Figure]:
    """Create a figure of a size in inches in our style; a line below names protocol and judge."""
    with style():
        figure = Figure(figsize=(width, height))
        basis = f"Protocol: {footer.protocol}; judge: {model_shown(footer.judge).partition(' (')[0]}."
        basis += f" {left_out_line(footer.left_out)}" if footer.left_out else ""
        figure.set_label(basis)
        figure.supxlabel(textwrap.fill(basis, int(width * 22)), fontsize=6, color="0.3")
        yield figure


def _sized(frame: pd.DataFrame) -> pd.DataFrame:
    """Replace sizes by labels, shortest first; a size with a single conversation gets "(n = 1)"."""
    alone = set(frame["size"]) - set(frame.loc[frame["conversations"].ne(1).fillna(True), "size"])
    labels = {size: f"{size}\n(n = 1)" if size in alone else size for size in sizes_of(frame)}
    return frame.assign(size=pd.Categorical(frame["size"].map(labels), list(labels.values())))


def _ends(frame: pd.DataFrame) -> pd.DataFrame:
    """Split mean and interval ends into rows: seaborn computes intervals from values and accepts none.

    The median of three such rows is the mean and their range the interval; a single mean gets none. An end on the wrong
    side of the mean (a percentile interval of few values may miss it) moves to the mean.
    """
    low, high = frame["low"].clip(upper=frame["mean"]), frame["high"].clip(lower=frame["mean"])
    ends = frame.drop(columns=["mean", "low", "high"])
    return pd.concat([ends.assign(value=values) for values in (frame["mean"], low, high)]).dropna(subset="value")


def _field(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    """Return a column of `frame`, all missing if it has none."""
    return frame[name] if name in frame else pd.Series(None, index=frame.index, dtype=object)


def _drawings(figure: Figure) -> dict[Literal["pdf", "svg", "png"], bytes]:
    """Render the figure as files without dates or program versions.

    All share the first layout: computing it again would nearly double the time of each.
    """
    metadata: dict[Literal["pdf", "svg", "png"], dict[str, None]] = {
        "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
        "svg": {"Date": None, "Creator": None},
        "png": {"Software": None},
    }
    layout, drawings = figure.get_layout_engine(), {}
    with style():
        for kind, entries in metadata.items():
            buffer = BytesIO()
            figure.savefig(buffer, format=kind, metadata=entries)
            drawn = buffer.getvalue()
            drawings[kind] = re.sub(rb"\s*\n\s*", b" ", drawn) if kind == "svg" else drawn  # indents are a twelfth
            figure.set_layout_engine("none")
        figure.set_layout_engine(layout)
    return drawings


def _in_words(data: pd.DataFrame, *, scores: bool) -> str:
    """Write the plotted values for an alternative text: scores with intervals, or each value after its column."""
    if not scores:
        return "; ".join(", ".join(f"{name} {value}" for name, value in row.items()) for row in data.to_dict("records"))
    names = zip(data["size"], data["ability"].map(ability_label), data["series"].map(series_label), strict=True)
    values = map(_value, data.to_dict("records"))
    return "; ".join(f"{' '.join(name)} {value}" for name, value in zip(names, values, strict=True))


def _bare(data: pd.DataFrame) -> str:
    """Write a caption's sentence about values without an interval."""
    bare = data[data["low"].isna() & data["mean"].notna()]
    if alone := list(dict.fromkeys(bare.loc[bare["conversations"].eq(1).fillna(False), "size"])):
        return f"n = 1 conversation, hence no interval: {', '.join(alone)}."
    return "The values have no intervals." if len(bare) == len(data) else ""


def _value(row: Mapping[Any, Any]) -> str:
    ends = "" if pd.isna(row["low"]) else f" ({row['low']:.3f} to {row['high']:.3f})"
    return "no value" if pd.isna(row["mean"]) else f"{row['mean']:.3f}{ends}"


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
    """Write `name`.pdf, .svg, .png, .csv (the plotted values) and .json (the sidecar) into `folder`.

    The sidecar has the caption, alternative text, inputs, parameters, package version and the hash of the plotted
    values. The same call gives the same bytes.

    Args:
        data: The long frame that was plotted; any table of counts if `scores` is False.
        inputs: The sources of the data, as JSON values.

    Returns:
        The five paths.
    """
    plotted = check_frame(data)[list(COLUMNS)] if scores else data
    caption = " ".join(filter(None, [caption, str(figure.get_label()), _bare(plotted) if scores else ""]))
    values = safe_cells(plotted).to_csv(index=False, lineterminator="\n", float_format="%.6g").encode()
    sidecar = {
        "name": name,
        "caption": caption,
        "alt_text": f"{caption} Values: {_in_words(plotted, scores=scores)}.",
        "inputs": dict(inputs),
        "parameters": dict(parameters),
        "plotted_values": f"{name}.csv",
        "plotted_values_sha256": sha256(values),
        "package_version": __version__,
    }
    drawings = _drawings(figure)
    return [
        *(write_bytes(folder / f"{name}.{kind}", drawn) for kind, drawn in drawings.items()),
        write_bytes(folder / f"{name}.csv", values),
        write_json(folder / f"{name}.json", sidecar),
    ]
