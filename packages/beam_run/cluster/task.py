"""Run one task on a worker, in its own process."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Literal

import psutil
from distributed import get_worker

from beam_run.plugins import register_packages
from beamlib.errors import UserError
from beamlib.evaluate.run_store import ANSWER_CODE
from beamlib.files import code_hash
from beamlib.llm.keys import close_process
from beamlib.processes import Pool, can_fork, process_pool

_IMPORTED = ("beamlib.evaluate.run", "beamlib.llm.entrance", "beamlib.retrieval.dense", "beamlib.retrieval.hybrid")
"""What every task uses, imported once."""
_STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
_one_at_a_time = threading.Lock()  # ending a process pool ends all child processes of a worker


class Lost(Exception):
    """The process of a task has ended or hangs; another worker may take over."""


@dataclass(frozen=True)
class TaskOrder:
    """What a task needs besides its part.

    Attributes:
        name: Topic of messages.
        code: Hash of the driver's code.
        patience: Seconds after which a process that was stopped is given up.
    """

    name: str
    code: str
    patience: float


def code_now() -> str:
    """Hash the code that computes answers, as it is on this machine."""
    return code_hash(ANSWER_CODE)


def _start() -> Literal["spawn", "forkserver"]:
    """Choose how a task's process starts: forked from one that has done the imports, where possible.

    Imports take most of a task's time besides its calls.
    """
    if not can_fork():
        return "spawn"
    multiprocessing.set_forkserver_preload([*_IMPORTED])
    return "forkserver"


def perform(order: TaskOrder, work: Callable[[Any], Any], part: Any) -> Any:
    """Run `work(part)` on a worker; raise its exceptions, or `Lost` where another worker should try."""
    if code_now() != order.code:
        raise UserError(
            f"--cluster: the worker {get_worker().address} has other code than this command; start it anew from the "
            "same checkout."
        )
    register_packages()
    close_process()  # whoever began it may have given it keys, which it does not need
    # A nanny's workers may not begin processes, lest they be left behind: ours end with their parent.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    try:
        with _one_at_a_time, process_pool(1, _start()) as pool:
            return _attended(pool.submit(work, part), pool, order)
    except UserError as error:
        if isinstance(error.__context__, BrokenProcessPool):
            raise Lost(str(error)) from None
        raise


def _attended(future: Future[Any], pool: Pool, order: TaskOrder) -> Any:
    """Wait for the task's result; forward its messages and give up a process that has been stopped."""
    running = time.monotonic()
    while not wait([future], timeout=0.2).done:
        while not pool.told.empty():
            get_worker().log_event(order.name, pool.told.get())
        children = multiprocessing.active_children()
        if not any(psutil.Process(child.pid).status() in _STOPPED for child in children):
            running = time.monotonic()
        elif time.monotonic() - running > order.patience:
            for child in children:
                child.kill()  # it would not hear that it is to end
            raise Lost("its process was stopped")
    return future.result()
