"""What a stage has finished, on file at once: append-only JSON lines, so that a killed run goes on where it stopped."""

from __future__ import annotations

import json
from io import BufferedWriter
from pathlib import Path
from typing import Any

from beam_generate.shapes import Repairs
from beamlib.errors import UserError
from beamlib.files import make_folder, parse_json, sha256


def fingerprint(name: str, *parts: object) -> str:
    """Hash of what a stage rests on: its or its model's name, and `parts` (their `repr`)."""
    return sha256(repr((name, [], parts)))  # between them journals that were written before had hashes of prompts


class Journal:
    """The journal of one stage of one plan. `entries` are the values found on file when it was opened.

    A journal that rests on something else is begun anew, and a last line that was cut off is taken away; both are noted
    in `repairs`. Lines are handed to the operating system one by one: a killed process loses nothing that was appended.
    """

    def __init__(self, path: Path, rests_on: str, repairs: Repairs) -> None:
        self.path = path
        self.entries: list[Any] = []
        header = _line({"journal": 1, "rests_on": rests_on})
        try:
            make_folder(path.parent)
            self._file: BufferedWriter = path.open("ab")
            keep = self._read(header, repairs)
            self._file.truncate(keep)
            if not keep:
                self._write(header)
        except OSError as error:
            raise self._unusable(error) from None

    def _read(self, header: bytes, repairs: Repairs) -> int:
        """Fill `entries`; how many bytes of the file stay."""
        lines = self.path.read_bytes().splitlines(keepends=True)
        if not lines:
            return 0
        if lines[0] != header:
            repairs.note("journal", self.path.name, "it rests on another plan, prompt or model", "begun anew")
            return 0
        keep = len(header)
        for number, line in enumerate(lines[1:], start=2):
            try:
                if not line.endswith(b"\n"):
                    raise ValueError("no end of line")
                self.entries.append(parse_json(line.decode("utf-8")))
            except ValueError:
                repairs.note(
                    "journal", self.path.name, f"line {number} is cut off or damaged", "left out from there on"
                )
                return keep
            keep += len(line)
        return keep

    def append(self, value: Any) -> None:
        """Put one finished thing, a JSON value, on file."""
        try:
            self._write(_line(value))
        except OSError as error:
            raise self._unusable(error) from None

    def _write(self, line: bytes) -> None:
        self._file.write(line)
        self._file.flush()

    def _unusable(self, error: OSError) -> UserError:
        return UserError(f"{self.path}: cannot be used ({error.strerror}); free the place, then run again.")

    def close(self) -> None:
        """End it; what was appended stays on file."""
        self._file.close()


def _line(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n").encode("utf-8")
