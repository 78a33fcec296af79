"""Decide a linear comparison of scores from paired conversations: its interval, its verdict, what would decide it.

A comparison is a sum of weighted averages of arms. Arms of one length are compared on the same conversations, lengths
with each other as independent samples (Welch). Two tests must agree on a verdict: Student's t and, within a length, the
sign-flip test, which no number of conversations below six can pass at 5 %. Errors are controlled by Holm's correction
over the comparisons of a family; `benchmarks/reproduce_errors.py` simulates them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from scipy.special import stdtr, stdtrit

from beamlib.scoring.intervals import Array, sign_flip_test

Decision = Literal["reproduced", "contradicted", "undecided"]

ALPHA = 0.05
POWER = 0.8
"""The chance at which a number of conversations counts as one that would decide."""
_MOST = 100_000
_TINY = 1e-12


@dataclass(frozen=True)
class Bounds:
    """What is claimed of a value: that it lies between `low` and `high`, one of them infinite for a direction."""

    low: float = 0.0
    high: float = math.inf

    @property
    def finite(self) -> list[float]:
        return [bound for bound in (self.low, self.high) if math.isfinite(bound)]


ABOVE_ZERO, BELOW_ZERO = Bounds(), Bounds(-math.inf, 0.0)


@dataclass(frozen=True)
class Estimate:
    """The value of a comparison from samples of paired differences, one sample per length."""

    samples: tuple[Array, ...]

    @property
    def value(self) -> float:
        return float(sum(sample.mean() for sample in self.samples))

    @property
    def conversations(self) -> int:
        return sum(len(sample) for sample in self.samples)

    @property
    def error(self) -> float:
        """The standard error of `value`; NaN where a length has one conversation."""
        if min(map(len, self.samples)) < 2:
            return math.nan
        return math.sqrt(sum(sample.var(ddof=1) / len(sample) for sample in self.samples))

    @property
    def freedom(self) -> float:
        """Degrees of freedom: n - 1 within a length, Welch's over several."""
        parts = [(sample.var(ddof=1) / len(sample), len(sample) - 1) for sample in self.samples]
        total = sum(variance for variance, _ in parts)
        spread = sum(variance**2 / freedom for variance, freedom in parts)
        return total**2 / spread if spread > 0 else float(min(freedom for _, freedom in parts))

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the t-interval of level 1 - `alpha`; NaN for one conversation."""
        if math.isnan(self.error):
            return math.nan, math.nan
        if self.error < _TINY:  # equal differences do not mean that all conversations have them
            unseen = 1 - alpha ** (1 / self.conversations)
            return self.value - unseen * (1 + self.value), self.value + unseen * (1 - self.value)
        half = float(stdtrit(self.freedom, 1 - alpha / 2)) * self.error
        return self.value - half, self.value + half

    def p_values(self, bound: float) -> tuple[float, float]:
        """Return one-sided p-values against "at most `bound`" and against "at least `bound`"."""
        if math.isnan(self.error):
            return 1.0, 1.0
        away = self.value - bound
        if self.error < _TINY:
            p = (1 / (1 + abs(away))) ** self.conversations / 2
        else:
            p = float(stdtr(self.freedom, -abs(away) / self.error))
        if len(self.samples) == 1:
            p = max(p, sign_flip_test(self.samples[0] - bound) / 2)
        return (p, 1 - p) if away >= 0 else (1 - p, p)

    def evidence(self, bounds: Bounds) -> tuple[float, float]:
        """Return two-sided p-values for the claim (the value lies within `bounds`) and against it."""
        above = [self.p_values(bounds.low)] if math.isfinite(bounds.low) else []
        below = [self.p_values(bounds.high)] if math.isfinite(bounds.high) else []
        inside = max([pair[0] for pair in above] + [pair[1] for pair in below])
        outside = min([pair[1] for pair in above] + [pair[0] for pair in below])
        return min(1.0, 2 * inside), min(1.0, 2 * outside * len(bounds.finite))

    def enough(self, bounds: Bounds, alpha: float, most: int) -> int | None:
        """Return the conversations per length that would decide with `POWER`, were the value as estimated.

        None where more than `most` would be needed, or the spread is unknown.
        """
        if math.isnan(self.error) or not all(sample.var() > 0 for sample in self.samples):
            return None
        spread = math.sqrt(sum(sample.var(ddof=1) for sample in self.samples))
        nearest = min(abs(self.value - bound) for bound in bounds.finite)
        for count in range(2, min(most, _MOST) + 1):
            if 2 ** (1 - count) > alpha:  # what the sign-flip test cannot pass
                continue
            freedom = (count - 1) * len(self.samples)
            reach = float(stdtrit(freedom, 1 - alpha / 2) + stdtrit(freedom, POWER)) * spread / math.sqrt(count)
            if reach <= nearest:
                return count
        return None


def holm(p_values: Mapping[str, float], alpha: float = ALPHA) -> dict[str, tuple[float, bool]]:
    """Return for each hypothesis of a family the level that Holm's procedure tests it at, and whether it passes."""
    levels: dict[str, tuple[float, bool]] = {}
    passing = True
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        level = alpha / (len(p_values) - rank)
        passing = passing and p_values[name] <= level
        levels[name] = (level, passing)
    return levels


def decide(p_for: float, p_against: float, passes: bool) -> Decision:
    """Return the verdict on a claim whose smaller p-value does or does not pass its level."""
    if not passes:
        return "undecided"
    return "reproduced" if p_for <= p_against else "contradicted"


def power(effect: float, spread: float, conversations: int, alpha: float = ALPHA) -> float:
    """Return the power of the t-test of a paired difference at a two-sided level `alpha` (normal spread)."""
    from scipy.stats import nct

    freedom = conversations - 1
    critical = stdtrit(freedom, 1 - alpha / 2)
    return float(nct.sf(critical, freedom, effect / spread * math.sqrt(conversations)))
