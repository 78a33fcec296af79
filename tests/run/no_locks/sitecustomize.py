"""On the path of a process, it makes the folder in BEAM_NO_LOCKS one whose file system has no locks."""

import errno
import fcntl
import os
import sqlite3
from typing import Any
from urllib.parse import unquote, urlparse

FOLDER = os.environ.get("BEAM_NO_LOCKS", "")
_flock, _connect = fcntl.flock, sqlite3.connect


def _refused(path: str) -> bool:
    return bool(FOLDER) and os.path.realpath(path).startswith(FOLDER)


def flock(handle: Any, operation: int) -> None:
    number = handle if isinstance(handle, int) else handle.fileno()
    if _refused(f"/proc/self/fd/{number}"):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    _flock(number, operation)


def connect(database: Any, *rest: Any, **more: Any) -> sqlite3.Connection:
    name = str(database)
    path = unquote(urlparse(name).path) if name.startswith("file:") else name
    if _refused(path) and "immutable=1" not in name:
        raise sqlite3.OperationalError("locking protocol")
    return _connect(database, *rest, **more)


fcntl.flock, sqlite3.connect = flock, connect  # type: ignore[assignment]
