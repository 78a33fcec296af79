"""Replies as they arrive on a worker, in files of its own, and how they come into the call store.

A worker never writes to SQLite: it appends a line for each reply to `<conversation>.<holder>.replies` beside the
conversation's store, and reads the store as a file that nobody changes meanwhile. The driver merges between tasks.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from beam_run.cluster.lease import Lease
from beamlib.evaluate.calling import STORES
from beamlib.files import sha256, temporary_folder
from beamlib.llm import model as base
from beamlib.llm.call_store import UNLOCKED, CallStore
from beamlib.llm.spending import LEDGER
from beamlib.llm.stored_call import StoredCall
from beamlib.processes import tell

ENDING = ".replies"


class JournalStore(CallStore):
    """A conversation's calls as a worker has them: the store, and above it all journals; what is put goes to its own.

    A journal that a lost worker left is read like the others, so what it had paid for is not asked again.
    """

    def __init__(self, path: Path, *, run_id: str) -> None:
        super().__init__(path, read_only=True, run_id=run_id)
        self.journal = path.with_name(f"{path.stem}.{uuid.uuid4().hex}{ENDING}")
        self._held = {key: (run, call) for journal in journals(path) for run, key, call in replies(journal)}
        self._shown = 0.0

    def get(self, key: str, *, of_run: bool = False) -> StoredCall | None:
        """The call under `key`, if there is one; with `of_run` only one that this run has made."""
        with self._lock:
            held = self._held.get(key)
        if held is not None and (not of_run or held[0] == self.run_id):
            return held[1]
        return super().get(key, of_run=of_run)

    def claim(self) -> bool:
        """False: the lease has been taken before."""
        return False

    def put(self, key: str, call: StoredCall) -> None:
        """Append a call. It is on the disk on return, also where the lease was lost meanwhile: it has been paid for."""
        said = json.dumps([self.run_id, key, call.model_dump(mode="json")])
        # On a line of its own: a full disk may have torn the one before.
        line = f"\n{json.dumps([sha256(said), said])}\n".encode()
        with self._lock:
            with self.journal.open("ab") as handle:
                handle.write(line)
                handle.flush()
                os.fsync(handle.fileno())
            self._held[key] = self.run_id, call
            if time.monotonic() - self._shown > 1:
                self._shown = time.monotonic()
                tell(f"{self.path.stem}: {len(self._held):,} new replies")


def journals(path: Path) -> list[Path]:
    """The journals beside the store at `path`, by name."""
    return sorted(path.parent.glob(f"{path.stem}.*{ENDING}"))


def replies(journal: Path) -> Iterator[tuple[str, str, StoredCall]]:
    """The run, key and call of every line that is whole; one that a killed worker left torn is not."""
    with journal.open("rb") as lines:
        for line in lines:
            try:
                digest, said = json.loads(line)
                if digest == sha256(said):
                    run, key, call = json.loads(said)
                    yield run, key, StoredCall.model_validate(call)
            except (ValueError, TypeError, ValidationError):
                continue


def merge(path: Path, run_id: str) -> int:
    """Bring all journals beside the store at `path` into it and remove them; how many calls that were.

    The store is changed in a copy on this machine's own disk, and then put in its place whole: whoever reads it has the
    old or the new one, and the folder needs no locks. A kill in between leaves the journals, to be merged again.
    """
    found = journals(path)
    calls = sorted(((key, call) for one in found for _, key, call in replies(one)), key=lambda item: item[1].time)
    if calls:
        with temporary_folder("beamlib-merge-") as place:
            copy = place / path.name
            if path.exists():
                shutil.copy2(path, copy)
            with CallStore(copy, run_id=run_id) as store:
                store.add(calls, replace=True)
            new = path.with_name(path.name + ".new")
            shutil.copy2(copy, new)
            new.replace(path)
    for journal in found:
        journal.unlink(missing_ok=True)
    return len(calls)


def journalled(
    leases: Path | None, patience: float, unit: str, work: Callable[[Any], Any], part: Any, ledger: str
) -> Any:
    """`work(part)` in the process of a task: replies go to a journal while it holds the lease of `unit` in `leases`.

    `ledger` is the file of what it may spend, empty without a limit. Without a folder of leases nothing is paid for.
    It stands here and not in `task` since it needs none of dask, which takes longer to import than everything else.
    """
    os.environ[UNLOCKED] = "1"
    if ledger:
        os.environ[LEDGER] = ledger
    if leases is None:
        return work(part)
    lease = Lease(leases, unit, patience=patience)
    base.stop_where(lease.lost)
    STORES.set(lambda path: JournalStore(path, run_id=part.run_id))
    try:
        return work(part)
    finally:
        base.drain()
        lease.release()
