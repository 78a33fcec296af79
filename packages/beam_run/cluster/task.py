"""Run one task on a worker, in its own process, under a lease of its conversation."""

from __future__ import annotations

import multiprocessing
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from distributed import get_worker

from beam_run.cluster.budget import Allowance
from beam_run.cluster.journal import journalled
from beam_run.cluster.lease import Watch, newest
from beam_run.plugins import register_packages
from beamlib.errors import UserError
from beamlib.evaluate.run_store import ANSWER_CODE
from beamlib.files import code_hash, temporary_folder
from beamlib.llm.keys import close_process
from beamlib.processes import Pool, can_fork, process_pool

MARK = ".cluster"
"""The file by which a worker knows the run folder again."""
_LATER = ("beamlib.retrieval.dense", "beamlib.retrieval.hybrid")
"""What `beamlib` imports only where it is used, and every task uses."""
_one_at_a_time = threading.Lock()  # ending a process pool ends all child processes of a worker


class Lost(Exception):
    """The process of a task has ended or hangs; another worker may take over."""


@dataclass(frozen=True)
class TaskOrder:
    """What a task needs besides its part.

    Attributes:
        name: Topic of messages and budget.
        run: The run folder, in which the file `MARK` contains `name`.
        code: Hash of the driver's code.
        folder: Leases of the run, None where no call is paid for.
        patience: Seconds after which a silent lease expires.
        limit: Budget of the run in US dollars.
    """

    name: str
    run: Path
    code: str
    folder: Path | None
    patience: float
    limit: float | None


def code_now() -> str:
    """Hash the code that computes answers, as it is on this machine."""
    return code_hash(ANSWER_CODE)


def _start() -> Literal["spawn", "forkserver"]:
    """Choose how a task's process starts: forked from one that has done the imports, where possible.

    Imports take most of a task's time besides its calls.
    """
    if not can_fork():
        return "spawn"
    multiprocessing.set_forkserver_preload([journalled.__module__, "beamlib.evaluate.run", *_LATER])
    return "forkserver"


def perform(order: TaskOrder, unit: str, work: Callable[[Any], Any], part: Any) -> Any:
    """Run `work(part)` on a worker; raise its exceptions, or `Lost` where another worker should try."""
    mark = order.run / MARK
    if not mark.is_file() or mark.read_text(encoding="utf-8") != order.name:
        raise UserError(
            f"--cluster: the worker {get_worker().address} does not see {order.run} as it is here; start workers in "
            "the same folder as this command, on a disk that all machines share."
        )
    if code_now() != order.code:
        raise UserError(
            f"--cluster: the worker {get_worker().address} has other code than this command; start it anew from the "
            "same checkout."
        )
    register_packages()
    close_process()  # its environment may have the keys
    # A nanny's workers may not begin processes, lest they be left behind: ours end with their parent.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    try:
        with _one_at_a_time, ExitStack() as stack:
            holder, allowance = uuid.uuid4().hex, None
            if order.limit is not None:
                place = stack.enter_context(temporary_folder("beamlib-allowance-"))
                allowance = Allowance(place / "ledger.json", order.name, holder, unit, order.limit)
                stack.callback(allowance.tell, ended=True)
            pool = stack.enter_context(process_pool(1, _start()))
            ledger = str(allowance.path) if allowance else ""
            future = pool.submit(journalled, order.folder, order.patience, unit, work, part, ledger)
            return _attended(future, pool, order, unit, allowance)
    except UserError as error:
        if isinstance(error.__context__, BrokenProcessPool):
            raise Lost(str(error)) from None
        raise


def _attended(future: Future[Any], pool: Pool, order: TaskOrder, unit: str, allowance: Allowance | None) -> Any:
    """Wait for the task's result; forward its messages and give up a process that has stopped."""
    worker, sign = get_worker(), None
    while not wait([future], timeout=0.2).done:
        while not pool.told.empty():
            worker.log_event(order.name, pool.told.get())
        if allowance is not None:
            allowance.tell()
        if order.folder is not None and (last := newest(order.folder, unit)):
            path = order.folder / f"{unit}.{last}"
            sign = sign if sign is not None and sign.path == path else Watch(path, 2 * order.patience)
            if sign.still() and path.exists():
                for process in multiprocessing.active_children():
                    process.kill()  # it would not hear that it is to end
                raise Lost(f"{unit}: its process has stopped")
    return future.result()
