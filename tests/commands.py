"""The commands as a user types them, in a process of their own or in that of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from beam_run.cli import main

DATA = ("BEAM_DATA", "MEMORYCODE_DATA", "MEME_DATA")
SETTINGS = {"HF_HUB_OFFLINE": "1", "COLUMNS": "200"}
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if k not in DATA}, **SETTINGS}

Call = Callable[..., subprocess.CompletedProcess[str]]


def beamlib(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`beamlib` in a process of its own, without a terminal."""
    command = [sys.executable, "-m", "beam_run", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, env=ENVIRONMENT, cwd=cwd, timeout=800, stdin=subprocess.DEVNULL
    )


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    """`beamlib` without a process of its own; what would be a traceback there is an exception here."""
    for name in DATA:
        monkeypatch.delenv(name, raising=False)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)

    def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["beamlib", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, errors = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), out, errors)

    return call
