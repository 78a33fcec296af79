"""Draw the paper's Figures 3, 4 and 5 as published and, from a run's results, as measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from beam_run.assembly import ALL, AssemblyOptions, OverSizes
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
from beamlib.report.released import ReleasedRecall
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


class Paper:
    """The paper's tables and figures, published and, where `run` has results, measured over all of its sizes."""

    def __init__(self, run: Path, protocol: str = "paper") -> None:
        self.run = run
        has_results = any(run.glob("*/*/manifest.json"))
        self._measured = OverSizes(run, AssemblyOptions(protocol)) if has_results else None

    def main_table(self) -> Table | None:
        """Build Table 1 of the run; None without results."""
        return self._measured.tables([MAIN])[MAIN] if self._measured else None

    def figures(self, numbers: Sequence[int]) -> list[Path]:
        """Draw figures into `<run>/figures`, each with its data as CSV; return the pictures.

        Each as published, then on the released benchmark, then of the run if it has results. Nothing is evaluated.
        """
        if unknown := set(numbers) - set(_FIGURES):
            raise UserError(
                f"figure {min(unknown)} cannot be drawn; the ones that can are {', '.join(map(str, _FIGURES))}."
            )
        if self._measured:
            self._measured.tables([_FIGURES[number].measured for number in numbers])
        pictures: list[Path] = []
        for number in numbers:
            pictures += [self._published(number), self._released(number)]
            if self._measured:
                pictures += sorted((self.run / "figures" / ALL).glob(f"figure{number}_*.png"))
        return pictures

    def _released(self, number: int) -> Path:
        figure, frame = self._recall.figure(number)
        return self._save(figure, f"figure{number}_released", frame, {}, f"Figure {number}. {self._recall.basis}")

    @cached_property
    def _recall(self) -> ReleasedRecall:
        return ReleasedRecall()

    def _published(self, number: int) -> Path:
        one = _FIGURES[number]
        frame = published_long(one.published)
        frame = score_changes(frame) if number == 3 else frame
        inputs = {"table": f"beamlib/data/published/{FILES[one.published]}"}
        caption = f"Figure {number} as published: {one.caption}."
        drawn = one.draw(frame, published_footer(LIGHT_READER))
        return self._save(drawn, f"figure{number}_published", averages(frame), inputs, caption)

    def _save(self, figure: Figure, name: str, frame: pd.DataFrame, inputs: dict[str, str], caption: str) -> Path:
        files = save_figure(figure, name, self.run / "figures" / "published", frame, inputs, {}, caption)
        return next(path for path in files if path.suffix == ".png")
