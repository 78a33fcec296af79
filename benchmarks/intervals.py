"""How often a 95 % interval of this package covers the mean it is for: `python benchmarks/intervals.py --help`.

Samples of n units (conversations, or dialogues of MemoryCode) are drawn with replacement from a known population. The
package's intervals are computed on the samples; coverage is the share that holds the population's mean. Populations are
real scores per unit that others published, and made-up ones with heavier tails.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from tqdm import tqdm

from beamlib.files import to_json
from beamlib.scoring.intervals import Array, conversation_values, difference_interval, mean_interval
from beamlib.scoring.scores import average_values
from run import print_table

SIZES = (2, 3, 5, 10, 20, 35)
LOWEST, HIGHEST = 92.0, 98.0
EQUAL = 2.5  # percent of samples of equal values that can lift a coverage of 95 towards 98
SCORES = Path(__file__).parent / "unit_scores.csv"
"""Scores per unit, computed from published verdicts (mem0, TrueMemory) and outputs (MemoryCode): numbers only."""

MEM0, MEM0_LESS, TRUEMEMORY, TRUEMEMORY_AGAIN = (
    "mem0 1M top 200", "mem0 1M top 50", "TrueMemory 1M run 1", "TrueMemory 1M run 2",
)  # fmt: skip
MISSING = 0.1


@dataclass(frozen=True, eq=False)
class Row:
    """An interval of the package on one population of shape (units, ...), observed or made up (`real`).

    `ends` takes samples of shape (R, n, ...) and returns both ends, shape (2, R).
    """

    interval: str
    population: str
    units: Array = field(repr=False)
    ends: Callable[[Array], Array] = field(repr=False)
    real: bool = True

    @property
    def values(self) -> Array:
        """Return one value per unit."""
        return self.units if self.units.ndim == 1 else self.units.mean(axis=1)


def unit_scores() -> dict[str, pd.DataFrame]:
    """Return the shipped scores by run, a row per unit and a column per measure (an ability, a number of sessions)."""
    frame = pd.read_csv(SCORES, dtype={"unit": str})
    return {str(run): own.pivot(index="unit", columns="measure", values="score") for run, own in frame.groupby("run")}


def with_gaps(ends: Callable[[Array], Array], seed: int = 1) -> Callable[[Array], Array]:
    """Return `ends` on samples with a tenth of the scores missing at random."""

    def with_missing(samples: Array) -> Array:
        lost = np.random.default_rng(seed).random(samples.shape) < MISSING
        lost &= ~lost.all(axis=1, keepdims=True)  # an ability without any score has no mean, and no average is printed
        return ends(np.where(lost, np.nan, samples))

    return with_missing


def of_average(samples: Array) -> Array:
    """Return the interval of the `average` of tables, from scores per ability."""
    return mean_interval(average_values(samples))


def of_questions(samples: Array) -> Array:
    """Return the interval of a mean over questions, in which a conversation counts with its number of questions."""
    scored = ~np.isnan(samples)
    return mean_interval(conversation_values(np.where(scored, samples, 0.0).sum(-1), scored.sum(-1).astype(np.float64)))


def real_rows(runs: Mapping[str, pd.DataFrame]) -> list[Row]:
    """Return every interval that the package prints, on observed scores."""
    rows = [
        Row("average over abilities", name, runs[name].to_numpy(), of_average) for name in (MEM0, MEM0_LESS, TRUEMEMORY)
    ]
    rows += [Row("the same, 10 % unscored", MEM0, runs[MEM0].to_numpy(), with_gaps(of_average))]
    rows += [Row("mean over questions, 10 % unscored", MEM0, runs[MEM0].to_numpy(), with_gaps(of_questions))]
    pairs = ((MEM0, MEM0_LESS), (TRUEMEMORY, TRUEMEMORY_AGAIN), (MEM0, TRUEMEMORY))
    gains = {f"{first} less {second}": runs[first] - runs[second] for first, second in pairs}
    for name, gain in gains.items():
        rows.append(Row("paired difference, average", name, gain.mean(axis=1).to_numpy(), difference_interval))
    for name in (MEM0, TRUEMEMORY):
        for ability, scores in runs[name].items():
            rows.append(Row("one ability", f"{name}: {ability}", scores.to_numpy(), mean_interval))
    name, gain = next(iter(gains.items()))
    for ability, scores in gain.items():
        rows.append(Row("paired difference, one ability", f"{name}: {ability}", scores.to_numpy(), difference_interval))
    for sessions, scores in runs["MemoryCode GPT-4o"].items():
        population = f"MemoryCode GPT-4o: {sessions}"
        rows.append(Row("point of a MemoryCode figure", population, scores.dropna().to_numpy(), mean_interval))
    return rows


def made_up_rows() -> list[Row]:
    """Return populations of 4,000 units with heavier tails than the observed ones."""
    rng = np.random.default_rng(0)
    means = {
        "Beta(.3, .9)": rng.beta(0.3, 0.9, 4000),
        "lognormal, median .1, cut at 1": (0.1 * rng.lognormal(size=4000)).clip(max=1),
        "four in five 0, the others Beta(1, 3)": np.r_[np.zeros(3200), rng.beta(1, 3, 800)],
        "0 or 1, one in twenty 1": np.r_[np.zeros(3800), np.ones(200)],
        "0 or 1, three in ten 1": np.r_[np.zeros(2800), np.ones(1200)],
        ".6 ± .05, one in twenty below .1": np.r_[rng.normal(0.6, 0.05, 3800), rng.uniform(0, 0.1, 200)],
    }
    gains = {
        "Student's t, 3 degrees, x .05": (0.05 * rng.standard_t(3, 4000)).clip(-1, 1),
        "Laplace, x .1, moved by .05": (0.05 + rng.laplace(0, 0.1, 4000)).clip(-1, 1),
        "0, one in ten normal x .3": np.where(rng.random(4000) < 0.1, rng.normal(0, 0.3, 4000), 0).clip(-1, 1),
    }
    rows = [Row("mean of scores", name, values, mean_interval, real=False) for name, values in means.items()]
    return rows + [
        Row("paired difference", name, values, difference_interval, real=False) for name, values in gains.items()
    ]


def covered(row: Row, n: int, draws: int, seed: int) -> dict[str, Any]:
    """Compute the coverage of `row` with n units in percent, the mean width, and what samples may not show.

    Samples with n equal values have no interval and do not count; `equal` is their percentage. `blind` is that of
    samples without any far value; far are the fewest values that carry half of the variance.
    """
    picked = np.random.default_rng([seed, n]).integers(len(row.units), size=(draws, n))
    low, high = row.ends(row.units[picked])
    values = row.values
    truth = values.mean()
    shown = ~np.isnan(low)
    covers = ((low <= truth + 1e-9) & (truth <= high + 1e-9))[shown]
    squares = np.sort((values - truth) ** 2)[::-1]
    far = np.searchsorted(squares.cumsum(), squares.sum() / 2) + 1
    return {
        "n": n,
        "coverage": float(100 * covers.mean()),
        "width": float((high - low)[shown].mean()),
        "equal": float(100 * (~shown).mean()),
        "blind": float(100 * (1 - far / len(values)) ** n),
        "levels": len(np.unique(values.round(9))),
    }


def reason(cell: Mapping[str, Any]) -> str:
    """Say why a cell is out of the range, "" for a cell within it.

    Above: with few levels, or where most samples show n equal values, coverage goes in steps. Below: a sample without
    the far values does not show them.
    """
    if LOWEST <= cell["coverage"] <= HIGHEST:
        return ""
    if cell["coverage"] < LOWEST:
        return f"rare far values, {cell['blind']:.0f} % of samples hold none"
    equal = f"{cell['equal']:.0f} % of samples show n equal values"
    return equal if cell["equal"] > EQUAL else f"only {cell['levels']} levels, so coverage goes in steps"


def simulate(rows: Sequence[Row], sizes: Sequence[int], draws: int, seed: int) -> list[dict[str, Any]]:
    """Return an entry per row, with its cells in order of `sizes`."""
    entries = []
    for row in tqdm(rows, desc="simulating", unit="row", disable=None, file=sys.stderr):
        cells = [covered(row, n, draws, seed) for n in sizes]
        cells = [{**cell, "reason": reason(cell)} for cell in cells]
        entries.append({"interval": row.interval, "population": row.population, "real": row.real, "cells": cells})
    return entries


def _mark(cell: Mapping[str, Any]) -> str:
    mark = "" if not cell["reason"] else ">" if cell["coverage"] > HIGHEST else "<"
    return f"{mark}{cell['coverage']:.1f}"


def main(
    draws: Annotated[
        int, typer.Option(min=100, help="Samples per cell; 10,000 leave an error of 0.2 points.")
    ] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the samples.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with widths and reasons.")] = False,
) -> None:
    """Print the coverage of every interval that the package prints, in percent, by number of conversations."""
    entries = simulate([*real_rows(unit_scores()), *made_up_rows()], SIZES, draws, seed)
    if as_json:
        print(to_json(entries, indent=2))
        return
    columns = {f"n = {n}": lambda row, place=place: _mark(row["cells"][place]) for place, n in enumerate(SIZES)}
    reasons = [
        f"{_mark(cell):>6}  n = {cell['n']:<2}  {row['population']}: {cell['reason']}"
        for row in entries
        for cell in row["cells"]
        if cell["reason"]
    ]
    title = f"Coverage of 95 % intervals in percent; {draws:,} samples per cell, seed {seed}"
    print_table(title, entries, {"interval": "{interval}", "population": "{population}", **columns}, reasons)


if __name__ == "__main__":
    typer.run(main)
