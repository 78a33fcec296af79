"""Reading published JSON with nothing taken on trust: what is wrong is a `UserError`, what is odd is an `Anomaly`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from beamlib import files
from beamlib.errors import UserError

REFETCH = "fetch the data again"
_NAMES = {str: "text", int: "a whole number", list: "a list", dict: "an object"}


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something odd in the data that was handled. `kind` is a fixed word, `file` is relative to the data folder."""

    kind: str
    file: str
    where: str
    detail: str


class Log:
    """Collects the anomalies of one file."""

    def __init__(self, file: str, path: str) -> None:
        """`file` names the file in anomalies (the same on every machine), `path` in errors."""
        self.file, self.path = file, path
        self.anomalies: list[Anomaly] = []

    def note(self, kind: str, where: str, detail: str) -> None:
        """Record an oddity that has been handled."""
        self.anomalies.append(Anomaly(kind, self.file, where, detail))

    def fail(self, where: str, problem: str, fix: str = REFETCH) -> NoReturn:
        """Raise the `UserError` that says what is wrong at `where`."""
        raise UserError(f"{self.path}: {where}: {problem}; {fix}." if where else f"{self.path}: {problem}; {fix}.")


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
    """The value of a JSON text, by `beamlib.files.parse_json`: what that refuses is a `UserError`."""
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
    """`parse_json` of a file's text; a missing or undecodable file is a `UserError`."""
    return parse_json(files.read_text(path), log)
