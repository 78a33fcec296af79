"""The page of imported runs: every format's verdicts as they are, and numbers that follow from them."""

from __future__ import annotations

from pathlib import Path

import pytest
from published_results import FILES, LINES, written

from beam_field.importing import read_runs, write_runs
from beam_page import building
from beam_page.building import write_page
from beam_page.comparing import compare_runs
from beam_page.data_files import read_data, write_data
from beam_page.headlines import cell_text
from beam_page.run_folder import read_run
from beamlib.data.conversations import SIZES
from beamlib.report.results import score_folders
from beamlib.scoring.scores import not_computable, score_run
from browser_driver import verified


@pytest.fixture(scope="session")
def imported_run(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of all formats, with its page."""
    folder = tmp_path_factory.mktemp("imported")
    for form, values in FILES.items():
        paths = [folder / f"{form}{number}.json" for number in range(len(values))]
        for path, value in zip(paths, values, strict=True):
            path.write_text(written(value, form in LINES))
        write_runs(read_runs(paths, stated={"reader": form, "judge": form}, table=table), folder / "run")
    write_page(read_run(folder / "run"), claims=False)
    return folder / "run"


def test_numbers_follow_from_what_each_format_tells(imported_run: Path) -> None:
    result = verified(imported_run)
    assert result["wrong"] == [] and "as-published" in result["protocols"]


def test_a_tampered_verdict_of_an_imported_run_shows(imported_run: Path) -> None:
    index = read_data(imported_run / "page" / "run.js")
    kept = read_data(imported_run / "page" / "run.js")
    series = next(name for name in index["cells"] if "top_200" in name)
    row = next(cell["j"][0] for cell in index["cells"][series].values() if set(cell["j"][0]["v"]) == {0, 1, 2})
    row["v"] = [2, 2, 2]
    write_data(imported_run, "run", index)
    try:
        wrong = verified(imported_run)["wrong"]
        assert ("nugget-mean", "full") in {(one["protocol"], one["treatment"]) for one in wrong}
        assert any("mem0" in one["series"] for one in wrong)
    finally:
        write_data(imported_run, "run", kept)


def test_the_page_shows_questions_sources_and_what_they_lack(imported_run: Path) -> None:
    index = read_data(imported_run / "page" / "run.js")
    assert {"as-published", "majority-vote"} < {name for name, _ in index["protocols"]}
    assert all(one["q"].startswith("In 1") for held in index["conversations"] for one in held["questions"])
    (place,) = (n for n, one in enumerate(index["conversations"]) if one["id"] == "1M-1")
    texts = read_data(imported_run / "page" / f"a{place}.js")
    (mem0,) = (own for name, own in texts["answers"].items() if name.endswith("mem0-top_200"))
    assert mem0["1M-1-q00"]["j"][0] == {"r": ["so", "so", "so"], "x": {"score": 0.5}}
    document = (imported_run / "index.html").read_text()
    assert '<option value="as-published" selected' in document  # the first by which all of them have an average
    assert "gold in the answer prompt: unknown" in document and "not computable</a>" not in document
    document = write_page(read_run(imported_run), protocol="paper", claims=False).read_text()
    assert "not computable</a>" in document
    assert "The conversations themselves" not in document and "As published</h2>" not in document


def test_a_comparison_counts_what_no_source_has_apart_from_what_failed(imported_run: Path) -> None:
    table = compare_runs(imported_run, imported_run)
    averages = {row["first"]: row for row in table.records() if row["ability"] == "average"}
    assert any(row["not_computable"] for row in averages.values())
    for arm in read_run(imported_run).arms:
        scores = score_run(arm.judgements, "paper")
        failed = scores["score"].isna() & ~not_computable(scores)
        assert averages[arm.series]["unscored"] == failed.sum()
    assert any(line.startswith("Not computable from its source under this protocol: ") for line in table.footer)


def test_scores_tell_arms_of_one_name_apart_by_size(imported_run: Path) -> None:
    rows = score_folders(imported_run, "nugget-mean")
    sizes = [row["size"] for row in rows]
    assert len(set(sizes)) > 1 and sizes == sorted(sizes, key=SIZES.index)
    keys = [(row["part"], row["arm"], row["size"], row["ability"]) for row in rows]
    assert len(set(keys)) == len(keys)
    assert all((imported_run / row["part"] / row["arm"]).is_dir() for row in rows)


def test_a_cell_over_fewer_conversations_than_those_beside_it_says_so() -> None:
    assert cell_text(["0.832", "0.48", "0.96", 58, 3, 2, 0], 20) == "0.832 [0.48, 0.96] (n = 3)"
    assert cell_text(["0.664", "0.64", "0.69", 400, 20, 0, 0], 20) == "0.664 [0.64, 0.69]"
    numbers = {"alpha": {"100K": {"average": ["0.5", None, None, 60, 3, 0, 0]}}}
    numbers["beta"] = {"100K": {"average": ["0.5", None, None, 400, 20, 0, 0]}}
    assert [building._cell("score", name, "100K", "average", numbers, {"100K": 20})["text"] for name in numbers] == [
        "0.5 (n = 3)", "0.5"
    ]  # fmt: skip
    single: list[str | int | None] = ["0.5", None, None, 20, 1, 0, 0]
    assert [cell_text(single, most) for most in (1, 20)] == ["0.5", "0.5 (n = 1)"]  # of one, the table's head says it
