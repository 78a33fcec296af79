"""The latency benchmark as it is typed, on the built-in example with a short latency: its counts, and its bounds."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LANES, LATENCY = 16, 0.01
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if k != "BEAM_DATA"}, "HF_HUB_OFFLINE": "1"}


def benchmark(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "benchmarks/latency.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=240)


@pytest.fixture(scope="module")
def report(repo_root: Path) -> dict[str, Any]:
    done = benchmark(repo_root, "--json", "--released", "--lanes", str(LANES), "--latency", str(LATENCY))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_call_is_made_once_by_either_order(report: dict[str, Any]) -> None:
    calls = report["calls"]
    assert calls["episodic_keys"] == calls["scratchpad_notes"] == 13
    assert calls["answer"] == report["bounds"]["questions"] == 20
    assert calls["scratchpad_filter"] % 20 == 0
    for row in report["schedules"]:
        assert row["requests"] == sum(calls.values()), row["schedule"]
        assert row["answered"] == 20


def test_lanes_bound_what_is_in_flight(report: dict[str, Any]) -> None:
    ours, released = report["schedules"]
    assert ours["most_at_once"] == LANES
    assert 2 <= released["most_at_once"] <= 13  # the pairs of the example: all its extraction there is at once


def test_bounds_follow_from_the_calls(report: dict[str, Any]) -> None:
    calls, bounds = report["calls"], report["bounds"]
    assert bounds["chain"] == 3  # extraction, filter, answer: the example's notes need no compression
    waves = sum(math.ceil(count / LANES) for count in (26, calls["scratchpad_filter"], 20))
    assert bounds["bound_seconds"] == pytest.approx(waves * LATENCY)
    assert bounds["released_seconds"] == pytest.approx((1 + 1 + calls["scratchpad_filter"] + 20) * LATENCY)
    for row in report["schedules"]:
        assert row["times_bound"] == pytest.approx(row["seconds"] / bounds["bound_seconds"])
        assert row["times_chain"] == pytest.approx(row["seconds"] / bounds["chain_seconds"])
        assert row["times_bound"] >= 1  # nobody can be faster than the endpoint


def test_a_folder_without_a_100k_conversation_is_one_sentence(repo_root: Path, tmp_path: Path) -> None:
    done = benchmark(repo_root, "--data", str(tmp_path))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert str(tmp_path) in done.stderr
