"""Worker processes that end with their parent and leave it to answer an interrupt."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import NoReturn

from tqdm import tqdm

from beamlib.errors import UserError
from beamlib.models.base import land


@contextmanager
def process_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of `workers` processes. Leaving it by an exception, an interrupt too, ends them at once.

    A worker that is killed from outside (mostly for want of memory) is a `UserError`.
    """
    # "spawn": a forked child would inherit the threads of FAISS and of our event loop in an unusable state.
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker) as pool:
            try:
                yield pool
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for child in multiprocessing.active_children():  # what they were at would take minutes, and is lost
                    child.terminate()
                raise
    except BrokenProcessPool:
        raise UserError(
            "a worker process was killed, probably for want of memory; free some, or set the parameter workers to 1, "
            "and run again: it goes on where this one stopped."
        ) from None


PATIENCE = 10.0
"""Seconds that calls in flight get to arrive when a run is ended: they have been paid for."""


def _begin_worker() -> None:
    signal.signal(signal.SIGTERM, _end)
    # Libraries that show progress ask tqdm for a lock between processes, which a worker that is ended leaves behind.
    tqdm.set_lock(threading.RLock())
    # Ctrl-C reaches every process of a terminal: the parent alone answers it, or each worker prints a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()


def _end(*_: object) -> NoReturn:
    land(PATIENCE)
    os._exit(1)


def end_with_parent() -> None:
    """Wait for the parent, then end: a worker of a killed parent would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
