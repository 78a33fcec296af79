"""Model calls on file: one SQLite file per conversation, so that workers never share one.

Every call is committed by itself. The file is in WAL mode with `synchronous=NORMAL`: a killed process (SIGKILL too)
loses nothing that was committed; only a power cut may lose the last calls, never damage the file. While nobody records,
it is one plain file without side files.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from beamlib.errors import UserError
from beamlib.files import make_folder, sha256
from beamlib.models.base import TRANSIENT, Completion, ModelError, Outcome, Usage

FORMAT = 1
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
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM calls "
_INSERT = f" INTO calls VALUES ({', '.join('?' * len(_COLUMNS))})"
_PAGE = 500

MOST = 2**53
"""The largest count that every program reads back as it was written."""

Count = Annotated[int, Field(ge=0, le=MOST)]


class StoredCall(BaseModel):
    """One call as it ended: `text`, or an `outcome` with its `message` where there was no usable reply.

    `step` is the prompt's id; `latency` is in seconds, `time` is when the answer arrived (UTC, ISO 8601), tokens are as
    the endpoint reported them. The request is not kept (contexts are huge): the key is its hash.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: str
    conversation: str
    step: str
    about: str
    model: str
    base_url: str
    repeat: Count = 0
    attempt: Count = 0
    text: str | None = None
    outcome: Outcome | None = None
    message: str = ""
    input_tokens: Count = 0
    output_tokens: Count = 0
    cached_tokens: Count = 0
    latency: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    finish_reason: str = ""
    time: str = Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00$")

    @model_validator(mode="after")
    def _one_end(self) -> StoredCall:
        if (self.text is None) == (self.outcome is None):
            raise ValueError("exactly one of text and outcome must be set")
        return self

    @property
    def usage(self) -> Usage:
        """The tokens of the call."""
        return Usage(self.input_tokens, self.output_tokens, self.cached_tokens)

    @property
    def transient(self) -> bool:
        """Whether it failed in a way that may pass."""
        return self.outcome in TRANSIENT

    def completion(self) -> Completion:
        """What the model said, or the `ModelError` that the call ended with."""
        if self.text is None:
            raise ModelError(self.message, self.outcome or Outcome.FAILED)
        return Completion(self.text, self.usage, self.latency, self.finish_reason)


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the stored calls of one role, step and model; latency is in seconds, `calls` includes `failures`."""

    role: str
    step: str
    model: str
    calls: int
    failures: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    latency: float


def call_key(request: Mapping[str, Any], base_url: str, repeat: int) -> str:
    """Hex SHA-256 of everything a reply depends on: where it goes, the body that is sent, and the repeat's number."""
    asked = {"base_url": base_url, "repeat": repeat, "request": request}
    return sha256(json.dumps(asked, sort_keys=True, separators=(",", ":"), allow_nan=False))


class CallStore:
    """The calls of one conversation in the SQLite file `path`, by key. Safe to use from several threads.

    Nothing is opened before it is needed, and a file that is not there holds nothing. The first `put` (or `claim`)
    makes the file and keeps other processes from recording into it until `close`; readers are never kept out. With
    `read_only` no file is made or changed, unless a killed run left side files that SQLite has to look through. After
    `close` the store opens itself again when used: an answer that arrives late is still written.

    Every method raises `UserError` where the file is damaged, of another version, held by another run or out of reach.
    Each row carries its hash, so a damaged reply is never returned.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self.in_flight: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Task[StoredCall]] = {}
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._claim: IO[bytes] | None = None

    def __enter__(self) -> CallStore:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def get(self, key: str) -> StoredCall | None:
        """The call under `key`, if there is one."""
        with self._access() as connection:
            row = connection.execute(_SELECT + "WHERE key = ?", (key,)).fetchone() if connection else None
            return self._read(row, key)[1] if row else None

    def put(self, key: str, call: StoredCall) -> None:
        """Write a call in place of the one that may be there. It is committed on return."""
        with self._recording() as connection:
            connection.execute("INSERT OR REPLACE" + _INSERT, _row(key, call))

    def add(self, calls: Iterable[tuple[str, StoredCall]]) -> int:
        """Write those of `calls` whose key is free or holds a failure that may pass, all or none; returns how many."""
        added = 0
        with self._recording() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            for key, call in calls:
                held = self.get(key)
                if held is None or (held.transient and not call.transient):
                    connection.execute("INSERT OR REPLACE" + _INSERT, _row(key, call))
                    added += 1
        return added

    def calls(self) -> Iterator[tuple[str, StoredCall]]:
        """All calls, sorted by key, read in pages: memory is bounded and others may write meanwhile."""
        last = ""
        while True:
            with self._access() as connection:
                query = _SELECT + "WHERE key > ? ORDER BY key LIMIT ?"
                rows = connection.execute(query, (last, _PAGE)).fetchall() if connection else []
                page = [self._read(row) for row in rows]
            for key, call in page:
                if key <= last:  # a damaged index could lead in a circle
                    raise self._damaged("its index is out of order")
                last = key
                yield key, call
            if len(page) < _PAGE:
                return

    def totals(self) -> list[Totals]:
        """Calls, tokens and seconds by role, step and model, in that order."""
        query = (
            "SELECT role, step, model, COUNT(*), SUM(outcome IS NOT NULL), SUM(input_tokens), SUM(cached_tokens), "
            "SUM(output_tokens), SUM(latency) FROM calls GROUP BY role, step, model ORDER BY role, step, model"
        )
        with self._access() as connection:
            return [Totals(*row) for row in connection.execute(query)] if connection else []

    def claim(self) -> bool:
        """Become the one process that records into the file; False where this store already was.

        The file is made where it is missing. One that is there is checked from end to end first: a call that damage
        hides would be paid for again.
        """
        with self._lock:
            if self._claim is not None:
                return False
            if self.read_only:
                raise UserError(f"{self.path}: the call store was opened for reading only; open it to record.")
            make_folder(self.path.parent)
            self._claim = self._take_lock()
            try:
                with self._access(create=True) as connection:
                    assert connection is not None
                    problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
                    if problem != "ok":
                        raise self._damaged(problem)
                    for _ in self.calls():
                        pass
                    connection.execute("PRAGMA journal_mode=WAL").fetchone()
                    connection.execute("PRAGMA synchronous=NORMAL")
            except BaseException:
                self._release()
                raise
            return True

    def close(self) -> None:
        """Let go of the file. It may be used again."""
        with self._lock:
            connection, self._connection = self._connection, None
            try:
                with self._told():
                    if connection is not None:
                        if self._claim is not None:
                            # Out of WAL, it can be read from a folder without write permission, or be copied alone.
                            # While a reader has it open that is refused, and WAL stays: no harm.
                            connection.execute("PRAGMA busy_timeout=0")
                            with suppress(sqlite3.OperationalError):
                                connection.execute("PRAGMA journal_mode=DELETE").fetchone()
                        connection.close()
            finally:
                self._release()

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
            connection.executescript(f"BEGIN; {_TABLE}; PRAGMA user_version={FORMAT}; COMMIT;")
        finally:
            connection.close()
        new.replace(self.path)

    def _connect(self) -> sqlite3.Connection:
        if self.path.stat().st_size == 0:
            raise self._damaged("the file is empty")
        address = f"{self.path.resolve().as_uri()}?mode={self._opening()}"
        connection = sqlite3.connect(address, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA trusted_schema=OFF")  # the file may come from anybody
            connection.execute("PRAGMA cell_size_check=ON")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            tables = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT 9").fetchall()
            if version not in (0, FORMAT):
                raise UserError(
                    f"{self.path}: a database of format {version} where a call store of format {FORMAT} belongs; read "
                    "it with the version of beamlib that wrote it, or move it away."
                )
            if version != FORMAT or tables != [(_TABLE,)]:
                raise self._damaged("it does not hold the table of a call store")
        except BaseException:
            connection.close()
            raise
        return connection

    def _opening(self) -> str:
        if not self.read_only or self._beside("-journal").exists():
            return "rw"  # a journal means that a run was killed in the middle: only a writer can roll it back
        if not self._beside("-wal").exists():
            with self.path.open("rb") as handle:
                header = handle.read(20)
            if header[18:20] == b"\2\2":  # in WAL mode without a WAL: SQLite would have to make one beside it
                return "ro&immutable=1"
        return "ro"

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    def _take_lock(self) -> IO[bytes]:
        # A file of its own: closing any handle of the database would drop SQLite's locks. The system frees the lock
        # when its process ends, however it ends.
        path = self._beside("-recording")
        while True:
            handle: IO[bytes] | None = None
            try:
                handle = path.open("ab")
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.exists() and os.path.samestat(os.fstat(handle.fileno()), path.stat()):
                    return handle
            except BlockingIOError:
                if handle:
                    handle.close()
                raise UserError(
                    f"{self.path}: another run is recording into this call store; wait until it has ended, or stop it."
                ) from None
            except FileNotFoundError:  # the other run has just removed it
                pass
            except OSError as error:
                raise self._inaccessible(error.strerror) from None
            if handle:
                handle.close()

    def _release(self) -> None:
        if self._claim is not None:
            self._beside("-recording").unlink(missing_ok=True)
            self._claim.close()
            self._claim = None

    def _read(self, row: tuple[Any, ...], key: str | None = None) -> tuple[str, StoredCall]:
        if row[-1] != _checksum(row[:-1]) or key not in (None, row[0]):
            raise self._damaged("a call does not agree with its hash")
        try:
            return row[0], StoredCall.model_validate(dict(zip(_COLUMNS[1:-1], row[1:-1], strict=True)))
        except ValidationError as error:
            raise self._damaged(error.errors()[0]["msg"]) from None

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


def _row(key: str, call: StoredCall) -> tuple[Any, ...]:
    data = (
        key, call.role, call.conversation, call.step, call.about, call.model, call.base_url, call.repeat, call.attempt,
        call.text, call.outcome and call.outcome.value, call.message, call.input_tokens, call.output_tokens,
        call.cached_tokens, call.latency, call.finish_reason, call.time,
    )  # fmt: skip
    return (*data, _checksum(data))


def _checksum(data: tuple[Any, ...]) -> str:
    return sha256(json.dumps(data, default=repr))  # bytes turn up only where the file is damaged
