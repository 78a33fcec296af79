"""The paper's figures by themselves: published values with nothing else there, each with its data."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_run.paper import Paper
from beamlib.errors import UserError


def test_without_a_run_there_are_the_published_and_the_released_ones(repo_root: Path, tmp_path: Path) -> None:
    pictures = Paper(tmp_path / "run").figures([3, 4])
    kinds = [f"figure{number}_{kind}.png" for number in (3, 4) for kind in ("published", "released")]
    assert [one.name for one in pictures] == kinds
    kept = repo_root / "figures/published"
    for one in pictures:
        for kind in (".csv", ".json"):
            assert one.with_suffix(kind).read_bytes() == (kept / one.name).with_suffix(kind).read_bytes()
    assert {path.name for path in tmp_path.rglob("*") if path.is_dir()} == {"run", "figures", "published"}
    assert Paper(tmp_path / "run").main_table() is None


def test_other_figures_are_no_figures_of_scores(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="figure 2 cannot be drawn; the ones that can are 3, 4, 5"):
        Paper(tmp_path).figures([3, 2])
