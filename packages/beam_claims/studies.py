"""Formulas on single cells of the score tables and on the studies of Tables 8, 9 and 10 (paper section 4.2, C.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from itertools import pairwise

from beam_claims.values import (
    ABOVE,
    BELOW,
    ClaimOutcome,
    Interval,
    Scores,
    Status,
    Tables,
    change,
    figures,
    holds,
    mean,
    number,
    places_of,
    rounded,
    show,
    truncated,
    verdict,
)
from beamlib.data import published

LABELS: Mapping[str, str] = {"sparse_splade": "sparse"}
"""Series whose name in a remark is not the column's own."""


def label(series: str) -> str:
    """A series as words: "without_noise_filtering" -> "without noise filtering"."""
    return LABELS.get(series, series.replace("_", " "))


def relative_change(tables: Tables, printed: str, table: str, length: str, value: str, base: str) -> ClaimOutcome:
    """100 * (A / B - 1) on the Average rows of series `value` (A) and `base` (B) at one length."""
    scores = tables.scores(table)
    averages = scores.average(length, value), scores.average(length, base)
    gain = change(*averages)
    rows = change(scores.row_mean(length, value), scores.row_mean(length, base))
    allowed = scores.interval(length, value).relative_to(scores.interval(length, base))
    note = (
        f"Relative change: {averages[0]}/{averages[1]} = {show(gain, signed=True)}%; "
        f"from the ability rows {show(rows, signed=True)}%; allowed {allowed}."
    )
    return ClaimOutcome(number(gain), verdict(figures(printed)[0], gain, rows, allowed=allowed), note)


def point_change(tables: Tables, printed: str, table: str, length: str, value: str, base: str) -> ClaimOutcome:
    """100 * (A - B) on the Average rows, in percentage points."""
    scores = tables.scores(table)
    averages = scores.average(length, value), scores.average(length, base)
    gain, rows = scores.points(length, value, base), scores.points(length, value, base, by_rows=True)
    allowed = scores.interval(length, value).minus(scores.interval(length, base))
    note = (
        f"Percentage points, not a ratio: {averages[0]} - {averages[1]} = {show(gain, signed=True)}; "
        f"from the ability rows {show(rows, signed=True)}; allowed {allowed}."
    )
    if any(scores.row_mean(length, name) != scores.row_mean(length, name, corrected=False) for name in (value, base)):
        note += " The ability rows use the corrected misprint."
    return ClaimOutcome(number(gain), verdict(figures(printed)[0], gain, rows, allowed=allowed), note)


def _removals(scores: Scores, length: str) -> dict[str, Decimal]:
    """Change of the Average, in percentage points, when a component is removed."""
    return {name: scores.points(length, name, "base") for name in scores.series if name != "base"}


def removal_signs(tables: Tables, printed: str, length: str, signs: dict[str, str]) -> ClaimOutcome:
    """Sign of the change of the Average on removal of each component at one length, against the stated `signs`."""
    effects = _removals(tables.scores("table8"), length)
    found = {name: _sign(effect) for name, effect in effects.items()}
    return ClaimOutcome({name: number(effect) for name, effect in effects.items()}, holds(found == signs))


def _sign(value: Decimal) -> str:
    return "+" if value > 0 else "-" if value < 0 else "0"


def removal_growth(tables: Tables, printed: str) -> ClaimOutcome:
    """Effect of each removal by length; holds when every effect grows more negative at each step."""
    scores = tables.scores("table8")
    by_length = [_removals(scores, length) for length in scores.lengths]
    series = {name: [effects[name] for effects in by_length] for name in by_length[0]}
    steady = [
        label(name) for name, effects in series.items() if all(before > after for before, after in pairwise(effects))
    ]
    end_to_end = sum(effects[-1] < effects[0] for effects in series.values())
    note = f"At every step: {', '.join(steady) or 'none'}; end to end: {end_to_end} of {len(series)}."
    recomputed = {name: [number(effect) for effect in effects] for name, effects in series.items()}
    return ClaimOutcome(recomputed, holds(len(steady) == len(series)), note)


def base_is_best(tables: Tables, printed: str) -> ClaimOutcome:
    """Average of the full system against the best variant at each length."""
    scores = tables.scores("table8")
    recomputed, better = {}, []
    for length in scores.lengths:
        averages = {name: scores.average(length, name) for name in scores.series}
        best = max(averages, key=lambda name: averages[name])
        recomputed[length] = {"base": float(averages["base"]), "best": [best, float(averages[best])]}
        better += [f"{length} {label(name)} {value}" for name, value in averages.items() if value > averages["base"]]
    return ClaimOutcome(recomputed, holds(not better), f"Better than the full system: {', '.join(better) or 'none'}.")


def each_contributes(tables: Tables, printed: str) -> ClaimOutcome:
    """Removals that lower the Average; holds when each component's does at two lengths or more and on the whole."""
    scores = tables.scores("table8")
    by_length = {length: _removals(scores, length) for length in scores.lengths}
    effects = {name: [by_length[length][name] for length in scores.lengths] for name in by_length[scores.lengths[0]]}
    lowered = sum(effect < 0 for values in effects.values() for effect in values)
    contributes = [sum(effect < 0 for effect in values) >= 2 and sum(values) < 0 for values in effects.values()]
    exceptions = [
        f"{length} {label(name)}"
        for length, values in by_length.items()
        for name, effect in values.items()
        if effect >= 0
    ]
    return ClaimOutcome(
        f"{lowered} of {sum(map(len, effects.values()))}",
        holds(all(contributes)),
        f"Exceptions: {', '.join(exceptions) or 'none'}.",
    )


def component_helps(tables: Tables, printed: str, variant: str, abilities: list[str]) -> ClaimOutcome:
    """Lengths at which the full system exceeds `variant`, per ability; holds when it does at every length."""
    scores = tables.scores("table8")
    cell = scores.printed
    gains = {
        ability: [cell[length, ability, "base"] - cell[length, ability, variant] for length in scores.lengths]
        for ability in scores.abilities
    }
    cells = [gain for values in gains.values() for gain in values]
    counts = {ability: sum(gain > 0 for gain in gains[ability]) for ability in abilities}
    note = (
        f"Lengths with a gain, of {len(scores.lengths)}. Over all abilities the full system is better in "
        f"{sum(gain > 0 for gain in cells)} of {len(cells)} cells and equal in {sum(gain == 0 for gain in cells)}."
    )
    return ClaimOutcome(counts, holds(all(count == len(scores.lengths) for count in counts.values())), note)


def compared_depths(tables: Tables, printed: str) -> ClaimOutcome:
    """The values of K in Table 9."""
    depths = tables.scores("table9").series
    return ClaimOutcome(", ".join(depths), holds([Decimal(depth) for depth in depths] == figures(printed)))


def best_depth(tables: Tables, printed: str) -> ClaimOutcome:
    """Average by K; holds when the printed K reaches the maximum at every length, ties included."""
    scores = tables.scores("table9")
    named = str(figures(printed)[0])
    best = {length: max(scores.average(length, depth) for depth in scores.series) for length in scores.lengths}
    ties = [
        f"K={depth} at {length}"
        for length in scores.lengths
        for depth in scores.series
        if depth != named and scores.average(length, depth) == best[length]
    ]
    return ClaimOutcome(
        {depth: [float(scores.average(length, depth)) for length in scores.lengths] for depth in scores.series},
        holds(all(scores.average(length, named) == best[length] for length in scores.lengths)),
        f"As good in the printed rows: {', '.join(ties) or 'none'}.",
    )


def steady_rise(tables: Tables, printed: str, depths: list[str]) -> ClaimOutcome:
    """Average along `depths`; holds when it never falls at any length."""
    scores = tables.scores("table9")
    series = {length: [scores.average(length, depth) for depth in depths] for length in scores.lengths}
    falls = [length for length, values in series.items() if any(after < before for before, after in pairwise(values))]
    recomputed = {length: [float(value) for value in values] for length, values in series.items()}
    return ClaimOutcome(recomputed, holds(not falls), f"Not monotone at: {', '.join(falls) or 'none'}.")


def depth_signs(tables: Tables, printed: str, value: str, base: str, signs: dict[str, str]) -> ClaimOutcome:
    """Sign of the change of the Average from K = `base` to K = `value` at each length, against the stated `signs`."""
    scores = tables.scores("table9")
    changes = {length: scores.points(length, value, base) for length in scores.lengths}
    found = {length: _sign(gain) for length, gain in changes.items()}
    return ClaimOutcome({length: number(gain) for length, gain in changes.items()}, holds(found == signs))


def depth_drop(tables: Tables, printed: str, value: str, base: str) -> ClaimOutcome:
    """Change of the Average from K = `base` to `value`, by printed and by ability rows; holds when all printed fall."""
    scores = tables.scores("table9")
    changes = {
        length: [scores.points(length, value, base, by_rows=by_rows) for by_rows in (False, True)]
        for length in scores.lengths
    }
    level = [length for length, (gain, _) in changes.items() if gain >= 0]
    recomputed = {length: [number(gain) for gain in pair] for length, pair in changes.items()}
    note = f"Percentage points [printed rows, ability rows]. Not worse in print at: {', '.join(level) or 'none'}."
    return ClaimOutcome(recomputed, holds(not level), note)


def _sparse_minus_dense(scores: Scores) -> dict[str, Decimal]:
    return {length: scores.points(length, "sparse_splade", "dense") for length in scores.lengths}


def sparse_mean_gain(tables: Tables, printed: str) -> ClaimOutcome:
    """Mean over lengths of sparse minus dense, in percentage points; holds when positive."""
    gain = mean(list(_sparse_minus_dense(tables.scores("table10")).values()))
    return ClaimOutcome(
        number(gain), holds(gain > 0), "Percentage points on Average rows, four lengths weighted equally."
    )


def largest_difference(tables: Tables, printed: str, considerable: float) -> ClaimOutcome:
    """Largest difference between the retrievers' Averages; holds below `considerable` percentage points."""
    gaps = {length: abs(gap) for length, gap in _sparse_minus_dense(tables.scores("table10")).items()}
    length = max(gaps, key=lambda name: gaps[name])
    note = f"At {length}. Read as: under {considerable:g} percentage points; the paper reports no significance test."
    return ClaimOutcome(number(gaps[length]), holds(gaps[length] < Decimal(str(considerable))), note)


def equal_columns(tables: Tables, printed: str, first: list[str], others: list[list[str]]) -> ClaimOutcome:
    """Cells of series `first` ([table, series]) that each of `others` repeats; holds when all are identical."""
    own = tables.scores(first[0])
    counts = []
    for table, series in others:
        other = tables.scores(table)
        keys = [(length, ability) for length, ability, name in own.printed if name == first[1]]
        same = sum(own.printed[*key, first[1]] == other.printed[*key, series] for key in keys)
        counts.append((same, len(keys)))
    text = " and ".join(f"{same} of {total}" for same, total in counts)
    return ClaimOutcome(f"{text} cells identical", holds(all(same == total for same, total in counts)))


def differing_cells(tables: Tables, printed: str, first: list[str], second: list[str]) -> ClaimOutcome:
    """Cells in which two series ([table, series]) that should be one system differ, by length."""
    own, other = tables.scores(first[0]), tables.scores(second[0])
    different: dict[str, list[str]] = {}
    same = 0
    for length in own.lengths:
        for ability in [*own.abilities, published.AVERAGE]:
            pair = own.printed[length, ability, first[1]], other.printed[length, ability, second[1]]
            if pair[0] == pair[1]:
                same += 1
            else:
                different.setdefault(length, []).append(f"{ability}: {pair[0]} vs {pair[1]}")
    averages = [text for cells in different.values() for text in cells if text.startswith(published.AVERAGE)]
    return ClaimOutcome(
        {"identical_cells": same, "different": different},
        holds(not different),
        f"Different Averages: {', '.join(text.split(': ')[1] for text in averages) or 'none'}.",
    )


def average_rows(tables: Tables, printed: str, table: str) -> ClaimOutcome:
    """How each printed Average relates to the mean of its ten printed rows; counts by kind of agreement."""
    scores = tables.scores(table)
    counts: Counter[str] = Counter()
    notes = []
    for length in scores.lengths:
        for series in scores.series:
            average, rows = scores.average(length, series), scores.row_mean(length, series, corrected=False)
            if rounded(rows, 3) == average:
                kind = "rounding"
            elif truncated(rows, 3) == average:
                kind = "truncation"
            elif _may_agree(average, rows):
                kind = "allowed by hidden digits"
            else:
                kind = "no"
            counts[kind] += 1
            if kind in ("no", "allowed by hidden digits"):
                notes.append(f"{length} {label(series)} prints {average}, its rows average {show(rows, 4)} ({kind})")
    status: Status = (
        "differs" if counts["no"] else "holds" if counts["rounding"] == counts.total() else "holds within rounding"
    )
    remark = f"{counts.total()} averages. {'; '.join(notes)}".rstrip() + ("." if notes else "")
    return ClaimOutcome({kind: count for kind, count in counts.items() if count}, status, remark)


def _may_agree(average: Decimal, rows: Decimal) -> bool:
    """Whether one true value lies in the range of the printed Average and in that of the mean of the rows."""
    shared = Interval(max(average, rows) - BELOW, min(average, rows) + ABOVE)
    return shared.low <= shared.high


def printed_precision(tables: Tables, printed: str, table: str, places: int) -> ClaimOutcome:
    """Cells printed with another number of decimals; holds when there is none."""
    scores = tables.scores(table)
    odd = [
        f"{value} ({length}, {label(series)}, {ability})"
        for (length, ability, series), value in scores.printed.items()
        if places_of(value) != places
    ]
    return ClaimOutcome("; ".join(odd) or "none", holds(not odd))
