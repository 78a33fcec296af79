"""A browser without a window, told what to do over a pipe (DevTools protocol): tests of pages use it.

Nothing is fetched: every name resolves to nothing, so a page can only load files of this machine.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from beamlib.errors import UserError
from beamlib.files import temporary_folder

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
_OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-extensions",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
_SECONDS = 60.0


def find_browser() -> str | None:
    """The program of a browser that speaks the protocol, None where none is installed."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


class Browser:
    """One tab of a running browser. `problems` are errors of scripts and refusals of the page's policy."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._numbers = itertools.count(1)
        self._held = b""
        self.problems: list[str] = []
        self._session = ""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command of the protocol; `UserError` where the browser refuses or does not answer."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + _SECONDS
        while True:
            found = self._message(until)
            if found.get("id") == number:
                if "error" in found:
                    raise UserError(f"browser: {method}: {found['error'].get('message')}; try another browser.")
                return dict(found["result"])

    def _message(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._held:
            ready, _, _ = select.select([self._back], [], [], max(0.0, until - time.monotonic()))
            piece = os.read(self._back, 1 << 20) if ready else b""
            if not piece:
                raise UserError(f"browser: no answer within {_SECONDS:g} s; look whether it starts at all.")
            self._held += piece
        text, _, self._held = self._held.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details.get("text", ""))
        elif message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.problems.append(parameters["entry"]["text"])

    def open(self, address: str) -> None:
        """Load an address and wait until the page has loaded."""
        self.send("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page, promises awaited; `UserError` where it throws."""
        found = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if details := found.get("exceptionDetails"):
            said = details.get("exception", {}).get("description") or details.get("text")
            raise UserError(f"browser: the page's script failed ({said}); make the page again.")
        return found["result"].get("value")

    def wait(self, condition: str, seconds: float = 20.0) -> float:
        """Seconds until `condition` is true in the page; `UserError` where it does not become so."""
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            with suppress(UserError):  # between two pages there is nothing to ask
                if self.evaluate(f"Boolean({condition})"):
                    return time.monotonic() - started
            time.sleep(0.01)
        raise UserError(f"browser: waited {seconds:g} s for {condition}; make the page again.")

    def picture(self, path: Path, *, full: bool = False) -> None:
        """Write what the tab shows, or with `full` the whole page, as PNG."""
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def open_browser(program: str, width: int = 1280, height: int = 900) -> Iterator[Browser]:
    """A browser with an empty profile of its own, ended afterwards."""
    with temporary_folder("beamlib-browser-") as profile:
        there, to = os.pipe()
        back, from_there = os.pipe()
        options = [*_OPTIONS, f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        options += ["--no-sandbox"] if os.geteuid() == 0 else []  # which root's browser refuses to start without
        # The protocol's pipes are the descriptors 3 and 4: a shell puts them there.
        shell = f'exec 3<&{there} 4>&{from_there}; exec "$@"'
        process = subprocess.Popen(
            ["bash", "-c", shell, "bash", program, *options, "about:blank"],
            pass_fds=(there, from_there),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(there)
        os.close(from_there)
        try:
            yield Browser(to, back)
        finally:
            with suppress(OSError):
                os.write(to, b'{"id":0,"method":"Browser.close"}\0')
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(to)
            os.close(back)


def verified(run: Path) -> dict[str, Any]:
    """Have a browser recompute the numbers of a run's page; the test skips where no browser is installed."""
    program = find_browser()
    if program is None:
        pytest.skip("no browser is installed")
    with open_browser(program) as browser:
        browser.open((run / "index.html").absolute().as_uri())
        return dict(browser.evaluate("beamVerify()"))
