"""Where the processes of a run are not what a test is about: one worker that is kept, or none.

Each evaluation starts its workers anew, and a new one imports for seconds before it works for a tenth of one.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import pytest

from beamlib.plugins import plugins, register
from beamlib.processes import Pool, process_pool

POOL = "beamlib.evaluate.jobs.process_pool"
ESTIMATES = "beam_commands.estimate.process_pool"


@pytest.fixture(scope="module")
def workers() -> Iterator[Callable[[int], AbstractContextManager[Pool]]]:
    with ExitStack() as stack:
        kept: list[Pool] = []

        def pool(processes: int) -> AbstractContextManager[Pool]:
            if processes > 1:
                return process_pool(processes)
            try:
                kept[-1].submit(os.getpid).result()
            except (IndexError, BrokenProcessPool):  # a run that fails in a pool of its own ends all processes
                context = multiprocessing.get_context("spawn")
                kept.append(stack.enter_context(Pool(1, context, initializer=register, initargs=(plugins(),))))
                kept[-1].told, kept[-1].size = context.SimpleQueue(), 1
            return nullcontext(kept[-1])

        yield pool


@pytest.fixture
def one_worker(workers: Callable[[int], AbstractContextManager[Pool]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluations by one process share a process of the test file; those by several start their own, as ever."""
    monkeypatch.setattr(POOL, workers)
    monkeypatch.setattr(ESTIMATES, workers)


class Here(Executor):
    """Does what is submitted at once, so that what a test replaces is replaced where the work is done."""

    size = 1

    def __init__(self) -> None:
        self.told = multiprocessing.get_context("spawn").SimpleQueue()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def no_workers() -> Iterator[None]:
    """Make evaluations and estimates in the process of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(POOL, lambda _: nullcontext(Here()))
        patch.setattr(ESTIMATES, lambda _: nullcontext(Here()))
        yield


@pytest.fixture
def in_this_process() -> Iterator[None]:
    """Evaluations and estimates of a test are made by the process of the tests."""
    with no_workers():
        yield


@pytest.fixture(scope="module")
def file_in_this_process() -> Iterator[None]:
    """The same for a whole file of tests and its fixtures."""
    with no_workers():
        yield
