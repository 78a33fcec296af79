"""Kendall's tau-b between the order of the rubric and the order of an answer (paper section 2.4, event ordering).

The paper computes tau-b over the aligned sequences and says that it captures recall as well as order, but not how an
event that is missing from one side is ranked. Every protocol here follows the released code: each side ranks the union
of both (rubric first, then the lines that match nothing, first occurrences). Events that it has get their 1-based
position, all others the tie rank |union| + 1.

Consequences: an answer that matches nothing in m items against n nuggets has
tau = -nm / sqrt((n(n-1)/2 + nm) (m(m-1)/2 + nm)), so its normalised tau is .14 to .29 and not 0; an answer with one
match scores high if that is the first nugget and low if it is the last; and all events but the last, in order, give
tau = 1.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class OrderScores:
    """The quantities of one event-ordering answer.

    `precision`, `recall`, `f1` and `tau_norm` = (tau + 1) / 2 lie in [0, 1], `tau` in [-1, 1], `final` is
    tau_norm x f1. The last three are NaN where tau-b is undefined: a side without two different ranks, which means one
    nugget and nothing else in the union, or an answer without any item.
    """

    precision: float
    recall: float
    f1: float
    tau: float
    tau_norm: float
    final: float

    @property
    def detail(self) -> dict[str, float]:
        """The defined scores by name."""
        values = {name: float(getattr(self, name)) for name in self.__slots__}
        return {name: value for name, value in values.items() if not math.isnan(value)}


def released_order(rubric: Sequence[str], aligned_lines: Sequence[str]) -> OrderScores:
    """Score an order of texts as the released code does, bug for bug; matched lines are replaced by their nuggets.

    Lines are told apart by their text alone: equal lines are one event at the position of the last, yet each counts as
    a false positive, and an unmatched line that happens to equal a nugget counts as that nugget.
    """
    return _scores(rubric, aligned_lines)


def order_scores(n_nuggets: int, matches: Sequence[int | None]) -> OrderScores:
    """Score an alignment; every unmatched item is an event of its own, whatever its text.

    Args:
        matches: The 0-based nugget of each item, or None.

    Raises:
        ValueError: For a match that is out of range or used twice.
    """
    used = [match for match in matches if match is not None]
    if len(used) != len(set(used)) or not all(0 <= match < n_nuggets for match in used):
        raise ValueError(f"matches {list(matches)} must name each of {n_nuggets} nuggets at most once")
    lines = [match if match is not None else n_nuggets + item for item, match in enumerate(matches)]
    return _scores(range(n_nuggets), lines)


def _scores(reference: Sequence[Hashable], system: Sequence[Hashable]) -> OrderScores:
    def ratio(part: float, whole: float) -> float:
        return part / whole if whole else 0.0

    def ranks(side: Sequence[Hashable]) -> list[int]:
        position = {event: rank for rank, event in enumerate(side, start=1)}  # a repeated event keeps its last position
        return [position.get(event, len(union) + 1) for event in union]

    in_reference, in_system = set(reference), set(system)
    true_positives = len(in_reference & in_system)
    precision = ratio(true_positives, true_positives + sum(line not in in_reference for line in system))
    recall = ratio(true_positives, true_positives + sum(nugget not in in_system for nugget in reference))
    f1 = ratio(2 * precision * recall, precision + recall)
    union = list(dict.fromkeys([*reference, *system]))
    tau = _tau_b(ranks(reference), ranks(system))
    tau_norm = (tau + 1) / 2
    return OrderScores(precision, recall, f1, tau, tau_norm, tau_norm * f1)


def _tau_b(first: list[int], second: list[int]) -> float:
    """Compute Kendall's tau-b as `scipy.stats.kendalltau` does, to the last bit; NaN where a side has no order.

    Importing scipy.stats would take longer than scoring a run.
    """
    if len(set(first)) < 2 or len(set(second)) < 2:
        return math.nan
    a, b = np.asarray(first), np.asarray(second)
    agreeing = sum(int(np.sum(np.sign(a[i] - a[:i]) * np.sign(b[i] - b[:i]))) for i in range(1, len(a)))
    pairs = math.comb(len(a), 2)
    untied = [pairs - sum(math.comb(number, 2) for number in Counter(side).values()) for side in (first, second)]
    tau = agreeing / math.sqrt(untied[0]) / math.sqrt(untied[1])
    return min(1.0, max(-1.0, tau))


_ORDER_PHRASE = re.compile(
    r"\b(?:correct|right|proper|accurate|exact|chronological|sequential)\s+(?:\w+\s+)?(?:order|sequence)\b",
    re.IGNORECASE,
)
_ABOUT_THE_LIST = re.compile(
    r"\b(?:events?|items?|topics?|aspects?|steps?|mentions?|them|list(?:ed|s)?|all)\b", re.IGNORECASE
)
_STEM = re.compile(r"\A\s*(?:the\s+)?(?:LLM\s+)?response\s+should\s+(?:\w+\s*:)?", re.IGNORECASE)


def is_order_nugget(nugget: str) -> bool:
    """Tell whether a nugget asks for the right order instead of naming an event, as the last one of appendix D does.

    Such a nugget could never be aligned with an event. It has a phrase like "correct chronological order" and a word
    for the listed events, so that an event *about* some order stays an event.
    """
    text = _STEM.sub("", nugget)
    return bool(_ORDER_PHRASE.search(text) and _ABOUT_THE_LIST.search(text))
