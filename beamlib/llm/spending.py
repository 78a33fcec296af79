"""Limit what a command spends (`--max-cost`): a call is sent only if its highest possible price still fits.

The limit covers all processes of a command and everything already stored in its run folder. Worker processes inherit it
through environment variables. It changes no result, only how far a run gets.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from beamlib.errors import UserError
from beamlib.files import temporary_folder
from beamlib.llm.call_store import CallStore
from beamlib.llm.endpoints import Endpoint, ModelsFile
from beamlib.llm.keys import refuse_keys
from beamlib.llm.model import nap, stopping
from beamlib.text import money

LIMIT, LEDGER = "BEAMLIB_MAX_COST", "BEAMLIB_LEDGER"
"""Environment variables: the command's limit in US dollars, and the file in which its processes add up."""
_LEDGER_BYTES = 1 << 16  # padded: it is written in one piece, and a killed process leaves it whole
_POLL_SECONDS = 0.2


class SpendingLimit(UserError):
    """The next call does not fit the limit. The same command with a higher limit continues."""

    exit_code = 3


def set_spending_limit(dollars: float | None) -> None:
    """Set the command's `--max-cost`; None removes it."""
    os.environ.pop(LIMIT, None)
    if dollars is not None:
        if not math.isfinite(dollars):
            raise UserError(f"--max-cost: {dollars} is not a number of US dollars; omit it for no limit.")
        os.environ[LIMIT] = repr(dollars)


@contextmanager
def limited(folder: Path, *models: ModelsFile) -> Iterator[None]:
    """Apply the command's limit to a run in `folder` with these models, counting its stored calls as spent.

    Nested uses change nothing.
    """
    if not (limit := os.environ.get(LIMIT)) or has_limit():
        yield
        return
    prices = _prices(*models)
    if models and not any(endpoint.input_price or endpoint.output_price for endpoint in prices.values()):
        raise UserError(
            "--max-cost: the models have no prices, so nothing would count; set input_price and output_price in the "
            "models file, or omit the limit."
        )
    if unpriced := sorted({endpoint.model for endpoint in prices.values() if endpoint.dollars(1, 0, 1) is None}):
        print(f"--max-cost: price unknown for {', '.join(unpriced)}; their calls do not count.", file=sys.stderr)
    with temporary_folder("beamlib-spending-") as place:
        ledger = place / "ledger.json"
        write_ledger(ledger, float(limit), _stored_cost(folder, prices))
        os.environ[LEDGER] = str(ledger)
        try:
            yield
        finally:
            del os.environ[LEDGER]


@contextmanager
def guard_run(folder: Path, *models: ModelsFile | None, calls: str = "record") -> Iterator[None]:
    """Take the keys of `models`, run in `folder` within the spending limit, then search all its files for the keys.

    A replay (`calls`) needs no keys, and reads none. The search also follows a `UserError`. An interrupted run is
    searched when it is resumed.
    """
    used = [] if calls == "replay" else list(filter(None, models))
    for file in used:
        file.take_keys()
    variables = frozenset[str]().union(*(file.key_variables for file in used))
    try:
        with limited(folder, *used):
            yield
    except UserError:
        refuse_keys(folder.rglob("*"), variables)
        raise
    refuse_keys(folder.rglob("*"), variables)


def _prices(*models: ModelsFile) -> dict[tuple[str, str], Endpoint]:
    """Return the endpoints of models files by role and model, as calls are stored."""
    endpoints: dict[tuple[str, str], Endpoint] = {}
    for file in models:
        endpoints |= {(role, endpoint.model): endpoint for role, endpoint in file.by_stored_role()}
    return endpoints


def _stored_cost(folder: Path, prices: dict[tuple[str, str], Endpoint]) -> float:
    """Sum the price of all calls stored below `folder` whose model a models file still names."""
    spent = 0.0
    for path in sorted(folder.rglob("*.sqlite")):
        # Databases of memories, and trials of notebooks, which begin with copies of these stores.
        if any(part.startswith(".") or part == "trials" for part in path.relative_to(folder).parts):
            continue
        with CallStore(path, read_only=True) as store:
            for sums in store.totals():
                if (endpoint := prices.get((sums.role, sums.model))) is not None:
                    spent += endpoint.dollars(sums.input_tokens, sums.cached_tokens, sums.output_tokens) or 0.0
    return spent


def has_limit() -> bool:
    """Whether this process works for a command with a limit."""
    return LEDGER in os.environ


@asynccontextmanager
async def reserve(who: str, most: float) -> AsyncIterator[Callable[[float], None]]:
    """Wait until a call of at most `most` US dollars fits, and reserve that much until the call has ended.

    Yields:
        A function that takes the real cost.

    Raises:
        SpendingLimit: the call cannot fit, whatever the pending calls cost.
    """
    ledger = Path(os.environ[LEDGER])
    process, costs, waiting = str(os.getpid()), list[float](), False
    while True:
        with open_ledger(ledger) as book:
            fits = book["spent"] + sum(book["held"].values()) + most <= book["limit"]
            if fits:
                book["held"][process] = book["held"].get(process, 0.0) + most
            elif most > (left := book.get("left", book["limit"] - book["spent"])):
                whole = book.get("whole", book["limit"])
                raise SpendingLimit(
                    f"--max-cost: this run has spent {money(whole - left)} of {money(whole)}, and the next call "
                    f"({who}) may cost {money(most)}; replies that arrived are stored, and the same command with a "
                    "higher --max-cost continues from there."
                )
            if waiting is fits:  # a cluster raises the limit by what waiting calls may cost
                book["wanted"] = book.get("wanted", 0.0) + (-most if fits else most)
                waiting = not fits
        if fits:
            break
        if stopping():
            raise UserError("interrupted before this call was sent; run the same command again to continue.")
        await nap(_POLL_SECONDS)  # pending calls may cost less than reserved
    try:
        yield costs.append
    finally:
        with open_ledger(ledger) as book:
            book["held"][process] = book["held"].get(process, most) - most
            book["spent"] += sum(costs)


def write_ledger(path: Path, limit: float, spent: float, **more: Any) -> None:
    """Write a ledger without pending calls.

    Args:
        more: For a worker of a cluster, whose `limit` is a share that grows on demand: `whole`, the run's limit, and
            `left`, what is left of it if nobody else spends.
    """
    path.write_bytes(_padded({"limit": limit, "spent": spent, "held": {}, **more}))


@contextmanager
def open_ledger(path: Path) -> Iterator[dict[str, Any]]:
    """Lock the ledger and yield it for changes; reservations of dead processes are dropped."""
    with path.open("r+b", buffering=0) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        book: dict[str, Any] = json.loads(handle.read())
        book["held"] = {process: amount for process, amount in book["held"].items() if _is_alive(int(process))}
        yield book
        handle.seek(0)
        handle.write(_padded(book))


def _padded(book: dict[str, Any]) -> bytes:
    return json.dumps(book).encode().ljust(_LEDGER_BYTES)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
