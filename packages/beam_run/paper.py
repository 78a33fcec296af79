"""Draw the paper's Figures 3, 4 and 5 as published and, from a run's results, as measured."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from beam_run.assembly import ALL, ASSEMBLED_FIGURES, MAIN_TABLE, Assembly, AssemblyOptions
from beamlib.data.published import PAPER_TITLES, published_file
from beamlib.data.published import Paper as PaperVersion
from beamlib.errors import UserError
from beamlib.places import ROOT
from beamlib.report.figures import averages, save_figure, score_changes
from beamlib.report.long_frame import published_long
from beamlib.report.released import ReleasedRecall
from beamlib.report.table import Table
from beamlib.report.tables import published_footer

LIGHT_READER = "Qwen2.5-32B-AWQ with LIGHT"
"""Who answered in Tables 8, 9 and 10 of the paper."""

_TABLES = {figure.number: table for table, figure in ASSEMBLED_FIGURES.items()}


class Paper:
    """The paper's tables and figures, published and, where `run` has results, measured over all of its sizes.

    `version` is the version of the paper that is published.
    """

    def __init__(self, run: Path, protocol: str = "paper", version: PaperVersion = "v2") -> None:
        self.run, self._version = run, version
        has_results = any(run.glob("*/*/manifest.json"))
        self._measured = Assembly(run, AssemblyOptions(protocol)) if has_results else None

    def main_table(self) -> Table | None:
        """Build Table 1 of the run; None without results."""
        return self._measured.tables([MAIN_TABLE])[0][MAIN_TABLE] if self._measured else None

    def figures(self, numbers: Sequence[int]) -> list[Path]:
        """Draw figures into `<run>/figures`, each with its data as CSV; return the pictures.

        Each as published, then on the released benchmark, then of the run if it has results. Nothing is evaluated.
        """
        if unknown := set(numbers) - set(_TABLES):
            raise UserError(
                f"figure {min(unknown)} cannot be drawn; the ones that can are {', '.join(map(str, _TABLES))}."
            )
        if self._measured:
            self._measured.tables([_TABLES[number] for number in numbers])
        pictures: list[Path] = []
        for number in numbers:
            pictures += [self._published(number), self._released(number)]
            if self._measured:
                pictures += sorted((self.run / "figures" / ALL).glob(f"figure{number}_*.png"))
        return pictures

    def _released(self, number: int) -> Path:
        figure, frame, caption = self._recall.figure(number)
        return self._save(figure, f"figure{number}_released", frame, {}, caption)

    @cached_property
    def _recall(self) -> ReleasedRecall:
        return ReleasedRecall()

    def _published(self, number: int) -> Path:
        figure = ASSEMBLED_FIGURES[_TABLES[number]]
        frame = published_long(figure.published, paper=self._version)
        frame = score_changes(frame) if number == 3 else frame
        inputs = {"table": published_file(figure.published, self._version).relative_to(ROOT).as_posix()}
        version = "" if self._version == "v2" else f" ({PAPER_TITLES[self._version]})"
        caption = f"Figure {number} as published{version}: {figure.caption}."
        drawn = figure.draw(frame, published_footer(LIGHT_READER))
        return self._save(drawn, f"figure{number}_published", averages(frame), inputs, caption)

    def _save(self, figure: Figure, name: str, frame: pd.DataFrame, inputs: dict[str, str], caption: str) -> Path:
        files = save_figure(figure, name, self.run / "figures" / "published", frame, inputs, {}, caption)
        return next(path for path in files if path.suffix == ".png")
