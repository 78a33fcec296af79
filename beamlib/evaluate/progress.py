"""How far a run is, while its conversations are worked on in other processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from beamlib.evaluate.calling import stored_calls

Value = TypeVar("Value")


def as_they_end(futures: Iterable[Future[Value]], bar: tqdm[Any], calls: Path | None) -> Iterator[Future[Value]]:
    """Futures as they end. Meanwhile `bar` shows how many replies the stores in the folder `calls` hold: one
    conversation takes long. None where no model is called."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=2 if calls else None, return_when=FIRST_COMPLETED)
        if calls:
            bar.set_postfix_str(f"{stored_calls(calls):,} replies stored")
        yield from done
