"""Commands that read a run agree on what they take: the run's folder, or that of a part of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from beamlib.evaluate.arms import Arm
from beamlib.evaluate.run import evaluate
from beamlib.params import load_parameters
from beamlib.places import ROOT
from commands import Call
from fixtures_workers import no_workers

EXAMPLE = ROOT / "beamlib/data/example"
READING = ("tables", "score", "frames", "latency", "reproduce", "compare", "judge", "judge-card")


@pytest.fixture(scope="module")
def run(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two parts, which have the same conversation."""
    folder = tmp_path_factory.mktemp("parts") / "run"
    arms = (Arm(memory="none"), Arm(memory="rag", retriever="bm25", k=3))
    values: dict[str, Any] = {"data": str(repo_root / "beamlib/data/example"), "run": str(folder), "workers": 1}
    with no_workers():
        evaluate(load_parameters(repo_root / "params/100k.yaml", **values), arms, quiet=True)
    for name in ("100k-a", "100k-b"):
        shutil.copytree(folder / "100k", folder / name)
    shutil.rmtree(folder / "100k")
    return folder


def typed(command: str, place: Path | str, out: Path) -> list[str]:
    more = {"frames": [out], "compare": [place], "judge-card": ["--against", place]}
    more["judge"] = ["--judge", "offline", "--data", EXAMPLE]
    return [command, *map(str, (place, *more.get(command, [])))]


@pytest.mark.parametrize("command", READING)
def test_a_part_is_read_as_the_run_is(command: str, run: Path, tmp_path: Path, called: Call) -> None:
    done = called(*typed(command, run / "100k-a", tmp_path))
    assert done.returncode == 0, done.stderr
    assert "100k-b" not in done.stdout
    arm = called(*typed(command, run / "100k-a/none", tmp_path))
    if command in ("score", "frames", "latency"):
        assert arm.returncode == 0, arm.stderr
    else:
        assert arm.returncode == 2 and f"it is an arm; name its run, or its part {run}/100k-a." in arm.stderr


def test_a_part_is_found_where_one_stands(run: Path, called: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run / "100k-a")
    assert f"wrote {run}/tables/all" in called("tables", ".").stdout
    assert not (run / "100k-a/tables").exists()


def test_a_page_of_a_part_is_refused(run: Path, called: Call) -> None:
    done = called("page", run / "100k-a")
    assert done.returncode == 2 and f"name {run}." in done.stderr and not (run / "100k-a/index.html").exists()
    assert "is a part already" in called("tables", run / "100k-a", "--parts", "100k-b").stderr
