"""How a series looks, by its name: the same colour and hatching in every figure, whatever stands beside it.

Colours are indexes into the cycle of `style.mplstyle`, hatches support them in grey-scale print. What has no entry
takes the looks that are free, in order of appearance.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import cycle
from typing import NamedTuple

HATCHES = ("", "////", "----", "\\\\\\\\", "xxxx", "||||", "++++", "//")
"""Dots and rings would add 250 KB to an SVG."""


class Look(NamedTuple):
    """The place of a colour in the cycle, and of a hatch in `HATCHES`."""

    colour: int
    hatch: int


_REMOVED = {"retrieval": 0, "scratchpad": 1, "working memory": 2, "noise filter": 3}
_RETRIEVERS = {"hybrid": 0, "dense": 1, "bm25": 2, "sparse": 3}
_METHODS = {"light": 0, "rag": 1, "full-context": 2, "none": 3, "oracle": 4}
_ALSO = {"vanilla": "full context", "splade": "sparse", "sparse splade": "sparse", "noise filtering": "noise filter"}
"""Other names of the same: those of the paper, and those of retrievers that do alike."""


def named_look(series: str) -> Look | None:
    """Find the look of a removed component, a retriever or a method by its plain name; None where it has none."""
    name = re.sub(r"[_-]", " ", series.casefold()).strip()
    name = _ALSO.get(name, name)
    for known in (_REMOVED, _RETRIEVERS, _METHODS):
        for own, place in known.items():
            if name == own.replace("-", " "):
                return Look(place, place)
    return None


def looks_of(series: Sequence[str]) -> dict[str, Look]:
    """Give every series a look of its own: those that have a name theirs, the others those that are free."""
    looks = {name: look for name in series if (look := named_look(name) or _arm_look(name, series))}
    if len(set(looks.values())) < len(looks):  # two arms of one method: only their order tells them apart
        looks = {}
    places = cycle(range(len(HATCHES)))
    taken = {look.colour for look in looks.values()}
    for name in series:
        if name not in looks:
            place = next((place for place in range(len(HATCHES)) if place not in taken), None)
            place = next(places) if place is None else place
            taken.add(place)
            looks[name] = Look(place, place)
    return looks


def _arm_look(name: str, series: Sequence[str]) -> Look | None:
    """The look of an arm such as `light-hybrid-k5`: by its retriever where only that varies, else by its method."""
    method, _, rest = name.partition("-") if not name.startswith("full-context") else (name, "", "")
    methods = {other.partition("-")[0] for other in series}
    retriever = _ALSO.get(rest.partition("-")[0], rest.partition("-")[0])
    if len(series) > 1 and len(methods) == 1 and retriever in _RETRIEVERS:
        return Look(_RETRIEVERS[retriever], _RETRIEVERS[retriever])
    return named_look(method)
