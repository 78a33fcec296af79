"""What a replay asked of a call store, noted beside it where somebody wants to know (`beamlib calls verify`).

A request is not stored, only its hash. What a stored call says of itself (role, step, what it is about) is shown by
nobody but the one who sends the same request again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from beamlib.files import read_jsonl, to_json

ENDING = ".asked"


class Asked(BaseModel):
    """One request of a replay: the fields of a call that follow from it, and the characters of its body."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    fields: dict[str, Any]
    characters: int
    stored: bool


def is_watched(store: Path) -> bool:
    """Tell whether somebody wants to know what is asked of a store."""
    return store.with_suffix(ENDING).exists()


def note(store: Path, asked: Asked) -> None:
    """Append a request; processes that share the file never tear a line."""
    with store.with_suffix(ENDING).open("ab", buffering=0) as handle:
        handle.write(f"{to_json(asked.model_dump())}\n".encode())


def asked_of(store: Path) -> list[Asked]:
    """Return what was asked of a store."""
    return [Asked.model_validate(row) for row in read_jsonl(store.with_suffix(ENDING))]
