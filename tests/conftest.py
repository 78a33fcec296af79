"""Where tests find real data. `../shared` exists only on the developers' machines and in CI."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import tenacity
from hypothesis import settings

from beam_run.plugins import register_packages

# The machines that run this are shared: how long an example takes says nothing about it.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")

# A job in the background of a script begins with Ctrl-C ignored, and would hand that on to all that tests begin.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--vllm` and `--adapters`, which `run_tests.sh` passes on."""
    parser.addoption("--vllm", action="store_true", help="also run the tests against a real vLLM server")
    parser.addoption("--adapters", action="store_true", help="memory systems of others must be there: no test skips")


pytest_plugins = ["commands", "fixtures_release", "fixtures_workers"]

register_packages()

ROOT = Path(__file__).resolve().parents[1]


LONG = (
    "test_command_line.py",
    "test_model_runs.py",
    "test_data_is_read_only.py",
    "test_benchmarks.py",
    "test_evaluate.py",
    "test_digests.py",
    "test_consent.py",
    "test_pairs.py",
    "test_spending.py",
    "test_cluster.py",
    "test_damaged_runs.py",
    "test_publish.py",
    "test_generation_served.py",
    "test_estimate.py",
    "test_latency_benchmark.py",
    "test_table4.py",
    "test_systems.py",
)
"""Files that take longest, first: begun late, one would keep a single process of the tests busy at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))


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
