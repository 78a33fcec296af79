"""The registry of series: name, label, colour, place and hatching, the same in every figure and table.

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


class Series(NamedTuple):
    """What is compared: its name, its label, its look, and other names of the same, such as the paper's."""

    name: str
    label: str
    look: Look
    also: tuple[str, ...] = ()


def _alike(place: int) -> Look:
    return Look(place, place)


REMOVED = (
    Series("retrieval", "retrieval", _alike(0)),
    Series("scratchpad", "scratchpad", _alike(1)),
    Series("working memory", "working memory", _alike(2)),
    Series("noise filter", "noise filter", _alike(3), ("noise filtering",)),
)
RETRIEVERS = (
    Series("bm25", "bm25", _alike(2)),
    Series("dense", "dense", _alike(1)),
    Series("sparse", "sparse (SPLADE)", _alike(3), ("splade", "sparse splade")),
    Series("hybrid", "hybrid", _alike(0)),
)
METHODS = (
    Series("none", "none", _alike(3)),
    Series("full context", "full context", _alike(2), ("vanilla",)),
    Series("rag", "RAG", _alike(1)),
    Series("light", "LIGHT", _alike(0)),
    Series("oracle", "oracle", _alike(4)),
)
MEASURED = (
    Series("light retrieval alone", "LIGHT's index", Look(0, 5)),
    Series("light without retrieval", "LIGHT without retrieval", Look(5, 1)),
    Series("light without scratchpad", "LIGHT without scratchpad", Look(5, 2)),
    Series("light without working memory", "LIGHT without working memory", Look(5, 3)),
    Series("light without noise filter", "LIGHT without noise filter", Look(5, 4)),
    Series("best possible", "best possible", Look(7, 0)),
)
"""Arms that were measured on the released benchmark (`beamlib.scoring.measured.ARMS`), beside RAG and LIGHT."""

SERIES = (*REMOVED, *RETRIEVERS, *METHODS, *MEASURED)
"""All of them, in the order of legends and tables."""

_BY_NAME = {name: series for series in SERIES for name in (series.name, series.label.casefold(), *series.also)}


def _plain(name: str) -> str:
    return re.sub(r"[_-]", " ", name.casefold()).strip()


def series_named(name: str) -> Series:
    """Return the entry of a series. One without an entry is its own label."""
    return _BY_NAME.get(_plain(name)) or Series(name, name, _alike(0))


def named_look(series: str) -> Look | None:
    """Find the look of a removed component, a retriever or a method by its name; None where it has no entry."""
    entry = _BY_NAME.get(_plain(series))
    return entry and entry.look


def in_order(names: Sequence[str]) -> list[str]:
    """Sort names: those of the registry in its order, then the others as they came."""
    entries = {name: _BY_NAME.get(_plain(name)) for name in names}
    return sorted(names, key=lambda name: SERIES.index(entry) if (entry := entries[name]) else len(SERIES))


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
            looks[name] = _alike(place)
    return looks


def _arm_look(name: str, series: Sequence[str]) -> Look | None:
    """The look of an arm such as `light-hybrid-k5`: by its retriever where only that varies, else by its method."""
    method, _, rest = name.partition("-") if not name.startswith("full-context") else (name, "", "")
    methods = {other.partition("-")[0] for other in series}
    retriever = _BY_NAME.get(rest.partition("-")[0])
    if len(series) > 1 and len(methods) == 1 and retriever in RETRIEVERS:
        return retriever.look
    return named_look(method)
