"""Limit what a command spends (`--max-cost`): a call is sent only if its highest possible price still fits.

One process makes all calls of a command, so it keeps the books alone. The limit covers everything already stored in
the run folder. It changes no result, only how far a run gets.
"""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from beamlib.errors import SpendingLimit, UserError
from beamlib.llm.call_store import CallStore
from beamlib.llm.endpoints import Endpoint, ModelsFile
from beamlib.llm.keys import refuse_keys
from beamlib.llm.model import nap, stopping
from beamlib.text import money

_POLL_SECONDS = 0.2


@dataclass
class Ledger:
    """What a run may spend, has spent, and has reserved for pending calls, in US dollars."""

    limit: float
    spent: float
    reserved: float = 0.0


_limit: float | None = None
_ledger: Ledger | None = None


def set_spending_limit(dollars: float | None) -> None:
    """Set the command's `--max-cost`; None removes it."""
    global _limit
    if dollars is not None and not math.isfinite(dollars):
        raise UserError(f"--max-cost: {dollars} is not a number of US dollars; omit it for no limit.")
    _limit = dollars


def spending_limit() -> float | None:
    """Return the command's `--max-cost`."""
    return _limit


@contextmanager
def limited(folder: Path, *models: ModelsFile) -> Iterator[None]:
    """Apply the command's limit to a run in `folder` with these models, counting its stored calls as spent.

    Nested uses change nothing.
    """
    global _ledger
    if _limit is None or _ledger is not None:
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
    _ledger = Ledger(_limit, _stored_cost(folder, prices))
    try:
        yield
    finally:
        _ledger = None


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
    return _ledger is not None


@asynccontextmanager
async def reserve(who: str, most: float) -> AsyncIterator[Callable[[float], None]]:
    """Wait until a call of at most `most` US dollars fits, and reserve that much until the call has ended.

    Yields:
        A function that takes the real cost.

    Raises:
        SpendingLimit: the call cannot fit, whatever the pending calls cost.
    """
    ledger = _ledger
    assert ledger is not None
    while ledger.spent + ledger.reserved + most > ledger.limit:
        if most > ledger.limit - ledger.spent:
            raise SpendingLimit(
                f"--max-cost: this run has spent {money(ledger.spent)} of {money(ledger.limit)}, and the next call "
                f"({who}) may cost {money(most)}; replies that arrived are stored, and the same command with a "
                "higher --max-cost continues from there."
            )
        if stopping():
            raise UserError("interrupted before this call was sent; run the same command again to continue.")
        await nap(_POLL_SECONDS)  # pending calls may cost less than reserved
    ledger.reserved += most
    costs: list[float] = []
    try:
        yield costs.append
    finally:
        ledger.reserved -= most
        ledger.spent += sum(costs)
