"""Formulas on the printed tables alone: drops between the columns of Table 4, comparisons of its rows, totals."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

from beam_claims.values import (
    STATUSES,
    ClaimOutcome,
    Interval,
    change,
    figures,
    holds,
    number,
    places_of,
    rounded,
    show_decimal,
    unchecked,
    verdict,
    worst,
)
from beam_memorycode.paper_claims.on_evidence import MemoryCodeEvidence

_EARLIER = ("instruction", "session")


def not_checkable(data: MemoryCodeEvidence, printed: str, reason: str) -> ClaimOutcome:
    """Return the outcome of a setting, a cost, or a run whose outputs were not released."""
    return unchecked(reason)


def share(data: MemoryCodeEvidence, printed: str, model: str, setup: str) -> ClaimOutcome:
    """Compare a mean of Table 4 on the scale from 0 to 1."""
    value, allowed = data.score(model, setup) / 100, data.interval(model, setup)
    status = verdict(figures(printed)[0], value, allowed=Interval(allowed.low / 100, allowed.high / 100))
    return ClaimOutcome(number(value, 3), status)


def perfect(data: MemoryCodeEvidence, printed: str, model: str, setup: str) -> ClaimOutcome:
    """Check that a mean of Table 4 is 100."""
    value = data.score(model, setup)
    return ClaimOutcome(number(value, 1), holds(value == 100))


def drop(data: MemoryCodeEvidence, printed: str, model: str, before: str, after: str) -> ClaimOutcome:
    """Compare the difference of two columns on the scale from 0 to 1."""
    value = (data.score(model, before) - data.score(model, after)) / 100
    points = data.interval(model, before).minus(data.interval(model, after))
    allowed = Interval(points.low / 10_000, points.high / 10_000)  # `minus` takes shares, and these are percent
    note = f"Printed means allow {show_decimal(allowed.low, 3)} to {show_decimal(allowed.high, 3)}."
    return ClaimOutcome(number(value, 3), verdict(figures(printed)[0], value, allowed=allowed), note)


def relative_drop(data: MemoryCodeEvidence, printed: str, model: str, before: str, after: str) -> ClaimOutcome:
    """Compare the drop from one column to another in percent of the first."""
    value = _relative_drop(data, model, before, after)
    risen = data.interval(model, after).relative_to(data.interval(model, before))
    allowed = Interval(-risen.high, -risen.low)
    status = verdict(figures(printed)[0], value, allowed=allowed)
    return ClaimOutcome(
        number(value, 1),
        status,
        f"Printed means allow {show_decimal(allowed.low, 1)} to {show_decimal(allowed.high, 1)}.",
    )


def _relative_drop(data: MemoryCodeEvidence, model: str, before: str, after: str) -> Decimal:
    return -change(data.score(model, after), data.score(model, before))


def at_least(data: MemoryCodeEvidence, printed: str, setups: list[str], models: list[str]) -> ClaimOutcome:
    """Check that the named rows (none: all) reach the printed share in the named columns, after rounding."""
    threshold = figures(printed)[0]
    cells = list(product(models or data.published.models, setups))
    below = [cell for cell in cells if rounded(data.score(*cell) / 100, places_of(threshold)) < threshold]
    lowest = min(cells, key=lambda cell: data.score(*cell))
    note = "; ".join(f"{model} {setup} {data.score(model, setup)}" for model, setup in below)
    return ClaimOutcome(number(data.score(*lowest) / 100, 3), holds(not below), f"Below: {note}." if note else "")


def falls(data: MemoryCodeEvidence, printed: str, after: str) -> ClaimOutcome:
    """Check that every model has less in column `after` than in both setups without a history."""
    rising = [
        model
        for model, before in product(data.published.models, _EARLIER)
        if data.score(model, after) >= data.score(model, before)
    ]
    drops = {model: number(_relative_drop(data, model, "instruction", after), 1) for model in data.published.models}
    return ClaimOutcome(drops, holds(not rising), "Relative drops from instruction, in percent.")


def similar_drops(
    data: MemoryCodeEvidence, printed: str, models: list[str], before: str, after: str, within: str
) -> ClaimOutcome:
    """Check that the drops of the named rows lie within `within` (a share) of the printed drop."""
    drops = {model: (data.score(model, before) - data.score(model, after)) / 100 for model in models}
    far = [model for model, value in drops.items() if abs(value - figures(printed)[0]) > Decimal(within)]
    note = f"Taken as similar: no more than {within} apart. Further apart: {', '.join(far) or 'none'}."
    return ClaimOutcome({model: number(value, 3) for model, value in drops.items()}, holds(not far), note)


def best(data: MemoryCodeEvidence, printed: str, model: str, setups: list[str], without: list[str]) -> ClaimOutcome:
    """Check that `model` has the highest mean of all rows but `without`, in each of the named columns."""
    rows = [row for row in data.published.models if row not in without]
    leaders = {setup: max(rows, key=lambda row, setup=setup: data.score(row, setup)) for setup in setups}  # type: ignore[misc]
    recomputed = {setup: f"{leader} {data.score(leader, setup)}" for setup, leader in leaders.items()}
    return ClaimOutcome(recomputed, holds(set(leaders.values()) == {model}))


def above(data: MemoryCodeEvidence, printed: str, model: str, other: str, setup: str) -> ClaimOutcome:
    """Check that `model` lies above `other` by more than 1.96 standard errors of the difference."""
    first, second = data.published.scores[model, setup], data.published.scores[other, setup]
    error = (first.stderr**2 + second.stderr**2).sqrt()
    difference = first.mean - second.mean
    note = f"{show_decimal(difference / error, 1)} standard errors apart." if error else ""
    return ClaimOutcome(f"{first.mean} vs {second.mean}", holds(difference > Decimal("1.96") * error), note)


def larger_drops(data: MemoryCodeEvidence, printed: str, than: list[str]) -> ClaimOutcome:
    """Check that all other rows lose a larger part from instruction to long history than each of `than`."""
    drops = {model: _relative_drop(data, model, "instruction", "long_history") for model in data.published.models}
    limit = max(drops[model] for model in than)
    smaller = [model for model, value in drops.items() if model not in than and value <= limit]
    note = f"Not larger: {', '.join(smaller)}." if smaller else ""
    return ClaimOutcome({model: number(value, 1) for model, value in drops.items()}, holds(not smaller), note)


def all_tokens(data: MemoryCodeEvidence, printed: str, short: int, long: int) -> ClaimOutcome:
    """Compute the tokens of the whole set, in millions, from the means of Table 2 and the sizes of the two sets."""
    counts = {"short": short, "long": long}
    total = sum(count * data.published.statistic("tokens", subset)[0] for subset, count in counts.items())
    value = Decimal(total) / 1_000_000
    return ClaimOutcome(number(value), verdict(figures(printed)[0], value), f"{short} short and {long} long dialogues.")


def short_share(data: MemoryCodeEvidence, printed: str, per_count: int) -> ClaimOutcome:
    """Compute the shares of short and long dialogues, in percent: 15 sessions counted as short, and as neither."""
    counts = [int(value) for value in data.published.values("sessions_per_history")]
    below, at, over = (
        per_count * sum(map(test, counts)) for test in (lambda n: n < 15, lambda n: n == 15, lambda n: n > 15)
    )
    readings = {
        "15 is short": (below + at, over, below + at + over),
        "15 is neither, of 360": (below, over, below + at + over),
        "15 is left out": (below, over, below + over),
    }
    shares = {name: [100 * Decimal(part) / of for part in (a, b)] for name, (a, b, of) in readings.items()}
    statuses = [worst([verdict(p, v) for p, v in zip(figures(printed), pair, strict=True)]) for pair in shares.values()]
    recomputed = {name: [number(value, 1) for value in pair] for name, pair in shares.items()}
    return ClaimOutcome(
        recomputed, min(statuses, key=STATUSES.index), f"Table 2's mean of sessions needs {below + at} short dialogues."
    )
