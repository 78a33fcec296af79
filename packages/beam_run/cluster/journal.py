"""Store replies on a worker in a journal file, and merge journals into the call store.

A worker never writes to SQLite. It appends each reply as a line to `<conversation>.<holder>.replies` in the store's
folder, and reads the store, which nobody changes meanwhile. The driver merges between tasks.
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
from beamlib.files import sha256, sync, temporary_folder
from beamlib.llm import model as base
from beamlib.llm.call_store import UNLOCKED, CallStore, StoredCall
from beamlib.llm.spending import LEDGER
from beamlib.processes import tell

ENDING = ".replies"


class JournalStore(CallStore):
    """A conversation's calls on a worker: the store plus all journals. New calls go to its own journal.

    Journals of lost workers are read too, so their calls are not repeated.
    """

    def __init__(self, path: Path, *, run_id: str) -> None:
        super().__init__(path, read_only=True, run_id=run_id)
        self.journal = path.with_name(f"{path.stem}.{uuid.uuid4().hex}{ENDING}")
        self._held = {call.key: (run, call) for run, call in _merged(journals(path))}
        self._shown = 0.0

    def get(self, key: str, *, of_run: bool = False) -> StoredCall | None:
        """Return the call under `key`, if any; with `of_run` only a call of this run."""
        with self._lock:
            held = self._held.get(key)
        if held is None or (of_run and held[0] != self.run_id):
            return super().get(key, of_run=of_run)
        earlier = super().get(key, of_run=of_run) if held[1].transient else None
        return earlier or held[1]

    def claim(self) -> bool:
        """Return False: the worker has a lease instead."""
        return False

    def put(self, call: StoredCall) -> None:
        """Append a call and sync it to disk, even if the lease was lost meanwhile: it has been paid for."""
        said = json.dumps([self.run_id, call.model_dump(mode="json")])
        # On a line of its own: a full disk may have torn the one before.
        line = f"\n{json.dumps([sha256(said), said])}\n".encode()
        with self._lock:
            new = not self.journal.exists()
            with self.journal.open("ab") as handle:
                handle.write(line)
                handle.flush()
                os.fsync(handle.fileno())
            if new:
                sync(self.journal.parent)
            self._held[call.key] = self.run_id, call
            if time.monotonic() - self._shown > 1:
                self._shown = time.monotonic()
                tell(f"{self.path.stem}: {len(self._held):,} new replies")


def journals(path: Path) -> list[Path]:
    """List the journals of the store at `path`, by name."""
    return sorted(path.parent.glob(f"{path.stem}.*{ENDING}"))


def replies(journal: Path) -> Iterator[tuple[str, StoredCall]]:
    """Yield run and call of every complete line; a line torn by a kill is skipped."""
    with journal.open("rb") as lines:
        for line in lines:
            try:
                digest, said = json.loads(line)
                if digest == sha256(said):
                    run, call = json.loads(said)
                    yield run, StoredCall.model_validate(call)
            except (ValueError, TypeError, ValidationError):
                continue


def _merged(paths: list[Path]) -> list[tuple[str, StoredCall]]:
    """Return run and call of all lines in the order in which later ones count: a reply counts over any failure.

    Times alone would not do: the clocks of machines differ, and a late failure costs nothing.
    """
    lines = (line for path in paths for line in replies(path))
    return sorted(lines, key=lambda line: (line[1].outcome is None, not line[1].transient, line[1].time))


def merge(path: Path, run_id: str) -> int:
    """Merge all journals of the store at `path` into it and remove them; return the number of calls.

    The store is changed in a local copy and then replaced atomically, so the shared folder needs no locks. After a
    kill, the journals remain and are merged again.
    """
    merging = journals(path)
    calls = [call for _, call in _merged(merging)]
    if calls:
        with temporary_folder("beamlib-merge-") as place:
            copy = place / path.name
            if path.exists():
                shutil.copy2(path, copy)
            with CallStore(copy, run_id=run_id) as store:
                store.add(calls, replace=True)
            new = path.with_name(path.name + ".new")
            shutil.copy2(copy, new)
            sync(new)
            new.replace(path)
            sync(path.parent)  # before the journals go: a power cut must not leave the old store and no journal
    for journal in merging:
        journal.unlink(missing_ok=True)
    return len(calls)


def journalled(
    leases: Path | None, patience: float, unit: str, work: Callable[[Any], Any], part: Any, ledger: str
) -> Any:
    """Run `work(part)` in a task's process; replies go to a journal while it holds the lease of `unit`.

    `ledger` is its budget file, empty without a limit. Without a folder of leases nothing is paid for. This function is
    not in `task`, since dask takes longer to import than everything else.
    """
    os.environ[UNLOCKED] = "1"
    if ledger:
        os.environ[LEDGER] = ledger
    if leases is None:
        return work(part)
    lease = Lease(leases, unit, patience=patience)
    base.stop_if(lease.lost)
    STORES.set(lambda path: JournalStore(path, run_id=part.run_id))
    try:
        return work(part)
    finally:
        base.drain()
        lease.release()
