"""End every command with one sentence and an exit code, and lose no reply that was paid for.

On Ctrl-C, SIGTERM or SIGHUP, no more requests are sent, and pending replies get `base.SHUTDOWN_SECONDS` to arrive and
be stored, in worker processes too. The exit code is 128 plus the signal's number. A second signal exits at once.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from typing import NoReturn

from beamlib.errors import UserError, shown
from beamlib.llm import model as base

_OF_PYTHON = ("PYTHON", "PATH", "LD_", "DYLD_")
"""What a Python process may need of the environment to start."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN = "the same command goes on where this one stopped."
_COMMANDS = re.compile(r"\x1b(?!\[[\d;]*[mAK])|[^\x1b\s -\x7e\xa0-\U0010ffff]")
"""What a terminal obeys, but for colours, the cursor's way up and blank lines, which tables and progress bars need."""
_WITH_THREADS = 2.0  # seconds that they get to close what they have open


def conclude(command: Callable[[], object]) -> NoReturn:
    """Run `command` and exit; an error becomes one line on stderr and the exit code.

    Exit codes: 2 for an error that the user can correct, 3 when `--max-cost` is reached, 128 plus the number of a
    signal, 141 when the reader of a pipe has gone. Streams that the caller closed are replaced by /dev/null.
    """
    _complete_streams()
    code: object
    try:
        with ended_by_signals():
            try:
                command()
                code = 0
            finally:
                sys.stdout.flush()  # so that a reader who has gone shows now, not when Python has nearly ended
    except UserError as error:
        code = _told(str(error), error.exit_code)
    except BrokenPipeError:
        code = _unread()
    except OSError as error:  # a full disk, a path too long: the user's to mend, and a traceback shows nothing of it
        place = error.filename if error.filename is not None else "the file system"
        # Papermill raises some of its own, with a text and no number.
        code = _told(shown(f"{place}: {error.strerror or error}; mend that, then run again."), 2)
    except SystemExit as ended:
        code = ended.code
        if isinstance(ended.__context__, BrokenPipeError):  # Typer's own way of ending on it
            code = _unread()
        elif code in [128 + number for number in _SIGNALS]:
            _told(f"interrupted; {_AGAIN}", 2)
            _end_threads(int(str(code)))
    _flush()
    raise SystemExit(code)


def _start_tracker() -> None:
    """Start Python's process for what worker processes share: it outlives a SIGHUP to all and inherits no key."""
    environment = dict(os.environ)
    os.environ.clear()
    os.environ.update({name: value for name, value in environment.items() if name.startswith(_OF_PYTHON)})
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # it keeps what is blocked
    try:
        resource_tracker.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        os.environ.update(environment)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn Ctrl-C, SIGTERM and SIGHUP in the block into `SystemExit` once pending replies have arrived.

    A signal that is ignored already (nohup) stays ignored. Use it in the main thread, which receives the signals.
    """
    received: list[int] = []

    def answer(number: int, _: object) -> None:
        if received:
            for child in multiprocessing.active_children():
                child.kill()
            os._exit(128 + number)
        received.append(number)
        base.stop()
        with suppress(OSError):  # print is not made to be called in the middle of a print
            os.write(2, f"\nbeamlib: ending; replies under way have {base.SHUTDOWN_SECONDS:g} s to arrive\n".encode())
        raise SystemExit(128 + number)

    _start_tracker()
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, answer)
    try:
        yield
    finally:
        base.drain()
        for number, handler in before.items():
            signal.signal(number, handler)
        if received:  # even if the interrupted code caught the first one
            raise SystemExit(128 + received[0])


def _complete_streams() -> None:
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:  # else the next file opened, a database perhaps, would take its place
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)
            if null != number:
                os.close(null)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file name need not be text, nor the terminal Unicode
            if stream.isatty():
                stream.write = _shown(stream.write)  # type: ignore[method-assign]


def _shown(write: Callable[[str], int]) -> Callable[[str], int]:
    """Wrap `write` to show terminal commands as text: names and replies may contain any."""
    return lambda text: write(_COMMANDS.sub(lambda found: ascii(found[0])[1:-1], text))


def _told(sentence: str, code: int) -> int:
    with suppress(OSError):
        print(f"beamlib: {sentence}", file=sys.stderr, flush=True)
    return code


def _unread() -> int:
    _flush()
    return _told(f"nobody reads its output any more; {_AGAIN}", 128 + signal.SIGPIPE)


def _flush() -> None:
    """Flush the streams; what cannot be written is dropped, or Python would complain at exit."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, number)
            os.close(null)


def _end_threads(code: int) -> None:
    """Exit if threads still wait for replies after their time is over."""
    until = time.monotonic() + _WITH_THREADS
    threads = [one for one in threading.enumerate() if not one.daemon and one is not threading.current_thread()]
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        _flush()
        os._exit(code)
