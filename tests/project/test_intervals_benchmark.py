"""The coverage that `benchmarks/intervals.py` measures, its populations, and that it shows a bad interval."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="module")
def benchmark(repo_root: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repo_root / "benchmarks"))
        import intervals  # type: ignore[import-not-found]

        yield intervals


@pytest.fixture(scope="module")
def found(benchmark: ModuleType) -> list[dict[str, Any]]:
    rows = [*benchmark.real_rows(benchmark.unit_scores()), *benchmark.made_up_rows()]
    entries: list[dict[str, Any]] = benchmark.simulate(rows, (2, 5, 10, 20), draws=3000, seed=3)
    return entries


def test_averages_are_covered_and_a_cell_outside_the_range_says_why(found: list[dict[str, Any]]) -> None:
    chosen = [row for row in found if "average" in row["interval"] or "unscored" in row["interval"]]
    assert len(chosen) == 8
    for row in chosen:
        for cell in row["cells"]:
            equal = cell["equal"] > 2.5  # yes-or-no scores: two averages are often the same, and then surely covered
            assert 92 <= cell["coverage"] <= (100 if equal else 98), (row["population"], cell)
    for row in found:
        for cell in row["cells"]:
            assert bool(cell["reason"]) == (not 92 <= cell["coverage"] <= 98)
            if cell["coverage"] < 92:  # never without values that most samples of this size do not hold
                assert cell["blind"] > 30, (row["population"], cell)
            if cell["coverage"] > 98:
                assert cell["equal"] > 1 or cell["levels"] < 25, (row["population"], cell)


def test_the_percentile_bootstrap_would_fail(benchmark: ModuleType) -> None:
    """What the package printed before: nearly half of the intervals from two conversations miss."""

    def bootstrap(samples: np.ndarray) -> np.ndarray:
        n = samples.shape[1]
        draws = np.random.default_rng(0).integers(n, size=(500, n))
        return np.quantile(samples[:, draws].mean(axis=-1), [0.025, 0.975], axis=1)

    scores = benchmark.unit_scores()[benchmark.MEM0].mean(axis=1).to_numpy()
    row = benchmark.Row("bootstrap", "mem0", scores, bootstrap)
    coverage = [benchmark.covered(row, n, draws=1000, seed=0)["coverage"] for n in (2, 5)]
    assert coverage[0] < 60 and coverage[1] < 90


def test_shipped_scores_are_those_of_the_published_verdicts(benchmark: ModuleType, shared: Path) -> None:
    verdicts = pd.read_csv(shared / "data" / "field" / "verdicts.csv")
    sources = {
        ("mem0", "1m-top200"): benchmark.MEM0,
        ("mem0", "1m-top50"): benchmark.MEM0_LESS,
        ("truememory", "1m-run1"): benchmark.TRUEMEMORY,
        ("truememory", "1m-run2"): benchmark.TRUEMEMORY_AGAIN,
    }
    for (source, run), name in sources.items():
        own = verdicts[(verdicts["source"] == source) & (verdicts["run"] == run)]
        own = own.assign(unit=own["probe"].str.rpartition("-")[0], score=own["score"].fillna(own["published"]))
        questions = own.groupby(["unit", "ability", "probe"])["score"].mean()
        expected = questions.groupby(["unit", "ability"]).mean().unstack("ability")
        assert expected.shape == (35, 10)
        pd.testing.assert_frame_equal(benchmark.unit_scores()[name], expected, atol=1e-4, check_names=False)


def test_shipped_memorycode_scores_are_the_released_ones(benchmark: ModuleType, memorycode_data: Path) -> None:
    expected = json.loads(gzip.decompress((memorycode_data / "expected_scores.json.gz").read_bytes()))["gpt-4o"]
    by_id = {str(one["dialogue_id"]): one["history"] for one in expected["per_dialogue"]}
    shipped = benchmark.unit_scores()["MemoryCode GPT-4o"]
    assert shipped.notna().sum().to_dict() == {"100 sessions": 30, "5 sessions": 30}
    for unit, score in shipped.min(axis=1).items():
        assert score == pytest.approx(by_id[unit], abs=1e-4)


def test_it_prints_a_line_for_each_row_and_each_reason(
    benchmark: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark.main(draws=100, seed=0, as_json=False)
    shown = capsys.readouterr().out
    assert "average over abilities" in shown and "n = 35" in shown
    assert "samples show n equal values" in shown and "rare far values" in shown
