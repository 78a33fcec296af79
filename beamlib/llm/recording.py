"""One process at a time records into a file: a locked file beside it says that one does.

A file of its own, since closing any handle of a database would drop SQLite's locks. The system frees the lock when its
process ends, however it ends; the file stays then, and tells the next one that a run was killed.
"""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from typing import IO

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
