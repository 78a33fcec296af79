"""What all processes of a test session share: the first that needs it makes it, the others wait and read."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import beamlib
from fixtures_release import write_release

ROOT = Path(__file__).resolve().parents[1]


def session_number() -> int:
    """Return the process that the session began in: under xdist the parent of this one."""
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


def shared_folder(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """Return the folder `name` of the session, built by the first process that asks; nobody changes it afterwards."""
    top = factory.getbasetemp()
    top = top.parent if "PYTEST_XDIST_WORKER" in os.environ else top
    folder, built = top / name, top / f"{name}.built"
    with (top / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            shutil.rmtree(folder, ignore_errors=True)
            build(folder)
            built.touch()
    return folder


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two invented conversations in the released layout."""
    return shared_folder(tmp_path_factory, "release", write_release)


def main_job_folder() -> Path:
    """The run folder of the session's main job, below runs/ as a user's."""
    return ROOT / "runs" / f"test-{session_number()}"


@pytest.fixture(scope="session")
def main_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole main job on one generated conversation, read by every test that needs one."""
    folder = main_job_folder()

    def run_all(_: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        done = beamlib("run-all", "--sizes", "100k", "--conversations", "1", "--name", folder.name)
        assert done.returncode == 0, done.stderr
        assert f"Open runs/{folder.name}/index.html" in done.stdout

    shared_folder(tmp_path_factory, "main_job", run_all)
    return folder


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the main job's results when the session ends, in the process that it began in."""
    if not hasattr(config, "workerinput"):
        for folder in (main_job_folder(), ROOT / "figures" / main_job_folder().name):
            shutil.rmtree(folder, ignore_errors=True)
