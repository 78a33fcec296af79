"""Run a command and end every process that it started: `python keeper.py COMMAND...`; standard library only.

A memory may start servers (an embedded database that becomes a daemon). They become children of this process, which
ends them when the command has ended, on SIGTERM, and when its parent dies.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def _descendants() -> list[int]:
    """List the processes below this one from /proc; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            fields = entry.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found, waiting = list[int](), [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _end_all(*_: object) -> None:
    for _round in range(20):  # a process may have started another in the meantime
        if not (found := _descendants()):
            break
        for process in found:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    if _:  # by a signal
        os._exit(128 + signal.SIGTERM)


def _main(command: list[str]) -> int:
    """Return the exit code of `command` once none of its processes is left; 128 plus the number of a fatal signal."""
    signal.signal(signal.SIGTERM, _end_all)
    if sys.platform == "linux":
        parent = os.getppid()
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        with suppress(OSError):  # where memory runs out, it and its children go first
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
        if os.getppid() != parent:
            return 0
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    null = os.open(os.devnull, os.O_RDWR)
    for end in (0, 1):  # else a command that closes its own would seem to hold the exchange open
        os.dup2(null, end)
    code = process.wait()
    _end_all()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    raise SystemExit(_main(sys.argv[1:]))
