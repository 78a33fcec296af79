"""Reading the files of a data folder within bounds: one JSON file per dialogue, or a bundle of compressed lines."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from beamlib.errors import UserError
from beamlib.files import parse_json, read_json

MOST_BYTES = 1 << 28
"""Of one dialogue, or of a model's answers to one: room for a million characters in every answer."""
MOST_BYTES_OF_A_BUNDLE = 1 << 30
"""Of a bundle's file without its compression, under which a few kilobytes can hold gigabytes."""


def numbered_files(folder: Path, pattern: re.Pattern[str]) -> dict[int, Path]:
    """The files of `folder` by the number that `pattern` finds in their names; two of one number are a `UserError`."""
    files: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        if found := pattern.fullmatch(path.name):
            other = files.setdefault(int(found[1]), path)
            if other != path:
                raise UserError(f"{path}: {other.name} has the same number; remove one of the two.")
    return files


def read_bounded(path: Path) -> Any:
    """`read_json` of a file of at most `MOST_BYTES`; a longer one is a `UserError`."""
    if path.is_file() and path.stat().st_size > MOST_BYTES:
        raise UserError(f"{path}: longer than {MOST_BYTES:,} bytes; give the file of one dialogue.")
    return read_json(path)


def json_lines(path: Path) -> Iterator[Any]:
    """The values of a gzip-compressed JSON Lines file, strictly; damage is a `UserError` that names the line.

    No line may be longer than `MOST_BYTES`, nor the whole than `MOST_BYTES_OF_A_BUNDLE`.
    """
    number = read = 0
    try:
        with gzip.open(path, "rb") as lines:
            while line := lines.readline(MOST_BYTES + 1):
                number, read = number + 1, read + len(line)
                if len(line) > MOST_BYTES or read > MOST_BYTES_OF_A_BUNDLE:
                    raise ValueError(f"longer than {MOST_BYTES:,} bytes, or than {MOST_BYTES_OF_A_BUNDLE:,} in all")
                if line.strip():
                    yield parse_json(line.decode("utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: the file does not exist.") from None
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        problem = str(error).removeprefix("line 1, ")
        raise UserError(f"{path}: damaged near line {number} ({problem}); fetch the file again.") from None


def numbered_rows(path: Path) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """The objects of such a file: where each stands, its `dialogue_id`, its fields. The ids are whole and differ."""
    seen = set()
    for place, row in enumerate(json_lines(path), start=1):
        where = f"{path}: line {place}"
        number = row.get("dialogue_id") if isinstance(row, dict) else None
        if not isinstance(number, int) or isinstance(number, bool):
            raise UserError(f"{where}: dialogue_id is {number!r:.40} where a whole number belongs; correct it.")
        if number in seen:
            raise UserError(f"{where}: dialogue_id {number} occurs twice; remove one of the two lines.")
        seen.add(number)
        yield where, number, row
