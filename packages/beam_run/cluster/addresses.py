"""Open the cluster that `--cluster` names: local workers, a running scheduler, or a file for a batch system."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import dask
from distributed import Client, LocalCluster, Security
from distributed.comm import connect
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from beamlib.errors import UserError
from beamlib.files import read_yaml, temporary_folder

PATIENCE = 30.0
"""Seconds without a sign of life after which a worker is given up."""
_CONNECT = 30  # seconds until a scheduler has to answer
_ADDRESS = re.compile(r"(tcp|tls)://[^\s/]+:\d+")
_LOCAL = re.compile(r"local:([1-9]\d{0,2})")


class JobQueue(BaseModel):
    """A file for dask-jobqueue: the cluster class, the number of workers, and the class's options."""

    model_config = ConfigDict(extra="forbid")

    cluster: Literal[
        "HTCondorCluster", "LSFCluster", "MoabCluster", "OARCluster", "PBSCluster", "SGECluster", "SLURMCluster"
    ]
    workers: int = Field(ge=1, le=10_000)
    options: dict[str, Any] = {}


class _Kept:
    """The cluster opened first, kept until `stack` closes; opened again if its scheduler is gone."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._found: tuple[Client, int] | None = None

    def cluster(self, given: str) -> tuple[Client, int]:
        if self._found is None or self._found[0].status != "running":
            self._found = self._stack.enter_context(_begun(given))
        return self._found


_kept: _Kept | None = None


@contextmanager
def kept() -> Iterator[None]:
    """Keep the workers that `cluster_of` starts within the block until it ends, for all uses."""
    global _kept
    if _kept is not None:
        yield
        return
    with ExitStack() as stack:
        _kept = _Kept(stack)
        try:
            yield
        finally:
            _kept = None


@contextmanager
def cluster_of(given: str) -> Iterator[tuple[Client, int]]:
    """Open a client of the cluster `given`; yield it and the present or expected number of workers."""
    if _kept is None or _ADDRESS.fullmatch(given):  # whose workers others begin: they are counted anew
        with _begun(given) as found:
            yield found
    else:
        yield _kept.cluster(given)


@contextmanager
def _begun(given: str) -> Iterator[tuple[Client, int]]:
    with (
        temporary_folder("beamlib-dask-") as place,
        dask.config.set(
            # Dask itself waits five minutes for a worker that is frozen.
            {"temporary-directory": str(place), "distributed.scheduler.worker-ttl": f"{PATIENCE:.0f}s"}
        ),
    ):
        if local := _LOCAL.fullmatch(given):
            workers = int(local[1])
            # Encrypted with temporary keys: whoever reaches a scheduler can run code on its workers.
            with (
                LocalCluster(
                    n_workers=workers, threads_per_worker=1, security=True, dashboard_address="127.0.0.1:0",
                    local_directory=str(place), silence_logs=50,
                ) as cluster,
                Client(cluster, set_as_default=False) as client,
            ):  # fmt: skip
                yield client, workers
        elif _ADDRESS.fullmatch(given):
            with _connected(given) as client:
                number = len(client.scheduler_info(n_workers=-1)["workers"])
                if not number:
                    raise UserError(
                        f"--cluster: {given} has no workers; begin some here: dask worker {given} --nthreads 1."
                    )
                yield client, number
        else:
            queue = _queue(Path(given))
            with _jobs(queue) as cluster, Client(cluster, set_as_default=False) as client:
                cluster.scale(queue.workers)
                yield client, queue.workers


def _connected(address: str) -> Client:
    try:
        asyncio.run(_answered(address))
        return Client(address, timeout=_CONNECT, set_as_default=False)
    except TypeError as error:
        raise UserError(f"--cluster: {address}: {error}; docs/scaling.md says where dask looks for it.") from None
    except (OSError, TimeoutError, ValueError, MemoryError) as error:
        detail = f" ({error})" if str(error) else ""
        raise UserError(f"--cluster: no scheduler answers at {address}{detail}; begin one: dask scheduler.") from None


async def _answered(address: str) -> None:
    """Wait for a scheduler's greeting; dask's client would wait for ever where something else listens."""
    security = Security().get_connection_args("client")
    (await asyncio.wait_for(connect(address, timeout=_CONNECT, **security), _CONNECT)).abort()


def check_address(given: str) -> str:
    """Validate the value of `--cluster`; a file gets its absolute path."""
    if _LOCAL.fullmatch(given) or _ADDRESS.fullmatch(given):
        return given
    _queue(Path(given))
    return str(Path(given).absolute())


def _queue(path: Path) -> JobQueue:
    if not path.is_file():
        raise UserError(
            f"--cluster: {str(path)!r:.200} is neither local:N (1 to 999) nor tcp://HOST:PORT nor a file that is there."
        )
    try:
        return JobQueue.model_validate(read_yaml(path))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the file"
        raise UserError(f"{path}: {field}: {first['msg']}; see docs/scaling.md for what belongs there.") from None


def _jobs(queue: JobQueue) -> Any:
    try:
        import dask_jobqueue
    except ImportError:
        raise UserError("--cluster: a file needs dask-jobqueue; run pip install 'beamlib[cluster]'.") from None
    options = {"cores": 1, "processes": 1, **queue.options}
    kind = getattr(dask_jobqueue, queue.cluster)
    submit = kind.job_cls.submit_command.split()[0]
    if shutil.which(submit) is None:  # dask would only log it, and the run wait for workers that nobody begins
        raise UserError(f"--cluster: {queue.cluster} begins its jobs by {submit}, which is not on this machine.")
    try:
        return kind(**options)
    except (TypeError, ValueError) as error:
        raise UserError(f"--cluster: options: {error}; dask_jobqueue documents {queue.cluster}.") from None
