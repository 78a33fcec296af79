"""A search for the formula behind six printed gains (paper section 4.2): claim beam-054.

The space is bounded and stated: six baselines; every non-empty subset of lengths with every non-empty subset of
backbones, with equal weights or weighted by the number of conversations, under seven aggregations; and every non-empty
subset of the 16 cells under two aggregations with the first four baselines. A formula reproduces a figure when it comes
within a tolerance of it, with the figures as printed or with the two exchanged that are likely to have been swapped.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from beam_claims.values import ClaimOutcome, Scores, Tables, figures, holds

Array = NDArray[np.float64]


def _cells(scores: Scores, abilities: list[str], method: str) -> Array:
    """Scores of one method, shape (length, backbone, ability)."""
    series = [name for name in scores.series if name.endswith(f" / {method}")]
    cells = [
        [[scores.printed[length, ability, name] for ability in abilities] for name in series]
        for length in scores.lengths
    ]
    return np.array(cells, dtype=float)


def _baselines(scores: Scores, abilities: list[str]) -> list[Array]:
    """What the gain may be measured against, each of shape (length, backbone, ability).

    Vanilla; RAG; the better of them cell by cell; their mean; the one with the better Average; the worse cell by cell.
    """
    vanilla, rag = (_cells(scores, abilities, method) for method in ("Vanilla", "RAG"))
    averages = [_cells(scores, ["Average"], method) for method in ("Vanilla", "RAG")]
    return [
        vanilla,
        rag,
        np.maximum(vanilla, rag),
        (vanilla + rag) / 2,
        np.where(averages[0] >= averages[1], vanilla, rag),
        np.minimum(vanilla, rag),
    ]


def _subsets(size: int) -> list[list[int]]:
    """All non-empty subsets of range(size)."""
    return [[index for index in range(size) if mask >> index & 1] for mask in range(1, 2**size)]


def _aggregations(light: Array, bases: Array, weights: Array) -> Array:
    """Seven ways to one gain in percent, shape (7 x baseline, ability).

    Inputs: `light` (length, backbone, ability), `bases` (baseline, length, backbone, ability), `weights` (length).
    Ratio of sums; mean and median of ratios; mean and median of the per-length ratios; of the per-backbone ratios.
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


def _product_formulas(light: Array, baselines: list[Array], conversations: Array) -> Array:
    """Gains of every subset of lengths with every subset of backbones, shape (formula, ability)."""
    bases = np.stack(baselines)
    found = []
    for rows in _subsets(light.shape[0]):
        for columns in _subsets(light.shape[1]):
            part, base_part = light[rows][:, columns], bases[:, rows][:, :, columns]
            for weights in (np.ones(len(rows)), conversations[rows]):
                found.append(_aggregations(part, base_part, weights))
    return np.concatenate(found)


def _cell_formulas(light: Array, baselines: list[Array]) -> Array:
    """Gains of every subset of the cells as ratio of sums and as mean of ratios, shape (formula, ability)."""
    cells = light.shape[0] * light.shape[1]
    chosen = (np.arange(1, 2**cells)[:, None] >> np.arange(cells) & 1).astype(float)
    flat = light.reshape(cells, -1)
    found = []
    for base in (array.reshape(cells, -1) for array in baselines):
        found.append((chosen @ flat) / (chosen @ base))
        found.append((chosen @ (flat / base)) / chosen.sum(axis=1, keepdims=True))
    return np.asarray(100 * (np.concatenate(found) - 1))


def _hits(close: Array, order: list[int]) -> int:
    """Most figures that one formula reproduces when ability i is compared with figure order[i]."""
    return int(close[:, np.arange(len(order)), order].sum(axis=1).max())


def _to_nearest(values: Array, targets: Array) -> Array:
    """How far each value lies from the nearest of `targets`, without a table of all pairs."""
    ordered = np.sort(targets)
    after = np.searchsorted(ordered, values)
    above, below = ordered[np.minimum(after, len(ordered) - 1)], ordered[np.maximum(after - 1, 0)]
    return np.minimum(np.abs(values - above), np.abs(values - below))


def formula_search(
    tables: Tables,
    printed: str,
    sentence: dict[str, str],
    swapped: tuple[str, str],
    conversations: dict[str, int],
    tolerance: float,
) -> ClaimOutcome:
    """The largest number of the sentence's figures that one formula reproduces; holds when one gives them all."""
    scores = tables.scores("table1")
    abilities = list(sentence)
    light = _cells(scores, abilities, "LIGHT")
    baselines = _baselines(scores, abilities)
    weights = np.array([conversations[length] for length in scores.lengths], dtype=float)
    # A base of zero (a score of 0.000) has no relative gain; the formula then reproduces nothing.
    with np.errstate(divide="ignore", invalid="ignore"):
        gains = np.concatenate([_product_formulas(light, baselines, weights), _cell_formulas(light, baselines[:4])])
    target = np.array([float(figures(figure)[0]) for figure in sentence.values()])
    total = len(abilities)
    plain = int((np.abs(gains - target) <= tolerance).sum(axis=1).max())
    # Only formulas that come close to that many figures at all can do better with two of them exchanged.
    candidates = gains[(_to_nearest(gains, target) <= tolerance).sum(axis=1) >= plain]
    close = np.abs(candidates[:, :, None] - target) <= tolerance  # (formula, ability, figure)
    exchanged = {pair: _hits(close, _exchange(total, *pair)) for pair in combinations(range(total), 2)}
    first, second = sorted(abilities.index(name) for name in swapped)
    best = max(plain, exchanged[first, second])
    return ClaimOutcome(
        f"no formula reproduces more than {best} of {total} within {tolerance} points "
        "(as printed or with two figures swapped)",
        holds(best == total),
        f"{len(gains):,} formulas tried: {plain} of {total} as printed, {exchanged[first, second]} with "
        f"{' and '.join(swapped)} swapped, {max(exchanged.values())} if any two may be.",
    )


def _exchange(size: int, first: int, second: int) -> list[int]:
    order = list(range(size))
    order[first], order[second] = second, first
    return order
