"""Classify failed calls.

A failure has one of three consequences: the call is retried (`RetryableError`), this call has no answer (`ModelError`
with an outcome), or no call can succeed (`UserError`: the run stops, stored replies stay, the same command continues).
The status and the structure of an answer decide which. Its words choose the sentence that a user reads, and tell what
one request alone was refused for: its length, its content, or a field that can be left out.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from beamlib.errors import UserError
from beamlib.llm.keys import is_secret, without_key
from beamlib.llm.model import ModelError, Outcome, Usage

CONTINUE = "replies that arrived are stored, and the same command goes on from there"

_LONGEST_WAIT = 600.0
"""Seconds to wait on request. Beyond, the user decides (daily quotas ask for hours)."""
_POINT_IN_TIME = 1e9
"""A larger number of seconds to wait is a point in time since 1970; from a thousand times as much, in milliseconds."""
_BUSY = frozenset({408, 409, 420, 423, 424, 425, 429, 449, 498, 499})
"""Statuses 4xx of a server that is loading, full or too slow, and may answer later."""
_REFUSED = frozenset({400, 403, 413, 422, 451})
"""Statuses of a refusal that may concern one request alone."""
_START = 1_000
"""Characters of a message that are the server's own words."""
_KEPT = 4
"""Characters of a key's beginning or end that a masked key in a server's text still shows."""

_CONTEXT = re.compile(
    r"context[ _-]?(length|size|window)|maximum model length|(maximum|total) number of (input )?tokens"
    r"|(prompt|input) is too long|`?inputs`? tokens|longer than the (model|maximum)|too many tokens",
    re.IGNORECASE,
)
_FILTER = re.compile(
    r"content[ _-]?filter|content[ _-](management[ _-])?policy|flagged as potentially violating|moderation",
    re.IGNORECASE,
)
_SYSTEM = re.compile(
    r"system['\"` ]*(role|message|prompt|instruction)s?\b.{0,40}\b(not|n't|unsupported)\b"
    r"|(not|n't) support.{0,30}\bsystem\b|roles must alternate"
    r"|only user.{0,20}assistant.{0,20}roles|developer instruction is not enabled",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\b(not|n't|unsupported|unknown|unrecognized|unexpected|extra|invalid|must|only|cannot|forbidden|deprecated|between"
    r"|should|out of range|less than|greater than|at (most|least))\b",
    re.IGNORECASE,
)
_LOCATION = re.compile(r"\"loc\": *\[([^\]]*)\]")
_FIXED_FIELDS = frozenset({"model", "messages", "input", "stream"})
_TOO_LARGE = re.compile(r"request too large", re.IGNORECASE)
_UNIT = r"(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?|months?)(?![a-z])"
_WAIT = re.compile(
    r"(?:try again|retry|wait|available|resets?|renewed)(?: again)?(?: in| after| for| at least)* "
    rf"((?:\d[\d.]*\s*{_UNIT}(?:,? and|,)?\s*)+)",
    re.IGNORECASE,
)
_RESET = re.compile(r"ratelimit.*reset", re.IGNORECASE)
"""Names of headers that say when a rate limit is reset."""
_WAIT_FIELD = re.compile(r"retry_?(?:delay|after|in)(_?ms)?(_?seconds?|_?s)?", re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,19}(\.\d{1,9})?", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0, "month": 2_592_000.0}
_TEXT_FIELDS = ("message", "detail", "status_msg", "error_message", "error_msg", "msg", "error", "reason", "title")


@dataclass(eq=False)
class RetryableError(Exception):
    """A try that may succeed when repeated.

    Args:
        wait: Seconds that the endpoint asked for.
        silent: The server did not work: no response, or a status 5xx.
        reached: There was a connection, so the address is a server's.
        throttled: The endpoint limits the rate of calls.
        timed_out: The response took too long.
        structural: The response came with status 200 and is no completion.
        loading: The server says that it is not ready yet (status 503), as while it loads a model.
        cure: What may help, for messages.
        usage: What the try cost all the same.
    """

    message: str
    wait: float | None = None
    silent: bool = False
    reached: bool = True
    throttled: bool = False
    timed_out: bool = False
    structural: bool = False
    loading: bool = False
    cure: str = ""
    usage: Usage = field(default_factory=Usage)

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


def excerpt(text: str, key: str) -> str:
    """Shorten a server's text for a message: one line, at most 200 characters, no key, no control characters.

    Nor a masked key: some servers repeat its first or last characters.
    """
    printable = "".join(c if c.isprintable() else " " for c in without_key(text, key)[:5_000])
    if is_secret(key):
        parts = "|".join(map(re.escape, (key[:_KEPT], key[-_KEPT:])))
        printable = re.sub(rf"[^\s\"'`]*(?:{parts})[^\s\"'`]*", _mask, printable)
    line = " ".join(printable.split())
    return line if len(line) <= 200 else line[:199] + "…"


def _mask(word: re.Match[str]) -> str:
    return "[key]" if len(word[0]) > _KEPT + 2 and not word[0].isalpha() else word[0]


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read the seconds to wait: `retry-after-ms`, or `Retry-After` in seconds, as a date or as a point in time."""
    waits = (
        _header_wait(headers.get(name, ""), unit) for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0))
    )
    return next((wait for wait in waits if wait is not None), None)


def reset_wait(headers: Mapping[str, str]) -> float | None:
    """Read the seconds until the rate limits that are used up are reset, of headers such as `x-ratelimit-reset-tokens`.

    If something remains of every limit, what remains is too little: the first reset may help. One that is hours away
    says nothing then.
    """
    resets = {name.lower(): _header_wait(value) for name, value in headers.items() if _RESET.search(name)}
    waits = {name: wait for name, wait in resets.items() if wait is not None}
    remaining = {name: headers.get(name.replace("reset", "remaining"), "0").strip() for name in waits}
    used_up = [
        wait for name, wait in waits.items() if not _NUMBER.fullmatch(remaining[name]) or not float(remaining[name])
    ]
    return max(used_up, default=min((wait for wait in waits.values() if wait <= _LONGEST_WAIT), default=None))


def _header_wait(text: str, unit: float = 1.0) -> float | None:
    """Read a header as seconds: a number, a duration, a date or a point in time; None if it is none of these."""
    value = text.strip()
    if _NUMBER.fullmatch(value):
        return _seconds_until(float(value)) if float(value) > _POINT_IN_TIME else float(value) / unit
    if re.fullmatch(rf"(\d[\d.]*\s*{_UNIT}\s*)+", value.lower()):
        return next(iter(_duration(value)), None)
    return next(iter(_until_date(value)), None)


def _until_date(text: str) -> list[float]:
    """Return the seconds until a date with its time, as mail or ISO 8601 writes it; an empty list if it is none."""
    for read in (parsedate_to_datetime, datetime.fromisoformat) if ":" in text else ():
        with suppress(ValueError, TypeError, OverflowError):  # a time zone of more seconds than there are
            date = read(text.strip())
            date = date if date.tzinfo else date.replace(tzinfo=UTC)
            return [max(0.0, (date - datetime.now(UTC)).total_seconds())]
    return []


def _seconds_until(moment: float) -> float:
    """Return the seconds until a point in time, which is given in seconds, or in finer units if it is that large."""
    while moment > 1_000 * _POINT_IN_TIME / 10:
        moment /= 1_000
    return max(0.0, moment - time.time())


def stated_wait(body: str) -> float | None:
    """Read the seconds to wait from an error's body: a field such as `retryDelay`, or "try again in 7h12m0s".

    Only the start of a message is read: it may repeat a prompt, in which somebody waits three weeks.
    """
    try:
        stated = [(name, value) for name, value in named_values(json.loads(body)) if _WAIT_FIELD.fullmatch(name)]
    except (ValueError, RecursionError):
        stated = []
    waits = []
    for name, value in stated:
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            value = float(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            unit = 0.001 if name.lower().endswith("ms") else 1.0
            waits.append(_seconds_until(value) if value > _POINT_IN_TIME else value * unit)
        elif isinstance(value, str):
            waits += _until_date(value) or _duration(value)
    for match in _WAIT.finditer(error_text(body)[0][:_START]):
        waits += _duration(match[1])
    return max(waits, default=None)


def _duration(text: str) -> list[float]:
    """Read "7h12m0s" or "1 hour and 5 minutes" as seconds; an empty list if it is no duration."""
    parts = re.findall(rf"(\d+(?:\.\d+)?)\s*({_UNIT})", text.lower())
    seconds = [float(number) * _seconds_of(unit) for number, unit in parts if len(number) < 13]
    return [sum(seconds)] if seconds else []


def _seconds_of(unit: str) -> float:
    return _UNITS.get(unit) or _UNITS["ms" if unit.startswith("mil") else "month" if unit.startswith("mo") else unit[0]]


def named_values(value: object) -> Iterator[tuple[str, object]]:
    """Yield name and value of all fields of a JSON value."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield str(name), item
            yield from named_values(item)
    elif isinstance(value, list):
        for item in value:
            yield from named_values(item)


def error_text(body: str) -> tuple[str, str]:
    """Read message and codes of an error body, as OpenAI, vLLM, Gemini (a list), TGI, FastAPI and others write it."""
    try:
        error: Any = json.loads(body)
    except (ValueError, RecursionError):
        return body, ""
    if isinstance(error, list) and error:
        error = error[0]
    if isinstance(error, dict) and isinstance(error.get("error"), dict | str) and error["error"]:
        error = error["error"]
    if not isinstance(error, dict):
        return (error if isinstance(error, str) else body), ""
    message = error.get("message") or error.get("detail")
    if not message:
        try:
            texts = [(name, text) for name, text in named_values(error) if name in _TEXT_FIELDS and text]
        except RecursionError:
            texts = []
        message = next((text for field in _TEXT_FIELDS for name, text in texts if name == field), body)
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


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asked: `name` (role, model and address), the key and its variable, and whether any request was answered."""

    name: str
    key_variable: str = ""
    key: str = ""
    answered: bool = False


def status_error(
    asker: Asker, status: int, headers: Mapping[str, str], body: str, sent: Collection[str] = ()
) -> RetryableError | ModelError | UserError | RefusedField:
    """Classify an answer with an error status.

    Args:
        sent: The fields of the request, and `system` if it has a system message.
    """
    message, codes = error_text(body)
    text = f"{asker.name} answered with status {status}: {excerpt(message, asker.key) or 'no text'}"
    searched = f"{codes} {message}"
    if 300 <= status < 400:
        target = excerpt(headers.get("location", "").partition("?")[0], asker.key) or "nowhere"
        return ModelError(f"{text}, a redirect to {target}", Outcome.REDIRECTED)
    wait = retry_after(headers)
    wait = stated_wait(body) if wait is None else wait
    wait = reset_wait(headers) if wait is None and status == HTTPStatus.TOO_MANY_REQUESTS else wait
    if status not in _REFUSED and wait is not None and wait > _LONGEST_WAIT:
        return UserError(
            f"{text}; it asks to wait {_in_words(wait)}: run the same command again after that; {CONTINUE}."
        )
    if status in (401, 402, 405, 410) or (status == 404 and not asker.answered):
        return UserError(f"{text}; {advice(searched, status, asker)}; {CONTINUE}.")
    if status in (413, 429) and _TOO_LARGE.search(searched):
        return ModelError(f"{text}; no wait makes the account's limit larger", Outcome.CONTEXT_LENGTH)
    if status == 413 or ((status in _REFUSED or status >= 500) and _CONTEXT.search(searched)):  # llama.cpp sends 500
        return ModelError(text, Outcome.CONTEXT_LENGTH)
    if "system" in sent and status in (400, 422, 500) and _SYSTEM.search(message):
        return RefusedField(text, ("system",))
    if status in _REFUSED and _FILTER.search(searched):
        return ModelError(text, Outcome.FILTERED)
    if status in (400, 422) and (fields := refused_fields(message, codes, sent)):
        return RefusedField(text, fields)
    if status in _REFUSED or not (asker.answered or status in _BUSY or status >= 500):
        return ModelError(text, Outcome.REFUSED)
    return RetryableError(text, wait=wait, silent=status >= 500, throttled=status < 500, loading=status == 503)


def _in_words(seconds: float) -> str:
    if seconds < 5_400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3_600:.0f} hours" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


_WHAT_IT_MAY_BE = (
    (
        r"credit|balance|billing|insufficient|quota|recharge|pre-?pa(id|y)|payment|\bfunds?\b|top.?up|arrears|spend|paid"
        r"|per.?day|daily|monthly|per.?month|usage limit",
        "the account may have no credit or quota left: buy credit, or wait until the quota is renewed",
    ),
    (
        r"country|region|territory|location|\bbanned\b|block(ed|list)|firewall|cloudflare|\b10(06|09|10|15|20)\b|captcha",
        "the server may serve neither this place nor this client: ask from another network, or have its firewall let "
        "you through",
    ),
    (
        r"(access|permi|allowed|entitled|subscri|tier|verif).{0,60}\bmodel|\bmodel.{0,60}(access|permi|tier|verif)",
        "the account may have no access to this model: ask its provider for access, or name another model",
    ),
    (
        r"api.?key|authent|authoriz|credential|\bkey\b|bearer|\btoken (is|has|was|not|expired)|access token",
        "{key}",
    ),
    (
        r"\bstream|^data:|event-stream",
        "it may answer only as a stream, which is not read: choose another model, or put a proxy that collects "
        "streams, such as LiteLLM, in front of it",
    ),
    (
        r"redirect to https:",
        "it may be served over TLS only: write https:// in base_url, or the address that it names",
    ),
    (
        r"without text|empty|contains no text",
        "a reasoning parser may take the whole reply for thoughts: switch it off (vLLM: --reasoning-parser), or switch "
        "thinking off by extra: {{chat_template_kwargs: {{enable_thinking: false}}}}",
    ),
    (
        r"<!doctype|<html|web page|redirect|endpoint|method|no route|\bpath\b|\burl\b|/v1|not found|unknown model"
        r"|does not exist|status 40[45]|not JSON",
        "base_url may be another address than the API's (most end with /v1), or the model may have another name: "
        "correct base_url or model",
    ),
)


def advice(text: str, status: int, asker: Asker) -> str:
    """Say what a server's words may mean and the two likeliest cures. The words choose this sentence, nothing else."""
    variable = asker.key_variable
    key = (
        f"the key in the environment variable {variable} may be wrong, or not be allowed to do this: correct it, or "
        "have it allowed at its provider"
        if variable
        else "a call without a key is refused: name the variable that contains one as key_variable in the models file, "
        "or correct base_url"
    )
    if status in (401, 402):
        return key if status == 401 else _WHAT_IT_MAY_BE[0][1]
    for pattern, sentence in _WHAT_IT_MAY_BE:
        if re.search(pattern, text, re.IGNORECASE):
            return sentence.format(key=key)
    if status == 403:
        return key
    if status in (404, 405, 410):
        return _WHAT_IT_MAY_BE[-1][1]
    if status in (400, 422):
        return (
            "a field of the request may be refused: correct this role's limit_field, tool_calls or extra in the models "
            "file, or leave optional fields out, for example omit: [seed], or omit: [system] for the system message"
        )
    return "the server may be down or overloaded: start it or wait, or correct base_url and model in the models file"


def field_error(text: str) -> UserError:
    """Build the error for a refusal of a field that cannot be left out by itself."""
    return UserError(f"{text}; {advice('', 400, Asker(''))}; {CONTINUE}.")
