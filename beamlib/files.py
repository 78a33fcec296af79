"""Reading and writing files so that nothing is ever half-written or silently misread."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from beamlib.errors import UserError


def write_bytes(path: Path, data: bytes) -> Path:
    """Write `data` to `path` in one step: readers see the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        Path(temporary).chmod(0o644)  # mkstemp makes private files; results are meant to be shared
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def write_text(path: Path, text: str) -> Path:
    """Write `text` as UTF-8, atomically."""
    return write_bytes(path, text.encode("utf-8"))


def to_json(value: Any, *, indent: int | None = None) -> str:
    """JSON with sorted keys, so that equal values give equal bytes. NaN is refused: it is not JSON."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=indent, allow_nan=False)


def write_json(path: Path, value: Any) -> Path:
    """Write `value` as indented JSON, atomically."""
    return write_text(path, to_json(value, indent=2) + "\n")


def write_jsonl(path: Path, rows: Iterable[Any]) -> Path:
    """Write one JSON value per line, atomically."""
    return write_text(path, "".join(to_json(row) + "\n" for row in rows))


def read_text(path: Path) -> str:
    """The text of a UTF-8 file; a missing or undecodable one is a `UserError`."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: the file does not exist.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (byte {error.start}); fetch the file again.") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from None


def read_json(path: Path) -> Any:
    """The value of a JSON file; broken or truncated JSON is a `UserError` that names line and column."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}: not valid JSON at line {error.lineno}, column {error.colno} ({error.msg}); "
            "the file is damaged or truncated, fetch it again."
        ) from None
    except RecursionError:
        raise UserError(f"{path}: JSON nested too deeply to be one of ours; fetch the file again.") from None


def read_jsonl(path: Path) -> list[Any]:
    """The values of a JSON-lines file; a broken line is a `UserError` that names it."""
    rows = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise UserError(
                    f"{path}: line {number} is not valid JSON ({error.msg}); delete the file and run again."
                ) from None
    return rows


def sha256(data: bytes | str) -> str:
    """Hex SHA-256 of bytes, or of a text's UTF-8 bytes."""
    return hashlib.sha256(data.encode("utf-8") if isinstance(data, str) else data).hexdigest()


def sha256_of_file(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
