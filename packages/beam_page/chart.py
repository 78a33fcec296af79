"""The chart that opens a page: the average of every memory with its interval, size below size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from beamlib.scoring.scores import AVERAGE

_LEFT, _WIDTH, _STEP, _TOP = 190, 460, 20, 26
_SHORT = 24


def chart(sizes: Sequence[str], series: Sequence[str], scores: Mapping[str, Any]) -> dict[str, Any] | None:
    """Places of an SVG drawing, None where there is nothing to draw: rows with dots, intervals and labels, an axis.

    `scores` are the printed numbers by series, size and ability; both axis and values go from 0 to 1.
    """
    rows: list[dict[str, Any]] = []
    at = _TOP
    for size in sizes:
        own = [(name, scores[name][size][AVERAGE]) for name in series if size in scores.get(name, {})]
        own = [(name, found) for name, found in own if found[0] is not None]
        if own:
            rows.append({"y": at, "size": size, "n": own[0][1][4]})
            at += _STEP
        for name, (mean, low, high, *_) in own:
            short = name if len(name) <= _SHORT else f"…{name[1 - _SHORT :]}"  # the end tells arms apart
            ends = [_x(float(end)) for end in (low, high)] if low is not None and high is not None else []
            rows.append(
                {"y": at, "name": short, "x": _x(float(mean)), "ends": ends, "mean": mean, "low": low, "high": high}
            )
            at += _STEP
    ticks = [{"x": _x(tick / 4), "label": f"{tick / 4:g}"} for tick in range(5)]
    places = {"width": _LEFT + _WIDTH + 60, "height": at + 24, "top": _TOP - 12, "bottom": at, "left": _LEFT}
    return {**places, "rows": rows, "ticks": ticks} if rows else None


def _x(value: float) -> float:
    return round(_LEFT + _WIDTH * min(1.0, max(0.0, value)), 1)
