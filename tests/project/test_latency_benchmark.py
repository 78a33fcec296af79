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
LANES, LATENCY = 16, 0.01
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if k != "BEAM_DATA"}, "HF_HUB_OFFLINE": "1"}


def benchmark(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "benchmarks/latency.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=240)


def test_every_call_is_made_once_and_bounds_follow_from_the_calls(repo_root: Path) -> None:
    done = benchmark(repo_root, "--json", "--lanes", str(LANES), "--latency", str(LATENCY))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    calls, bounds, row = report["calls"], report["bounds"], report["measured"]
    assert calls["episodic_keys"] == calls["scratchpad_notes"] == 13
    assert calls["answer"] == bounds["questions"] == row["answered"] == 20
    assert calls["scratchpad_filter"] % 20 == 0
    assert row["requests"] == sum(calls.values())
    assert row["most_at_once"] == LANES
    assert bounds["chain"] == 3  # extraction, filter, answer: the example's notes need no compression
    waves = sum(math.ceil(count / LANES) for count in (26, calls["scratchpad_filter"], 20))
    assert bounds["bound_seconds"] == pytest.approx(waves * LATENCY)
    assert row["times_bound"] == pytest.approx(row["seconds"] / bounds["bound_seconds"])
    assert row["times_bound"] >= 1  # nobody can be faster than the endpoint


def test_a_folder_without_a_100k_conversation_is_one_sentence(repo_root: Path, tmp_path: Path) -> None:
    done = benchmark(repo_root, "--data", str(tmp_path))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and str(tmp_path) in done.stderr
