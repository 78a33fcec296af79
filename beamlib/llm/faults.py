"""Classify failed calls, and stop calling an endpoint that does not answer.

A failure has one of three consequences: the call is retried (`RetryableError`), this call has no answer (`ModelError`
with an outcome), or no call can succeed (`UserError`: the run stops, stored replies stay, the same command continues).
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from beamlib.errors import UserError
from beamlib.llm.keys import without_key
from beamlib.llm.model import ModelError, Outcome

CONTINUE = "replies that arrived are stored, and the same command continues from there"

_SILENT_TRIES = 8
"""Tries in a row without an answer before the breaker opens. If one try in five fails, the chance is 3 in 10^6."""
_WEB_PAGES = 8
"""HTML replies in a row that end the run: `base_url` is the address of a website, not of an API."""
_FIRST_PATIENCE = 5.0
"""Seconds for an endpoint that has never answered: probably a wrong address, or the server is not running."""
_LONGEST_WAIT = 600.0
"""Seconds to wait on request. Beyond, the user decides (daily quotas ask for hours)."""

_CONTEXT = re.compile(
    r"context[ _-]?(length|size|window)|maximum model length|(maximum|total) number of (input )?tokens"
    r"|(prompt|input) is too long|`?inputs`? tokens|longer than the (model|maximum)|too many tokens",
    re.IGNORECASE,
)
_FILTER = re.compile(
    r"content[ _-]?filter|content[ _-](management[ _-])?policy|flagged as potentially violating|moderation",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(
    r"api[ _-]?key.{0,40}(not valid|invalid|missing|expired)|invalid.{0,20}api[ _-]?key", re.IGNORECASE
)
_SYSTEM = re.compile(
    r"system['\"` ]*(role|message|prompt|instruction)s?\b.{0,40}\b(not|n't|unsupported)\b"
    r"|(not|n't) support.{0,30}\bsystem\b|roles must alternate"
    r"|only user.{0,20}assistant.{0,20}roles|developer instruction is not enabled",
    re.IGNORECASE,
)
_STREAM = re.compile(
    r"(only|must|requires?|please)\b.{0,40}\bstream|\bstream(ing)?\b.{0,40}\b(only|required|must|true)\b", re.IGNORECASE
)
_REFUSAL = re.compile(
    r"\b(not|n't|unsupported|unknown|unrecognized|unexpected|extra|invalid|must|only|cannot|forbidden|deprecated|between"
    r"|should|out of range|less than|greater than|at (most|least))\b",
    re.IGNORECASE,
)
_LOCATION = re.compile(r"\"loc\": *\[([^\]]*)\]")
_FIXED_FIELDS = frozenset({"model", "messages", "input", "stream"})
_TOO_LARGE = re.compile(r"request too large", re.IGNORECASE)
_WAIT = re.compile(r"(?:try again|retry) (?:in|after) ((?:\d[\d.]*\s*[a-z]+\s*)+)", re.IGNORECASE)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_PER_DAY = re.compile(r"per[ -]day", re.IGNORECASE)


@dataclass(eq=False)
class RetryableError(Exception):
    """A try that may succeed when repeated.

    Args:
        wait: Seconds that the endpoint asked for.
        silent: There was no answer at all.
        throttled: The endpoint limits the rate of calls.
        web_page: The answer was HTML.
    """

    message: str
    wait: float | None = None
    silent: bool = False
    throttled: bool = False
    web_page: bool = False

    def __str__(self) -> str:
        return self.message


class RefusedField(Exception):
    """A refusal that names `fields` of the request; `system` stands for the system message.

    Args:
        text: The refusal, for messages.
    """

    def __init__(self, text: str, fields: tuple[str, ...]) -> None:
        super().__init__(text)
        self.fields = fields


async def read_at_most(chunks: AsyncIterable[bytes], limit: int) -> tuple[bytes, bool]:
    """Read the first `limit` bytes of a reply; also tell whether that was all of it."""
    parts, size = [], 0
    async for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > limit:
            return b"".join(parts)[:limit], False
    return b"".join(parts), True


def excerpt(text: str, key: str) -> str:
    """Shorten a server's text for a message: one line, at most 200 characters, no key, no control characters."""
    printable = "".join(c if c.isprintable() else " " for c in without_key(text, key))
    line = " ".join(printable.split())
    return line if len(line) <= 200 else line[:199] + "…"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read the seconds to wait: `retry-after-ms`, or `Retry-After` in seconds or as a date."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", value):
            return float(value) / unit
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, TypeError, OverflowError):  # a time zone of more seconds than there are
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


def stated_wait(message: str) -> float | None:
    """Read the seconds to wait from an error's text, for example `Please try again in 7h12m0s`."""
    match = _WAIT.search(message)
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+)", match[1].lower()) if match else []
    known = [(number, unit if unit in _UNITS else unit[:1]) for number, unit in parts]
    seconds = [float(number) * _UNITS[unit] for number, unit in known if unit in _UNITS and len(number) < 13]
    return sum(seconds) if seconds else None


def error_text(body: str) -> tuple[str, str]:
    """Read message and codes of an error body as OpenAI, vLLM, Gemini (a list), TGI and FastAPI write it."""
    try:
        error: Any = json.loads(body)
    except (ValueError, RecursionError):
        return body, ""
    if isinstance(error, list) and error:
        error = error[0]
    if isinstance(error, dict) and isinstance(error.get("error"), dict | str):
        error = error["error"]
    if not isinstance(error, dict):
        return (error if isinstance(error, str) else body), ""
    message = error.get("message") or error.get("detail") or body
    codes = " ".join(str(error.get(name)) for name in ("code", "type", "status") if error.get(name))
    if isinstance(field := error.get("param"), str) and field not in ("messages", "input_tokens"):
        codes += f" param={field}"  # vLLM names a wrong setting here and nowhere else
    return (message if isinstance(message, str) else json.dumps(message)), codes


def refused_fields(message: str, codes: str, sent: Collection[str]) -> tuple[str, ...]:
    """Return which of the fields `sent` a refusal names: in `param`, as a location of FastAPI, or in its words.

    Single common words count only in quotes, and only the start of a message is read: it may repeat a prompt.
    """
    parameter = re.search(r"param=(\S+)", codes)
    named = parameter[1].split(".") if parameter else re.findall(r"\w+", " ".join(_LOCATION.findall(message)))
    start = message[:400]
    if not named and _REFUSAL.search(f"{codes.replace('_', ' ')} {start}"):
        quoted = re.findall(r"(?<=['\"`])\w+(?=['\"`])", start)
        named = [name for name in quoted if name in sent] or re.findall(r"\b(?:\w+_\w+|seed|temperature)\b", start)
    return tuple(name for name in sent if name in named and name not in _FIXED_FIELDS)


def status_error(
    who: str,
    key_variable: str,
    key: str,
    status: int,
    headers: Mapping[str, str],
    body: str,
    sent: Collection[str] = (),
    *,
    forwarded: bool = False,
) -> RetryableError | ModelError | UserError | RefusedField:
    """Classify an answer with an error status.

    Args:
        who: Names role, model and address.
        sent: The fields of the request, and `system` if it has a system message.
        forwarded: Whether another program wrote the request; a refusal of it then concerns this call alone.
    """
    message, codes = error_text(body)
    text = f"{who} answered with status {status}: {excerpt(message, key) or 'no text'}"
    searched = f"{codes} {message}"
    if 300 <= status < 400:
        # One call fails: the next may reach another of several servers.
        target = excerpt(headers.get("location", "").partition("?")[0], key) or "nowhere"
        return ModelError(
            f"{text}, a redirect to {target}; if this repeats, correct base_url in the models file",
            Outcome.REDIRECTED,
        )
    if status == 402 or "insufficient_quota" in codes:
        return UserError(f"{text}; the account has no credit left, buy some; {CONTINUE}.")
    if status in (413, 429) and _TOO_LARGE.search(searched):
        return ModelError(f"{text}; no wait makes the account's limit larger", Outcome.CONTEXT_LENGTH)
    if status >= 500 and _CONTEXT.search(searched):  # llama.cpp
        return ModelError(text, Outcome.CONTEXT_LENGTH)
    if "system" in sent and status in (400, 422, 500) and _SYSTEM.search(message):  # llama.cpp answers with 500
        return RefusedField(text, ("system",))
    if status in (408, 409, 429) or status >= 500:
        return _retry_or_end(text, status, headers, message)
    if _FILTER.search(searched):
        return ModelError(text, Outcome.FILTERED)
    if status in (401, 403) or _BAD_KEY.search(searched):
        # Without the server's text, which often repeats the key or a part of it.
        call = f"the key in the environment variable {key_variable}" if key_variable else "a call without a key"
        fix = "correct it" if key_variable else "name the variable that contains one as key_variable in the models file"
        return UserError(f"{who} refused {call} (status {status}); {fix}; {CONTINUE}.")
    if status not in (400, 413, 422):
        return UserError(f"{text}; correct model and base_url in the models file; {CONTINUE}.")
    if _CONTEXT.search(searched):
        return ModelError(text, Outcome.CONTEXT_LENGTH)
    if "stream" not in sent and _STREAM.search(message):
        return UserError(
            f"{text}; it answers only as a stream, which is not read: choose another model, or put a proxy that "
            f"collects streams, such as LiteLLM, in front of it and give its address as base_url; {CONTINUE}."
        )
    if fields := refused_fields(message, codes, sent):
        return RefusedField(text, fields)
    named = re.search(r"param=|\b(unsupported|unknown|unrecognized)_(parameter|value)\b", codes)
    if named and not forwarded:
        return field_error(text)
    return ModelError(text, Outcome.REFUSED)


def _retry_or_end(text: str, status: int, headers: Mapping[str, str], message: str) -> RetryableError | UserError:
    """Retry after the wait that is asked for, or end the run where it is long."""
    wait = retry_after(headers)
    wait = stated_wait(message) if wait is None else wait
    daily = status == 429 and wait is None and _PER_DAY.search(message)
    if daily or (wait is not None and wait > _LONGEST_WAIT):
        asked = "a daily limit is reached" if wait is None else f"it asks to wait {wait / 60:.0f} minutes"
        return UserError(f"{text}; {asked}: run the same command again after that; {CONTINUE}.")
    return RetryableError(text, wait=wait, silent=status >= 500, throttled=status == 429)


def field_error(text: str) -> UserError:
    """Build the error for a refusal of a field that cannot be left out by itself."""
    return UserError(
        f"{text}; correct this role's limit_field, tool_calls or extra in the models file, or name optional fields "
        f"that the endpoint does not take under omit, for example omit: [seed]; {CONTINUE}."
    )


class Breaker:
    """Circuit breaker: suspends calls to an endpoint that does not answer, and ends them if that lasts.

    Closed, calls pass. Eight silent tries in a row (no connection, timeout, status 5xx) open it: calls wait, and one
    at a time probes. Any answer closes it. Silence for longer than the caller's patience ends the `term`: every call
    that entered in it raises the same `UserError`. Later calls start afresh, as when a notebook's cell runs again.
    """

    def __init__(self) -> None:
        self.open = False
        self.term = 0
        self.pause = 0.0
        self.probing = asyncio.Lock()
        self.verdict = ""
        self._answered = False
        self._silent = 0
        self._since = 0.0
        self._web_pages = 0

    def check(self, term: int) -> None:
        """Raise the `UserError` that ended `term`, if it has ended."""
        if term < self.term:
            raise UserError(self.verdict)

    def record_answer(self) -> None:
        """Note an answer of any kind."""
        self._answered = True
        self.open = False
        self._silent = 0
        self._web_pages = 0

    def record_web_page(self, who: str, message: str) -> None:
        """Note an HTML answer; several in a row end the term."""
        pages = self._web_pages + 1
        self.record_answer()
        self._web_pages = pages
        if pages >= _WEB_PAGES:
            self.end_term(f"{who} answers with web pages ({message}); correct base_url in the models file; {CONTINUE}.")

    def record_silence(self, term: int, who: str, message: str, patience: float, *, reached: bool) -> None:
        """Note a try without an answer. `reached`: there was a connection, so the address is a server's."""
        if term < self.term:
            return
        now = time.monotonic()
        if not self._silent:
            self._since = now
        self._silent += 1
        limit = patience if self._answered else min(patience, _FIRST_PATIENCE)
        if self._silent >= _SILENT_TRIES or not (reached or self._answered):
            self.open = True
            self.pause = min(5.0, max(0.05, limit / 20))
        if self.open and now - self._since >= limit:
            self.end_term(
                f"{who} has not answered for {now - self._since:.0f} seconds (tries: {self._silent}; last: {message}); "
                f"start the server or correct base_url; {CONTINUE}."
            )

    def end_term(self, verdict: str) -> None:
        """End every call of the current term with `verdict`, queued ones included."""
        self.term += 1
        self.verdict = verdict
        self.open = self._answered = False
        self._silent = self._web_pages = 0
