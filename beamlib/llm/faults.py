"""What can go wrong between a call and its answer, and what follows from it.

Three ends: the call is tried again (`TryAgain`), this one call has no answer (`ModelError`, a named outcome), or
nothing more can be called (`UserError`: the run stops, what arrived is stored, the same command goes on from there).
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from beamlib.errors import UserError
from beamlib.llm.keys import without_key
from beamlib.llm.model import ModelError, Outcome, nap

GO_ON = "what has arrived is stored, and the same command goes on from there"

_SILENT_TRIES = 8
"""Tries in a row that nobody answered before the breaker opens: with one try in five failing, a chance of 3 in 10^6."""
_FIRST_PATIENCE = 5.0
"""Seconds for an endpoint that has not answered once: more likely a wrong address or a server that is not running."""
_LONGEST_WAIT = 900.0
"""Seconds of Retry-After beyond which waiting is the user's choice (daily quotas ask for hours)."""

_CONTEXT = re.compile(
    r"context[ _-]?length|context window|maximum model length|maximum number of tokens|(prompt|input) is too long",
    re.IGNORECASE,
)
_FILTER = re.compile(
    r"content[ _-]?filter|content[ _-](management[ _-])?policy|flagged as potentially violating|moderation",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(
    r"api[ _-]?key.{0,40}(not valid|invalid|missing|expired)|invalid.{0,20}api[ _-]?key", re.IGNORECASE
)
_BAD_FIELD = re.compile(r"\b(unsupported|unknown|unrecognized)_(parameter|value)\b")


class TryAgain(Exception):
    """A try that may succeed when repeated. `wait`: seconds that the endpoint asked for; `silent`: no answer at all."""

    def __init__(
        self, message: str, *, wait: float | None = None, silent: bool = False, throttled: bool = False
    ) -> None:
        super().__init__(message)
        self.wait = wait
        self.silent = silent
        self.throttled = throttled


async def bounded(pieces: AsyncIterable[bytes], limit: int) -> tuple[bytes, bool]:
    """The first `limit` bytes of a reply, and whether that is all of it; no more is read than shows which."""
    parts, size = [], 0
    async for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size > limit:
            return b"".join(parts)[:limit], False
    return b"".join(parts), True


def brief(text: str, key: str) -> str:
    """A server's words made fit for a message: one line, at most 200 characters, no key."""
    line = "".join(c if c.isprintable() else " " for c in without_key(text, key))  # a terminal obeys some that are not
    line = " ".join(line.split())
    return line if len(line) <= 200 else line[:199] + "…"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a response asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as a date."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", value):
            return float(value) / unit
    try:
        when = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, TypeError, OverflowError):  # a zone of more seconds than there are
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


def error_text(body: str) -> tuple[str, str]:
    """The message of an error body and its codes, in the forms of OpenAI, vLLM, Gemini (a list) and FastAPI."""
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        return body, ""
    if isinstance(found, list) and found:
        found = found[0]
    if isinstance(found, dict) and isinstance(found.get("error"), dict | str):
        found = found["error"]
    if not isinstance(found, dict):
        return (found if isinstance(found, str) else body), ""
    message = found.get("message") or found.get("detail") or body
    codes = " ".join(str(found.get(name)) for name in ("code", "type", "status") if found.get(name))
    if isinstance(field := found.get("param"), str) and field not in ("messages", "input_tokens"):
        codes += f" param={field}"  # vLLM names a wrong setting here and nowhere else
    return (message if isinstance(message, str) else json.dumps(message)), codes


def status_error(
    who: str, key_variable: str, key: str, status: int, headers: Mapping[str, str], body: str
) -> TryAgain | ModelError | UserError:
    """What follows from an answer with an error status. `who` names role, model and address."""
    message, codes = error_text(body)
    said = f"{who} answered with status {status}: {brief(message, key) or 'no text'}"
    everything = f"{codes} {message}"
    if 300 <= status < 400:
        # Not followed: the key would go along. One call fails, for the next one may reach another server of many.
        where = brief(headers.get("location", "").partition("?")[0], key) or "nowhere"
        return ModelError(
            f"{said}, a redirect to {where}; where that stays so, correct base_url in the models file",
            Outcome.REDIRECTED,
        )
    if status == 402 or "insufficient_quota" in codes:
        return UserError(f"{said}; the account has no credit left: {GO_ON} once it has.")
    if status in (408, 409, 429) or status >= 500:
        wait = retry_after(headers)
        if wait is not None and wait > _LONGEST_WAIT:
            return UserError(f"{said}; it asks to wait {wait / 60:.0f} minutes: {GO_ON} after that.")
        return TryAgain(said, wait=wait, silent=status >= 500, throttled=status == 429)
    if _FILTER.search(everything):
        return ModelError(said, Outcome.FILTERED)
    if status in (401, 403) or _BAD_KEY.search(everything):
        # The server's words stay out: they often repeat the key, or a part of it.
        named = f"the key in the environment variable {key_variable}" if key_variable else "a call without a key"
        fix = "correct it" if key_variable else "name the variable that holds one as key_variable in the models file"
        return UserError(f"{who} refused {named} (status {status}); {fix}; {GO_ON}.")
    if status not in (400, 413, 422):
        return UserError(f"{said}; correct model and base_url in the models file; {GO_ON}.")
    if _CONTEXT.search(everything):
        return ModelError(said, Outcome.CONTEXT_LENGTH)
    if _BAD_FIELD.search(codes) or "param=" in codes:
        return UserError(
            f"{said}; correct this role's limit_field, temperature, seed or extra in the models file; {GO_ON}."
        )
    return ModelError(said, Outcome.REFUSED)


class Breaker:
    """Keeps calls back from an endpoint that answers nobody, and ends them when it stays so.

    Closed, calls pass. After eight silent tries in a row (connection failed, timeout, status 5xx) it is open: calls
    wait and one at a time is let through as a probe. Any answer closes it. An endpoint silent for longer than the
    caller's patience ends the `term`: every call that entered in it gets the same `UserError`, and later calls start
    afresh (a notebook's cell may be run again once the server is back).
    """

    def __init__(self) -> None:
        self.open = False
        self.term = 0
        self._verdict = ""
        self._answered = False
        self._silent = 0
        self._since = 0.0
        self._pause = 0.0
        self._probe = asyncio.Lock()

    @asynccontextmanager
    async def passage(self, term: int) -> AsyncIterator[bool]:
        """Wait until a try may be made; the value says whether it is the probe. Raises the verdict on `term`."""
        if self.open:
            async with self._probe:
                self.check(term)
                if self.open:
                    await nap(self._pause)
                    self.check(term)
                    yield True
                    return
        self.check(term)
        yield False

    def check(self, term: int) -> None:
        """Raise the `UserError` that ended `term`, if it has ended."""
        if term < self.term:
            raise UserError(self._verdict)

    def answered(self) -> None:
        """Note that the endpoint answered somebody, whatever it said."""
        self._answered = True
        self.open = False
        self._silent = 0

    def silent(self, term: int, who: str, what: str, patience: float, *, reached: bool) -> None:
        """Note a try that nobody answered. `reached`: there was a connection, so something listens at the address."""
        if term < self.term:
            return
        now = time.monotonic()
        if not self._silent:
            self._since = now
        self._silent += 1
        allowed = patience if self._answered else min(patience, _FIRST_PATIENCE)
        if self._silent >= _SILENT_TRIES or not (reached or self._answered):
            self.open = True
            self._pause = min(5.0, max(0.05, allowed / 20))
        if self.open and now - self._since >= allowed:
            self.end(
                f"{who} has answered nobody for {now - self._since:.0f} seconds (tries: {self._silent}; last: {what}); "
                f"start the server or correct base_url; {GO_ON}."
            )

    def end(self, verdict: str) -> None:
        """Stop every call of the current term with `verdict`; queued calls are not sent to be refused one by one."""
        self.term += 1
        self._verdict = verdict
        self.open = self._answered = False
        self._silent = 0
