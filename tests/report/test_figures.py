"""Figures: what is drawn, what is stored beside them, and the same bytes again."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from beamlib.errors import UserError
from beamlib.report.figures import (
    ablation_figure,
    averages,
    budget_figure,
    main_figure,
    retriever_figure,
    save_figure,
    score_changes,
    style,
)
from beamlib.report.footer import Footer
from beamlib.report.long_frame import COLUMNS, published_long
from beamlib.report.tables import published_footer

OURS = Footer("f1-weighted", "offline stand-in, not a language model", "reader-a", "d", 2, 40, 0, "95 %", "t", "regex")


def run_frame() -> pd.DataFrame:
    cells = [
        (size, ability, f"light-hybrid-k{k}", value, value - 0.05, value + 0.07, 20, 2, k, "noise-filter")
        for size, shift in (("100K", 0.0), ("1M", 0.1))
        for ability in ("abstention", "average")
        for k, value in ((5, 0.3 + shift), (10, 0.4 + shift))
    ]
    return pd.DataFrame(cells, columns=[*COLUMNS, "k", "removed"])


def bars(figure: Figure) -> list[BarContainer]:
    return [one for axes in figure.axes for one in axes.containers if isinstance(one, BarContainer)]


def lines_of(figure: Figure) -> list[Any]:
    return [np.asarray(line.get_xydata()) for axes in figure.axes for line in axes.lines]


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def heights(container: BarContainer) -> list[float]:
    return [round(float(patch.get_height()), 4) for patch in container]


def test_ablation_shows_changes_of_the_published_average() -> None:
    changes = score_changes(published_long("table8"))
    assert changes["series"].nunique() == 4 and len(changes) == 176
    figure = ablation_figure(changes, published_footer("Qwen2.5-32B-AWQ"))
    assert heights(bars(figure)[0]) == [0.0, -0.06, -0.024, -0.085]  # without retrieval
    assert legend_of(figure) == ["retrieval", "scratchpad", "working memory", "noise filtering"]
    assert legend_of(ablation_figure(run_frame().query("k == 5"), OURS)) == ["noise filter"]


def test_changes_need_one_complete_series() -> None:
    frame = published_long("table8")
    with pytest.raises(UserError, match="found none"):
        score_changes(frame[frame["series"] != "base"])
    with pytest.raises(UserError, match="found K=5, K=10"):
        score_changes(published_long("table9"))
    partial = frame[(frame["series"] != "base") | (frame["size"] != "1M")]
    with pytest.raises(UserError, match="series base has no value for 1M / abstention"):
        score_changes(partial)


def test_budget_lines_follow_k() -> None:
    shuffled = published_long("table9").iloc[::-1]
    figure = budget_figure(shuffled, published_footer("Qwen2.5-32B-AWQ"))
    axes = figure.axes[0]
    assert legend_of(figure) == ["100K", "500K", "1M", "10M"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["5", "10", "15", "20"]
    drawn = [points for points in lines_of(figure) if len(points) == 4]
    assert drawn[3][:, 1].round(3).tolist() == [0.238, 0.171, 0.253, 0.245]
    assert all(points[:, 0].tolist() == [0, 1, 2, 3] for points in drawn)  # nothing is displaced
    assert axes.get_ylim()[0] == 0


def test_the_budget_is_a_column_and_no_part_of_a_name() -> None:
    figure = budget_figure(run_frame(), OURS)
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["5", "10"]
    with pytest.raises(UserError, match="'dense' has no retrieval budget"):
        budget_figure(published_long("table10"), OURS)
    with pytest.raises(UserError, match="'light-hybrid-k5' has no retrieval budget"):
        budget_figure(run_frame().drop(columns="k"), OURS)


def test_retrievers_by_size_and_by_ability() -> None:
    by_size = retriever_figure(published_long("table10"), published_footer("Qwen2.5-32B-AWQ"))
    assert heights(bars(by_size)[1]) == [0.328, 0.323, 0.317, 0.231]
    by_ability = main_figure(published_long("table10"), published_footer("Qwen2.5-32B-AWQ"))
    assert [axes.get_title(loc="left") for axes in by_ability.axes] == ["100K", "500K", "1M", "10M"]


def whiskers(figure: Figure) -> list[list[float]]:
    """The ends of every interval that is drawn over bars."""
    drawn = [np.unique(points[:, 1].round(3)) for points in lines_of(figure)]
    return [ends[:2].tolist() for ends in drawn if len(ends) > 1]


def test_bars_carry_intervals_where_there_are_any() -> None:
    frame = run_frame()
    assert whiskers(main_figure(frame, OURS))[0] == [0.25, 0.37]
    assert len(whiskers(main_figure(frame, OURS))) == len(frame)
    frame.loc[0, ["low", "high"]] = float("nan")
    assert len(whiskers(main_figure(frame, OURS))) == len(frame) - 1
    assert whiskers(main_figure(published_long("table10"), published_footer("Qwen2.5-32B-AWQ"))) == []


def test_a_missing_cell_leaves_its_place_and_no_other_bar_moves() -> None:
    whole = bars(main_figure(run_frame(), OURS))
    partial = bars(main_figure(run_frame().drop(index=[1, 3]), OURS))  # 100K has no k10 left
    assert [patch.get_x() for patch in partial[0]] == [patch.get_x() for patch in whole[0]]
    assert [patch.get_hatch() for bar in partial for patch in bar] == ["", "", "", "", "////", "////"]


def test_one_conversation_is_marked_and_has_no_interval(tmp_path: Path) -> None:
    frame = run_frame()
    alone = frame["size"] == "1M"
    frame.loc[alone, ["low", "high"]] = float("nan")
    frame.loc[alone, "conversations"] = 1
    labels = [text.get_text() for text in retriever_figure(frame, OURS).axes[0].get_xticklabels()]
    assert labels == ["100K", "1M\n(n = 1)"]
    assert legend_of(budget_figure(frame, OURS)) == ["100K", "1M (n = 1)"]
    assert [axes.get_title(loc="left") for axes in main_figure(frame, OURS).axes] == ["100K", "1M (n = 1)"]
    save_figure(budget_figure(frame, OURS), "one", tmp_path, frame, {}, {}, "A caption.")
    caption = json.loads((tmp_path / "one.json").read_text())["caption"]
    assert caption.endswith("n = 1 conversation, hence no interval: 1M.")


@pytest.mark.parametrize("draw", [budget_figure, retriever_figure, ablation_figure, main_figure])
def test_a_line_below_names_protocol_and_judge(draw: Callable[[pd.DataFrame, Footer], Figure]) -> None:
    figure = draw(run_frame(), OURS)
    assert figure.get_supxlabel() == "Protocol: f1-weighted; judge: offline stand-in, not a language model."
    assert "\n" not in figure.axes[0].get_ylabel()


@pytest.mark.parametrize("table", ["table9", "table10"])
def test_nothing_leaves_the_canvas(table: str) -> None:
    draw = budget_figure if table == "table9" else retriever_figure
    figure = draw(published_long(table), published_footer("Qwen2.5-32B-AWQ"))
    with style():
        figure.draw_without_rendering()
        box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height


def test_no_global_state_is_left() -> None:
    # Which backend pyplot would use is decided on first look, by whoever looks: not state of ours.
    before = {key: value for key, value in matplotlib.rcParams.items() if key != "backend"}
    main_figure(run_frame(), OURS)
    assert {key: value for key, value in matplotlib.rcParams.items() if key != "backend"} == before


def test_only_averages_are_needed_and_required() -> None:
    frame = run_frame()
    budget_figure(frame[frame["ability"] == "average"], OURS)
    with pytest.raises(UserError, match="no row for ability 'average'"):
        budget_figure(frame[frame["ability"] != "average"], OURS)


def test_saved_with_sidecar_and_again_alike(tmp_path: Path) -> None:
    data = averages(run_frame())

    def save(folder: Path) -> dict[str, bytes]:
        paths = save_figure(
            budget_figure(data, OURS), "budget", folder, data, {"table": "none"}, {"k": [5, 10]}, "A caption."
        )
        return {path.name: path.read_bytes() for path in paths}

    first = save(tmp_path / "one")
    with matplotlib.rc_context({"font.size": 20, "figure.dpi": 50}):  # a user's settings do not count
        assert save(tmp_path / "two") == first
    assert list(first) == ["budget.pdf", "budget.svg", "budget.png", "budget.csv", "budget.json"]
    assert first["budget.pdf"].startswith(b"%PDF") and first["budget.png"].startswith(b"\x89PNG")
    assert b"CreationDate" not in first["budget.pdf"]
    sidecar = json.loads(first["budget.json"])
    assert sidecar["inputs"] == {"table": "none"}
    assert sidecar["plotted_values_sha256"] == sha256(first["budget.csv"]).hexdigest()
    assert sidecar["parameters"] == {"k": [5, 10]} and sidecar["caption"] == (
        "A caption. Protocol: f1-weighted; judge: offline stand-in, not a language model."
    )
    assert "100K Average light-hybrid-k5 0.300 (0.250 to 0.370)" in sidecar["alt_text"]
    assert "tmp" not in first["budget.json"].decode()


def test_caption_says_that_there_are_no_intervals(tmp_path: Path) -> None:
    data = averages(published_long("table10"))
    save_figure(
        retriever_figure(data, published_footer("Qwen2.5-32B-AWQ")), "retrievers", tmp_path, data, {}, {}, "Table 10."
    )
    sidecar = json.loads((tmp_path / "retrievers.json").read_text())
    assert sidecar["caption"] == "Table 10. Protocol: as published; judge: not named. The values have no intervals."
