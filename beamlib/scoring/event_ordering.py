"""Kendall's tau-b between the order of the rubric and the order of an answer (paper section 2.4, event ordering).

The paper says that tau-b is computed over the aligned sequences and captures recall as well as order, but not how an
event that is missing from one side is ranked. The released code does it so, and every protocol here follows it: the
union of both sides (rubric first, then the lines that match nothing, first occurrences) is ranked once by each side;
a side gives its 1-based position to what it holds and the tie rank |union| + 1 to what it lacks.

Consequences worth knowing: an answer that matches nothing in m items against n nuggets has
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
    """All quantities of one event-ordering answer.

    `precision`, `recall`, `f1` and `tau_norm` = (tau + 1) / 2 lie in [0, 1], `tau` in [-1, 1], `final` is
    tau_norm x f1. The three that rest on tau are NaN where tau-b is undefined: a side without two different ranks,
    that is one nugget and nothing else in the union, or an answer without any item.
    """

    precision: float
    recall: float
    f1: float
    tau: float
    tau_norm: float
    final: float

    @property
    def detail(self) -> dict[str, float]:
        """The scores by name, without the undefined ones."""
        values = {name: float(getattr(self, name)) for name in self.__slots__}
        return {name: value for name, value in values.items() if not math.isnan(value)}


def released_order(rubric: Sequence[str], aligned_lines: Sequence[str]) -> OrderScores:
    """What the released code computes, bug for bug, on texts.

    `aligned_lines` is the answer in which every matched line was replaced by its nugget. Lines are told apart by
    their text alone: equal lines are one event at the position of the last, yet each counts as a false positive, and
    an unmatched line that happens to equal a nugget counts as that nugget.
    """
    return _scores(rubric, aligned_lines)


def order_scores(n_nuggets: int, matches: Sequence[int | None]) -> OrderScores:
    """The same quantities from an alignment: `matches[i]` is the 0-based nugget of item i, or None.

    Here every unmatched item is an event of its own, whatever its text. Raises ValueError for a match that is out of
    range or used twice.
    """
    used = [match for match in matches if match is not None]
    if len(used) != len(set(used)) or not all(0 <= match < n_nuggets for match in used):
        raise ValueError(f"matches {list(matches)} must name each of {n_nuggets} nuggets at most once")
    lines = [match if match is not None else n_nuggets + item for item, match in enumerate(matches)]
    return _scores(range(n_nuggets), lines)


def _scores(reference: Sequence[Hashable], system: Sequence[Hashable]) -> OrderScores:
    in_reference, in_system = set(reference), set(system)
    true_positives = len(in_reference & in_system)
    false_positives = sum(line not in in_reference for line in system)
    false_negatives = sum(nugget not in in_system for nugget in reference)
    precision = _ratio(true_positives, true_positives + false_positives)
    recall = _ratio(true_positives, true_positives + false_negatives)
    f1 = _ratio(2 * precision * recall, precision + recall)

    union = list(dict.fromkeys([*reference, *system]))
    tau = _tau_b(_ranks(reference, union), _ranks(system, union))
    tau_norm = (tau + 1) / 2
    return OrderScores(precision, recall, f1, tau, tau_norm, tau_norm * f1)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _ranks(side: Sequence[Hashable], union: Sequence[Hashable]) -> list[int]:
    position = {event: rank for rank, event in enumerate(side, start=1)}  # a repeated event keeps its last position
    return [position.get(event, len(union) + 1) for event in union]


def _tau_b(first: list[int], second: list[int]) -> float:
    """Kendall's tau-b, nan where one side has no order: as `scipy.stats.kendalltau`, to the last bit.

    Written here because importing that takes longer than everything else of a score.
    """
    if len(set(first)) < 2 or len(set(second)) < 2:
        return math.nan
    one, other = np.asarray(first), np.asarray(second)
    agreeing = sum(
        int(np.sum(np.sign(one[place] - one[:place]) * np.sign(other[place] - other[:place])))
        for place in range(1, len(one))
    )
    pairs = math.comb(len(one), 2)
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
    """Whether a nugget asks for the right order instead of naming an event, as the last one of appendix D's example.

    Such a nugget judged as an event could never be aligned. It needs both a phrase like "correct chronological order"
    and a word that points at the listed events, so that an event *about* some order stays an event.
    """
    text = _STEM.sub("", nugget)
    return bool(_ORDER_PHRASE.search(text) and _ABOUT_THE_LIST.search(text))
