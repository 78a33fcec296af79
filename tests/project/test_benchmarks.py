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
    assert words == {"load", "index", "ingest", "recall"}
    for row in report["stages"]:
        assert row["amount"] > 0 and row["seconds"] > 0 and row["peak_mib"] > 10, row
        assert row["per_second"] == pytest.approx(row["amount"] / row["seconds"])
        base = by_name[row["size"], report["baselines"][row["unit"]]]
        assert row["relative"] == pytest.approx(time_of_one(row) / time_of_one(base))
    # The same conversation every time: all stages of a unit have the same amount of work.
    assert len({(row["unit"], row["amount"]) for row in report["stages"]}) == 2
    # Loading needs no encoder. In a shared process its peak could not lie below what the encoder takes.
    assert by_name["100K", "load"]["peak_mib"] < report["import_peak_mib"]


def test_the_table_is_printed(
    repo_root: Path, monkeypatch: pytest.MonkeyPatch, report: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(repo_root / "benchmarks"))
    from run import print_report  # type: ignore[import-not-found]

    print_report(report)
    shown = capsys.readouterr().out
    assert "ques/s" in shown and "recall, rag hybrid" in shown


def test_wrong_input_is_one_sentence_and_exit_code_2(repo_root: Path) -> None:
    for arguments, message in (
        (["--data", "nowhere"], "nowhere"),
        (["--size", "2m"], "'2m' is no size"),
        (["--size", "100k,1m"], "no conversation of size 1M"),
    ):
        done = benchmark(repo_root, *arguments, "--json")
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
