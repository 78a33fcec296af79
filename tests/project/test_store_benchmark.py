"""The benchmark of the call store as it is typed, with few calls: every step has a time and a peak."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_every_step_is_measured_in_a_process_of_its_own(repo_root: Path) -> None:
    command = [sys.executable, str(repo_root / "benchmarks/store.py"), "--calls", "300", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    rows = {row["step"]: row for row in json.loads(done.stdout)}
    assert {"begin to record", "begin to record into a copy", "sum up", "export", "verify", "import"} <= set(rows)
    for row in rows.values():
        assert row["calls"] == 300 and row["seconds"] > 0 and row["peak_mib"] > 10
