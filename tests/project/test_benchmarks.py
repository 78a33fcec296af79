"""`benchmarks/run.py` on the built-in example: its output, and that its ratios are those of its times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if k != "BEAM_DATA"}, "HF_HUB_OFFLINE": "1"}


def benchmark(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "benchmarks/run.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=240)


@pytest.fixture(scope="module")
def report(repo_root: Path) -> dict[str, Any]:
    done = benchmark(repo_root, "--json")
    assert done.returncode == 0, done.stderr
    assert "too small for meaningful speed" in done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def time_of_one(row: dict[str, Any]) -> float:
    return float(row["seconds"] / row["amount"])


def test_every_stage_has_a_time_and_a_peak_of_its_own_and_ratios_follow(report: dict[str, Any]) -> None:
    assert (report["example"], report["tiers"]) == (True, {"100K": ["100K-1"]})
    by_name = {(row["size"], row["stage"]): row for row in report["stages"]}
    words = {stage.split()[0].rstrip(",") for _, stage in by_name}
    assert words == {"load", "embed", "index", "extract", "ingest", "recall", "answer", "judge"}
    for row in report["stages"]:
        assert row["amount"] > 0 and row["seconds"] > 0 and row["peak_mib"] > 10, row
        assert row["per_second"] == pytest.approx(row["amount"] / row["seconds"])
        base = by_name[row["size"], report["baselines"][row["unit"]]]
        assert row["relative"] == pytest.approx(time_of_one(row) / time_of_one(base))
    # The same conversation every time: all stages of a unit have the same amount of work.
    assert len({(row["unit"], row["amount"]) for row in report["stages"]}) == 2
    # Loading needs no encoder. In a shared process its peak could not lie below what the encoder takes.
    assert by_name["100K", "load"]["peak_mib"] < report["import_peak_mib"]
    for ratio in report["comparisons"]:
        of, to = (by_name[place["size"], place["stage"]] for place in (ratio["of"], ratio["to"]))
        assert of["unit"] == to["unit"] == ratio["unit"]
        assert ratio["ratio"] == pytest.approx(time_of_one(of) / time_of_one(to))


def test_evidence_recall_is_that_of_the_command_line(report: dict[str, Any], repo_root: Path) -> None:
    example = repo_root / "beamlib/data/example"
    command = [sys.executable, "-m", "beam_run", "evidence", "--data", str(example), "--k", "5", "--json"]
    command += ["--retriever", "bm25,dense,hybrid,hybrid-beam"]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=240)
    expected = [row for row in json.loads(done.stdout) if row["ability"] == "all"]
    assert report["evidence"] == expected
    assert len(expected) == 8


def test_the_largest_tier_is_compared_with_the_smallest_and_tables_are_printed(
    repo_root: Path, monkeypatch: pytest.MonkeyPatch, report: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(repo_root / "benchmarks"))
    from run import STAGES, comparisons, print_report  # type: ignore[import-not-found]

    made_up = [
        {"size": size, "stage": stage, "amount": amount, "seconds": seconds}
        for size, amount, seconds in (("100K", 10, 1.0), ("500K", 50, 5.0), ("1M", 100, 30.0))
        for stage in STAGES
    ]
    across = [ratio for ratio in comparisons(made_up) if ratio["of"]["size"] != ratio["to"]["size"]]
    assert [ratio["of"]["stage"] for ratio in across] == list(STAGES)
    assert {(ratio["of"]["size"], ratio["to"]["size"]) for ratio in across} == {("1M", "100K")}
    assert [ratio["ratio"] for ratio in across] == pytest.approx([3.0] * len(STAGES))
    print_report(report)
    shown = capsys.readouterr().out
    assert "ques/s" in shown and "Ratios of time" in shown and "hybrid-beam" in shown


def test_wrong_input_is_one_sentence_and_exit_code_2(repo_root: Path) -> None:
    for arguments, message in (
        (["--data", "nowhere"], "nowhere"),
        (["--size", "2m"], "'2m' is no size"),
        (["--size", "100k,1m"], "no conversation of size 1M"),
    ):
        done = benchmark(repo_root, *arguments, "--json")
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
