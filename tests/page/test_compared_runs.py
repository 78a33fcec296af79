"""`beamlib compare`: paired differences of two runs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from beam_page.comparing import compare_runs
from beam_page.run_folder import read_run
from beamlib.data.gold import ABILITIES
from beamlib.errors import UserError
from beamlib.scoring.intervals import compare
from beamlib.scoring.scores import score_run
from conftest import ARMS, run_on
from fixtures_release import write_release


@pytest.fixture(scope="module")
def other(repo_root: Path, release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two of the arms, as the released code and with a smaller window: other answers and verdicts."""
    root = tmp_path_factory.mktemp("other")
    return run_on(
        repo_root,
        release,
        root / "other",
        ARMS[2:4],
        reader_window=4_000,
        full_context_window=4_000,
        variant="released",
    )


@pytest.mark.parametrize("protocol", ["paper", "binary"])
def test_differences_are_those_of_the_paired_test(page_run: Path, other: Path, protocol: str) -> None:
    table = compare_runs(page_run, other, protocol)
    first, second = ({arm.series: arm for arm in read_run(run).arms} for run in (page_run, other))
    assert len(table.records()) == len(second) * (len(ABILITIES) + 1)
    for row in table.records():
        frames = [score_run(run[row["first"]].judgements, protocol) for run in (first, second)]
        if row["ability"] != "average":
            frames = [frame[frame["ability"] == row["ability"]] for frame in frames]
        expected = compare(*frames)
        ends = [None if math.isnan(end) else end for end in (expected.low, expected.high)]  # equal in all
        assert [row["difference"], row["low"], row["high"], row["p"]] == [
            expected.difference, *ends, expected.p_value
        ]  # fmt: skip
        assert row["p_holm"] >= row["p"]
    assert any(row["difference"] for row in table.records())
    assert f"Protocol: {protocol}. Judge: offline stand-in, not a language model." in table.footer[0]


def test_the_command_prints_and_saves_the_table(page_run: Path, other: Path, tmp_path: Path, called: Any) -> None:
    shown = called("compare", page_run, other, "--out", tmp_path)
    assert "page_run minus other, on the same questions" in shown.stdout and "95 % interval" in shown.stdout
    assert {path.name for path in tmp_path.iterdir()} == {f"differences.{kind}" for kind in ("csv", "md", "html")}
    rows = json.loads(called("compare", page_run, other, "--json").stdout)
    assert rows == compare_runs(page_run, other).records()


def test_runs_that_cannot_be_compared_are_told_in_one_sentence(
    page_run: Path, other: Path, repo_root: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="holds no finished arm"):
        (tmp_path / "empty").mkdir()
        compare_runs(page_run, tmp_path / "empty")
    data = write_release(tmp_path / "release")
    path = data / "100K/1/probing_questions/probing_questions.json"
    path.write_text(path.read_text().replace('"question": "', '"question": "Pray, ', 1))
    changed = run_on(repo_root, data, tmp_path / "other", ARMS[:1], conversations=1)
    with pytest.raises(UserError, match="asked other questions about 100K-1"):
        compare_runs(page_run, changed)
    with pytest.raises(UserError, match="no arm with a question in common"):
        compare_runs(other, changed)
