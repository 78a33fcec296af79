"""The paper's Figures 3, 4 and 5 as published and, where a run is there, the same of the run over all of its sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from beam_job.assembly import ALL, AssemblyOptions, compare_sizes
from beamlib.data.published import FILES
from beamlib.errors import UserError
from beamlib.report.figures import (
    ablation_figure,
    averages,
    budget_figure,
    retriever_figure,
    save_figure,
    score_changes,
)
from beamlib.report.footer import Footer
from beamlib.report.long_frame import published_long
from beamlib.report.table import Table
from beamlib.report.tables import published_footer

LIGHT_READER = "Qwen2.5-32B-AWQ with LIGHT"
"""Who answered in Tables 8, 9 and 10 of the paper."""

MAIN = "table1_main_results"


@dataclass(frozen=True)
class _PaperFigure:
    published: str
    measured: str
    draw: Callable[[pd.DataFrame, Footer], Figure]
    caption: str


_FIGURES = {
    3: _PaperFigure(
        "table8",
        "table8_ablation",
        ablation_figure,
        "change of the average score when one component of LIGHT is removed",
    ),
    4: _PaperFigure(
        "table9", "table9_retrieval_budget", budget_figure, "average score of LIGHT against the retrieval budget K"
    ),
    5: _PaperFigure(
        "table10",
        "table10_dense_vs_sparse",
        retriever_figure,
        "average score of LIGHT with dense and with sparse retrieval",
    ),
}


def paper_figures(run: Path, numbers: Sequence[int], protocol: str = "paper") -> list[Path]:
    """Draw these figures into `<run>/figures`, each with its data as CSV; the pictures, published before measured.

    Of a run without results there are the published ones alone. Nothing is evaluated.
    """
    if unknown := set(numbers) - set(_FIGURES):
        raise UserError(
            f"figure {min(unknown)} cannot be drawn; the ones that can are {', '.join(map(str, _FIGURES))}."
        )
    wanted = [_FIGURES[number] for number in numbers]
    if _has_results(run):
        compare_sizes(run, AssemblyOptions(protocol), [one.measured for one in wanted])
    pictures: list[Path] = []
    for number, one in zip(numbers, wanted, strict=True):
        published, of_run = run / "figures" / "published", run / "figures" / ALL
        frame = published_long(one.published)
        frame = score_changes(frame) if number == 3 else frame
        inputs = {"table": f"beamlib/data/published/{FILES[one.published]}"}
        caption = f"Figure {number} as published: {one.caption}."
        figure = one.draw(frame, published_footer(LIGHT_READER))
        files = save_figure(figure, f"figure{number}_published", published, averages(frame), inputs, {}, caption)
        pictures += [path for path in files if path.suffix == ".png"]
        pictures += sorted(of_run.glob(f"figure{number}_*.png")) if _has_results(run) else []
    return pictures


def main_table(run: Path, protocol: str = "paper") -> Table | None:
    """Table 1 of a run over all of its sizes; None of a run without results."""
    return compare_sizes(run, AssemblyOptions(protocol), [MAIN])[MAIN] if _has_results(run) else None


def _has_results(run: Path) -> bool:
    return any(run.glob("*/*/manifest.json"))
