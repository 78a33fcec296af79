"""Worker processes that end with their parent and leave it to answer an interrupt."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from multiprocessing.queues import SimpleQueue
from typing import Any, Literal, NoReturn, Protocol, TypeVar

from tqdm import tqdm

from beamlib.errors import UserError
from beamlib.llm import model as base
from beamlib.plugins import Plugins, plugins, register

_Value = TypeVar("_Value")
_parent: SimpleQueue[str] | None = None  # in a worker, where it says what it is at
_TOGETHER = 64  # items that one process waits for at a time
_SOCKET = len("/pymp-12345678/listener-12345678")
_TO_ANSWER = 5.0  # seconds beyond what replies get, for a worker that is deep in a library when it is ended


class Said(Protocol):
    """What workers say they are at."""

    def empty(self) -> bool: ...
    def get(self) -> str: ...


class Workers(Protocol):
    """Who works on parts: processes of this machine, or a cluster (`beam_run.cluster.pool`). `size` parts at a time."""

    @property
    def size(self) -> int: ...
    @property
    def told(self) -> Said: ...
    def submit(self, work: Callable[[Any], _Value], part: Any, /) -> Future[_Value]: ...


class Pool(ProcessPoolExecutor):
    """Worker processes, and what they say they are at (`tell`)."""

    told: SimpleQueue[str]
    size: int


def can_fork() -> bool:
    """Whether processes can be forked from a server of `multiprocessing`: where a fork after our imports is safe, on
    Linux, and the path of the server's socket, among the temporary files, is no longer than the 107 bytes it may have.
    """
    return sys.platform == "linux" and len(os.fsencode(tempfile.gettempdir())) + _SOCKET <= 107


@contextmanager
def one_cluster() -> Iterator[None]:
    """All that workers of a cluster do meanwhile is done by those that were begun first.

    Else a batch system's would stand in its queue once for answers, again for verdicts, and so for each tier.
    """
    cluster = plugins().cluster
    with cluster.kept() if cluster else nullcontext():
        yield


@contextmanager
def process_pool(workers: int, start: Literal["spawn", "forkserver"] = "spawn") -> Iterator[Pool]:
    """A pool of `workers` processes. Leaving it by an exception, an interrupt too, ends them: replies that they have
    under way arrive first, what else they are at is lost.

    A worker that is killed from outside (mostly for want of memory) is a `UserError`.
    """
    # "spawn": a forked child would inherit the threads of FAISS and of our event loop in an unusable state.
    context = multiprocessing.get_context(start)
    told: SimpleQueue[str] = context.SimpleQueue()
    try:
        with Pool(
            workers,
            mp_context=context,
            initializer=_begin_worker,
            initargs=(told, replace(plugins(), cluster=None)),
        ) as pool:
            pool.told, pool.size = told, workers
            try:
                yield pool
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                _end_children()
                raise
    except BrokenProcessPool:
        raise UserError(
            "a worker process was killed, probably for want of memory; free some, or set the parameter workers to 1, "
            "and run again: it goes on where this one stopped."
        ) from None


def _end_children() -> None:
    children = multiprocessing.active_children()
    for child in children:
        child.terminate()
    until = time.monotonic() + base.SHUTDOWN_SECONDS + _TO_ANSWER
    for child in children:
        child.join(max(0.0, until - time.monotonic()))
        child.kill()


def _begin_worker(told: SimpleQueue[str], registered: Plugins) -> None:
    global _parent
    _parent = told
    register(registered)
    signal.signal(signal.SIGTERM, _end)
    # Libraries that show progress ask tqdm for a lock between processes, which a worker that is ended leaves behind.
    tqdm.set_lock(threading.RLock())
    # Both reach every process of a terminal: the parent alone answers them, and ends its workers by SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()


def _end(*_: object) -> NoReturn:
    base.stop()
    base.drain()
    os._exit(1)


def end_with_parent() -> None:
    """Wait for the parent, then end: a worker of a killed parent would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def at_once(work: Callable[..., _Value], items: Sequence[tuple[Any, ...]]) -> list[_Value]:
    """`work(*item)` for every item, in threads; the first error is raised at once, and its raising ends the process."""
    threads = ThreadPoolExecutor(min(len(items), _TOGETHER) or 1)
    try:
        futures = [threads.submit(work, *item) for item in items]
        for future in wait(futures, return_when=FIRST_EXCEPTION).done:
            future.result()
        return [future.result() for future in futures]
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def tell(what: str) -> None:
    """Say what a worker process is at, for its parent to show; elsewhere nobody listens."""
    if _parent is not None:
        _parent.put(what)


def as_they_end(
    futures: Iterable[Future[_Value]], pool: Workers, bar: tqdm[Any], stored: Callable[[], int] | None
) -> Iterator[Future[_Value]]:
    """Yield futures as they end. Meanwhile `bar` shows what the workers of `pool` are at: one conversation takes long.

    Args:
        stored: Counts the stored replies, for the bar too; None where no model is called.
    """
    pending, shown = set(futures), ""
    while pending:
        done, pending = wait(pending, timeout=1, return_when=FIRST_COMPLETED)
        while not pool.told.empty():
            shown = pool.told.get()
        replies = f"{stored():,} replies stored" if stored else ""
        bar.set_postfix_str(", ".join(filter(None, [shown, replies])))
        yield from done
