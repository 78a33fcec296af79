"""Store model calls in SQLite files, one per conversation, so that workers never share one.

Each call is its own transaction in WAL mode with `synchronous=FULL`: what `put` returned from is on disk, and neither a
kill nor a power cut loses a reply that was paid for. While nobody records, the store is one plain
file: whoever opens it after a kill merges the side files, and only the lock file stays for the next recorder.

Recording starts fast. A store records the modification time that its file has after a run. If the time still matches,
nothing is checked. After a kill, the calls of the killed run are checked; otherwise (the file was copied, edited,
restored or has format 1) every call, because a call that damage hides would be paid for again.
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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any

from pydantic import Field, ValidationError

from beamlib.errors import UserError
from beamlib.files import make_folder, sha256, sync
from beamlib.llm.exchange import Basis, Count, Exchange, basis_of
from beamlib.llm.model import REFUSALS, TRANSIENT, Completion

FORMAT = 4
THIS_RUN = uuid.uuid4().hex
"""Id of the run that this process started; its workers receive it."""
_BUSY_SECONDS = 10.0
_PAGE = 500


class StoredCall(Exchange):
    """One finished call to an endpoint.

    `key` is `call_key` of the request, which is not stored, because contexts are large. `step` is the prompt's id,
    `latency` is in seconds, and `time` is when the answer arrived (UTC, ISO 8601).
    """

    role: Annotated[str, Basis.COMPUTED]
    conversation: Annotated[str, Basis.COMPUTED]
    step: Annotated[str, Basis.COMPUTED]
    about: Annotated[str, Basis.COMPUTED]
    model: Annotated[str, Basis.COMPUTED]
    base_url: Annotated[str, Basis.COMPUTED]
    repeat: Annotated[Count, Basis.COMPUTED] = 0
    attempt: Annotated[Count, Basis.COMPUTED] = 0
    latency: Annotated[float, Basis.MEASURED] = Field(default=0.0, ge=0, allow_inf_nan=False)
    finish_reason: Annotated[str, Basis.REPORTED] = ""
    time: Annotated[str, Basis.MEASURED] = Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00$")

    @property
    def values(self) -> dict[str, Any]:
        """All fields as JSON; later formats' only where they say something, so that older lines stay as they are."""
        return self.model_dump(mode="json", exclude={name for name in _ADDED if not getattr(self, name)})

    @property
    def transient(self) -> bool:
        """Whether it failed in a way that another try may not."""
        return self.outcome in TRANSIENT

    @property
    def refused(self) -> bool:
        """Whether the server refused it. A recording run sends what an earlier run was refused."""
        return self.outcome in REFUSALS

    def completion(self) -> Completion:
        """Return the reply, or raise the `ModelError` that the call ended with."""
        text, fields = self.received(), (self.finish_reason, self.answered_by, self.fingerprint)
        return Completion(text, self.usage, self.latency, *fields)


def stated_costs(*, claimed: bool) -> str:
    """Say what the costs of stored calls rest on, wherever they are printed."""
    if claimed:
        return f"tokens, seconds and prices: {Basis.CLAIMED}"
    basis = basis_of(StoredCall)
    return f"tokens: {basis['input_tokens']}; seconds: {basis['latency']}; prices: as in the models file"


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the stored calls of one role, step and model; `calls` includes `failures`, latency is in seconds.

    `estimated` are the calls whose tokens our own counter counted.
    """

    role: str
    step: str
    model: str
    calls: int
    failures: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    latency: float
    estimated: int = 0


def call_key(request: Mapping[str, Any], base_url: str, repeat: int) -> str:
    """Hash all that a reply depends on: address, request body and number of the repeat. Hex SHA-256."""
    parts = {"base_url": base_url, "repeat": repeat, "request": request}
    return sha256(json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False))


_ADDED = {"answered_by": 3, "fingerprint": 3, "estimated": 3, "sent": 4}
"""Fields that a later format added. The checksum of a call covers those of a format only if one says something."""
_COLUMNS = (
    "key", "role", "conversation", "step", "about", "model", "base_url", "repeat", "attempt", "text", "outcome",
    "message", "input_tokens", "output_tokens", "cached_tokens", "latency", "finish_reason", "time",
)  # fmt: skip
_TABLE = (
    "CREATE TABLE calls (key TEXT PRIMARY KEY NOT NULL, role TEXT, conversation TEXT, step TEXT, about TEXT, "
    "model TEXT, base_url TEXT, repeat INTEGER, attempt INTEGER, text TEXT, outcome TEXT, message TEXT, "
    "input_tokens INTEGER, output_tokens INTEGER, cached_tokens INTEGER, latency REAL, finish_reason TEXT, time TEXT, "
    "sha256 TEXT)"
)
# Who recorded: the greatest rowid when a run began (its own calls have greater ones), and the file's modification time
# in nanoseconds after the run closed it.
_RUNS = "CREATE TABLE runs (id TEXT PRIMARY KEY NOT NULL, began INTEGER NOT NULL, stamp INTEGER)"
_NEW_COLUMNS = {name: f"{name} TEXT DEFAULT ''" for name in _ADDED} | {"estimated": "estimated INTEGER DEFAULT 0"}


def _table(version: int) -> str:
    """Return the table of a format, as SQLite writes it where columns were added."""
    return ", ".join([_TABLE[:-1], *(_NEW_COLUMNS[name] for name in _ADDED if _ADDED[name] <= version)]) + ")"


_FORMATS = {version: [(_table(version),), *([(_RUNS,)] if version > 1 else [])] for version in range(1, FORMAT + 1)}
_INSERT = f"INSERT OR REPLACE INTO calls VALUES ({', '.join('?' * (len(_COLUMNS) + 1 + len(_ADDED)))})"


def _select(connection: sqlite3.Connection) -> str:
    version = _format(connection)
    missing = {name: "0" if name == "estimated" else "''" for name, since in _ADDED.items() if since > version}
    return f"SELECT {', '.join((*_COLUMNS, 'sha256', *(missing.get(name, name) for name in _ADDED)))} FROM calls "


class CallStore:
    """The calls of one conversation in the SQLite file `path`, by key. Safe to use from several threads.

    The file is opened when needed; a missing file is an empty store. The first `put` (or `claim`) creates the file and
    excludes other recorders until `close`; readers are never excluded. After `close` the store opens itself again when
    used, so that a late answer is still written. Each row carries a checksum, so a damaged reply is never returned.

    Args:
        read_only: Create and change no file, unless a kill left side files that SQLite must merge.
        run_id: The run that records, the same for all its processes and backbones.

    Raises:
        UserError: from every method, if the file is damaged, of another format, locked by another run or inaccessible.
    """

    def __init__(self, path: Path, *, read_only: bool = False, run_id: str = THIS_RUN) -> None:
        self.path = path
        self.read_only = read_only
        self.run_id = run_id
        self.in_flight: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Task[StoredCall]] = {}
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._claimed = self._writable = False

    def __enter__(self) -> CallStore:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def get(self, key: str, *, of_run: bool = False) -> StoredCall | None:
        """Return the call under `key` or None; with `of_run` only a call of this run."""
        with self._access() as connection:
            if connection is None or (of_run and _format(connection) == 1):  # which does not record runs
                return None
            condition = " AND rowid > (SELECT began FROM runs WHERE id = ?)" if of_run else ""
            values = (key, self.run_id) if of_run else (key,)
            row = connection.execute(f"{_select(connection)}WHERE key = ?{condition}", values).fetchone()
            return self._parse(row, key) if row else None

    def put(self, call: StoredCall) -> None:
        """Write a call in place of any earlier one of its key. It is committed on return."""
        with self._recording() as connection:
            connection.execute(_INSERT, _row(call))

    def add(self, calls: Iterable[StoredCall], *, replace: bool = False) -> int:
        """Write calls in one transaction and return how many were written.

        A call is written if its key is free or has a transient failure or a refusal. With `replace` every call is
        written, except a transient failure over anything.
        """
        count = 0
        with self._recording() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            for call in calls:
                existing = self.get(call.key)
                if existing is None or (not call.transient and (existing.transient or existing.refused or replace)):
                    connection.execute(_INSERT, _row(call))
                    count += 1
        return count

    def calls(self) -> Iterator[StoredCall]:
        """Yield all calls sorted by key. Reads in pages: memory is bounded, and others may write meanwhile."""
        last, count = "", 0
        with self._access() as connection:
            least = connection.execute("SELECT COUNT(*) FROM calls NOT INDEXED").fetchone()[0] if connection else 0
        while True:
            with self._access() as connection:
                query = f"{_select(connection)}WHERE key > ? ORDER BY key LIMIT ?" if connection else ""
                rows = connection.execute(query, (last, _PAGE)).fetchall() if connection else []
                page = [self._parse(row) for row in rows]
            for call in page:
                if call.key <= last:  # a damaged index could lead in a circle
                    raise self._damage("its index is out of order")
                last, count = call.key, count + 1
                yield call
            if len(page) < _PAGE:
                break
        if count < least:
            raise self._damage("its index does not lead to every call")

    def totals(self) -> list[Totals]:
        """Sum calls, tokens and seconds by role, step and model, in that order."""
        with self._access() as connection:
            estimated = "SUM(estimated)" if connection and _format(connection) >= _ADDED["estimated"] else "0"
            query = (
                "SELECT role, step, model, COUNT(*), SUM(outcome IS NOT NULL), CAST(TOTAL(input_tokens) AS INTEGER), "
                "CAST(TOTAL(cached_tokens) AS INTEGER), CAST(TOTAL(output_tokens) AS INTEGER), SUM(latency), "
                f"{estimated} FROM calls GROUP BY role, step, model "
                "ORDER BY role, step, model"  # SUM fails for absurd counts, TOTAL does not
            )
            return [Totals(*row) for row in connection.execute(query)] if connection else []

    def inputs(self, role: str) -> list[tuple[str, int]]:
        """Return the model and the input tokens of each answered call of a role, or of one `<role>:...`."""
        query = "SELECT model, input_tokens FROM calls WHERE outcome IS NULL AND (role = ? OR role LIKE ? || ':%')"
        with self._access() as connection:
            return list(connection.execute(query, (role, role))) if connection else []

    def has_text(self, role: str, model: str) -> bool:
        """Whether any reply of a model in a role has text."""
        query = "SELECT 1 FROM calls WHERE role = ? AND model = ? AND TRIM(text) != '' LIMIT 1"
        with self._access() as connection:
            return bool(connection and connection.execute(query, (role, model)).fetchone())

    def answered_by(self) -> list[tuple[str, str, str, str]]:
        """Return each role and model with another model or a fingerprint that replies to it named."""
        query = (
            "SELECT DISTINCT role, model, answered_by, fingerprint FROM calls WHERE answered_by != '' OR "
            "fingerprint != '' ORDER BY 1, 2, 3, 4"
        )
        with self._access() as connection:
            known = connection is not None and _format(connection) >= _ADDED["answered_by"]
            return list(connection.execute(query)) if connection and known else []

    def claim(self) -> bool:
        """Become the only process that records into the file; return False if this store already was.

        Creates a missing file; checks an existing one as the module's docstring says.
        """
        with self._lock:
            if self._claimed:
                return False
            if self.read_only:
                raise UserError(f"{self.path}: the call store was opened for reading only; open it to record.")
            make_folder(self.path.parent)
            self._begin()
            return True

    @property
    def recording(self) -> bool:
        """Whether this store is open and records."""
        return self._claimed

    def close(self) -> None:
        """Close the file. The store may be used again."""
        with self._lock:
            connection, self._connection = self._connection, None
            try:
                with self._user_errors():
                    if connection is not None:
                        stamp = time.time_ns()
                        if self._claimed:
                            connection.execute("UPDATE runs SET stamp = ? WHERE id = ?", (stamp, self.run_id))
                        plain = self._writable and self._leave_wal(connection)
                        connection.close()
                        if self._claimed and plain:
                            with suppress(PermissionError):  # another user's file: it is checked again
                                os.utime(self.path, ns=(stamp, stamp))
            finally:
                self._release()

    def _begin(self) -> None:
        try:
            killed = lock_file(self._sibling("-recording"))
        except BlockingIOError:
            raise UserError(
                f"{self.path}: another run is recording into this call store; wait until it has ended, or stop it."
            ) from None
        except OSError as error:
            raise self._inaccessible(error.strerror) from None
        self._claimed = True
        try:
            self._disconnect()  # it may have been opened as a file that nobody writes to
            with self._access(create=True) as connection:
                assert connection is not None
                self._check(connection, self.path.stat().st_mtime_ns, killed=killed)
                connection.execute("PRAGMA journal_mode=WAL").fetchone()
                connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            self._disconnect()
            self._release()
            raise

    def _check(self, connection: sqlite3.Connection, modified: int, *, killed: bool) -> None:
        """Check the calls that no earlier run has vouched for, and register this run."""
        version = _format(connection)
        recorded = version > 1
        began = connection.execute("SELECT MAX(began) FROM runs").fetchone()[0] if recorded else None
        untouched = recorded and connection.execute("SELECT 1 FROM runs WHERE stamp = ?", (modified,)).fetchone()
        if not untouched:
            after = began if killed and began is not None else 0
            problem = "ok" if after else connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if problem != "ok":
                raise self._damage(problem)
            for row in connection.execute(f"{_select(connection)}WHERE rowid > ?", (after,)):
                self._check_row(row)
        connection.execute("BEGIN IMMEDIATE")
        if not recorded:
            connection.execute(_RUNS)
        for name in _ADDED:
            if _ADDED[name] > version:
                connection.execute(f"ALTER TABLE calls ADD COLUMN {_NEW_COLUMNS[name]}")
        connection.execute(f"PRAGMA user_version={FORMAT}")
        connection.execute(
            "INSERT OR IGNORE INTO runs SELECT ?, COALESCE(MAX(rowid), 0), NULL FROM calls", (self.run_id,)
        )
        connection.execute("COMMIT")

    def _leave_wal(self, connection: sqlite3.Connection) -> bool:
        # Without WAL the file can be read from a read-only folder, or be copied alone. SQLite refuses while another
        # process has it open; then the last one to close it removes the side files.
        connection.execute("PRAGMA busy_timeout=0")
        with suppress(sqlite3.OperationalError):
            return bool(connection.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",))
        return False

    @contextmanager
    def _access(self, create: bool = False) -> Iterator[sqlite3.Connection | None]:
        with self._lock, self._user_errors():
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
        # Under another name until complete: an empty file at `path` can then only be damage.
        new = self._sibling(".new")
        new.unlink(missing_ok=True)
        with closing(sqlite3.connect(new)) as connection:
            connection.executescript(f"BEGIN; {_table(FORMAT)}; {_RUNS}; PRAGMA user_version={FORMAT}; COMMIT;")
        new.replace(self.path)
        sync(self.path.parent)

    def _connect(self) -> sqlite3.Connection:
        if self.path.stat().st_size == 0:
            raise self._damage("the file is empty")
        mode = self._mode()
        self._writable = mode == "rw"
        address = f"{self.path.resolve().as_uri()}?mode={mode}"
        connection = sqlite3.connect(
            address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
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
                raise self._damage("it does not contain the table of a call store")
        except BaseException:
            connection.close()
            raise
        return connection

    def _mode(self) -> str:
        if self._claimed:
            return "rw"
        if self._sibling("-wal").exists() or self._sibling("-journal").exists():  # a run records, or was killed
            return "rw" if os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK) else "ro"
        with self.path.open("rb") as handle:
            header = handle.read(20)
        # In WAL mode without a WAL, SQLite would have to create one.
        return "ro&immutable=1" if header[18:20] == b"\2\2" else "ro"

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _sibling(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    def _release(self) -> None:
        if self._claimed:
            self._claimed = self._writable = False
            unlock_file(self._sibling("-recording"))

    def _parse(self, row: tuple[Any, ...], key: str | None = None) -> StoredCall:
        self._check_row(row)
        if key not in (None, row[0]):
            raise self._damage("its index leads to another call")
        try:
            values = dict(zip((*_COLUMNS, "sha256", *_ADDED), row, strict=True))
            del values["sha256"]
            return StoredCall.model_validate(values)
        except ValidationError as error:
            raise self._damage(error.errors()[0]["msg"]) from None

    def _check_row(self, row: tuple[Any, ...]) -> None:
        usual = len(_COLUMNS)
        if row[usual] != _checksum(row[:usual], row[usual + 1 :]):
            raise self._damage("a call does not match its checksum")

    @contextmanager
    def _user_errors(self) -> Iterator[None]:
        """Raise errors of SQLite and the system as `UserError`."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            name = getattr(error, "sqlite_errorname", "")
            # SQLite says "protocol" when a program was stopped while it held a lock of the WAL index
            if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")):
                raise UserError(
                    f"{self.path}: another program has locked this call store; wait until it has ended, then run again."
                ) from None
            access = ("CANTOPEN", "READONLY", "FULL", "IOERR", "PERM", "AUTH")
            if name.startswith(tuple(f"SQLITE_{kind}" for kind in access)):
                raise self._inaccessible(str(error)) from None
            raise self._damage(str(error)) from None
        except OSError as error:
            raise self._inaccessible(error.strerror) from None

    def _inaccessible(self, problem: str | None) -> UserError:
        return UserError(
            f"{self.path}: the call store cannot be opened or written ({problem}); free disk space or fix the folder's "
            "permissions, then run the same command again."
        )

    def _damage(self, problem: str) -> UserError:
        return UserError(
            f"{self.path}: not a call store, or a damaged one ({problem}); restore it from a copy or an archive, or "
            "move it away to pay for its calls again."
        )


def _format(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _row(call: StoredCall) -> tuple[Any, ...]:
    values = call.model_dump(mode="json")
    usual, added = tuple(values[name] for name in _COLUMNS), tuple(values[name] for name in _ADDED)
    return (*usual, _checksum(usual, added), *added)


def _checksum(values: tuple[Any, ...], added: tuple[Any, ...]) -> str:
    latest = max((since for value, since in zip(added, _ADDED.values(), strict=True) if value), default=0)
    covered = (value for value, since in zip(added, _ADDED.values(), strict=True) if since <= latest)
    values += tuple(int(value) if isinstance(value, bool) else value for value in covered)
    return sha256(json.dumps(values, default=repr))  # bytes are in damaged files only


def stored_calls(folder: Path) -> int:
    """Count the calls in the stores of a folder for a progress bar, while others write to them.

    Opens them for writing: the last process to close a store in WAL mode removes its side files.
    """
    count = 0
    for path in sorted(folder.glob("*.sqlite")):
        address = f"{path.absolute().as_uri()}?mode=rw"
        with suppress(sqlite3.Error), closing(sqlite3.connect(address, uri=True)) as connection:
            count += int(connection.execute("SELECT count(*) FROM calls").fetchone()[0])
    return count


_LOCKS: dict[Path, tuple[IO[bytes], int]] = {}
_GUARD = threading.Lock()


def lock_file(path: Path) -> bool:
    """Lock the file at `path` for this process, which may do so repeatedly; return whether the file existed.

    Raises:
        BlockingIOError: another process has locked it.
        OSError: it cannot be created.
    """
    with _GUARD:
        path = path.resolve()
        if path in _LOCKS:
            handle, times = _LOCKS[path]
            _LOCKS[path] = handle, times + 1
            return True
        existed = path.exists()
        _LOCKS[path] = _open_locked(path), 1
        return existed


def unlock_file(path: Path) -> None:
    """Undo one `lock_file`; the last one removes the file."""
    with _GUARD:
        path = path.resolve()
        handle, times = _LOCKS.pop(path)
        if times > 1:
            _LOCKS[path] = handle, times - 1
        else:
            path.unlink(missing_ok=True)
            handle.close()


def _open_locked(path: Path) -> IO[bytes]:
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


def _few(names: set[str]) -> str:
    """Name the first five: an endpoint may call itself otherwise in every reply."""
    more = [f"{len(names) - 5:,} others"] if len(names) > 5 else []
    return " and ".join([*sorted(names)[:5], *more])


def calls_of_sizes(run: Path, sizes: Iterable[str]) -> list[Path]:
    """Return the call stores of sizes in a run folder."""
    return [path for size in sizes for path in (run / "calls" / size.lower()).glob("*.sqlite")]


def answerers(stores: Iterable[Path]) -> str:
    """Say which models and fingerprints the replies in call stores name, where not the model that was asked."""
    named: dict[tuple[str, str], tuple[set[str], set[str]]] = {}
    for path in sorted(stores):
        try:
            rows = CallStore(path, read_only=True).answered_by()
        except UserError as error:
            return f"By their replies: not known. {error}"
        for role, model, *names in rows:
            for known, name in zip(named.setdefault((role, model), (set(), set())), names, strict=True):
                known.update(filter(None, [name]))
    sentences = [
        f"{role} {model} was answered by {_few(models)}" if models else f"{role} {model}"
        for (role, model), (models, _) in named.items()
    ]
    prints = [f" (fingerprint {_few(known)})" if known else "" for _, known in named.values()]
    told = "; ".join(sentence + known for sentence, known in zip(sentences, prints, strict=True))
    return f"By their replies: {told}." if told else ""
