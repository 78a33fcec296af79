"""Read published files strictly: check every JSON value, note what is odd, compare files with the released ones.

A conversation is `Unreadable` only if something that is asked, recalled or scored is broken. Everything else that is
odd is noted as an `Anomaly`.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import beamlib.files as files
from beamlib.data.conversations import REVISION, FileState
from beamlib.errors import UserError

RELEASED_FILE = Path(__file__).with_name("released.csv")
"""SHA-256 of released JSON and text files: all question files, and the chats of all 100K conversations and some others.

The hashes of the hub's parquet files are in `beamlib.data.parquet`.
"""

_FIXES: Mapping[FileState, str] = {
    "released": "the released file itself is like this: report it",
    "changed": "it is not the released file (the SHA-256 differs): fetch the data again",
    "missing": "restore it",
    "unknown": "correct or restore it",
}
_NAMES = {str: "text", int: "a whole number", list: "a list", dict: "an object"}


@cache
def released_hashes() -> Mapping[str, str]:
    """Return the SHA-256 of each released file, by a name like `100K/7/chat.json`."""
    with RELEASED_FILE.open(encoding="utf-8", newline="") as handle:
        return {row["file"]: row["sha256"] for row in csv.DictReader(handle)}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of the data.

    Attributes:
        path: Where it is.
        name: Its name in the conversation.
        sha256: The hash of the released file; None if it is not known.
        revision: The revision that the hash belongs to.
    """

    path: Path
    name: str = ""
    sha256: str | None = None
    revision: str = REVISION

    @property
    def state(self) -> FileState:
        """Whether it is the released file, byte for byte."""
        if self.sha256 is None:
            return "unknown"
        if not self.path.is_file():
            return "missing"
        stat = self.path.stat()
        return "released" if _hash(self.path, stat.st_size, stat.st_mtime_ns) == self.sha256 else "changed"

    @property
    def fix(self) -> str:
        """What to do if the file cannot be read."""
        return _FIXES[self.state]


@cache
def _hash(path: Path, size: int, modified: int) -> str:
    """Hash a file once per process and version: a parquet file holds many conversations."""
    return files.sha256_of_file(path)


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something odd in the data that was handled. `kind` is a fixed word, `file` is relative to the data folder."""

    kind: str
    file: str
    where: str
    detail: str


class Unreadable(UserError):
    """A conversation that cannot be read. `reason` is short and names the file without its folder."""

    def __init__(self, message: str, reason: str = "") -> None:  # the default is for unpickling
        super().__init__(message)
        self.reason = reason


class Log:
    """The anomalies of one file, and the place in it that is being read.

    Attributes:
        file: Names the file in anomalies; the same on every machine.
        path: Names the file in errors.
        data_file: The file with its released hash.
        where: The place in the file, such as "batch 1, turn 2".
    """

    def __init__(self, file: str, path: str, data_file: DataFile | None = None) -> None:
        self.file, self.path = file, path
        self.data_file = data_file or DataFile(Path(path))
        self.where = ""
        self.anomalies: list[Anomaly] = []

    def at(self, where: str) -> Log:
        """Return a log of the same file for another place in it."""
        log = Log(self.file, self.path, self.data_file)
        log.where, log.anomalies = where, self.anomalies
        return log

    def note(self, kind: str, detail: str) -> None:
        """Record something odd that has been handled."""
        self.anomalies.append(Anomaly(kind, self.file, self.where, detail))

    def fail(self, problem: str) -> NoReturn:
        """Raise `Unreadable` for a problem at this place."""
        sentence = f"{self.where}: {problem}" if self.where else problem
        raise Unreadable(
            f"{self.path}: {sentence}; {self.data_file.fix}, or leave the conversation out with --skip-broken.",
            f"{self.data_file.name}: {sentence}" if self.data_file.name else sentence,
        )


def show(value: Any) -> str:
    """Represent a value briefly enough for a sentence."""
    try:
        text = repr(value)
    except RecursionError:
        return f"a deeply nested {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def is_a(value: Any, kind: type) -> bool:
    """Tell whether a value has exactly this type: `True` is not a number."""
    return type(value) is kind


def is_writable(value: Any) -> bool:
    """Tell whether a value can be written as UTF-8 JSON."""
    try:
        files.to_json(value).encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def expect(value: Any, kind: type, what: str, log: Log) -> Any:
    """Return `value` if it has exactly this type; `what` says what was expected."""
    if not is_a(value, kind):
        log.fail(f"expected {what}, not {show(value)}")
    return value


def need(value: Mapping[str, Any], key: str, kind: type, log: Log) -> Any:
    """Return the field `key`, which must be present and of exactly this type."""
    if key not in value:
        log.fail(f"the field `{key}` is missing")
    if not is_a(value[key], kind):
        log.fail(f"`{key}` must be {_NAMES[kind]}, not {show(value[key])}")
    return value[key]


def need_text(value: Mapping[str, Any], key: str, log: Log) -> str:
    """Return the field `key`: text that is not blank and can be written as UTF-8."""
    text = need(value, key, str, log)
    if not text.strip():
        log.fail(f"`{key}` is empty")
    return check_data_text(text, key, log)


_MOST_CHARACTERS = 4_000_000
"""What a text may have: about a million tokens, more than any model reads in one message."""


def check_data_text(text: str, key: str, log: Log) -> str:
    """Refuse lone surrogates, which no file or model call can carry, and absurd lengths; note null characters."""
    if len(text) > _MOST_CHARACTERS:
        log.fail(f"`{key}` has {len(text):,} characters, more than the {_MOST_CHARACTERS:,} that are read; shorten it")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        log.fail(f"`{key}` holds half a character at position {error.start}")
    if "\x00" in text:
        log.note("null_character", f"`{key}` holds {text.count(chr(0))} null character(s); kept")
    return text


def parse_data_json(text: str, log: Log) -> Any:
    """Parse a JSON text by `beamlib.files.parse_json`; raise `Unreadable` if that refuses it."""
    if text.startswith("\ufeff"):
        log.note("byte_order_mark", "the file begins with a byte order mark; skipped")
        text = text[1:]
    if not text.strip():
        log.fail("the file is empty")
    try:
        return files.parse_json(text)
    except ValueError as error:
        log.fail(str(error))


def read_json_file(path: Path, log: Log) -> Any:
    """Parse a JSON file; raise `Unreadable` if it is missing, no UTF-8 text or no JSON."""
    return parse_data_json(read_data_text(path, log), log)


def read_data_text(path: Path, log: Log) -> str:
    """Read a text file of the data; raise `Unreadable` if that fails."""
    try:
        return files.read_text(path)
    except UserError as error:
        log.fail(str(error).removeprefix(f"{path}: ").partition(";")[0].rstrip("."))
