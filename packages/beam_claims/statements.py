"""What the paper's claims on scores say of a run's arms, as comparisons: weighted averages and what they lie between.

`comparisons` reads a claim of `claims.json` through its formula, so that the claim that is recomputed from the print is
the one that is looked for in a run. Claims of direction lie above or below 0; claims of size within `MARGIN` of the
printed size, on the printed scale from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from beam_claims.contrasts import ABOVE_ZERO, BELOW_ZERO, Bounds
from beam_claims.values import figures
from beamlib.data.gold import ABILITIES
from beamlib.data.published import LENGTHS, ability_of

MARGIN = 0.02
"""How far a score may lie from where a claim of size puts it: two points of a hundred, about one standard error of the
paper's own averages at n = 35."""

AVERAGE = "average"
BACKBONES = ("Qwen2.5-32B-AWQ", "Llama-4-Maverick", "Gemini-2.0-Flash", "GPT-4.1-nano")
_SIGNS = {"+": ABOVE_ZERO, "-": BELOW_ZERO}
_STUDIES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "table8": {
        "base": {},
        "without_retrieval": {"without": "retrieval"},
        "without_scratchpad": {"without": "scratchpad"},
        "without_working_memory": {"without": "working-memory"},
        "without_noise_filtering": {"without": "noise-filter"},
    },
    "table9": {k: {"k": int(k)} for k in ("5", "10", "15", "20")},
    "table10": {"dense": {"retriever": "dense"}, "sparse_splade": {"retriever": "splade"}},
    "table11": {
        f"{method} / {encoder}": {"method": method, "encoder": encoder}
        for method in ("RAG", "LIGHT")
        for encoder in ("bge-small", "bge-large")
    },
    "table12": {"IndexFlatIP": {"faiss_index": "flat"}, "IndexHNSWFlat": {"faiss_index": "hnsw"}},
    "table13": {"ReadAgent": {"method": "ReadAgent"}, "LIGHT": {}},
}


@dataclass(frozen=True)
class Series:
    """A column of a table as an arm: the method, and what is set otherwise than in the run's base LIGHT.

    `backbone` is a published one, or "" for the reader of the run.
    """

    method: str = "LIGHT"
    backbone: str = ""
    k: int | None = None
    without: str | None = None
    retriever: str | None = None
    encoder: str | None = None
    faiss_index: str | None = None


@dataclass(frozen=True)
class Term:
    """A weighted average of one series at one length, over all abilities or one."""

    weight: float
    length: str
    series: Series
    ability: str = AVERAGE


@dataclass(frozen=True)
class Comparison:
    """What a claim says of arms: the sum of `terms` lies within `bounds`.

    Attributes:
        label: What is compared, in words.
        treatment: What the arms are meant to differ in; "" where an arm is compared with itself.
    """

    table: str
    label: str
    terms: tuple[Term, ...]
    bounds: Bounds
    treatment: str = ""

    @property
    def family(self) -> str:
        """The comparisons that Holm's correction is over: a table's averages, or its single abilities."""
        abilities = any(term.ability != AVERAGE for term in self.terms)
        return f"{self.table.replace('table', 'Table ')}{', abilities' if abilities else ''}"

    @property
    def lengths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(term.length for term in self.terms))

    def read_by(self, backbone: str) -> Comparison:
        """Return the comparison with the reader filled in where it names none."""
        terms = (
            replace(term, series=replace(term.series, backbone=term.series.backbone or backbone)) for term in self.terms
        )
        return replace(self, terms=tuple(terms))


def series_of(table: str, name: str) -> Series:
    """Return the arm of a column of a published table."""
    if table == "table1":
        backbone, _, method = name.rpartition(" / ")
        return Series(method, backbone)
    return Series(**_STUDIES[table][name])


def _over(
    table: str, length: str, value: Series, base: Series, bounds: Bounds = ABOVE_ZERO, ability: str = AVERAGE,
    scale: float = 1.0,
) -> Comparison:  # fmt: skip
    """Compare `value` with `scale` times `base` at one length."""
    terms = (Term(1.0, length, value, ability), Term(-scale, length, base, ability))
    factor = "" if scale == 1 else f"{scale:g} x "
    named = "" if ability == AVERAGE else f", {ability}"
    both = f" ({value.encoder})" if value.encoder and value.encoder == base.encoder else ""
    label = f"{length}{named}: {_named(value, base)} less {factor}{_named(base, value)}{both}"
    return Comparison(table, label, terms, bounds, _treatment(value, base))


def _named(series: Series, other: Series) -> str:
    parts = [series.method] if series.method != other.method else []
    for field in ("k", "without", "retriever", "encoder", "faiss_index"):
        own = getattr(series, field)
        if own != getattr(other, field):
            parts.append(f"{'K' if field == 'k' else field} = {own}" if field != "without" or own else "complete")
    return " ".join([*parts] or ["LIGHT"]).replace("without = ", "without ")


def _treatment(value: Series, base: Series) -> str:
    fields = ("method", "k", "without", "retriever", "encoder", "faiss_index")
    differing = [field for field in fields if getattr(value, field) != getattr(base, field)]
    if differing == ["without"]:
        return f"part: {value.without or base.without}"
    return ", ".join("K" if field == "k" else field for field in differing)


def _within(center: float, margin: float = MARGIN) -> Bounds:
    return Bounds(center - margin, center + margin)


def _methods(length: str, backbone: str = "", better: str = "LIGHT") -> Iterator[Comparison]:
    for baseline in ("RAG", "Vanilla"):
        yield _over("table1", length, Series(better, backbone), Series(baseline, backbone))


def _relative(claim: Mapping[str, Any], table: str, length: str, value: str, base: str) -> Iterator[Comparison]:
    # "+7.39 %" of a base says that value - 1.0739 x base is 0: linear, and on the printed scale.
    scale = 1 + float(figures(claim["printed"])[0]) / 100
    yield _over(table, length, series_of(table, value), series_of(table, base), _within(0.0), scale=scale)


def _points(claim: Mapping[str, Any], table: str, length: str, value: str, base: str) -> Iterator[Comparison]:
    center = float(figures(claim["printed"])[0]) / 100
    yield _over(table, length, series_of(table, value), series_of(table, base), _within(center))


def _same(claim: Mapping[str, Any], table: str, length: str, value: str, base: str) -> Iterator[Comparison]:
    yield _over(table, length, series_of(table, value), series_of(table, base), _within(0.0))


def _range(claim: Mapping[str, Any]) -> Iterator[Comparison]:
    low, high = (1 + float(figure) / 100 for figure in ("3.5", "12.69"))
    for backbone in BACKBONES:
        for length in LENGTHS:
            for baseline in ("RAG", "Vanilla"):
                light, base = Series("LIGHT", backbone), Series(baseline, backbone)
                yield _over("table1", length, light, base, ABOVE_ZERO, scale=low)
            # At most 12.69 % above the better of the two; which one that is a run decides, RAG in most printed cells.
            yield _over("table1", length, Series("LIGHT", backbone), Series("RAG", backbone), BELOW_ZERO, scale=high)


def _wins(claim: Mapping[str, Any]) -> Iterator[Comparison]:
    for length in LENGTHS:
        yield from _methods(length)


def _exception(claim: Mapping[str, Any], backbone: str, length: str) -> Iterator[Comparison]:
    yield _over("table1", length, Series("RAG", backbone), Series("LIGHT", backbone))


def _over_lengths(
    table: str, label: str, longer: Sequence[Term], shorter: Sequence[Term], bounds: Bounds
) -> Comparison:
    terms = (*longer, *(replace(term, weight=-term.weight) for term in shorter))
    return Comparison(table, label, terms, bounds)


def _growth(claim: Mapping[str, Any]) -> Iterator[Comparison]:
    for before, after in pairwise(LENGTHS):
        for baseline in ("RAG", "Vanilla"):
            gains = [[Term(1, at, Series()), Term(-1, at, Series(baseline))] for at in (after, before)]
            label = f"{before} to {after}: the gain over {baseline}"
            yield _over_lengths("table1", label, gains[0], gains[1], ABOVE_ZERO)


def _decline(claim: Mapping[str, Any]) -> Iterator[Comparison]:
    for method in ("Vanilla", "RAG"):
        ends = [[Term(1, at, Series(method))] for at in (LENGTHS[-1], LENGTHS[0])]
        yield _over_lengths("table1", f"{LENGTHS[0]} to {LENGTHS[-1]}: {method}", ends[0], ends[1], BELOW_ZERO)


def _pooled(claim: Mapping[str, Any], ability: str, sentence: Mapping[str, str]) -> Iterator[Comparison]:
    scale = 1 + float(figures(claim["printed"])[0]) / 100
    cells = [(length, backbone) for length in LENGTHS for backbone in BACKBONES]
    terms = tuple(
        Term(weight / len(cells), length, Series(method, backbone), ability_of(ability))
        for length, backbone in cells
        for weight, method in ((1.0, "LIGHT"), (-scale, "Vanilla"))
    )
    label = f"all lengths and backbones, {ability_of(ability)}: LIGHT less {scale:g} x Vanilla"
    yield Comparison("table1", label, terms, _within(0.0), "method")


def _extreme(claim: Mapping[str, Any], ability: str, extreme: str, beside: Sequence[str]) -> Iterator[Comparison]:
    own = ability_of(ability)
    for length in LENGTHS:
        for method in ("Vanilla", "RAG", "LIGHT"):
            for other in ABILITIES:
                if other != own:
                    terms = (Term(1, length, Series(method), own), Term(-1, length, Series(method), other))
                    bounds = ABOVE_ZERO if extreme == "best" else BELOW_ZERO
                    yield Comparison("table1", f"{length}: {method}, {own} less {other}", terms, bounds)


def _removals(claim: Mapping[str, Any], length: str, signs: Mapping[str, str]) -> Iterator[Comparison]:
    for name, sign in signs.items():
        yield _over("table8", length, series_of("table8", name), Series(), _SIGNS[sign])


def _all_removals(claim: Mapping[str, Any]) -> Iterator[Comparison]:
    for length in LENGTHS:
        yield from _removals(claim, length, dict.fromkeys(list(_STUDIES["table8"])[1:], "-"))


def _removal_growth(claim: Mapping[str, Any]) -> Iterator[Comparison]:
    for name in list(_STUDIES["table8"])[1:]:
        for before, after in pairwise(LENGTHS):
            effects = [[Term(1, at, series_of("table8", name)), Term(-1, at, Series())] for at in (after, before)]
            label = f"{before} to {after}: the change {name.replace('_', ' ')}"
            yield _over_lengths("table8", label, effects[0], effects[1], BELOW_ZERO)


def _component(claim: Mapping[str, Any], variant: str, abilities: Sequence[str]) -> Iterator[Comparison]:
    for length in LENGTHS:
        for ability in abilities:
            yield _over("table8", length, Series(), series_of("table8", variant), ability=ability_of(ability))


def _best_depth(claim: Mapping[str, Any]) -> Iterator[Comparison]:
    best = int(figures(claim["printed"])[0])
    for length in LENGTHS:
        for k in (5, 10, 20):
            yield _over("table9", length, Series(k=best), Series(k=k))


def _rise(claim: Mapping[str, Any], depths: Sequence[str]) -> Iterator[Comparison]:
    for length in LENGTHS:
        for before, after in pairwise(depths):
            yield _over("table9", length, Series(k=int(after)), Series(k=int(before)))


def _depth_signs(claim: Mapping[str, Any], value: str, base: str, signs: Mapping[str, str]) -> Iterator[Comparison]:
    for length, sign in signs.items():
        yield _over("table9", length, Series(k=int(value)), Series(k=int(base)), _SIGNS[sign])


def _depth_drop(claim: Mapping[str, Any], value: str, base: str) -> Iterator[Comparison]:
    yield from _depth_signs(claim, value, base, dict.fromkeys(LENGTHS, "-"))


_SPARSE, _DENSE = Series(retriever="splade"), Series(retriever="dense")


def _sparse_signs(claim: Mapping[str, Any], signs: Mapping[str, str]) -> Iterator[Comparison]:
    for length, sign in signs.items():
        yield _over("table10", length, _SPARSE, _DENSE, _SIGNS[sign])


def _sparse_mean(claim: Mapping[str, Any]) -> Iterator[Comparison]:
    terms = [
        Term(weight / len(LENGTHS), at, series) for at in LENGTHS for weight, series in ((1, _SPARSE), (-1, _DENSE))
    ]
    yield Comparison("table10", "mean of all lengths: splade less dense", tuple(terms), ABOVE_ZERO, "retriever")


def _no_difference(claim: Mapping[str, Any], considerable: float) -> Iterator[Comparison]:
    for length in LENGTHS:
        yield _over("table10", length, _SPARSE, _DENSE, _within(0.0, considerable / 100))


def _beats(claim: Mapping[str, Any], table: str, pairs: Sequence[Sequence[str]]) -> Iterator[Comparison]:
    for length in LENGTHS:
        for better, worse in pairs:
            yield _over(table, length, series_of(table, better), series_of(table, worse))


def _embedding(claim: Mapping[str, Any], method: str, other: str) -> Iterator[Comparison]:
    for length in LENGTHS:
        terms = tuple(
            Term(weight * sign, length, Series(name, encoder=encoder))
            for weight, name in ((1.0, method), (-1.0, other))
            for sign, encoder in ((1.0, "bge-large"), (-1.0, "bge-small"))
        )
        label = f"{length}: what bge-large adds to {method} less what it adds to {other}"
        yield Comparison("table11", label, terms, ABOVE_ZERO, "encoder")


_READ: Mapping[str, Callable[..., Iterator[Comparison]]] = {
    "gains.improvement_range": _range,
    "gains.improvement_floor": _range,
    "gains.improvement_per_backbone": _range,
    "gains.wins": _wins,
    "gains.single_exception": _exception,
    "gains.growth_of_gains": _growth,
    "gains.decline_with_length": _decline,
    "gains.pooled_gain": _pooled,
    "gains.extreme_ability": _extreme,
    "studies.relative_change": _relative,
    "studies.point_change": _points,
    "studies.unchanged": _same,
    "studies.removal_signs": _removals,
    "studies.removal_growth": _removal_growth,
    "studies.base_is_best": _all_removals,
    "studies.each_contributes": _all_removals,
    "studies.component_helps": _component,
    "studies.best_depth": _best_depth,
    "studies.steady_rise": _rise,
    "studies.depth_signs": _depth_signs,
    "studies.depth_drop": _depth_drop,
    "studies.retriever_signs": _sparse_signs,
    "studies.sparse_mean_gain": _sparse_mean,
    "studies.largest_difference": _no_difference,
    "studies.beats": _beats,
    "studies.embedding_gains": _embedding,
}


def comparisons(claim: Mapping[str, Any]) -> list[Comparison]:
    """Return what a claim says of a run's arms; empty for a claim that is not on scores of arms."""
    read = _READ.get(claim["formula"])
    return list(read(claim, **claim["parameters"])) if read else []
