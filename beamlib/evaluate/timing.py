"""How long memories took to read and to recall: measured beside the records, and in no digest of them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
    path = folder / f"{TIMES}.log"
    try:
        return [row for row in read_records(path, Timing) if row.key == key] if path.exists() else []
    except UserError:
        return []


@dataclass(frozen=True)
class TimedCall:
    """A call of a memory: the question that it was for, empty where it names none, its times in seconds, its price."""

    question: str
    begin: float
    end: float
    dollars: float | None


@dataclass(frozen=True)
class Latency:
    """What a memory took to read a conversation, or to recall for one `question`.

    Attributes:
        seconds: From the first step to the last, waiting for models included.
        waited: The part of them in which a call was under way.
        dollars: What the calls cost; None where a price is missing.
    """

    question: str
    seconds: float
    waited: float
    calls: int
    dollars: float | None


def latencies(timings: Sequence[Timing], calls: Sequence[TimedCall]) -> Iterator[Latency]:
    """Yield what an arm took with one conversation, of what was timed and of the stored calls of its memory.

    A question that was recalled for together with others gets an equal share of the memory's own time, and waits for
    its own calls. A call that was stored already when its memory was timed counts with the time that it took then.
    """
    recalled = [timing for timing in timings if timing.questions]
    asked = {question for timing in recalled for question in timing.questions}

    def in_one(call: TimedCall, windows: Iterable[Timing]) -> bool:
        return any(begin <= call.end <= end for begin, end in map(_window, windows))

    of_recalling = [call for call in calls if call.question in asked or in_one(call, recalled)]
    of_reading = [call for call in calls if call not in of_recalling]
    for timing in timings:
        if not timing.questions:
            yield _latency("", timing.seconds - _waited(of_reading, _window(timing)), of_reading)
            continue
        here = [call for call in of_recalling if call.question in timing.questions or in_one(call, [timing])]
        share = (timing.seconds - _waited(here, _window(timing))) / len(timing.questions)
        for question in timing.questions:
            own = [call for call in here if call.question == question or len(timing.questions) == 1]
            yield _latency(question, share, own)


def _latency(question: str, own_seconds: float, calls: Sequence[TimedCall]) -> Latency:
    waited, prices = _waited(calls), [call.dollars for call in calls]
    dollars = None if None in prices else sum(price or 0.0 for price in prices)
    return Latency(question, max(0.0, own_seconds) + waited, waited, len(calls), dollars)


def _window(timing: Timing) -> tuple[float, float]:
    begin = datetime.fromisoformat(timing.begin).timestamp()
    return begin, begin + timing.seconds


def _waited(calls: Iterable[TimedCall], window: tuple[float, float] = (0.0, float("inf"))) -> float:
    """Sum the seconds of `window` in which at least one call was under way."""
    total, reached = 0.0, window[0]
    for call in sorted(calls, key=lambda call: call.begin):
        begin, end = max(call.begin, reached), min(call.end, window[1])
        total += max(0.0, end - begin)
        reached = max(reached, end)
    return total
