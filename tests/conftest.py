"""Where tests find real data. `../shared` exists only on the developers' machines and in CI."""

from __future__ import annotations

import gc
import os
import signal
from itertools import compress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest
import tenacity
from hypothesis import settings

from beam_run.plugins import register_packages

# What is imported and collected stays to the end: looking for garbage among it takes a fifth of the time of collecting.
gc.disable()

# A job in the background of a script begins with Ctrl-C ignored, one under nohup with SIGHUP. Processes that tests
# begin would inherit that.
for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that `run_tests.sh` passes on."""
    parser.addoption("--slow", action="store_true", help="also run the slow tests, as CI does")
    parser.addoption("--local", action="store_true", help="also run the tests against a real llama.cpp server")
    parser.addoption("--vllm", action="store_true", help="also run the tests against a real vLLM server")
    parser.addoption("--nemesis-seed", type=int, default=1, help="what disturbs the runs of tests/nemesis, and when")
    parser.addoption("--nemesis-seconds", type=float, default=60.0, help="how long each test of tests/nemesis may take")
    parser.addoption("--adapters", action="store_true", help="memory systems of others must be there: no test skips")


def pytest_configure(config: pytest.Config) -> None:
    """Draw 30 examples of a property, and with `--slow` hypothesis' usual 100, where a test does not say how many.

    They are the same each time, so that what fails rests on what was changed. `--hypothesis-seed=random` draws others.
    """
    # The machines that run this are shared: how long an example takes says nothing about it.
    same = config.getoption("--hypothesis-seed") is None
    settings.register_profile(
        "project", deadline=None, max_examples=100 if config.option.slow else 30, derandomize=same
    )
    settings.load_profile("project")


pytest_plugins = ["commands", "fixtures_release", "fixtures_shared", "fixtures_workers"]

register_packages()

ROOT = Path(__file__).resolve().parents[1]


LONG = (
    "test_nemesis.py",
    "test_command_line.py",
    "test_publish.py",
    "test_model_runs.py",
    "test_refused_run.py",
    "test_benchmarks.py",
    "test_cluster.py",
    "test_own_memory.py",
    "test_keys_in_proc.py",
    "test_generation_served.py",
    "test_consent.py",
    "test_data_is_read_only.py",
)
"""Files that take longest, first: begun late, one would keep a single process of the tests busy at the end."""

left_out = 0
"""Slow tests that were not run; under xdist the largest number of a worker, as each worker collects all of them."""


def is_slow(item: pytest.Item) -> bool:
    """Tell whether a test is left out usually: it says so, or its parameters are not among those that are quick."""
    quick: Any = item.get_closest_marker("quick")
    parameters: Any = getattr(item, "callspec", None)
    return item.get_closest_marker("slow") is not None or (quick is not None and parameters.id not in quick.args)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow tests out unless `--slow` is given, and begin with the longest files."""
    global left_out
    if not config.option.slow:
        slow = list(map(is_slow, items))
        left_out = sum(slow)
        config.hook.pytest_deselected(items=list(compress(items, slow)))
        items[:] = [item for item, left in zip(items, slow, strict=True) if not left]
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))
    gc.freeze()
    gc.enable()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the number of tests left out from a worker of xdist to the process that reports."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = left_out


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Receive that number."""
    global left_out
    left_out = max(left_out, getattr(node, "workeroutput", {}).get("left_out", 0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out and how to run it."""
    if left_out:
        terminalreporter.write_line(f"{left_out} slow tests left out; run them too with: ./run_tests.sh --slow")


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses before another try are drawn from a small part of what they are, in the process of the tests."""
    for name in ("_JITTER", "_THROTTLED_JITTER"):
        short = tenacity.wait_random_exponential(multiplier=0.02, max=1)
        monkeypatch.setattr(f"beamlib.llm.client.{name}", short)


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The repository's top folder."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of references and real data beside the checkout; the test is skipped where it is missing."""
    folder = Path(os.environ.get("BEAM_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no shared folder at {folder} (set BEAM_SHARED to point at one)")
    return folder


@pytest.fixture(scope="session")
def beam_data() -> Path:
    """Released BEAM conversations (a folder with 100K/, 500K/, ...); the test is skipped where they are missing."""
    folder = Path(os.environ.get("BEAM_DATA", ROOT.parent / "shared" / "data" / "beam"))
    if not folder.is_dir():
        pytest.skip(f"no BEAM data at {folder} (set BEAM_DATA to a folder laid out like the released chats/)")
    return folder


@pytest.fixture(scope="session")
def memorycode_data() -> Path:
    """Released MemoryCode dialogues with outputs of two models; the test is skipped where they are missing."""
    folder = Path(os.environ.get("MEMORYCODE_DATA", ROOT.parent / "shared" / "data" / "memorycode"))
    if not folder.is_dir():
        pytest.skip(f"no MemoryCode data at {folder} (set MEMORYCODE_DATA to a bundle like ../shared/data/memorycode)")
    return folder


@pytest.fixture(autouse=True)
def _no_keys_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beamlib.llm.keys._kept", {})


@pytest.fixture(autouse=True)
def _no_servers_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what servers were like: the system gives a port again to the server of another test."""
    monkeypatch.setattr("beamlib.llm.client._SERVICES", WeakKeyDictionary())
    monkeypatch.setattr("beamlib.llm.client._LONGEST_REPLIES", {})
