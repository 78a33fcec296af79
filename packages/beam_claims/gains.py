"""Formulas on Table 1: what LIGHT gains over the long-context run (Vanilla) and over RAG (paper section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
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
    show,
    verdict,
    worst,
)

METHODS = ("Vanilla", "RAG", "LIGHT")


def _series(backbone: str, method: str) -> str:
    return f"{backbone} / {method}"


def _backbones(scores: Scores) -> list[str]:
    return list(dict.fromkeys(series.rsplit(" / ", 1)[0] for series in scores.series))


def _cell_gains(scores: Scores, *, by_rows: bool) -> dict[tuple[str, str], tuple[Decimal, str]]:
    """Per (backbone, length): relative gain of LIGHT over the better baseline in percent, and that baseline."""
    read = scores.row_mean if by_rows else scores.average
    gains = {}
    for backbone in _backbones(scores):
        for length in scores.lengths:
            value = {method: read(length, _series(backbone, method)) for method in METHODS}
            baseline = max(("Vanilla", "RAG"), key=lambda method: value[method])
            gains[backbone, length] = (change(value["LIGHT"], value[baseline]), baseline)
    return gains


def _gain_interval(scores: Scores, backbone: str, length: str, baseline: str) -> Interval:
    light, base = (scores.interval(length, _series(backbone, method)) for method in ("LIGHT", baseline))
    return light.relative_to(base)


def improvement_range(tables: Tables, printed: str) -> ClaimOutcome:
    """Smallest and largest gain over the better baseline among the cells with a gain, against both printed ends."""
    scores = tables.scores("table1")
    averages, rows = _cell_gains(scores, by_rows=False), _cell_gains(scores, by_rows=True)
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


def improvement_floor(tables: Tables, printed: str) -> ClaimOutcome:
    """The smallest gain over the better baseline among all cells, against the lower printed end."""
    scores = tables.scores("table1")
    gains = _cell_gains(scores, by_rows=False)
    (backbone, length), (gain, baseline) = min(gains.items(), key=lambda item: item[1][0])
    losing = sum(gain <= 0 for gain, _ in gains.values())
    status = verdict(figures(printed)[0], gain, allowed=_gain_interval(scores, backbone, length, baseline))
    note = f"{backbone} at {length} against {baseline}; {losing} of {len(gains)} cells lie outside the printed range."
    return ClaimOutcome(number(gain), status, note)


def improvement_per_backbone(tables: Tables, printed: str) -> ClaimOutcome:
    """Range of the per-backbone averages of the gain, as mean of the cell gains and as ratio of means over lengths."""
    scores = tables.scores("table1")
    gains = _cell_gains(scores, by_rows=False)
    of_cells, of_means = {}, {}
    for backbone in _backbones(scores):
        of_cells[backbone] = mean([gains[backbone, length][0] for length in scores.lengths])
        light = [scores.average(length, _series(backbone, "LIGHT")) for length in scores.lengths]
        best = [
            max(scores.average(length, _series(backbone, method)) for method in ("Vanilla", "RAG"))
            for length in scores.lengths
        ]
        of_means[backbone] = change(mean(light), mean(best))
    ends = figures(printed)
    readings = [
        worst([verdict(ends[0], min(values.values())), verdict(ends[1], max(values.values()))])
        for values in (of_cells, of_means)
    ]
    ranges = [f"{show(min(values.values()))}% to {show(max(values.values()))}%" for values in (of_cells, of_means)]
    return ClaimOutcome(
        {
            "mean_of_cell_gains": {name: number(value) for name, value in of_cells.items()},
            "ratio_of_means": {name: number(value) for name, value in of_means.items()},
        },
        "differs" if set(readings) == {"differs"} else worst([status for status in readings if status != "differs"]),
        f"Averaged per backbone the range is {ranges[0]} (mean of gains) or {ranges[1]} (ratio of means).",
    )


def wins(tables: Tables, printed: str) -> ClaimOutcome:
    """Number of cells in which LIGHT exceeds both baselines."""
    gains = _cell_gains(tables.scores("table1"), by_rows=False)
    lost = [f"{backbone} at {length}" for (backbone, length), (gain, _) in gains.items() if gain <= 0]
    note = f"Not in: {', '.join(lost)}." if lost else ""
    return ClaimOutcome(f"{len(gains) - len(lost)} of {len(gains)}", holds(not lost), note)


def single_exception(tables: Tables, printed: str, backbone: str, length: str) -> ClaimOutcome:
    """Exactly one cell in which LIGHT does not exceed the better baseline, and it is the named one."""
    scores = tables.scores("table1")
    gains = _cell_gains(scores, by_rows=False)
    lost = [cell for cell, (gain, _) in gains.items() if gain <= 0]
    parts = []
    for cell in lost:
        gain, baseline = gains[cell]
        light, base = (scores.average(cell[1], _series(cell[0], method)) for method in ("LIGHT", baseline))
        parts.append(f"[{cell[0]} / {cell[1]}]; {show(gain)}% ({light} vs {base})")
    return ClaimOutcome("; ".join(parts) or "none", holds(lost == [(backbone, length)]))


def growth_of_gains(tables: Tables, printed: str) -> ClaimOutcome:
    """Relative gain of LIGHT over each baseline by length; holds when no series falls at any step."""
    scores = tables.scores("table1")
    recomputed: dict[str, dict[str, list[float]]] = {}
    steps, end_to_end = {}, {}
    for baseline in ("Vanilla", "RAG"):
        label = f"over_{baseline.lower()}"
        recomputed[label], steps[baseline], end_to_end[baseline] = {}, 0, 0
        for backbone in _backbones(scores):
            gains = [
                change(*(scores.average(length, _series(backbone, method)) for method in ("LIGHT", baseline)))
                for length in scores.lengths
            ]
            recomputed[label][backbone] = [number(gain, 1) for gain in gains]
            steps[baseline] += _rises(gains)
            end_to_end[baseline] += gains[-1] > gains[0]
    total = len(_backbones(scores))
    note = "; ".join(
        f"over {baseline} {steps[baseline]} of {total} backbones gain more at every step, "
        f"{end_to_end[baseline]} from the shortest to the longest"
        for baseline in ("Vanilla", "RAG")
    )
    return ClaimOutcome(
        recomputed, holds(all(count == total for count in steps.values())), note[0].upper() + note[1:] + "."
    )


def _rises(values: Sequence[Decimal]) -> bool:
    return all(before < after for before, after in pairwise(values))


def decline_with_length(tables: Tables, printed: str) -> ClaimOutcome:
    """Relative change of the two baselines from the shortest to the longest conversations; holds when all fall."""
    scores = tables.scores("table1")
    recomputed: dict[str, dict[str, float]] = {}
    changes, steady = [], []
    for method in ("Vanilla", "RAG"):
        recomputed[method.lower()] = {}
        for backbone in _backbones(scores):
            series = [scores.average(length, _series(backbone, method)) for length in scores.lengths]
            changes.append(change(series[-1], series[0]))
            recomputed[method.lower()][backbone] = number(changes[-1], 1)
            if _rises(series[::-1]):
                steady.append(f"{backbone} {method}")
    note = f"Falling at every step: {', '.join(steady) or 'none'}."
    return ClaimOutcome(recomputed, holds(all(value < 0 for value in changes)), note)


def pooled(scores: Scores, ability: str, method: str) -> Decimal:
    """Mean score of an ability and method over all lengths and backbones."""
    series = [_series(backbone, method) for backbone in _backbones(scores)]
    return mean([scores.printed[length, ability, name] for length in scores.lengths for name in series])


def _pooled_interval(value: Decimal) -> Interval:
    return Interval(value - BELOW, value + ABOVE)


def pooled_gain(tables: Tables, printed: str, ability: str, sentence: dict[str, str]) -> ClaimOutcome:
    """Gain of the pooled LIGHT score over the pooled Vanilla score, the closest of the natural formulas.

    `sentence` holds all figures that the paper's sentence prints, ability -> figure. One formula must explain the whole
    sentence: a pooled mean averages 16 hidden digits, so one figure alone at the far end of its range is no evidence.
    """
    scores = tables.scores("table1")
    gains, single = {}, {}
    for name, figure in (sentence | {ability: printed}).items():
        light, base = pooled(scores, name, "LIGHT"), pooled(scores, name, "Vanilla")
        gains[name] = change(light, base)
        allowed = _pooled_interval(light).relative_to(_pooled_interval(base))
        single[name] = verdict(figures(figure)[0], gains[name], allowed=allowed)
    reached = [name for name, status in single.items() if status != "differs"]
    values = {method: pooled(scores, ability, method) for method in METHODS}
    shown = ", ".join(f"{method} {show(value, 4)}" for method, value in values.items())
    over_rag = show(change(values["LIGHT"], values["RAG"]), 1, signed=True)
    note = (
        f"Pooled over lengths and backbones: {shown}; over RAG {over_rag}%. "
        f"Of the sentence's {len(gains)} figures the formula allows {len(reached)} ({', '.join(reached) or 'none'})."
    )
    status: Status = single[ability] if len(reached) == len(gains) else "differs"
    return ClaimOutcome(number(gains[ability], 1), status, note)


def largest_gains(tables: Tables, printed: str, named: list[str], sentence: dict[str, str]) -> ClaimOutcome:
    """The named abilities lead both the pooled gains over Vanilla and the figures that the sentence prints."""
    scores = tables.scores("table1")
    gains = {name: change(pooled(scores, name, "LIGHT"), pooled(scores, name, "Vanilla")) for name in scores.abilities}
    ranking = sorted(gains, key=lambda name: -gains[name])
    stated = {name: figures(figure)[0] for name, figure in sentence.items()}
    stated_ranking = sorted(stated, key=lambda name: -stated[name])
    first = len(named)
    return ClaimOutcome(
        {
            "pooled_ranking": [f"{name} {show(gains[name], 1, signed=True)}%" for name in ranking],
            "printed_ranking": [float(stated[name]) for name in stated_ranking],
        },
        holds(set(ranking[:first]) == set(named) == set(stated_ranking[:first])),
        f"Leading in the table: {', '.join(ranking[:first])}; in the sentence: {', '.join(stated_ranking[:first])}.",
    )


def extreme_ability(tables: Tables, printed: str, ability: str, extreme: str, beside: list[str]) -> ClaimOutcome:
    """The ability with the highest or lowest (`extreme`: best, worst) pooled score, per method; columns are counted.

    `beside` names abilities whose pooled scores are reported for comparison.
    """
    scores = tables.scores("table1")
    pick = max if extreme == "best" else min
    recomputed, found = {}, []
    for method in METHODS:
        score = {name: pooled(scores, name, method) for name in scores.abilities}
        found.append(pick(score, key=lambda name: score[name]))
        columns = [
            {name: scores.printed[length, name, _series(backbone, method)] for name in scores.abilities}
            for length in scores.lengths
            for backbone in _backbones(scores)
        ]
        reached = sum(column[ability] == pick(column.values()) for column in columns)
        own = {name.lower().replace(" ", "_"): number(score[name], 3) for name in beside}
        recomputed[method] = {"columns": f"{reached} of {len(columns)}", f"pooled_{extreme}": found[-1]} | (
            own if own else {"score": number(score[ability], 3)}
        )
    return ClaimOutcome(
        recomputed, holds(set(found) == {ability}), "Judged on scores pooled over lengths and backbones."
    )
