"""Which files of the data are the released ones: SHA-256 of the repository's JSON and text files (`released.csv`).

The list holds what its makers had at hand: chats of all 100K conversations and of a few others, the probing questions
of all 100. A file that it does not name is `unknown`, which says nothing against it. The parquet files of the hub have
their hashes in `beamlib.data.parquet`.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from beamlib.files import sha256_of_file

State = Literal["released", "changed", "missing", "unknown"]
REVISION = "mohammadtavakoli78/BEAM at b2a3ee8"
RELEASED_FILE = Path(__file__).with_name("released.csv")
_FIXES: Mapping[State, str] = {
    "released": "the released file itself is like this: report it",
    "changed": "it is not the released file (the SHA-256 differs): fetch the data again",
    "missing": "restore it",
    "unknown": "correct or restore it",
}


@cache
def released_hashes() -> Mapping[str, str]:
    """SHA-256 by file, named like `100K/7/chat.json`."""
    with RELEASED_FILE.open(encoding="utf-8", newline="") as handle:
        return {row["file"]: row["sha256"] for row in csv.DictReader(handle)}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of the data: where it lies, its name in the conversation, and the SHA-256 that it has at `revision`.

    Without a `sha256` there is nothing to compare it with.
    """

    path: Path
    name: str = ""
    sha256: str | None = None
    revision: str = REVISION

    @property
    def state(self) -> State:
        """Whether it is the released file, byte for byte."""
        if self.sha256 is None:
            return "unknown"
        if not self.path.is_file():
            return "missing"
        about = self.path.stat()
        return "released" if _hash(self.path, about.st_size, about.st_mtime_ns) == self.sha256 else "changed"

    @property
    def fix(self) -> str:
        """What to do about a file that cannot be read."""
        return _FIXES[self.state]


@cache
def _hash(path: Path, size: int, modified: int) -> str:
    """Once per file and process: a parquet file holds many conversations. Size and time tell one version apart."""
    return sha256_of_file(path)
