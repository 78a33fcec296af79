"""Reading published JSON with nothing taken on trust.

Only what is asked, recalled or scored can make a conversation `Unreadable`; what is odd elsewhere is an `Anomaly`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from beamlib import files
from beamlib.data.checksums import DataFile
from beamlib.errors import UserError

_NAMES = {str: "text", int: "a whole number", list: "a list", dict: "an object"}


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something odd in the data that was handled. `kind` is a fixed word, `file` is relative to the data folder."""

    kind: str
    file: str
    where: str
    detail: str


class Unreadable(UserError):
    """A conversation that cannot be read. `reason` says why in a few words: the file in its folder, no path."""

    def __init__(self, message: str, reason: str = "") -> None:  # the default: unpickling gives the message alone
        super().__init__(message)
        self.reason = reason


def left_out_line(left_out: Mapping[str, str]) -> str:
    """What footers say of what `loading.readable` left out: "1 conversation left out: 100K-7 (why)."."""
    named = ", ".join(f"{key} ({left_out[key]})" for key in sorted(left_out, key=lambda key: (len(key), key)))
    return f"{len(left_out)} conversation{'s' if len(left_out) > 1 else ''} left out: {named}."


class Log:
    """Collects the anomalies of one file."""

    def __init__(self, file: str, path: str, held: DataFile | None = None) -> None:
        """`file` names the file in anomalies (the same on every machine), `path` in errors; `held` has the content."""
        self.file, self.path = file, path
        self.held = held or DataFile(Path(path))
        self.anomalies: list[Anomaly] = []

    def note(self, kind: str, where: str, detail: str) -> None:
        """Record an oddity that has been handled."""
        self.anomalies.append(Anomaly(kind, self.file, where, detail))

    def fail(self, where: str, problem: str) -> NoReturn:
        """Raise the `Unreadable` that says what is wrong at `where`."""
        said = f"{where}: {problem}" if where else problem
        raise Unreadable(
            f"{self.path}: {said}; {self.held.fix}, or leave the conversation out with --skip-broken.",
            f"{self.held.name}: {said}" if self.held.name else said,
        )


def show(value: Any) -> str:
    """A value short enough for a sentence."""
    try:
        text = repr(value)
    except RecursionError:
        return f"a deeply nested {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def is_a(value: Any, kind: type) -> bool:
    """Exact type: `True` is no number here, although Python says it is."""
    return type(value) is kind


def is_writable(value: Any) -> bool:
    """No half character, no Python literal that is no JSON value, no number beyond JSON, no bottomless nesting."""
    try:
        files.to_json(value).encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def need(value: Mapping[str, Any], key: str, kind: type, log: Log, where: str) -> Any:
    """The field `key`, which must be there and of exactly this type."""
    if key not in value:
        log.fail(where, f"the field `{key}` is missing")
    if not is_a(value[key], kind):
        log.fail(where, f"`{key}` must be {_NAMES[kind]}, not {show(value[key])}")
    return value[key]


def need_text(value: Mapping[str, Any], key: str, log: Log, where: str) -> str:
    """The field `key`: text that is not blank and can be written as UTF-8."""
    text = need(value, key, str, log, where)
    if not text.strip():
        log.fail(where, f"`{key}` is empty")
    return check_text(text, key, log, where)


def check_text(text: str, key: str, log: Log, where: str) -> str:
    """Refuse half characters (lone surrogates), which no file or model call could carry; note null bytes."""
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            log.fail(where, f"`{key}` holds half a character at position {error.start}")
    if "\x00" in text:
        log.note("null_character", where, f"`{key}` holds {text.count(chr(0))} null character(s); kept")
    return text


def parse_json(text: str, log: Log) -> Any:
    """The value of a JSON text, by `beamlib.files.parse_json`: what that refuses is `Unreadable`."""
    if text.startswith("\ufeff"):
        log.note("byte_order_mark", "", "the file begins with a byte order mark; skipped")
        text = text[1:]
    if not text.strip():
        log.fail("", "the file is empty")
    try:
        return files.parse_json(text)
    except ValueError as error:
        log.fail("", str(error))


def read_json_file(path: Path, log: Log) -> Any:
    """`parse_json` of a file's text; a missing or undecodable file is `Unreadable`."""
    return parse_json(read_text(path, log), log)


def read_text(path: Path, log: Log) -> str:
    """The text of a file of the data."""
    try:
        return files.read_text(path)
    except UserError as error:
        log.fail("", str(error).removeprefix(f"{path}: ").partition(";")[0].rstrip("."))
