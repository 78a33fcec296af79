"""The five changes in CONTRIBUTING.md: each diff applies to this state, and its commands run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHANGES = {
    title: (re.findall(r"```diff\n(.*?)```", text, re.DOTALL), re.findall(r"```bash\n(.*?)```", text, re.DOTALL))
    for title, text in re.findall(
        r"^### (.*?)\n(.*?)(?=^##|\Z)", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL | re.MULTILINE
    )
}
SAID = {
    "A memory": "latest",
    "A retriever": "trigrams",
    "A metric": "lenient",
    "A benchmark": "rag-bm25-k1   one      1.00",
    "A published result": "[100%]",
}
REACHED = ("test_rooms.py", "test_memory_names.py", "test_protocols.py", "test_notebooks.py", "test_shipped_numbers.py")
"""Tests that list what a change adds to."""


def run(command: str, copy: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{copy}:{copy / 'packages'}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        ["bash", "-euc", command], cwd=copy, env=environment, capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def apply(diff: str, *options: str, place: Path) -> None:
    done = subprocess.run(["git", "apply", *options], cwd=place, input=diff, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The repository with this environment, without results and history."""
    left_out = shutil.ignore_patterns(".git", ".venv*", ".*_cache", "__pycache__", "runs", "figures", "work")
    place = shutil.copytree(ROOT, tmp_path / "copy", ignore=left_out)
    (place / ".venv").symlink_to(sys.prefix)
    return place


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_a_diff_that_applies_to_this_state(change: str) -> None:
    assert CHANGES.keys() == SAID.keys()
    (diff,), (commands,) = CHANGES[change]
    apply(diff, "--check", place=ROOT)
    assert commands.strip()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_commands_of_all_changes_run_and_no_list_was_forgotten(copy: Path) -> None:
    for change, ((diff,), (commands,)) in CHANGES.items():
        apply(diff, place=copy)
        assert SAID[change] in run(commands, copy), change
    run(".venv/bin/python scripts/parameter_reference.py > docs/parameters.md", copy)
    files = " ".join(str(next((copy / "tests").rglob(name)).relative_to(copy)) for name in REACHED)
    run(f".venv/bin/ruff check . && .venv/bin/pytest -q -n0 {files}", copy)
