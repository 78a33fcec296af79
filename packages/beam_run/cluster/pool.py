"""Drive a run on the workers of a dask cluster, with the interface of a process pool."""

from __future__ import annotations

import os
import shutil
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from distributed import Client, KilledWorker
from distributed import Future as DaskFuture

import beam_run.cluster.lease as leases
from beam_run.cluster.addresses import check_address, cluster_of, kept
from beam_run.cluster.budget import Purse
from beam_run.cluster.journal import merge
from beam_run.cluster.lease import RUN_LEASE, Lease, Watch
from beam_run.cluster.task import MARK, Lost, TaskOrder, code_now, perform
from beamlib.errors import UserError
from beamlib.files import write_text
from beamlib.llm import model as base
from beamlib.llm.call_store import CallStore
from beamlib.llm.spending import LEDGER, open_ledger
from beamlib.llm.stored_model import THIS_RUN
from beamlib.params import RunParameters
from beamlib.run import Run

TRIES = 4
"""How often a task is begun whose process or worker is lost, before the run ends."""
RECONNECT = 60.0
"""Seconds to wait for a scheduler or for workers that are gone."""


class _Said(deque[str]):
    """Progress messages of workers, with the interface of a process pool's queue."""

    def empty(self) -> bool:
        """Tell whether there is no new message."""
        return not self

    def get(self) -> str:
        """Return the oldest unread message."""
        return self.popleft()


class ClusterPool:
    """Tasks on the workers of `client`, at most `size` at a time: they share an endpoint's concurrency."""

    def __init__(self, client: Client, order: TaskOrder, size: int, calls: Path | None) -> None:
        self.size, self.told = size, _Said(maxlen=100)
        self._client, self._order, self._calls = client, order, calls
        self._waiting: deque[tuple[Future[Any], Callable[[Any], Any], Any, int]] = deque()
        self._running: dict[DaskFuture, tuple[Future[Any], Callable[[Any], Any], Any, int]] = {}
        self._ended = threading.Event()
        client.subscribe_topic(order.name, lambda event: self.told.append(str(event[1])))
        self._thread = threading.Thread(target=self._attend, name="cluster", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[Any], Any], part: Any) -> Future[Any]:
        """Run `work(part)` on a worker once fewer than `size` tasks are running."""
        future: Future[Any] = Future()
        self._waiting.append((future, work, part, 1))
        return future

    def _attend(self) -> None:
        idle, met = time.monotonic(), False
        while not self._ended.wait(0.05):
            try:
                while self._waiting and len(self._running) < self.size:
                    self._begin(*self._waiting.popleft())
                for task in [task for task in self._running if task.status != "pending"]:
                    self._conclude(task, *self._running[task])
                    del self._running[task]  # after it: if merging fails, its future gets the error below
                present = self._client.status == "running" and bool(
                    self._client.scheduler_info(n_workers=-1)["workers"]
                )
                met = met or present
                if not met:  # jobs of a batch system may be queued for hours
                    self.told.append("waiting for the first worker")
                idle = time.monotonic() if present or not met or not self._running else idle
                if time.monotonic() - idle > RECONNECT:
                    raise UserError(
                        f"--cluster: no worker has been there for {RECONNECT:.0f} seconds; begin scheduler and workers "
                        "again, then give the same command: it goes on where this one stopped."
                    )
            except Exception as error:  # of any kind: everyone who waits for a result must get it
                for future, *_ in (*self._running.values(), *self._waiting):
                    future.set_exception(error)
                return

    def _begin(self, future: Future[Any], work: Callable[[Any], Any], part: Any, tries: int) -> None:
        key = f"{_unit_of(part)}-{uuid.uuid4().hex}"
        begun = self._client.submit(perform, self._order, _unit_of(part), work, part, key=key, pure=False)
        self._running[begun] = future, work, part, tries

    def _conclude(
        self, ended: DaskFuture, future: Future[Any], work: Callable[[Any], Any], part: Any, tries: int
    ) -> None:
        """Merge a task's calls and pass on its result; a lost task is started again."""
        error = ended.exception() if ended.status == "error" else None
        lost = ended.status in ("lost", "cancelled") or isinstance(error, (Lost, KilledWorker))
        if lost and tries < TRIES:
            self._waiting.appendleft((future, work, part, tries + 1))
            return
        if self._calls is not None:
            merge(self._calls / f"{_unit_of(part)}.sqlite", THIS_RUN)
        if lost:
            error = UserError(
                f"--cluster: {_unit_of(part)}: {tries} workers were lost over it, probably for want of memory; what "
                "they had stored is kept, and the same command goes on from there."
            )
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(ended.result())

    def close(self) -> None:
        """Submit nothing more and wait for running tasks, as long as pending replies may take."""
        self._ended.set()
        self._thread.join()
        until = time.monotonic() + base.SHUTDOWN_SECONDS
        while self._client.status == "running" and time.monotonic() < until:
            if all(one.status != "pending" for one in self._running):
                break
            time.sleep(0.1)


def _unit_of(part: Any) -> str:
    """Return the conversation that a job is about, whose call store it writes."""
    return str(part.conversation_id)


@dataclass(frozen=True)
class DaskCluster:
    """The cluster at `address`, as a plugin of the core."""

    address: str

    @classmethod
    def named(cls, given: str) -> Self:
        """Validate what `--cluster` names; a file gets its absolute path."""
        return cls(check_address(given))

    def pool(self, parameters: RunParameters, parts: int, suite: str = "") -> AbstractContextManager[ClusterPool]:
        """Open a pool for `parts` jobs of a run; `suite` is the name of a task other than BEAM."""
        return cluster_pool(self.address, Run.of(parameters), parts, suite)

    def kept(self) -> AbstractContextManager[None]:
        """Keep the workers of all pools opened within the block until it ends."""
        return kept()


@contextmanager
def cluster_pool(address: str, parameters: Run, parts: int, suite: str = "") -> Iterator[ClusterPool]:
    """Open the pool for `parts` jobs of a run.

    If it is left by an exception or an interrupt, no worker makes another call, and stored replies are merged.
    """
    patience = leases.PATIENCE
    called = bool(parameters.models) and parameters.calls != "replay"
    calls = parameters.calls_folder(suite) if called else None
    with ExitStack() as stack:
        client, workers = stack.enter_context(cluster_of(address))
        run, name = Path(parameters.run), f"beamlib-{uuid.uuid4().hex}"
        mark = write_text(run / MARK, name)
        stack.callback(mark.unlink, missing_ok=True)
        if calls is not None:
            stack.callback(_merge_all, calls)  # last of all: when nobody writes any more
        folder = stack.enter_context(_leases(calls, patience)) if calls is not None else None
        lanes = min((one.concurrency for one in parameters.endpoints.values()), default=parts)
        limit = stack.enter_context(_purse(client, name)) if called else None
        order = TaskOrder(name, run, code_now(), folder, patience, limit)
        pool = ClusterPool(client, order, max(1, min(workers, parts, lanes)), calls)
        stack.callback(pool.close)
        try:
            yield pool
        except BaseException:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)  # no lease, no call
            raise


@contextmanager
def _leases(calls: Path, patience: float) -> Iterator[Path]:
    """Create the folder for the leases of this run, after those of earlier runs have ended and are merged."""
    calls.mkdir(parents=True, exist_ok=True)
    # Ours first: of two that begin at once at least one sees the other.
    folder = calls / f".leases-{uuid.uuid4().hex}"
    folder.mkdir()
    lease = Lease(folder, RUN_LEASE, patience=patience)
    try:
        others = [path for path in calls.glob(".leases-*") if path != folder]
        earlier = [Watch(path / f"{RUN_LEASE}.1", patience) for path in others if (path / f"{RUN_LEASE}.1").exists()]
        began = [watch.text() for watch in earlier]
        until = time.monotonic() + patience
        while earlier and time.monotonic() < until:
            if [watch.text() for watch in earlier] != began:
                raise UserError(
                    f"{calls}: another run is recording into its call stores; wait until it has ended, or stop it."
                )
            time.sleep(0.2)
        for path in others:
            shutil.rmtree(path, ignore_errors=True)
        for store in calls.glob("*.sqlite-wal"):  # a killed run's on one machine
            with CallStore(store.with_name(store.name.removesuffix("-wal"))) as watch:
                watch.claim()
        _merge_all(calls)
        yield folder
    finally:
        lease.release()
        shutil.rmtree(folder, ignore_errors=True)


def _merge_all(calls: Path) -> None:
    for conversation in sorted({path.name.rsplit(".", 2)[0] for path in calls.glob("*.replies")}):
        merge(calls / f"{conversation}.sqlite", THIS_RUN)


@contextmanager
def _purse(client: Client, name: str) -> Iterator[float | None]:
    """Serve the workers' shares of the budget; yield the limit, None without one."""
    ledger = os.environ.get(LEDGER)
    if ledger is None:
        yield None
        return
    with open_ledger(Path(ledger)) as book:
        limit, spent = book["limit"], book["spent"]
    purse = Purse(client, name, limit, spent)
    try:
        yield limit
    finally:
        purse.close()
        with suppress(OSError), open_ledger(Path(ledger)) as book:
            book["spent"] = purse.spent
