"""The offline judge: does an answer satisfy a nugget (paper, Listing 20)? Do two snippets tell of one event (21)?"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from beam_offline.judge.features import NAMES, features, trained
from beam_offline.judge.model import likelihoods, score
from beam_offline.judge.parsing import MOST_OF_NUGGET, ParsedNugget, parse_nugget

_SAID = tuple(map(NAMES.index, ("near", "figures_met")))


@dataclass(frozen=True, slots=True)
class NuggetScore:
    """A score (0, 0.5 or 1) and why."""

    score: float
    reason: str


def judge(question: str, nugget: str, answer: str) -> NuggetScore:
    """Score `answer` to `question` against one nugget: 1 satisfied, 0.5 partly, 0 not. `question` may be empty.

    An answer is read once for all nuggets that are asked about in a row. Of very long texts the beginning is read.
    """
    if not answer.strip():
        return NuggetScore(0, "the answer is empty")
    row = features(question[:MOST_OF_NUGGET], nugget[:MOST_OF_NUGGET], answer)
    reached, why = score(likelihoods(row))
    words, figures = (row[at] for at in _SAID)
    numbers = f" and {figures:.0%} of its figures" if figures >= 0 else ""
    return NuggetScore(reached, f"{why}; {words:.0%} of its words{numbers} are met")


def judge_nugget(variables: Mapping[str, str]) -> str:
    """Reply to the prompt `judge_nugget`: a JSON object with `score` and `reason`."""
    verdict = judge(variables["question"], variables["nugget"], variables["answer"])
    return json.dumps({"score": float(verdict.score), "reason": verdict.reason}, ensure_ascii=False)


OF_EVENTS: Final = ("cosine", "covered", "covered_back", "soft", "soft_back")
"""Of two texts: the cosine of their vectors; the share of each one's weight that stands in the other, by words and by
the nearest words."""


def event_features(event: str, nugget: str) -> tuple[float, ...]:
    """Compute the values of `OF_EVENTS`; zeros where a text has no word with content."""
    first, second = parse_nugget(event), parse_nugget(nugget)
    if not first.stems or not second.stems:
        return (0.0,) * len(OF_EVENTS)
    cosines = second.words @ first.words.T
    return (
        float(first.vector @ second.vector),
        _covered(second, first),
        _covered(first, second),
        _soft(second, cosines.max(axis=1).tolist()),
        _soft(first, cosines.max(axis=0).tolist()),
    )


def _covered(wanted: ParsedNugget, given: ParsedNugget) -> float:
    pairs = zip(wanted.stems, wanted.weights, strict=True)
    return sum(weight for stem, weight in pairs if stem in given.stems) / sum(wanted.weights)


def _soft(wanted: ParsedNugget, nearest: list[float]) -> float:
    return sum(weight * near for weight, near in zip(wanted.weights, nearest, strict=True)) / sum(wanted.weights)


def same_event(event: str, nugget: str) -> bool:
    """Return whether both tell of one event. Of very long texts the beginning is read."""
    return _same_event(event[:MOST_OF_NUGGET], nugget[:MOST_OF_NUGGET])


@lru_cache(maxsize=4096)
def _same_event(event: str, nugget: str) -> bool:
    found = trained()["events"]
    total = sum(weight * value for weight, value in zip(found["weights"], event_features(event, nugget), strict=True))
    return bool(total >= found["least"])


def align_events(variables: Mapping[str, str]) -> str:
    """Reply to the prompt `align_events`: `yes` or `no`."""
    return "yes" if same_event(variables["event"], variables["nugget"]) else "no"


_NUMBERED = re.compile(r"(\d+)[.)](?: |$)(.*)")


def _entries(numbered: str) -> list[tuple[int, str]]:
    """The entries of a numbered list. A line whose number does not go on from the last belongs to the entry before."""
    entries: list[tuple[int, str]] = []
    for line in numbered.split("\n"):
        match = _NUMBERED.match(line)
        if match and int(match[1]) == len(entries) + 1:
            entries.append((int(match[1]), match[2]))
        elif entries:
            number, text = entries[-1]
            entries[-1] = (number, f"{text}\n{line}")
    return entries


def align_batch(variables: Mapping[str, str]) -> str:
    """Reply to the prompt `align_batch`: a JSON object from each item's number to the numbers of its nuggets.

    `items` and `nuggets` are lists numbered from 1. Each item is compared with each nugget as by `align_events`.
    """
    nuggets = _entries(variables["nuggets"])
    matches = {
        str(number): [candidate for candidate, nugget in nuggets if same_event(item, nugget)]
        for number, item in _entries(variables["items"])
    }
    return json.dumps(matches)
