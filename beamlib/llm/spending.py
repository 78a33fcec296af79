"""What a run may spend (`--max-cost`): a call is made only where its price, at the most that it can be, still fits.

The limit holds for a command with all its processes, over all that the call stores of its folder already hold. It
travels in environment variables, which worker processes inherit, and changes no result: only how far a run gets.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from beamlib.errors import UserError
from beamlib.files import temporary_folder
from beamlib.llm.call_store import CallStore
from beamlib.llm.endpoints import Endpoint, key_variables, load_models
from beamlib.llm.keys import refuse_keys
from beamlib.llm.model import nap, stopping
from beamlib.text import money

LIMIT, LEDGER = "BEAMLIB_MAX_COST", "BEAMLIB_LEDGER"
"""Variables: US dollars that the command may spend, and the file in which its processes add up."""
_SIZE = 1 << 16  # of the ledger, padded: it is written in one piece, and a killed process leaves it whole
_POLL = 0.2


class SpendingLimit(UserError):
    """Nothing more can be called for the money that a run may spend. The same command goes on with a higher limit."""

    exit_code = 3


def spend_at_most(dollars: float | None) -> None:
    """Take the command's `--max-cost`; None leaves it without a limit."""
    os.environ.pop(LIMIT, None)
    if dollars is not None:
        if not math.isfinite(dollars):
            raise UserError(f"--max-cost: {dollars} is no number of US dollars; leave it out where there is no limit.")
        os.environ[LIMIT] = repr(dollars)


@contextmanager
def limited(folder: Path, *files: str | Path) -> Iterator[None]:
    """The command's limit in force for a run in `folder` by these models files, with what its stores hold as spent.

    Where it is in force already, for a part of the same run, it stays as it is.
    """
    if not (given := os.environ.get(LIMIT)) or is_limited():
        yield
        return
    prices = _prices(*files)
    if files and not any(one.input_price or one.output_price for one in prices.values()):
        raise UserError(
            "--max-cost: the models have no prices, so nothing would count; give input_price and output_price in a "
            "models file, or leave the limit out."
        )
    with temporary_folder("beamlib-spending-") as place:
        ledger = place / "ledger.json"
        write_ledger(ledger, float(given), _stored(folder, prices))
        os.environ[LEDGER] = str(ledger)
        try:
            yield
        finally:
            del os.environ[LEDGER]


@contextmanager
def keys_kept_out(folder: Path, *files: str) -> Iterator[None]:
    """A run in `folder` by these models files (empty: none), within the command's limit of spending (`limited`): at its
    end all files are searched for the keys.

    A run that ends by a `UserError` has written files too; one that is interrupted goes on later, and is searched then.
    """
    variables = key_variables(*files)
    try:
        with limited(folder, *filter(None, files)):
            yield
    except UserError:
        refuse_keys(folder.rglob("*"), variables)
        raise
    refuse_keys(folder.rglob("*"), variables)


def _prices(*files: str | Path) -> dict[tuple[str, str], Endpoint]:
    """The endpoints of models files by role and model, as calls are stored."""
    found: dict[tuple[str, str], Endpoint] = {}
    for models in (load_models(Path(file)) for file in files if file):
        found |= {(role, one.model): one for role, one in models.by_stored_role()}
    return found


def _stored(folder: Path, prices: dict[tuple[str, str], Endpoint]) -> float:
    """US dollars of all calls that are stored below `folder`, as far as a models file still names their models."""
    spent = 0.0
    for path in sorted(folder.rglob("*.sqlite")):
        if any(part.startswith(".") for part in path.relative_to(folder).parts):  # what memories store, not calls
            continue
        with CallStore(path, read_only=True) as store:
            for one in store.totals():
                if (endpoint := prices.get((one.role, one.model))) is not None:
                    spent += endpoint.dollars(one.input_tokens, one.cached_tokens, one.output_tokens)
    return spent


def is_limited() -> bool:
    """Whether this process works for a command with a limit."""
    return LEDGER in os.environ


@asynccontextmanager
async def room(who: str, most: float) -> AsyncIterator[Callable[[float], None]]:
    """Wait until a call that costs `most` US dollars at most fits, then hold that much until it has ended.

    The value takes what it did cost. `SpendingLimit` where it cannot fit, whatever the calls under way come to.
    """
    ledger = Path(os.environ[LEDGER])
    mine, costs, asked = str(os.getpid()), list[float](), False
    while True:
        with open_ledger(ledger) as book:
            held = sum(book["held"].values())
            fits = book["spent"] + held + most <= book["limit"]
            if fits:
                book["held"][mine] = book["held"].get(mine, 0.0) + most
            elif most > (left := book.get("left", book["limit"] - book["spent"])):
                whole = book.get("whole", book["limit"])
                raise SpendingLimit(
                    f"--max-cost: this run has spent {money(whole - left)} of {money(whole)}, and the next call "
                    f"({who}) may cost {money(most)}; what has arrived is stored, and the same command with a higher "
                    "--max-cost goes on from there."
                )
            if asked is fits:  # what the calls that wait come to: on a cluster the limit is raised by it
                book["wanted"] = book.get("wanted", 0.0) + (-most if fits else most)
                asked = not fits
        if fits:
            break
        if stopping():
            raise UserError("interrupted before this call was made; the same command goes on from there.")
        await nap(_POLL)  # what is under way may cost less than it could
    try:
        yield costs.append
    finally:
        with open_ledger(ledger) as book:
            book["held"][mine] = book["held"].get(mine, most) - most
            book["spent"] += sum(costs)


def write_ledger(path: Path, limit: float, spent: float, **more: Any) -> None:
    """A ledger in which nothing is under way.

    `more` is what a worker of a cluster has beside its `limit`, a share that grows as it asks: `whole` is the limit of
    the run, and `left` what is left of it, if nothing else is spent.
    """
    path.write_bytes(_padded({"limit": limit, "spent": spent, "held": {}, **more}))


@contextmanager
def open_ledger(path: Path) -> Iterator[dict[str, Any]]:
    """The ledger, to be changed while nobody else does; what a dead process held is let go."""
    with path.open("r+b", buffering=0) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        book: dict[str, Any] = json.loads(handle.read())
        book["held"] = {process: held for process, held in book["held"].items() if _lives(int(process))}
        yield book
        handle.seek(0)
        handle.write(_padded(book))


def _padded(book: dict[str, Any]) -> bytes:
    return json.dumps(book).encode().ljust(_SIZE)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
