"""The recipe of run_all.sh: what ends it ends the step that is under way, and no step begins after one that failed."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

RECIPE = """set -euo pipefail
source scripts/step.sh
step python3 -u first.py
step touch second
"""
WAITS = """import signal, sys, time
def end(number, frame):
    open("stored", "w").write("replies")
    sys.exit(128 + number)
signal.signal(signal.SIGTERM, end)
print("begun")
time.sleep(60)
"""


def begun(place: Path, repo_root: Path, first: str) -> subprocess.Popen[str]:
    (place / "scripts").symlink_to(repo_root / "scripts")
    (place / "first.py").write_text(first)
    return subprocess.Popen(["bash", "-c", RECIPE], cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_ending_the_script_ends_its_step_which_stores_what_is_under_way(
    number: signal.Signals, tmp_path: Path, repo_root: Path
) -> None:
    recipe = begun(tmp_path, repo_root, WAITS)
    assert recipe.stdout and recipe.stdout.readline() == "begun\n"
    recipe.send_signal(number)
    assert recipe.wait(20) == 128 + signal.SIGTERM
    assert (tmp_path / "stored").read_text() == "replies" and not (tmp_path / "second").exists()


@pytest.mark.parametrize(("code", "goes_on"), [(0, True), (2, False)])
def test_a_step_that_fails_is_the_last(code: int, goes_on: bool, tmp_path: Path, repo_root: Path) -> None:
    recipe = begun(tmp_path, repo_root, f"import sys; sys.exit({code})")
    assert recipe.wait(20) == code
    assert (tmp_path / "second").exists() == goes_on


def test_a_step_reads_what_is_typed(tmp_path: Path, repo_root: Path) -> None:
    recipe = begun(tmp_path, repo_root, "print('answered', input())")
    time.sleep(0.1)
    assert recipe.communicate("yes\n", 20)[0] == "answered yes\n"
