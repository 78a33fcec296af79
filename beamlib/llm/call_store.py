"""Model calls on file: one SQLite file per conversation, so that workers never share one.

Every call is committed by itself. The file is in WAL mode with `synchronous=NORMAL`: a killed process (SIGKILL too)
loses nothing that was committed; only a power cut may lose the last calls, never damage the file. While nobody records,
it is one plain file without side files: what a killed run left is put in order by whoever opens the store next, but
for the empty file that tells the next run that records.

Starting to record costs what is new. A store notes in itself the time of change that its file has after a run; where
the file still has it, nobody has touched it and nothing is checked. After a killed run its own calls are, and
everything where the file is another one (copied, edited, restored, of format 1): a call that damage hides would be paid
for again.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from pydantic import ValidationError

from beamlib.errors import UserError
from beamlib.files import make_folder, sha256
from beamlib.llm import call_store as recording
from beamlib.llm.stored_call import StoredCall, Totals

FORMAT = 2
THIS_RUN = uuid.uuid4().hex
"""The run that this process began; its workers are told, since they are processes of the same run."""
UNLOCKED = "BEAMLIB_UNLOCKED"
"""Variable: stores are read as files that nobody changes, for the folder may have no locks (a run on many machines)."""
PATIENCE = 10.0
"""Seconds to wait for another program that holds the file."""

_COLUMNS = (
    "key", "role", "conversation", "step", "about", "model", "base_url", "repeat", "attempt", "text", "outcome",
    "message", "input_tokens", "output_tokens", "cached_tokens", "latency", "finish_reason", "time", "sha256",
)  # fmt: skip
_TABLE = (
    "CREATE TABLE calls (key TEXT PRIMARY KEY NOT NULL, role TEXT, conversation TEXT, step TEXT, about TEXT, "
    "model TEXT, base_url TEXT, repeat INTEGER, attempt INTEGER, text TEXT, outcome TEXT, message TEXT, "
    "input_tokens INTEGER, output_tokens INTEGER, cached_tokens INTEGER, latency REAL, finish_reason TEXT, time TEXT, "
    "sha256 TEXT)"
)
_RUNS = "CREATE TABLE runs (id TEXT PRIMARY KEY NOT NULL, began INTEGER NOT NULL, stamp INTEGER)"
"""Who recorded: the greatest rowid when a run began (a call that is put gets a greater one), and the time of change, in
nanoseconds, that the file was given when it was closed."""
_FORMATS = {1: [(_TABLE,)], FORMAT: [(_TABLE,), (_RUNS,)]}
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM calls "
_INSERT = f" INTO calls VALUES ({', '.join('?' * len(_COLUMNS))})"
_PAGE = 500


class CallStore:
    """The calls of one conversation in the SQLite file `path`, by key. Safe to use from several threads.

    `run_id` names the run that records, all its processes and backbones alike.

    Nothing is opened before it is needed, and a file that is not there holds nothing. The first `put` (or `claim`)
    makes the file and keeps other processes from recording into it until `close`; readers are never kept out. With
    `read_only` no file is made or changed, unless a killed run left side files that SQLite has to look through. After
    `close` the store opens itself again when used: an answer that arrives late is still written.

    Every method raises `UserError` where the file is damaged, of another version, held by another run or out of reach.
    Each row carries its hash, so a damaged reply is never returned.
    """

    def __init__(self, path: Path, *, read_only: bool = False, run_id: str = THIS_RUN) -> None:
        self.path = path
        self.read_only = read_only
        self.run_id = run_id
        self.in_flight: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Task[StoredCall]] = {}
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._claimed = self._writing = False

    def __enter__(self) -> CallStore:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def get(self, key: str, *, of_run: bool = False) -> StoredCall | None:
        """The call under `key`, if there is one; with `of_run` only one that this run has made."""
        with self._access() as connection:
            if connection is None or (of_run and _format(connection) == 1):  # which does not know of runs
                return None
            made = " AND rowid > (SELECT began FROM runs WHERE id = ?)" if of_run else ""
            row = connection.execute(_SELECT + "WHERE key = ?" + made, (key, self.run_id)[: 1 + of_run]).fetchone()
            return self._read(row, key)[1] if row else None

    def put(self, key: str, call: StoredCall) -> None:
        """Write a call in place of the one that may be there. It is committed on return."""
        with self._recording() as connection:
            connection.execute("INSERT OR REPLACE" + _INSERT, _row(key, call))

    def add(self, calls: Iterable[tuple[str, StoredCall]], *, replace: bool = False) -> int:
        """Write those of `calls` whose key is free or holds a failure that may pass, all or none; returns how many.

        With `replace` what is held gives way to any call but a failure that may pass.
        """
        added = 0
        with self._recording() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            for key, call in calls:
                held = self.get(key)
                if held is None or (not call.transient and (held.transient or replace)):
                    connection.execute("INSERT OR REPLACE" + _INSERT, _row(key, call))
                    added += 1
        return added

    def calls(self) -> Iterator[tuple[str, StoredCall]]:
        """All calls, sorted by key, read in pages: memory is bounded and others may write meanwhile."""
        last, found = "", 0
        with self._access() as connection:
            there = connection.execute("SELECT COUNT(*) FROM calls NOT INDEXED").fetchone()[0] if connection else 0
        while True:
            with self._access() as connection:
                query = _SELECT + "WHERE key > ? ORDER BY key LIMIT ?"
                rows = connection.execute(query, (last, _PAGE)).fetchall() if connection else []
                page = [self._read(row) for row in rows]
            for key, call in page:
                if key <= last:  # a damaged index could lead in a circle
                    raise self._damaged("its index is out of order")
                last, found = key, found + 1
                yield key, call
            if len(page) < _PAGE:
                break
        if found < there:
            raise self._damaged("its index does not lead to every call")

    def totals(self) -> list[Totals]:
        """Calls, tokens and seconds by role, step and model, in that order."""
        query = (
            "SELECT role, step, model, COUNT(*), SUM(outcome IS NOT NULL), CAST(TOTAL(input_tokens) AS INTEGER), "
            "CAST(TOTAL(cached_tokens) AS INTEGER), CAST(TOTAL(output_tokens) AS INTEGER), SUM(latency) FROM calls "
            "GROUP BY role, step, model ORDER BY role, step, model"  # TOTAL: of senseless counts SUM is an error
        )
        with self._access() as connection:
            return [Totals(*row) for row in connection.execute(query)] if connection else []

    def claim(self) -> bool:
        """Become the one process that records into the file; False where this store already was.

        The file is made where it is missing, and checked as far as the module's docstring says.
        """
        with self._lock:
            if self._claimed:
                return False
            if self.read_only:
                raise UserError(f"{self.path}: the call store was opened for reading only; open it to record.")
            make_folder(self.path.parent)
            self._begin()
            return True

    def close(self) -> None:
        """Let go of the file. It may be used again."""
        with self._lock:
            connection, self._connection = self._connection, None
            try:
                with self._told():
                    if connection is not None:
                        stamp = time.time_ns()
                        if self._claimed:
                            connection.execute("UPDATE runs SET stamp = ? WHERE id = ?", (stamp, self.run_id))
                        left = self._writing and self._out_of_wal(connection)
                        connection.close()
                        if self._claimed and left:
                            with suppress(PermissionError):  # another user's file: it is checked again
                                os.utime(self.path, ns=(stamp, stamp))
            finally:
                self._release()

    def _begin(self) -> None:
        try:
            killed = recording.take(self._beside("-recording"))
        except BlockingIOError:
            raise UserError(
                f"{self.path}: another run is recording into this call store; wait until it has ended, or stop it."
            ) from None
        except OSError as error:
            raise self._inaccessible(error.strerror) from None
        self._claimed = True
        try:
            self._disconnect()  # what only reads may have opened the file as one that nobody writes to
            with self._access(create=True) as connection:
                assert connection is not None
                self._check(connection, self.path.stat().st_mtime_ns, killed=killed)
                connection.execute("PRAGMA journal_mode=WAL").fetchone()
                connection.execute("PRAGMA synchronous=NORMAL")
        except BaseException:
            self._disconnect()
            self._release()
            raise

    def _check(self, connection: sqlite3.Connection, changed: int, *, killed: bool) -> None:
        """Check what nobody has vouched for in the file, whose time of change is `changed`, and note the run."""
        known = _format(connection) == FORMAT
        began = connection.execute("SELECT MAX(began) FROM runs").fetchone()[0] if known else None
        untouched = known and connection.execute("SELECT 1 FROM runs WHERE stamp = ?", (changed,)).fetchone()
        if not untouched:
            after = began if killed and began is not None else 0
            problem = "ok" if after else connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if problem != "ok":
                raise self._damaged(problem)
            for row in connection.execute(_SELECT + "WHERE rowid > ?", (after,)):
                self._check_row(row)
        connection.execute("BEGIN IMMEDIATE")
        if not known:
            connection.execute(_RUNS)
            connection.execute(f"PRAGMA user_version={FORMAT}")
        connection.execute(
            "INSERT OR IGNORE INTO runs SELECT ?, COALESCE(MAX(rowid), 0), NULL FROM calls", (self.run_id,)
        )
        connection.execute("COMMIT")

    def _out_of_wal(self, connection: sqlite3.Connection) -> bool:
        # Out of WAL, it can be read from a folder without write permission, or be copied alone. While another has it
        # open that is refused, and WAL stays: the last to close it clears the side files away.
        connection.execute("PRAGMA busy_timeout=0")
        with suppress(sqlite3.OperationalError):
            return bool(connection.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",))
        return False

    @contextmanager
    def _access(self, create: bool = False) -> Iterator[sqlite3.Connection | None]:
        with self._lock, self._told():
            if self._connection is None:
                if create and not self.path.exists():
                    self._create()
                if self.path.exists():
                    self._connection = self._connect()
            yield self._connection

    @contextmanager
    def _recording(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self.claim()
            with self._access() as connection:
                assert connection is not None  # a claimed store is open
                yield connection

    def _create(self) -> None:
        # Under another name until it is whole: an empty file in its place can then only be damage.
        new = self.path.with_name(self.path.name + ".new")
        new.unlink(missing_ok=True)
        connection = sqlite3.connect(new)
        try:
            connection.executescript(f"BEGIN; {_TABLE}; {_RUNS}; PRAGMA user_version={FORMAT}; COMMIT;")
        finally:
            connection.close()
        new.replace(self.path)

    def _connect(self) -> sqlite3.Connection:
        if self.path.stat().st_size == 0:
            raise self._damaged("the file is empty")
        opening = self._opening()
        self._writing = opening == "rw"
        address = f"{self.path.resolve().as_uri()}?mode={opening}"
        connection = sqlite3.connect(address, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA trusted_schema=OFF")  # the file may come from anybody
            connection.execute("PRAGMA cell_size_check=ON")
            version = _format(connection)
            tables = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 9").fetchall()
            if version not in (0, *_FORMATS):
                raise UserError(
                    f"{self.path}: a database of format {version} where a call store of format {FORMAT} belongs; read "
                    "it with the version of beamlib that wrote it, or move it away."
                )
            if tables != _FORMATS.get(version):
                raise self._damaged("it does not hold the table of a call store")
        except BaseException:
            connection.close()
            raise
        return connection

    def _opening(self) -> str:
        if self._claimed:
            return "rw"
        if self._beside("-wal").exists() or self._beside("-journal").exists():  # a run is at work, or was killed
            return "rw" if os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK) else "ro"
        with self.path.open("rb") as handle:
            header = handle.read(20)
        # In WAL mode without a WAL: SQLite would have to make one beside it.
        return "ro&immutable=1" if header[18:20] == b"\2\2" or UNLOCKED in os.environ else "ro"

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    def _release(self) -> None:
        if self._claimed:
            self._claimed = self._writing = False
            recording.give(self._beside("-recording"))

    def _read(self, row: tuple[Any, ...], key: str | None = None) -> tuple[str, StoredCall]:
        self._check_row(row)
        if key not in (None, row[0]):
            raise self._damaged("its index leads to another call")
        try:
            return row[0], StoredCall.model_validate(dict(zip(_COLUMNS[1:-1], row[1:-1], strict=True)))
        except ValidationError as error:
            raise self._damaged(error.errors()[0]["msg"]) from None

    def _check_row(self, row: tuple[Any, ...]) -> None:
        if row[-1] != _checksum(row[:-1]):
            raise self._damaged("a call does not agree with its hash")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what SQLite and the system complain of into a `UserError`."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            name = getattr(error, "sqlite_errorname", "")
            if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                raise UserError(
                    f"{self.path}: another program holds this call store; wait until it has ended, then run again."
                ) from None
            if name.startswith(
                ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_PERM", "SQLITE_AUTH")
            ):
                raise self._inaccessible(str(error)) from None
            raise self._damaged(str(error)) from None
        except OSError as error:
            raise self._inaccessible(error.strerror) from None

    def _inaccessible(self, problem: str | None) -> UserError:
        return UserError(
            f"{self.path}: the call store cannot be opened or written ({problem}); see to the folder's permissions and "
            "free space, then run again."
        )

    def _damaged(self, problem: str) -> UserError:
        return UserError(
            f"{self.path}: not a call store, or a damaged one ({problem}); restore it from a copy or an archive, or "
            "move it away to pay for its calls again."
        )


def _format(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _row(key: str, call: StoredCall) -> tuple[Any, ...]:
    data = (
        key, call.role, call.conversation, call.step, call.about, call.model, call.base_url, call.repeat, call.attempt,
        call.text, call.outcome and call.outcome.value, call.message, call.input_tokens, call.output_tokens,
        call.cached_tokens, call.latency, call.finish_reason, call.time,
    )  # fmt: skip
    return (*data, _checksum(data))


def _checksum(data: tuple[Any, ...]) -> str:
    return sha256(json.dumps(data, default=repr))  # bytes turn up only where the file is damaged


def stored_calls(folder: Path) -> int:
    """How many calls the stores of a tier hold at this moment, while others write to them.

    Opened as one who may write: the last to close a store in WAL clears its side files away.
    """
    total = 0
    for path in sorted(folder.glob("*.sqlite")):
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as held:
            total += int(held.execute("SELECT count(*) FROM calls").fetchone()[0])  # for a progress bar: a miss is none
    return total


_HELD: dict[Path, tuple[IO[bytes], int]] = {}
_GUARD = threading.Lock()


def take(path: Path) -> bool:
    """Lock the file at `path` for this process, which may do so several times; whether the file was there before.

    `BlockingIOError` where another process has it, `OSError` where it cannot be made.
    """
    with _GUARD:
        path = path.resolve()
        if path in _HELD:
            handle, times = _HELD[path]
            _HELD[path] = handle, times + 1
            return True
        there = path.exists()
        _HELD[path] = _locked(path), 1
        return there


def give(path: Path) -> None:
    """Undo one `take`; the last one removes the file."""
    with _GUARD:
        path = path.resolve()
        handle, times = _HELD.pop(path)
        if times > 1:
            _HELD[path] = handle, times - 1
        else:
            path.unlink(missing_ok=True)
            handle.close()


def _locked(path: Path) -> IO[bytes]:
    while True:
        handle = path.open("ab")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(handle.fileno()), path.stat()):
                return handle
        except FileNotFoundError:  # the other run has just removed it
            pass
        except OSError:
            handle.close()
            raise
        handle.close()
