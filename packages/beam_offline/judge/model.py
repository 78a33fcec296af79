"""The trained part of the judge: small trees in `judge_weights.json`, and what they say of a row of features."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from beamlib.files import read_json

WEIGHTS: Final = Path(__file__).with_name("judge_weights.json")
"""Made by `scripts/train_judge.py`. `trees`: for `valid`, `half` and `full` a list of trees, each in preorder: a number
of a feature and its threshold before what lies at or below it and what lies above it, or -1 and a hundredth of
log-odds."""

Node = tuple[int, float, "Node", "Node"] | float


class Estimate(NamedTuple):
    """How likely an answer is one at all and no made-up text; and earns half a point at least; and a full one."""

    valid: float
    half: float
    full: float


@cache
def weights() -> Mapping[str, Any]:
    """What the training found."""
    found: Mapping[str, Any] = read_json(WEIGHTS)
    return found


def tree(flat: Sequence[float]) -> Node:
    """A tree from its numbers in preorder."""
    numbers = iter(flat)

    def node() -> Node:
        feature, value = int(next(numbers)), next(numbers)
        return value / 100 if feature < 0 else (feature, value, node(), node())

    return node()


@cache
def _trees(name: str) -> tuple[Node, ...]:
    return tuple(tree(flat) for flat in weights()["trees"][name])


def likely(trees: Sequence[Node], row: Sequence[float]) -> float:
    """The probability that the sum of the trees' leaves stands for."""
    total = 0.0
    for node in trees:
        while isinstance(node, tuple):
            node = node[2] if row[node[0]] <= node[1] else node[3]
        total += node
    return 1 / (1 + math.exp(-max(min(total, 30.0), -30.0)))


def estimate(row: Sequence[float]) -> Estimate:
    """What the trees say of one row of features."""
    return Estimate(*(likely(_trees(name), row) for name in Estimate._fields))


def score(found: Estimate) -> float:
    """The verdict: 0 where it is no answer, else by the thresholds that were set in training."""
    least = weights()["thresholds"]
    if found.valid < least["valid"] or found.half < least["half"]:
        return 0.0
    return 1.0 if found.full >= least["full"] else 0.5
