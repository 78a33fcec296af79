"""Formulas on Table 1: what LIGHT gains over the long-context run (Vanilla) and over RAG (paper section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from beam_claims.values import (
    ABOVE,
    BELOW,
    ClaimOutcome,
    Interval,
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
    show_decimal,
    verdict,
    worst,
)

METHODS = ("Vanilla", "RAG", "LIGHT")
BASELINES = METHODS[:2]

_Array = NDArray[np.float64]


def _backbones(scores: ScoreTable) -> list[str]:
    return list(dict.fromkeys(series.rsplit(" / ", 1)[0] for series in scores.series))


def _cell_gains(scores: ScoreTable, *, by_rows: bool = False) -> dict[tuple[str, str], tuple[Decimal, str]]:
    """Return the gain of LIGHT over the better baseline in percent, and that baseline, by (backbone, length)."""
    read = scores.row_mean if by_rows else scores.average
    gains = {}
    for backbone in _backbones(scores):
        for length in scores.lengths:
            values = {method: read(length, f"{backbone} / {method}") for method in METHODS}
            baseline = max(BASELINES, key=lambda method: values[method])
            gains[backbone, length] = (change(values["LIGHT"], values[baseline]), baseline)
    return gains


def _gain_interval(scores: ScoreTable, backbone: str, length: str, baseline: str) -> Interval:
    base = scores.interval(length, f"{backbone} / {baseline}")
    return scores.interval(length, f"{backbone} / LIGHT").relative_to(base)


def improvement_range(tables: Tables, printed: str) -> ClaimOutcome:
    """Compare the smallest and the largest positive gain over the better baseline with both printed ends."""
    scores = tables.scores("table1")
    averages, rows = _cell_gains(scores), _cell_gains(scores, by_rows=True)
    recomputed: dict[str, list[float]] = {"from_average_rows": [], "from_ability_rows": []}
    statuses, notes = [], []
    for pick, end in zip((min, max), figures(printed), strict=True):
        cell = pick((gain, key) for key, (gain, _) in averages.items() if gain > 0)[1]
        by_rows = pick(gain for gain, _ in rows.values() if gain > 0)
        gain, baseline = averages[cell]
        allowed = _gain_interval(scores, *cell, baseline)
        statuses.append(verdict(end, gain, by_rows, allowed=allowed))
        recomputed["from_average_rows"].append(number(gain))
        recomputed["from_ability_rows"].append(number(by_rows))
        notes.append(f"{cell[0]} at {cell[1]} over {baseline}, allowed {allowed}")
    return ClaimOutcome(recomputed, worst(statuses), f"Relative change of single cells: {'; '.join(notes)}.")


def outside_range(tables: Tables) -> tuple[int, int]:
    """Count the cells without a gain over the better baseline, which no range of gains holds, and all cells."""
    gains = _cell_gains(tables.scores("table1"))
    return sum(gain <= 0 for gain, _ in gains.values()), len(gains)


def improvement_floor(tables: Tables, printed: str) -> ClaimOutcome:
    """Compare the smallest gain over the better baseline with the lower printed end."""
    scores = tables.scores("table1")
    gains = _cell_gains(scores)
    (backbone, length), (gain, baseline) = min(gains.items(), key=lambda item: item[1][0])
    losing, cells = outside_range(tables)
    status = verdict(figures(printed)[0], gain, allowed=_gain_interval(scores, backbone, length, baseline))
    note = f"{backbone} at {length} against {baseline}; {losing} of {cells} cells lie outside the printed range."
    return ClaimOutcome(number(gain), status, note)


def improvement_per_backbone(tables: Tables, printed: str) -> ClaimOutcome:
    """Compare the range of per-backbone gains, as mean of cell gains and as ratio of means over lengths."""
    scores = tables.scores("table1")
    gains = _cell_gains(scores)
    of_cells, of_means = {}, {}
    for backbone in _backbones(scores):
        of_cells[backbone] = mean([gains[backbone, length][0] for length in scores.lengths])
        cells = [[scores.average(length, f"{backbone} / {method}") for method in METHODS] for length in scores.lengths]
        of_means[backbone] = change(mean([cell[2] for cell in cells]), mean([max(cell[:2]) for cell in cells]))
    ends = figures(printed)
    readings, ranges = [], []
    for values in (of_cells.values(), of_means.values()):
        readings.append(worst([verdict(ends[0], min(values)), verdict(ends[1], max(values))]))
        ranges.append(f"{show_decimal(min(values))}% to {show_decimal(max(values))}%")
    return ClaimOutcome(
        {
            "mean_of_cell_gains": {name: number(value) for name, value in of_cells.items()},
            "ratio_of_means": {name: number(value) for name, value in of_means.items()},
        },
        worst([status for status in readings if status != "differs"] or ["differs"]),
        f"Averaged per backbone the range is {ranges[0]} (mean of gains) or {ranges[1]} (ratio of means).",
    )


def wins(tables: Tables, printed: str) -> ClaimOutcome:
    """Count the cells in which LIGHT exceeds both baselines."""
    gains = _cell_gains(tables.scores("table1"))
    lost = [f"{backbone} at {length}" for (backbone, length), (gain, _) in gains.items() if gain <= 0]
    note = f"Not in: {', '.join(lost)}." if lost else ""
    return every(f"{len(gains) - len(lost)} of {len(gains)}", [gain > 0 for gain, _ in gains.values()], note)


def single_exception(tables: Tables, printed: str, backbone: str, length: str) -> ClaimOutcome:
    """Find the cells in which LIGHT does not exceed the better baseline; holds when it is the named one."""
    scores = tables.scores("table1")
    lost, parts = [], []
    for (name, at), (gain, baseline) in _cell_gains(scores).items():
        if gain <= 0:
            light, base = (scores.average(at, f"{name} / {method}") for method in ("LIGHT", baseline))
            lost.append((name, at))
            parts.append(f"[{name} / {at}]; {show_decimal(gain)}% ({light} vs {base})")
    return ClaimOutcome("; ".join(parts) or "none", holds(lost == [(backbone, length)]))


def growth_of_gains(tables: Tables, printed: str) -> ClaimOutcome:
    """Return the gain of LIGHT over each baseline by length; holds when no series falls at any step."""
    scores = tables.scores("table1")
    backbones = _backbones(scores)
    recomputed: dict[str, dict[str, list[float]]] = {}
    notes, steady = list[str](), list[bool]()
    for baseline in BASELINES:
        series = {
            name: [
                change(*(scores.average(length, f"{name} / {method}") for method in ("LIGHT", baseline)))
                for length in scores.lengths
            ]
            for name in backbones
        }
        recomputed[f"over_{baseline.lower()}"] = {
            name: [number(gain, 1) for gain in gains] for name, gains in series.items()
        }
        steps = sum(map(_rises, series.values()))
        end_to_end = sum(gains[-1] > gains[0] for gains in series.values())
        steady += map(_rises, series.values())
        notes.append(
            f"over {baseline} {steps} of {len(backbones)} backbones gain more at every step, "
            f"{end_to_end} from the shortest to the longest"
        )
    note = "; ".join(notes)
    return every(recomputed, steady, note[0].upper() + note[1:] + ".")


def _rises(values: Sequence[Decimal]) -> bool:
    return all(before < after for before, after in pairwise(values))


def decline_with_length(tables: Tables, printed: str) -> ClaimOutcome:
    """Return the change of both baselines from the shortest to the longest conversations; holds when all fall."""
    scores = tables.scores("table1")
    recomputed: dict[str, dict[str, float]] = {}
    changes, steady = [], []
    for method in BASELINES:
        recomputed[method.lower()] = {}
        for backbone in _backbones(scores):
            series = [scores.average(length, f"{backbone} / {method}") for length in scores.lengths]
            changes.append(change(series[-1], series[0]))
            recomputed[method.lower()][backbone] = number(changes[-1], 1)
            if _rises(series[::-1]):
                steady.append(f"{backbone} {method}")
    return every(recomputed, [gain < 0 for gain in changes], f"Falling at every step: {named(steady)}.")


def _pooled(scores: ScoreTable, ability: str, method: str) -> Decimal:
    """Return the mean score of an ability and method over all lengths and backbones."""
    series = [f"{backbone} / {method}" for backbone in _backbones(scores)]
    return mean([scores.printed[length, ability, name] for length in scores.lengths for name in series])


def pooled_gain(tables: Tables, printed: str, ability: str, sentence: dict[str, str]) -> ClaimOutcome:
    """Return the gain of the pooled LIGHT score over the pooled Vanilla score, the closest of the natural formulas.

    `sentence` maps abilities to all figures of the paper's sentence. One formula must explain the whole sentence: a
    pooled mean averages 16 hidden digits, so a single figure at the far end of its range is no evidence.
    """
    scores = tables.scores("table1")
    gains, single = {}, {}
    for name, figure in (sentence | {ability: printed}).items():
        light, base = _pooled(scores, name, "LIGHT"), _pooled(scores, name, "Vanilla")
        ranges = [Interval(value - BELOW, value + ABOVE) for value in (light, base)]
        gains[name] = change(light, base)
        single[name] = verdict(figures(figure)[0], gains[name], allowed=ranges[0].relative_to(ranges[1]))
    reached = [name for name, status in single.items() if status != "differs"]
    values = {method: _pooled(scores, ability, method) for method in METHODS}
    shown = ", ".join(f"{method} {show_decimal(value, 4)}" for method, value in values.items())
    over_rag = show_decimal(change(values["LIGHT"], values["RAG"]), 1, signed=True)
    note = (
        f"Pooled over lengths and backbones: {shown}; over RAG {over_rag}%. "
        f"Of the sentence's {len(gains)} figures the formula allows {len(reached)} ({named(reached)})."
    )
    status: Status = single[ability] if len(reached) == len(gains) else "differs"
    return ClaimOutcome(number(gains[ability], 1), status, note)


def largest_gains(tables: Tables, printed: str, named: list[str], sentence: dict[str, str]) -> ClaimOutcome:
    """Rank pooled gains and the sentence's figures; holds when the named abilities lead both."""
    scores = tables.scores("table1")
    gains = {
        name: change(_pooled(scores, name, "LIGHT"), _pooled(scores, name, "Vanilla")) for name in scores.abilities
    }
    ranking = sorted(gains, key=lambda name: -gains[name])
    stated = {name: figures(figure)[0] for name, figure in sentence.items()}
    stated_ranking = sorted(stated, key=lambda name: -stated[name])
    first = len(named)
    return ClaimOutcome(
        {
            "pooled_ranking": [f"{name} {show_decimal(gains[name], 1, signed=True)}%" for name in ranking],
            "printed_ranking": [float(stated[name]) for name in stated_ranking],
        },
        holds(set(ranking[:first]) == set(named) == set(stated_ranking[:first])),
        f"Leading in the table: {', '.join(ranking[:first])}; in the sentence: {', '.join(stated_ranking[:first])}.",
    )


def extreme_ability(tables: Tables, printed: str, ability: str, extreme: str, beside: list[str]) -> ClaimOutcome:
    """Return the ability with the best or worst (`extreme`) pooled score per method, and in how many columns it is.

    `beside` names abilities whose pooled scores are reported too.
    """
    scores = tables.scores("table1")
    pick = max if extreme == "best" else min
    recomputed, winners = {}, []
    for method in METHODS:
        pooled = {name: _pooled(scores, name, method) for name in scores.abilities}
        winner = pick(pooled, key=lambda name: pooled[name])
        winners.append(winner)
        columns = [
            {name: scores.printed[length, name, f"{backbone} / {method}"] for name in scores.abilities}
            for length in scores.lengths
            for backbone in _backbones(scores)
        ]
        reached = sum(column[ability] == pick(column.values()) for column in columns)
        shown = {name.lower().replace(" ", "_"): number(pooled[name], 3) for name in beside}
        shown = shown or {"score": number(pooled[ability], 3)}
        recomputed[method] = {"columns": f"{reached} of {len(columns)}", f"pooled_{extreme}": winner} | shown
    leads = [winner == ability for winner in winners]
    return every(recomputed, leads, "A cell is a method; scores pooled over lengths and backbones.")


def formula_search(
    tables: Tables,
    printed: str,
    sentence: dict[str, str],
    swapped: tuple[str, str],
    conversations: dict[str, int],
    tolerance: float,
) -> ClaimOutcome:
    """Search for one formula behind the six printed gains: the largest number that one reproduces (claim beam-054).

    The space: six baselines; every subset of lengths with every subset of backbones, with equal weights or weighted by
    the number of conversations, under seven aggregations; and every subset of the 16 cells under two aggregations with
    the first four baselines. A figure is reproduced within `tolerance`, as printed or with two figures exchanged that
    are likely to have been `swapped`.
    """
    scores = tables.scores("table1")
    abilities = list(sentence)
    total = len(abilities)
    light, vanilla, rag = (_score_array(scores, abilities, method) for method in ("LIGHT", *BASELINES))
    averages = [_score_array(scores, ["Average"], method) for method in BASELINES]
    # What a gain can be relative to: Vanilla; RAG; the better of them cell by cell; their mean; the one with the better
    # Average; the worse cell by cell. Shape (baseline, length, backbone, ability).
    better_average = np.where(averages[0] >= averages[1], vanilla, rag)
    both = (np.maximum(vanilla, rag), (vanilla + rag) / 2, better_average, np.minimum(vanilla, rag))
    baselines = np.stack([vanilla, rag, *both])
    weights = np.array([conversations[length] for length in scores.lengths], dtype=float)
    # A base of zero (a score of 0.000) has no relative gain; the formula then reproduces nothing.
    with np.errstate(divide="ignore", invalid="ignore"):
        of_subsets = [
            _aggregations(light[rows][:, columns], baselines[:, rows][:, :, columns], weight)
            for rows in _subsets(light.shape[0])
            for columns in _subsets(light.shape[1])
            for weight in (np.ones(len(rows)), weights[rows])
        ]
        gains = np.concatenate([*of_subsets, _cell_subset_gains(light, baselines[:4])])
    target = np.array([float(figures(figure)[0]) for figure in sentence.values()])
    plain = int((np.abs(gains - target) <= tolerance).sum(axis=1).max())
    # Only formulas close to that many figures at all can do better with two of them exchanged.
    near_any = np.zeros(gains.shape, dtype=bool)
    for figure in target:
        near_any |= np.abs(gains - figure) <= tolerance
    candidates = gains[near_any.sum(axis=1) >= plain]
    close = np.abs(candidates[:, :, None] - target) <= tolerance  # (formula, ability, figure)
    exchanged = {}
    for pair in combinations(range(total), 2):
        order = np.arange(total)
        order[list(pair)] = pair[::-1]
        exchanged[pair] = int(close[:, np.arange(total), order].sum(axis=1).max())
    first, second = sorted(abilities.index(name) for name in swapped)
    best = max(plain, exchanged[first, second])
    return ClaimOutcome(
        f"no formula reproduces more than {best} of {total} within {tolerance} points "
        "(as printed or with two figures swapped)",
        holds(best == total),
        f"{len(gains):,} formulas tried: {plain} of {total} as printed, {exchanged[first, second]} with "
        f"{' and '.join(swapped)} swapped, {max(exchanged.values())} if any two may be.",
    )


def _score_array(scores: ScoreTable, abilities: list[str], method: str) -> _Array:
    """Return the scores of one method, shape (length, backbone, ability)."""
    series = [name for name in scores.series if name.endswith(f" / {method}")]
    cells = [
        [[scores.printed[length, ability, name] for ability in abilities] for name in series]
        for length in scores.lengths
    ]
    return np.array(cells, dtype=float)


def _subsets(size: int) -> list[list[int]]:
    """Return all non-empty subsets of range(size)."""
    return [[index for index in range(size) if mask >> index & 1] for mask in range(1, 2**size)]


def _aggregations(light: _Array, bases: _Array, weights: _Array) -> _Array:
    """Compute one gain in percent in seven ways, shape (7 x baseline, ability).

    Ratio of sums; mean and median of ratios; mean and median of the per-length ratios; of the per-backbone ratios.

    Args:
        light: Shape (length, backbone, ability).
        bases: Shape (baseline, length, backbone, ability).
        weights: Shape (length,).
    """
    lights = np.broadcast_to(light, bases.shape)
    weight = np.broadcast_to(weights[:, None, None], light.shape)
    ratios = lights / bases
    lengths = lights.sum(axis=2) / bases.sum(axis=2)
    backbones = (lights * weight).sum(axis=1) / (bases * weight).sum(axis=1)
    gains = [
        (lights * weight).sum(axis=(1, 2)) / (bases * weight).sum(axis=(1, 2)),
        (ratios * weight).sum(axis=(1, 2)) / weight.sum(axis=(0, 1)),
        np.median(ratios, axis=(1, 2)),
        (lengths * weights[:, None]).sum(axis=1) / weights.sum(),
        np.median(lengths, axis=1),
        backbones.mean(axis=1),
        np.median(backbones, axis=1),
    ]
    return np.asarray(100 * (np.concatenate(gains) - 1))


def _cell_subset_gains(light: _Array, bases: _Array) -> _Array:
    """Return the gains of every subset of cells as ratio of sums and as mean of ratios, shape (formula, ability)."""
    cells = light.shape[0] * light.shape[1]
    chosen = (np.arange(1, 2**cells)[:, None] >> np.arange(cells) & 1).astype(float)
    flat = light.reshape(cells, -1)
    gains = []
    for base in bases.reshape(len(bases), cells, -1):
        gains.append((chosen @ flat) / (chosen @ base))
        gains.append((chosen @ (flat / base)) / chosen.sum(axis=1, keepdims=True))
    return np.asarray(100 * (np.concatenate(gains) - 1))
