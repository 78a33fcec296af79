"""The closing summary of a main job, as its last lines on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from beamlib.report.tables import NOTHING, with_interval

_SPREAD = ("low", "high", "conversations")


def summary_rows(folder: Path, parts: Mapping[str, str], *, offline: bool = True) -> list[dict[str, Any]]:
    """The closing summary: the average of the main table and its evidence recall, per tier (and backbone) and memory.

    `parts` maps the label of a tier to the part of the run folder that holds it. Values are as tables show them, with
    their interval or "n = 1".
    """
    score = "score (offline stand-in)" if offline else "score"
    rows = []
    for label, part in parts.items():
        tables = folder / "tables" / part
        scores = _averages(tables / "table1_main_results.csv")
        evidence = _averages(tables / "table1_evidence_recall.csv")
        rows += [
            {"size": label, "memory": series, score: shown, "evidence recall": evidence.get(series, NOTHING)}
            for series, shown in scores.items()
        ]
    return rows


def _averages(path: Path) -> dict[str, str]:
    frame = pd.read_csv(path, comment="#")
    average = frame[frame["ability"] == "average"].iloc[0]
    series = [name for name in frame.columns if f"{name} low" in frame.columns]
    return {
        name: NOTHING
        if pd.isna(average[name])
        else with_interval(f"{average[name]:.3f}", *(average[f"{name} {part}"] for part in _SPREAD))
        for name in series
    }
