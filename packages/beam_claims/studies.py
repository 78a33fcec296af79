"""Formulas on single cells of the score tables and on the studies of Tables 8 to 13 (paper section 4.2, C)."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from itertools import pairwise

from beam_claims.values import (
    ABOVE,
    BELOW,
    ClaimOutcome,
    ScoreTable,
    Status,
    Tables,
    change,
    every,
    figures,
    holds,
    mean,
    named,
    number,
    places_of,
    records,
    rounded,
    series_name,
    show_decimal,
    sign,
    truncated,
    verdict,
)
from beamlib.data import published


def relative_change(tables: Tables, printed: str, table: str, length: str, value: str, base: str) -> ClaimOutcome:
    """Return 100 * (A / B - 1) on the Average rows of series `value` (A) and `base` (B) at one length."""
    scores = tables.scores(table)
    averages = scores.average(length, value), scores.average(length, base)
    gain = change(*averages)
    rows = change(scores.row_mean(length, value), scores.row_mean(length, base))
    allowed = scores.interval(length, value).relative_to(scores.interval(length, base))
    note = (
        f"Relative change: {averages[0]}/{averages[1]} = {show_decimal(gain, signed=True)}%; "
        f"from the ability rows {show_decimal(rows, signed=True)}%; allowed {allowed}."
    )
    return ClaimOutcome(number(gain), verdict(figures(printed)[0], gain, rows, allowed=allowed), note)


def point_change(tables: Tables, printed: str, table: str, length: str, value: str, base: str) -> ClaimOutcome:
    """Return 100 * (A - B) on the Average rows, in percentage points."""
    scores = tables.scores(table)
    averages = scores.average(length, value), scores.average(length, base)
    gain, rows = scores.points(length, value, base), scores.points(length, value, base, by_rows=True)
    allowed = scores.interval(length, value).minus(scores.interval(length, base))
    note = (
        f"Percentage points, not a ratio: {averages[0]} - {averages[1]} = {show_decimal(gain, signed=True)}; "
        f"from the ability rows {show_decimal(rows, signed=True)}; allowed {allowed}."
    )
    if any(scores.row_mean(length, name) != scores.row_mean(length, name, corrected=False) for name in (value, base)):
        note += " The ability rows use the corrected misprint."
    return ClaimOutcome(number(gain), verdict(figures(printed)[0], gain, rows, allowed=allowed), note)


def _removals(tables: Tables) -> dict[str, dict[str, Decimal]]:
    """Return the change of the Average in percentage points when a component is removed, by component and length."""
    scores = tables.scores("table8")
    components = [name for name in scores.series if name != "base"]
    return {name: {length: scores.points(length, name, "base") for length in scores.lengths} for name in components}


def removal_signs(tables: Tables, printed: str, length: str, signs: dict[str, str]) -> ClaimOutcome:
    """Compare the sign of each removal's change at one length with the stated `signs`."""
    effects = {name: effect[length] for name, effect in _removals(tables).items()}
    same = [sign(effects[name]) == stated for name, stated in signs.items()]
    return every({name: number(effect) for name, effect in effects.items()}, same)


def removal_growth(tables: Tables, printed: str) -> ClaimOutcome:
    """Return the change of each removal by length; holds when each grows more negative at every step."""
    series = {name: list(effects.values()) for name, effects in _removals(tables).items()}
    steady = [
        series_name(name)
        for name, effects in series.items()
        if all(before > after for before, after in pairwise(effects))
    ]
    end_to_end = sum(effects[-1] < effects[0] for effects in series.values())
    note = f"At every step: {named(steady)}; end to end: {end_to_end} of {len(series)}."
    recomputed = {name: [number(effect) for effect in effects] for name, effects in series.items()}
    return every(recomputed, [series_name(name) in steady for name in series], note)


def base_is_best(tables: Tables, printed: str) -> ClaimOutcome:
    """Compare the Average of the full system with that of the best variant at each length."""
    scores = tables.scores("table8")
    recomputed, better = {}, list[str]()
    for length in scores.lengths:
        averages = {name: scores.average(length, name) for name in scores.series}
        best = max(averages, key=lambda name: averages[name])
        recomputed[length] = {"base": float(averages["base"]), "best": [best, float(averages[best])]}
        better += [
            f"{length} {series_name(name)} {value}" for name, value in averages.items() if value > averages["base"]
        ]
    others = len(scores.lengths) * (len(scores.series) - 1)
    cells = [True] * (others - len(better)) + [False] * len(better)
    return every(recomputed, cells, f"Better than the full system: {named(better)}.")


def each_contributes(tables: Tables, printed: str) -> ClaimOutcome:
    """Count the removals that lower the Average; holds when each does at every length."""
    effects = _removals(tables)
    lengths = tables.scores("table8").lengths
    exceptions = [
        f"{length} {series_name(name)}" for length in lengths for name in effects if effects[name][length] >= 0
    ]
    lowers = [effect < 0 for by_length in effects.values() for effect in by_length.values()]
    on_average = [series_name(name) for name, by_length in effects.items() if sum(by_length.values()) < 0]
    note = f"Exceptions: {named(exceptions)}. Over the lengths together the Average falls without: {named(on_average)}."
    return every(f"{sum(lowers)} of {len(lowers)}", lowers, note)


def component_helps(tables: Tables, printed: str, variant: str, abilities: list[str]) -> ClaimOutcome:
    """Count per ability the lengths at which the full system exceeds `variant`; holds when it does at all of them."""
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
    return every(counts, [gain > 0 for ability in abilities for gain in gains[ability]], note)


def compared_depths(tables: Tables, printed: str) -> ClaimOutcome:
    """List the values of K in Table 9."""
    depths = tables.scores("table9").series
    return ClaimOutcome(", ".join(depths), holds([Decimal(depth) for depth in depths] == figures(printed)))


def best_depth(tables: Tables, printed: str) -> ClaimOutcome:
    """Return the Average by K; holds when the printed K reaches the maximum at every length, ties included."""
    scores = tables.scores("table9")
    depth = str(figures(printed)[0])
    best = {length: max(scores.average(length, name) for name in scores.series) for length in scores.lengths}
    as_good = [
        (length, name) for length in best for name in scores.series if scores.average(length, name) == best[length]
    ]
    ties = [f"K={name} at {length}" for length, name in as_good if name != depth]
    return every(
        {name: [float(scores.average(length, name)) for length in scores.lengths] for name in scores.series},
        [(length, depth) in as_good for length in best],
        f"As good in the printed rows: {named(ties)}.",
    )


def steady_rise(tables: Tables, printed: str, depths: list[str]) -> ClaimOutcome:
    """Return the Average along `depths`; holds when it never falls at any length."""
    scores = tables.scores("table9")
    series = {length: [scores.average(length, depth) for depth in depths] for length in scores.lengths}
    falls = [length for length, values in series.items() if any(after < before for before, after in pairwise(values))]
    recomputed = {length: [float(value) for value in values] for length, values in series.items()}
    return every(recomputed, [length not in falls for length in series], f"Not monotone at: {named(falls)}.")


def depth_signs(tables: Tables, printed: str, value: str, base: str, signs: dict[str, str]) -> ClaimOutcome:
    """Compare the sign of the change from K = `base` to K = `value` at each length with the stated `signs`."""
    scores = tables.scores("table9")
    changes = {length: scores.points(length, value, base) for length in scores.lengths}
    same = [sign(changes[length]) == stated for length, stated in signs.items()]
    return every({length: number(gain) for length, gain in changes.items()}, same)


def depth_drop(tables: Tables, printed: str, value: str, base: str) -> ClaimOutcome:
    """Return the change from K = `base` to `value`, by printed and ability rows; holds when all printed ones fall."""
    scores = tables.scores("table9")
    changes = {
        length: [scores.points(length, value, base, by_rows=by_rows) for by_rows in (False, True)]
        for length in scores.lengths
    }
    level = [length for length, (gain, _) in changes.items() if gain >= 0]
    recomputed = {length: [number(gain) for gain in pair] for length, pair in changes.items()}
    note = f"Percentage points [printed rows, ability rows]. Not worse in print at: {named(level)}."
    return every(recomputed, [length not in level for length in changes], note)


def _sparse_minus_dense(tables: Tables) -> dict[str, Decimal]:
    scores = tables.scores("table10")
    return {length: scores.points(length, "sparse_splade", "dense") for length in scores.lengths}


def sparse_mean_gain(tables: Tables, printed: str) -> ClaimOutcome:
    """Return the mean over lengths of sparse minus dense, in percentage points; holds when positive."""
    gain = mean(list(_sparse_minus_dense(tables).values()))
    note = "Percentage points on Average rows, four lengths weighted equally."
    return ClaimOutcome(number(gain), holds(gain > 0), note)


def retriever_signs(tables: Tables, printed: str, signs: dict[str, str]) -> ClaimOutcome:
    """Compare the sign of sparse minus dense at each length with the stated `signs`."""
    gains = _sparse_minus_dense(tables)
    same = [sign(gains[length]) == stated for length, stated in signs.items()]
    return every({length: number(gain) for length, gain in gains.items()}, same)


def unchanged(tables: Tables, printed: str, table: str, length: str, value: str, base: str) -> ClaimOutcome:
    """Return 100 * (A - B) on the Average rows; holds when both are printed alike."""
    scores = tables.scores(table)
    gain, rows = scores.points(length, value, base), scores.points(length, value, base, by_rows=True)
    note = f"Percentage points; from the ability rows {show_decimal(rows, signed=True)}."
    return ClaimOutcome(number(gain), holds(gain == 0), note)


def beats(tables: Tables, printed: str, table: str, pairs: list[list[str]]) -> ClaimOutcome:
    """Return the Average of a series minus another's, for `pairs` at each length; holds when all are positive."""
    scores = tables.scores(table)
    gains = {
        f"{better} over {worse}": [scores.points(length, better, worse) for length in scores.lengths]
        for better, worse in pairs
    }
    recomputed = {pair: list(map(number, points)) for pair, points in gains.items()}
    return every(recomputed, [gain > 0 for points in gains.values() for gain in points], "Percentage points by length.")


def embedding_gains(tables: Tables, printed: str, method: str, other: str) -> ClaimOutcome:
    """Compare what bge-large adds to `method` with what it adds to `other`, by length, in percentage points."""
    scores = tables.scores("table11")
    gains = {
        name: [scores.points(length, f"{name} / bge-large", f"{name} / bge-small") for length in scores.lengths]
        for name in (method, other)
    }
    larger = [ours > theirs for ours, theirs in zip(gains[method], gains[other], strict=True)]
    return every({name: list(map(number, points)) for name, points in gains.items()}, larger)


def marked_best(tables: Tables, printed: str, names: list[str]) -> ClaimOutcome:
    """Compare the bold marks of tables with the best of their row (of a row and backbone in Table 1).

    A mark on one of several best values counts as right; they are counted, and so are rows without a mark.
    """
    marks = tables["bold_marks"]
    right, tied, unmarked, wrong = list[bool](), 0, list[str](), list[str]()
    for name in names:
        scores = tables.scores(name)
        rows: dict[tuple[str, str, str], dict[str, Decimal]] = {}
        for (length, ability, series), value in scores.printed.items():
            group = series.rsplit(" / ", 1)[0] if name == "table1" else ""
            rows.setdefault((length, ability, group), {})[series] = value
        bold = {(row["length"], row["ability"], row["series"]) for row in records(marks[marks["table"] == name])}
        for (length, ability, group), values in rows.items():
            marked = [series for series in values if (length, ability, series) in bold]
            best, place = max(values.values()), f"{name} {length} {ability} {group}".strip()
            right += [values[series] == best for series in marked]
            wrong += [place for series in marked if values[series] != best]
            tied += bool(marked) and list(values.values()).count(best) > len(marked)
            if not marked and (name == "table1" or ability == published.AVERAGE):
                unmarked.append(place)
    note = f"Not on the best value: {named(wrong)}. On one of several best values: {tied}. No mark: {named(unmarked)}."
    return every(f"{sum(right)} of {len(right)} marks", right, note)


def largest_difference(tables: Tables, printed: str, considerable: float) -> ClaimOutcome:
    """Return the largest difference between the retrievers' Averages; holds below `considerable` points."""
    gaps = {length: abs(gap) for length, gap in _sparse_minus_dense(tables).items()}
    length = max(gaps, key=lambda name: gaps[name])
    note = f"At {length}. Read as: under {considerable:g} percentage points; the paper reports no significance test."
    return ClaimOutcome(number(gaps[length]), holds(gaps[length] < Decimal(str(considerable))), note)


def equal_columns(tables: Tables, printed: str, first: list[str], others: list[list[str]]) -> ClaimOutcome:
    """Count the cells of series `first` ([table, series]) that each of `others` repeats; holds when all are equal."""
    cells = tables.scores(first[0]).printed
    keys = [(length, ability) for length, ability, name in cells if name == first[1]]
    same = [
        [cells[*key, first[1]] == tables.scores(table).printed[*key, series] for key in keys]
        for table, series in others
    ]
    text = " and ".join(f"{sum(equal)} of {len(keys)}" for equal in same)
    return every(f"{text} cells identical", [cell for equal in same for cell in equal])


def differing_cells(tables: Tables, printed: str, first: list[str], second: list[str]) -> ClaimOutcome:
    """List by length the cells in which two series ([table, series]) that should be one system differ."""
    scores, others = tables.scores(first[0]), tables.scores(second[0])
    different: dict[str, list[str]] = {}
    same, averages = list[bool](), []
    for length in scores.lengths:
        for ability in [*scores.abilities, published.AVERAGE]:
            pair = scores.printed[length, ability, first[1]], others.printed[length, ability, second[1]]
            same.append(pair[0] == pair[1])
            if not same[-1]:
                shown = f"{pair[0]} vs {pair[1]}"
                different.setdefault(length, []).append(f"{ability}: {shown}")
                averages += [shown] if ability == published.AVERAGE else []
    recomputed = {"identical_cells": sum(same), "different": different}
    return every(recomputed, same, f"Different Averages: {named(averages)}.")


def average_rows(tables: Tables, printed: str, table: str) -> ClaimOutcome:
    """Count how each printed Average relates to the mean of its ten printed rows, by kind of agreement."""
    scores = tables.scores(table)
    counts: Counter[str] = Counter()
    notes = []
    for length in scores.lengths:
        for series in scores.series:
            average, kind = scores.average(length, series), _agreement(scores, length, series)
            counts[kind] += 1
            if kind in ("no", "allowed by hidden digits"):
                rows = show_decimal(scores.row_mean(length, series, corrected=False), 4)
                notes.append(f"{length} {series_name(series)} prints {average}, its rows average {rows} ({kind})")
    status: Status = (
        "differs" if counts["no"] else "holds" if counts["rounding"] == counts.total() else "holds within rounding"
    )
    note = f"{counts.total()} averages. {'; '.join(notes)}".rstrip() + ("." if notes else "")
    return ClaimOutcome({kind: count for kind, count in counts.items() if count}, status, note)


def _agreement(scores: ScoreTable, length: str, series: str) -> str:
    average, rows = scores.average(length, series), scores.row_mean(length, series, corrected=False)
    if rounded(rows, 3) == average:
        return "rounding"
    if truncated(rows, 3) == average:
        return "truncation"
    # One true value can lie in the range of the printed Average and in that of the mean of the rows.
    return "allowed by hidden digits" if abs(average - rows) <= BELOW + ABOVE else "no"


def printed_precision(tables: Tables, printed: str, table: str, places: int) -> ClaimOutcome:
    """List the cells printed with another number of decimals; holds when there is none."""
    odd = [
        f"{value} ({length}, {series_name(series)}, {ability})"
        for (length, ability, series), value in tables.scores(table).printed.items()
        if places_of(value) != places
    ]
    return ClaimOutcome("; ".join(odd) or "none", holds(not odd))
