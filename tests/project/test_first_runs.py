"""Two first runs at once make one .venv: `scripts/venv.sh` with stand-ins for Python's venv and pip."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# Where a real Python would make an environment or install into it, this one takes a moment and writes that down.
PYTHON = f"""#!/bin/bash
case "$*" in
"-m venv .venv") echo "$$ makes" >> log; mkdir -p .venv/bin; [ .venv/bin/python -ef "$0" ] || cp "$0" .venv/bin/python
    sleep "${{VENV_SECONDS:-0.4}}"; touch .venv/pip ;;
"-m pip --version") [ -e .venv/pip ] ;;
"-m pip install"*) echo "$$ begins" >> log; sleep "${{PIP_SECONDS:-0.4}}"; echo "$$ ends" >> log ;;
*) exec {sys.executable} "$@" ;;
esac
"""


@pytest.fixture
def place(tmp_path: Path, repo_root: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "packages/beam_one").mkdir(parents=True)
    shutil.copy(repo_root / "scripts" / "venv.sh", tmp_path / "scripts")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "requirements.lock").touch()
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def run(place: Path, extras: str = "", **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", 'source scripts/venv.sh; ensure_venv "$1"; echo ready', "-", extras],
        cwd=place,
        env={**os.environ, "PYTHON": str(place / "python"), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def log(place: Path) -> list[str]:
    return [line.split()[1] for line in (place / "log").read_text().splitlines()]


def test_two_first_runs_install_once(place: Path) -> None:
    runs = [run(place) for _ in range(3)]
    said = [one.communicate(timeout=300)[0] for one in runs]
    assert [one.returncode for one in runs] == [0, 0, 0], said
    assert log(place) == ["makes", "begins", "ends"]
    assert sum("Waiting for another run" in text for text in said) == 2
    assert all(text.endswith("ready\n") for text in said)
    assert run(place).communicate(timeout=300)[0] == "ready\n"
    assert run(place, "[dev]").communicate(timeout=300)[0].endswith("ready\n")
    assert log(place) == ["makes", "begins", "ends", "begins", "ends"]


def test_a_killed_installation_holds_nobody_up_and_is_made_up_for(place: Path) -> None:
    first = run(place, PIP_SECONDS="60")
    while not (place / "log").exists() or log(place)[-1] != "begins":
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    said = run(place).communicate(timeout=300)[0]
    assert "Waiting" not in said and said.endswith("ready\n")
    assert log(place) == ["makes", "begins", "begins", "ends"]


def test_an_environment_without_pip_that_a_killed_run_left_is_made_whole(place: Path) -> None:
    first = run(place, VENV_SECONDS="60")
    while not (place / ".venv" / "bin" / "python").exists():
        time.sleep(0.05)
    time.sleep(0.3)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    said = run(place).communicate(timeout=300)[0]
    assert said.endswith("ready\n"), said
    assert log(place) == ["makes", "makes", "begins", "ends"]


def test_a_python_that_is_too_old_is_told(place: Path) -> None:
    (place / "python").write_text("#!/bin/bash\nexit 1\n")
    one = run(place)
    assert "needs Python 3.11" in one.communicate(timeout=300)[0] and one.returncode == 2


def test_another_package_is_installed_by_the_next_run(place: Path) -> None:
    assert run(place).wait(timeout=300) == 0
    (place / "packages/beam_two").mkdir()
    assert "Installing" in run(place).communicate(timeout=300)[0]
    assert log(place) == ["makes", "begins", "ends", "begins", "ends"]
