"""Drive a run on the workers of a dask cluster, with the interface of a process pool."""

from __future__ import annotations

import ssl
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

from distributed import Client, KilledWorker, Security
from distributed import Future as DaskFuture
from distributed.utils import get_ip

import beam_run.cluster.addresses as addresses
from beam_run.cluster.addresses import check_address, cluster_of, kept
from beam_run.cluster.task import Lost, TaskOrder, code_now, perform
from beamlib.errors import UserError
from beamlib.files import temporary_folder, write_text
from beamlib.llm.door import Door
from beamlib.llm.token_server import LOCAL
from beamlib.processes import Workers

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
    """Tasks on the workers of `client`, at most `size` at a time."""

    def __init__(self, client: Client, order: TaskOrder, size: int) -> None:
        self.size, self.told = size, _Said(maxlen=100)
        self._client, self._order = client, order
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
                    del self._running[task]
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
        begun = self._client.submit(perform, self._order, work, part, key=f"beamlib-{uuid.uuid4().hex}", pure=False)
        self._running[begun] = future, work, part, tries

    def _conclude(
        self, ended: DaskFuture, future: Future[Any], work: Callable[[Any], Any], part: Any, tries: int
    ) -> None:
        """Pass on a task's result; a lost task is started again, and the door has kept the replies that it got."""
        error = ended.exception() if ended.status == "error" else None
        lost = ended.status in ("lost", "cancelled") or isinstance(error, (Lost, KilledWorker))
        if lost and tries < TRIES:
            self._waiting.appendleft((future, work, part, tries + 1))
            return
        if lost:
            error = UserError(
                f"--cluster: {', '.join(part.stores)}: {tries} workers were lost over it, probably for want of memory; "
                "replies that arrived are kept, and the same command goes on from there."
            )
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(ended.result())

    @property
    def scheduler(self) -> str:
        """The address of the scheduler."""
        return str(self._client.scheduler.address)

    def close(self) -> None:
        """Submit nothing more. Tasks that are running end by themselves: the door answers them no longer."""
        self._ended.set()
        self._thread.join()


@dataclass(frozen=True)
class DaskCluster:
    """The cluster at `address`, as a plugin of the core."""

    address: str

    @classmethod
    def named(cls, given: str) -> Self:
        """Validate what `--cluster` names; a file gets its absolute path."""
        return cls(check_address(given))

    @contextmanager
    def pool(self, parts: int) -> Iterator[ClusterPool]:
        """Open a pool for `parts` jobs of a run."""
        with cluster_of(self.address) as (client, workers):
            order = TaskOrder(f"beamlib-{uuid.uuid4().hex}", code_now(), addresses.PATIENCE)
            pool = ClusterPool(client, order, max(1, min(workers, parts)))
            try:
                yield pool
            finally:
                pool.close()

    def door(self, pool: Workers) -> Door:
        """Return a door at the address by which the workers of `pool` reach this machine."""
        assert isinstance(pool, ClusterPool)
        return door_for(pool.scheduler)

    def kept(self) -> AbstractContextManager[None]:
        """Keep the workers of all pools opened within the block until it ends."""
        return kept()


def door_for(scheduler: str) -> Door:
    """Return a door that the workers of a scheduler reach, encrypted where it is reached from other machines."""
    host = get_ip(urlsplit(scheduler).hostname)
    if host == LOCAL:
        return Door()
    own = Security.temporary()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with temporary_folder("beamlib-door-") as place:
        tls.load_cert_chain(write_text(place / "own.pem", own.tls_scheduler_key + own.tls_scheduler_cert))
    return Door(host, tls, own.tls_ca_file)
