"""Lease a conversation: one process at a time may pay for its calls, on any machine, without file locks.

All leases of a run are files in one shared folder, removed at its end. Those of a conversation are `<unit>.1`,
`<unit>.2`, ...: each is created once (O_EXCL) and rewritten by its owner as a heartbeat. The last one is valid. No
clocks are compared: a lease has expired when an observer has seen it unchanged for `patience` seconds.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from beamlib.errors import UserError

PATIENCE = 30.0
"""Seconds without a sign of life after which a lease may be taken over."""
RUN_LEASE = "run"
"""The unit of the run itself: who has it hands out the work."""
_RELEASED = b"released"
_WIDTH = 32  # of what a file holds, so that it is written in one piece
_FRESH = 1.0  # seconds for which a look at the files is good


class Watch:
    """Observe whether a file keeps changing."""

    def __init__(self, path: Path, patience: float) -> None:
        self.path, self._patience = path, patience
        self._last, self._seen = self.text(), time.monotonic()

    def text(self) -> bytes:
        """Return the content, empty if the file is gone."""
        try:
            return self.path.read_bytes()
        except OSError:
            return b""

    def still(self) -> bool:
        """Tell whether it has been unchanged for longer than the patience; call it repeatedly."""
        if (text := self.text()) != self._last:
            self._last, self._seen = text, time.monotonic()
        return time.monotonic() - self._seen > self._patience


class Lease:
    """A lease of `unit` in `folder`; creating it waits for the current owner.

    Raises:
        UserError: The run has ended: its folder is gone, or nobody hands out work any more.
    """

    def __init__(self, folder: Path, unit: str, *, patience: float = PATIENCE) -> None:
        self.folder, self.unit, self.patience = folder, unit, patience
        self._run = Watch(folder / f"{RUN_LEASE}.1", patience)
        self._ended = threading.Event()
        held: Watch | None = None
        while not self._make(last := newest(folder, unit), held):
            path = folder / f"{unit}.{last}"
            held = held if held is not None and held.path == path else Watch(path, patience)
            time.sleep(min(0.2, patience / 10))
        threading.Thread(target=self._beat, name=f"lease of {unit}", daemon=True).start()

    def _make(self, last: int, held: Watch | None) -> bool:
        """Create the file after the `last` one unless that is still owned; `held` has been observing one of them."""
        if last and not self._free(self.folder / f"{self.unit}.{last}", held):
            return False
        self.path, self._next = (self.folder / f"{self.unit}.{last + more}" for more in (1, 2))
        try:
            handle = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            return False
        except OSError as error:
            raise self._over() from error
        os.write(handle, b"0".ljust(_WIDTH))
        os.close(handle)
        self._checked = time.monotonic()
        return True

    def _free(self, path: Path, held: Watch | None) -> bool:
        if self.unit != RUN_LEASE and self._run.still():
            raise self._over()
        if held is None or held.path != path:
            return False
        return held.text().startswith(_RELEASED) or held.still()

    def _over(self) -> UserError:
        return UserError(f"{self.unit}: the run that asked for it has ended; the same command goes on from there.")

    def lost(self) -> bool:
        """Tell whether calls are no longer allowed under it; the files are checked at most once a second."""
        if time.monotonic() - self._checked > _FRESH:
            now = time.monotonic()
            if self._next.exists() or not self.path.exists() or self._run.still():
                return True
            self._checked = now
        return False

    def release(self) -> None:
        """Let others take it at once."""
        self._ended.set()
        self._write(_RELEASED)

    def _beat(self) -> None:
        count = 0
        while not self._ended.wait(min(1.0, self.patience / 5)):
            count += 1
            self._write(b"%d" % count)

    def _write(self, text: bytes) -> None:
        with suppress(OSError), self.path.open("r+b", buffering=0) as handle:  # never makes it: it may have been ended
            handle.write(text.ljust(_WIDTH))


def newest(folder: Path, unit: str) -> int:
    """Return the number of the last lease of `unit`, 0 without any."""
    names = (path.name.removeprefix(f"{unit}.") for path in folder.glob(f"{unit}.*"))
    return max((int(name) for name in names if name.isdecimal()), default=0)
