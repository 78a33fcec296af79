"""The record beside what was generated of another benchmark: an interrupted order goes on, another one is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beamlib.errors import UserError
from beamlib.files import read_json, sha256_of_file, write_json
from beamlib.places import RECORD


@dataclass
class GenerationRecord:
    """`generation.json` in `folder`: the `order` and, by name, what has been written of it; `part` is their field."""

    folder: Path
    part: str
    order: dict[str, Any]
    rows: dict[str | int, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, part: str, name: str, order: Mapping[str, Any]) -> GenerationRecord:
        """The record in `folder`, or a new one; that of another order is a `UserError`. `name` names a row."""
        path = folder / RECORD
        if not path.exists():
            return cls(folder, part, dict(order))
        value = read_json(path)
        try:
            recorded = value["order"]
            rows = {row[name]: {**row, "sha256": str(row["sha256"])} for row in value[part]}
            differs = [key for key in sorted({*order, *recorded}) if order.get(key) != recorded.get(key)]
        except (KeyError, TypeError, ValueError):
            raise UserError(f"{path}: not the record of a generation; choose another folder, or delete it.") from None
        if differs:
            was, now_is = (f"{values.get(differs[0])!r:.80}" for values in (recorded, order))
            raise UserError(
                f"{path}: the folder holds another order ({differs[0]} is {was} there and {now_is} now); choose "
                "another folder, or delete this one."
            )
        return cls(folder, part, dict(order), rows)

    def holds(self, name: str | int, path: Path) -> bool:
        """Whether a file is finished and as it was written; one that was changed since is a `UserError`."""
        row = self.rows.get(name)
        if row is None or not path.exists():
            return False
        if row["sha256"] != sha256_of_file(path):
            raise UserError(f"{path}: changed since it was generated; delete it to have it written again.")
        return True

    def add(self, name: str | int, path: Path, row: Mapping[str, Any]) -> None:
        """Count a file as finished; `row` names it and says what came of it."""
        self.rows[name] = {**row, "sha256": sha256_of_file(path)}
        self.write()

    def write(self) -> None:
        rows = [self.rows[name] for name in sorted(self.rows, key=lambda key: (isinstance(key, str), key))]
        write_json(self.folder / RECORD, {"order": self.order, self.part: rows})
