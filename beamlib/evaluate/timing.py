"""How long memories took to read and to recall: measured beside the records, and in no digest of them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from beamlib.errors import UserError
from beamlib.evaluate.records import read_records

TIMES = "times"
"""The part of an arm's folder that holds them. No manifest names it."""


class Timing(BaseModel):
    """How long a memory worked without a pause, calls of models included.

    Attributes:
        questions: The questions that it recalled for, one or several at once; none where it read the conversation.
        begin: When it began, UTC, ISO 8601.
        seconds: Until it was done.
        key: What the arm's answers rest on.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    conversation_id: str
    questions: tuple[str, ...]
    begin: str
    seconds: float
    key: str = ""


class Stopwatch:
    """Times what the arms of one conversation do. `rows` are by the arm's name."""

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        self.rows: dict[str, list[Timing]] = {}

    @contextmanager
    def measure(self, arm: str, questions: Collection[str] = ()) -> Iterator[None]:
        """Time a block; one that raises is not counted."""
        begin, started = datetime.now(UTC).isoformat(timespec="microseconds"), time.perf_counter()
        yield
        seconds = round(time.perf_counter() - started, 6)
        row = Timing(conversation_id=self.conversation, questions=tuple(questions), begin=begin, seconds=seconds)
        self.rows.setdefault(arm, []).append(row)


def read_timings(folder: Path, key: str) -> list[Timing]:
    """Read what was measured of an arm whose answers rest on `key`; nothing where that is lost or damaged."""
    path = folder / f"{TIMES}.jsonl"
    try:
        return [row for row in read_records(path, Timing) if row.key == key] if path.exists() else []
    except UserError:
        return []
