"""`benchmarks/latency.py` on the built-in example with a short latency: its counts, and its bounds."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
LANES, ROUND_TRIP = 16, 0.01
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if k != "BEAM_DATA"}, "HF_HUB_OFFLINE": "1"}


def benchmark(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "benchmarks/latency.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=240)


def test_every_call_is_made_once_and_bounds_follow_from_the_calls(repo_root: Path) -> None:
    done = benchmark(repo_root, "--json", "--lanes", str(LANES), "--round-trip", str(ROUND_TRIP))
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["measured"]
    assert [row["wire"] for row in rows] == ["plain", "tls", "h2"]
    for row in rows:
        calls = row["calls"]
        assert calls["episodic_keys"] == calls["scratchpad_notes"] == 13
        assert calls["answer"] == row["questions"] == row["answered"] == 20
        assert calls["scratchpad_filter"] % 20 == 0
        assert row["requests"] == sum(calls.values())
        assert row["connections"] == row["requests"] if row["wire"] != "h2" else row["connections"] <= 16
        # Extraction, filter, answer: the example's notes need no compression.
        assert row["chain_seconds"] == pytest.approx(3 * ROUND_TRIP)
        waves = sum(math.ceil(count / LANES) for count in (26, calls["scratchpad_filter"], 20))
        assert row["bound_seconds"] == pytest.approx(waves * ROUND_TRIP)
        assert row["times_bound"] == pytest.approx(row["seconds"] / row["bound_seconds"])
        assert row["times_bound"] >= 1  # nobody can be faster than the network


def test_a_folder_without_a_100k_conversation_is_one_sentence(repo_root: Path, tmp_path: Path) -> None:
    done = benchmark(repo_root, "--data", str(tmp_path))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and str(tmp_path) in done.stderr
