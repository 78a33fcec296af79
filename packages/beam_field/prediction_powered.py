"""An average that one judge gave to all answers, corrected by what a better judge says of a part of them.

Prediction-powered inference (Angelopoulos et al., Science 382, 2023; with the power parameter of "PPI++", 2023), for
means over questions that go together in conversations. No use is made of how good the judge is: the interval holds
where it is worthless, and is then about as wide as that of the labelled part alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from beamlib.scoring.intervals import LEVEL, Array, logit_interval, mean_interval

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Corrected:
    """A mean with its 95 % interval.

    `plain` is the mean of the cheap judge over everything, `labelled` that of the better judge over its part. `power`
    is the weight of the cheap judge, 0 where it tells nothing; `n` are the conversations with a label.
    """

    mean: float
    low: float
    high: float
    plain: float
    labelled: float
    power: float
    n: int


def corrected(cheap: Array, better: Array, conversations: npt.NDArray[Any]) -> Corrected:
    """The mean that the better judge would give to all, from 0 to 1.

    All are (questions,): the cheap judge's scores, the better one's with NaN where there is none, and what names
    the conversation that a question is of. Which questions are labelled must not depend on their answers. The mean is

        mean(better) + power x (mean of cheap over all - mean of cheap over the labelled)

    with the `power` from 0 to 1 that makes its variance least. A conversation may be labelled whole, in part or not.
    The interval is Student's t with one degree of freedom less than there are labelled conversations, over the
    jackknife's standard error: the mean without each conversation, the power found anew each time, which matters where
    few are labelled. It is taken on the logit scale, as in `mean_interval`: near 0 and 1 scores pile up on one side.
    NaN for fewer than two labelled conversations.
    """
    known = ~np.isnan(better)
    plain = float(cheap.mean()) if cheap.size else float("nan")
    if not known.any():
        return Corrected(_NAN, _NAN, _NAN, plain, labelled=_NAN, power=0.0, n=0)
    _, unit = np.unique(conversations, return_inverse=True)
    sums: Array = np.stack([np.bincount(unit, values) for values in _counted(cheap, better, known)]).astype(np.float64)
    n = int((sums[_LABELS] > 0).sum())
    mean, power = _estimate(sums)
    labelled = float(better[known].mean())
    if n < 2:
        return Corrected(float(np.clip(mean, 0, 1)), _NAN, _NAN, plain, labelled, power, n)
    left_out = np.array([_estimate(np.delete(sums, place, axis=1))[0] for place in range(sums.shape[1])])
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2) * np.sqrt((n - 1) / n * ((left_out - mean) ** 2).sum()))
    # No spread to be seen is not none: the rule of equal scores (`mean_interval`) has a width for it.
    ends = logit_interval(mean, half) if half > _TINY else mean_interval(np.full(n, mean))
    return Corrected(float(np.clip(mean, 0, 1)), float(ends[0]), float(ends[1]), plain, labelled, power, n)


_TINY, _NAN = 1e-12, float("nan")
_ALL, _CHEAP, _LABELS, _CHEAP_LABELLED, _BETTER = range(5)


def _counted(cheap: Array, better: Array, known: Mask) -> tuple[Array, ...]:
    """Per question what is summed per conversation, in the order of `_ALL` to `_BETTER`."""
    held = known.astype(np.float64)
    return np.ones_like(cheap), cheap, held, cheap * held, np.where(known, better, 0.0)


def _estimate(sums: Array) -> tuple[float, float]:
    """The mean and the power, of sums (5, conversations)."""
    every, cheap, labels, cheap_labelled, better = sums.sum(axis=1)
    total, own, best = cheap / every, cheap_labelled / labels, better / labels
    # What each conversation adds to a mean, to first order: its deviations from it.
    labelled = (sums[_BETTER] - best * sums[_LABELS]) / labels
    difference = (sums[_CHEAP] - total * sums[_ALL]) / every - (sums[_CHEAP_LABELLED] - own * sums[_LABELS]) / labels
    spread = float(difference @ difference)
    power = float(np.clip(-(labelled @ difference) / spread, 0.0, 1.0)) if spread > 0 else 0.0
    return float(best + power * (total - own)), power
