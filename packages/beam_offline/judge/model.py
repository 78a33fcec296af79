"""The judge's decision: what the trained trees say of a row of features, and the verdict that follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from beam_offline.judge.features import trained


class Likelihoods(NamedTuple):
    """How likely an answer is one at all and no made-up text; and earns half a point at least; and a full one."""

    valid: float
    half: float
    full: float


class Trees:
    """Trees of at most eight leaves that are asked all at once.

    Every split has a byte that leaves out the leaves at or below its threshold where a row lies above it; the first
    leaf that no split of a tree leaves out is the one reached. (Splits in preorder, leaves from left to right.)
    """

    def __init__(self, flats: Sequence[Sequence[float]]) -> None:
        self._features = np.zeros((len(flats), _LEAVES - 1), dtype=np.int64)
        self._thresholds = np.full((len(flats), _LEAVES - 1), np.inf)
        self._masks = np.full((len(flats), _LEAVES - 1), 255, dtype=np.uint8)
        self._leaves = np.zeros((len(flats), _LEAVES))
        self._rows = np.arange(len(flats))
        for number, flat in enumerate(flats):
            self._add(number, flat)

    def _add(self, number: int, flat: Sequence[float]) -> None:
        numbers, split, leaf = iter(flat), 0, 0

        def walk() -> None:
            nonlocal split, leaf
            feature, value = int(next(numbers)), next(numbers)
            if feature < 0:
                self._leaves[number, leaf] = value / 100
                leaf += 1
                return
            own, first = split, leaf
            split += 1
            walk()
            self._features[number, own], self._thresholds[number, own] = feature, value
            self._masks[number, own] = 255 & ~sum(1 << left for left in range(first, leaf))
            walk()

        walk()

    def log_odds(self, row: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-odds that each tree adds."""
        masks = np.where(row[self._features] > self._thresholds, self._masks, 255)
        reached = _LOWEST[np.bitwise_and.reduce(masks, axis=1)]
        found: NDArray[np.float64] = self._leaves[self._rows, reached]
        return found


_LEAVES: Final = 8
_LOWEST: Final = np.array([0, *((byte & -byte).bit_length() - 1 for byte in range(1, 256))])


@cache
def _trees() -> tuple[Trees, NDArray[np.int64]]:
    """The trees of all three models, and where those of each begin."""
    flats = [trained()["trees"][name] for name in Likelihoods._fields]
    starts = np.cumsum([0, *map(len, flats)])[:-1]
    return Trees([flat for found in flats for flat in found]), starts


def probability(log_odds: float) -> float:
    """Convert log-odds to a probability."""
    return 1 / (1 + math.exp(-max(min(log_odds, 30.0), -30.0)))


def likelihoods(row: Sequence[float]) -> Likelihoods:
    """Evaluate the trees on one row of features."""
    trees, starts = _trees()
    sums = np.add.reduceat(trees.log_odds(np.array(row)), starts)
    return Likelihoods(*map(probability, sums.tolist()))


def score(found: Likelihoods) -> tuple[float, str]:
    """Return the verdict and what decided it."""
    least = trained()["thresholds"]
    if found.valid < least["valid"]:
        return 0.0, f"it does not read as an answer that could satisfy the nugget ({found.valid:.2f})"
    reached = 0.0 if found.half < least["half"] else 1.0 if found.full >= least["full"] else 0.5
    return reached, f"partly or more {found.half:.2f}, fully {found.full:.2f}"
