"""A series looks the same in every figure, whatever it stands beside and in whatever order."""

from __future__ import annotations

import itertools

import pandas as pd
import pytest

from beamlib.report.figures import ablation_figure, retriever_figure
from beamlib.report.series import SERIES, in_order, looks_of, named_look, series_named
from beamlib.report.tables import published_footer
from beamlib.scoring.measured import ARMS, RETRIEVERS


@pytest.mark.parametrize(
    "names",
    [
        ("retrieval", "scratchpad", "working memory", "noise filter"),
        ("dense", "sparse_splade", "hybrid", "bm25"),
        ("none", "full-context", "rag-hybrid-k5", "light-hybrid-k5", "oracle"),
        ("light-dense-k5", "light-bm25-k5", "light-hybrid-k5", "light-splade-k5"),
        ("Vanilla", "RAG", "LIGHT"),
    ],
)
def test_the_look_follows_the_name_and_not_the_order(names: tuple[str, ...]) -> None:
    first = looks_of(names)
    assert len(set(first.values())) == len(names)
    for order in itertools.permutations(names):
        assert looks_of(order) == first


def test_other_names_of_the_same_look_alike() -> None:
    assert looks_of(["light-dense-k5", "light-bm25-k5"])["light-dense-k5"] == named_look("dense")
    assert named_look("noise filtering") == named_look("noise-filter") == named_look("noise_filter")
    assert named_look("sparse_splade") == named_look("splade") != named_look("bm25")
    assert named_look("Vanilla") == named_look("full-context")


def test_what_has_no_name_here_takes_what_is_free() -> None:
    looks = looks_of(["mine", "rag-bm25-k5", "theirs"])
    assert looks["rag-bm25-k5"] == named_look("rag") and len(set(looks.values())) == 3
    assert len(set(looks_of(["light-hybrid-k5", "light-hybrid-k9", "K=5"]).values())) == 3
    assert len(looks_of([f"K={k}" for k in range(12)])) == 12


def colours(names: list[str], column: str) -> dict[str, tuple[float, ...]]:
    frame = pd.DataFrame(
        {"size": "100K", "ability": "average", "series": names, "mean": 0.5, "low": 0.4, "high": 0.6, "n": 9}
    ).assign(conversations=2, removed=[name.replace(" ", "-") for name in names])
    draw = ablation_figure if column == "removed" else retriever_figure
    axes = draw(frame, published_footer("nobody")).axes[0]
    return {
        name: bars.patches[0].get_facecolor()
        for name, bars in zip(in_order(names), axes.containers[: len(names)], strict=True)
    }


@pytest.mark.parametrize(
    ("names", "column"), [(["scratchpad", "working memory", "retrieval"], "removed"), (["dense", "bm25"], "series")]
)
def test_figures_draw_it_so(names: list[str], column: str) -> None:
    assert colours(names, column) == colours(names[::-1], column)
    assert len(set(colours(names, column).values())) == len(names)


def test_the_registry_has_every_measured_arm_and_index_once() -> None:
    names = [name for series in SERIES for name in (series.name, *series.also)]
    assert len(set(names)) == len(names)
    assert {*ARMS, *RETRIEVERS} <= set(names)
    assert series_named("light_retrieval-alone").label == "LIGHT's index" and series_named("mine").label == "mine"


def test_known_names_come_in_the_order_of_the_registry_and_others_last() -> None:
    for order in itertools.permutations(["theirs", "hybrid", "splade", "dense"]):
        assert in_order(order) == ["dense", "splade", "hybrid", "theirs"]
