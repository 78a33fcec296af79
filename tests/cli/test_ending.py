"""How a command ends where its streams are closed, full, or read by somebody who goes away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BEAMLIB = f"{sys.executable} -m beam_run"


def shell(command: str) -> subprocess.CompletedProcess[str]:
    script = f"set -o pipefail; {command}"
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("command", "code", "sentence"),
    [
        ("{} data errata --json | true", 141, "beamlib: nobody reads its output any more; "),
        ("{} data errata --json 2>&1 | true", 141, ""),
        ("{} data errata > /dev/full", 2, "beamlib: the file system: No space left on device; "),
        ("{} data errata >&- 2>&- <&-", 0, ""),
        ("{} data check /nowhere >&-", 2, "beamlib: /nowhere"),
    ],
)
def test_streams_that_cannot_be_written_to(command: str, code: int, sentence: str) -> None:
    done = shell(command.format(BEAMLIB))
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(sentence)
    assert len(done.stderr.splitlines()) == bool(sentence)


SCRIPT = """
import os, subprocess, sys
from pathlib import Path
from beam_run.ending import conclude

def command():
    with open({place!r}, "w") as handle:
        assert handle.fileno() > 2, "a file lies where output goes"
    print("lost")
    assert sys.stdin.read() == ""
    child = subprocess.run([sys.executable, "-c", "import sys; print(sys.stdin.read()); sys.stdout.flush()"])
    Path({place!r}).write_text(f"{{child.returncode}}")

conclude(command)
"""


@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
def test_what_is_closed_is_as_if_it_were_empty(closed: str, tmp_path: Path) -> None:
    (tmp_path / "go.py").write_text(SCRIPT.format(place=str(tmp_path / "place")))
    done = shell(f"{sys.executable} {tmp_path / 'go.py'} {closed}")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "place").read_text() == "0"
