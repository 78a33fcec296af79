"""The claims of the MEME page, recomputed from the published table and, where they are at hand, the released episodes.

`beamlib/data/published/meme_claims.json` says which formula a claim rests on. The paper itself was not at hand: what is
claimed is what its abstract, captions and project page say (sections 1, 2.1 and 2.9 of the fact sheet), and the table
has two decimals. An episode set that we generated bears on no claim about theirs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

import pandas as pd

from beam_claims.engine import ClaimResult, PaperClaims
from beam_claims.values import (
    ClaimOutcome,
    Interval,
    count_outcome,
    figures,
    holds,
    mean,
    number,
    records,
    unchecked,
    verdict,
)
from beam_meme.episode_gold import SHORT, TASKS, LoadedEpisode
from beam_meme.episodes import DOMAINS
from beam_meme.meme_tables import published

SIX = ("BM25", "text-embedding-3-small", "Mem0", "Graphiti", "MD-flat", "Karpathy Wiki")
"""The systems that "the six" are."""

_HALF = Decimal("0.005")
"""A printed share was rounded to two decimals."""


@dataclass(frozen=True)
class Evidence:
    """The published table, and the released episodes by variant where they are at hand."""

    episodes: Mapping[str, Sequence[LoadedEpisode]] = field(default_factory=dict)
    table: pd.DataFrame = field(default_factory=published)

    @cached_property
    def rows(self) -> dict[str, dict[str, str]]:
        """The published rows by system."""
        return {str(row["system"]): {str(name): str(cell) for name, cell in row.items()} for row in records(self.table)}

    def share(self, system: str, task: str) -> Decimal:
        """A printed cell."""
        return Decimal(self.rows[system][task])

    def within(self, values: Sequence[Decimal]) -> Interval:
        """True means that agree with printed shares."""
        return Interval(mean(values) - _HALF, mean(values) + _HALF)


def mean_share(data: Evidence, printed: str, task: str) -> ClaimOutcome:
    """The mean of the six systems."""
    values = [data.share(system, task) for system in SIX]
    return ClaimOutcome(
        number(mean(values), 3), verdict(figures(f"0{printed}")[0], mean(values), allowed=data.within(values))
    )


def mean_percent(data: Evidence, printed: str, task: str) -> ClaimOutcome:
    """The same in percent."""
    values = [100 * data.share(system, task) for system in SIX]
    return ClaimOutcome(number(mean(values), 1), verdict(figures(printed)[0], mean(values)))


def overall(data: Evidence, printed: str, system: str) -> ClaimOutcome:
    """The plain mean of a row's six tasks."""
    values = [data.share(system, SHORT[task]) for task in TASKS]
    return ClaimOutcome(
        number(mean(values), 3), verdict(figures(f"0{printed}")[0], mean(values), allowed=data.within(values))
    )


def all_below(data: Evidence, printed: str, tasks: list[str]) -> ClaimOutcome:
    """The highest of these cells of the six lies below the printed share."""
    highest = max(data.share(system, task) for system in SIX for task in tasks)
    return ClaimOutcome(number(highest), holds(highest < Decimal(f"0{printed}")))


def best(data: Evidence, printed: str, task: str) -> ClaimOutcome:
    """Which of the six is highest."""
    return _named(max(SIX, key=lambda system: data.share(system, task)), printed)


def worst_of(data: Evidence, printed: str, task: str) -> ClaimOutcome:
    """Which of the six is lowest."""
    return _named(min(SIX, key=lambda system: data.share(system, task)), printed)


def _named(found: str, printed: str) -> ClaimOutcome:
    return ClaimOutcome(found, holds(found == printed))


def cell(data: Evidence, printed: str, system: str, task: str) -> ClaimOutcome:
    """A printed cell."""
    return ClaimOutcome(number(data.share(system, task)), holds(data.share(system, task) == Decimal(printed)))


def cost_factor(data: Evidence, printed: str, system: str, base: str) -> ClaimOutcome:
    """Dollars per episode, ingest and inference together, of one system over another's."""
    parts = ("ingest_dollars", "inference_dollars")
    spent = {name: sum((Decimal(data.rows[name][part]) for part in parts), Decimal(0)) for name in (system, base)}
    factor = spent[system] / spent[base]
    low = (spent[system] - 2 * _HALF) / (spent[base] + 2 * _HALF)
    high = (spent[system] + 2 * _HALF) / (spent[base] - 2 * _HALF)
    note = f"Cents as printed allow {number(low, 0):.0f} to {number(high, 0):.0f}."
    return ClaimOutcome(number(factor, 1), verdict(figures(printed)[0], factor, allowed=Interval(low, high)), note)


def higher(data: Evidence, printed: str, system: str, base: str, tasks: list[str]) -> ClaimOutcome:
    """One row is above another in each of these tasks."""
    found = {task: number(data.share(system, task) - data.share(base, task)) for task in tasks}
    return ClaimOutcome(found, holds(all(value > 0 for value in found.values())))


def fall(data: Evidence, printed: str, system: str, after: str, task: str) -> ClaimOutcome:
    """How far one row lies below another."""
    value = data.share(system, task) - data.share(after, task)
    return ClaimOutcome(number(value), verdict(figures(f"0{printed}")[0], value))


def episodes(data: Evidence, printed: str, variant: str) -> ClaimOutcome:
    """Episodes of a variant, and of each domain."""

    def count(loaded: Sequence[LoadedEpisode]) -> ClaimOutcome:
        domains = Counter(one.episode.domain for one in loaded)
        found = [len(loaded), *sorted({domains[domain] for domain in DOMAINS})]
        return count_outcome(printed, found)

    return _of_released(data, variant, count)


def once(data: Evidence, printed: str, variant: str) -> ClaimOutcome:
    """Questions after the change of each of the four tasks that have one an episode."""

    def count(loaded: Sequence[LoadedEpisode]) -> ClaimOutcome:
        tasks = Counter(gold.task for one in loaded for gold in one.gold.questions.values() if gold.phase == "after")
        found = {task: tasks[task] for task in TASKS if task not in ("cascade", "absence")}
        return ClaimOutcome(found, holds(set(found.values()) == set(map(int, figures(printed)))))

    return _of_released(data, variant, count)


def _of_released(
    data: Evidence, variant: str, count: Callable[[Sequence[LoadedEpisode]], ClaimOutcome]
) -> ClaimOutcome:
    if variant not in data.episodes:
        return unchecked(f"the released episodes ({variant}) are not at hand: `beamlib meme download`")
    return count(data.episodes[variant])


def not_checkable(data: Evidence, printed: str, reason: str) -> ClaimOutcome:
    """What rests on nothing that was released, or is no figure."""
    return unchecked(reason)


MEME = PaperClaims("meme_claims.json", "source", {"printed": sys.modules[__name__]})


def audit_meme(
    released: Mapping[str, Sequence[LoadedEpisode]] | None = None, replaced: pd.DataFrame | None = None
) -> list[ClaimResult]:
    """Recompute every claim; `released` are the authors' episodes by variant, never ours.

    `replaced` takes the place of the published table, which shows what another value would change.
    """
    return MEME.audit(Evidence(released or {}, published() if replaced is None else replaced))
