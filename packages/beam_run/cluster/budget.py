"""Enforce `--max-cost` over a cluster: the driver grants workers what their next calls may cost.

A worker's process uses a ledger on its own machine (`beamlib.llm.spending`). Its task repeatedly reports to the driver
what is spent, reserved and requested. What is neither spent nor reserved can be granted to others.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import Client, Queue

from beamlib.llm.spending import open_ledger, write_ledger

_ROUND = 0.2  # seconds to wait for a message
_AGAIN = 5.0  # seconds without an answer after which a message is taken for lost, and another one is sent
_BETWEEN = 0.6  # seconds from an answer to the next message: calls that wait look at the ledger every 0.2


@dataclass(frozen=True)
class Share:
    """A task's report, in US dollars: `held` is reserved for its pending calls."""

    holder: str
    unit: str
    spent: float = 0.0
    held: float = 0.0
    wanted: float = 0.0
    turn: int = 0
    ended: bool = False


class Purse:
    """The driver's side: answers the tasks' reports in a thread until `close`.

    Of two tasks on one conversation, the earlier is lost; what it had reserved counts as spent.
    """

    def __init__(self, client: Client, name: str, limit: float, spent: float) -> None:
        self.limit = limit
        self._ended_tasks = spent
        self._shares: dict[str, Share] = {}
        self._asked = Queue(name, client=client)
        self._client, self._name = client, name
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="purse", daemon=True)
        self._thread.start()

    def granted(self, share: Share) -> tuple[float, float]:
        """Return the task's new limit, and what the run has left if nothing else is spent."""
        for lost in [one for one in self._shares.values() if one.unit == share.unit and one.holder != share.holder]:
            self._settle(lost, lost.spent + lost.held)
        self._shares[share.holder] = share
        free = self.limit - self.spent - sum(one.held for one in self._shares.values())
        grant = max(0.0, min(share.wanted, free))
        self._shares[share.holder] = Share(share.holder, share.unit, share.spent, share.held + grant)
        if share.ended:
            self._settle(share, share.spent)
        return share.spent + share.held + grant, self.limit - self.spent

    @property
    def spent(self) -> float:
        """US dollars, including stored calls."""
        return self._ended_tasks + sum(one.spent for one in self._shares.values())

    def _settle(self, share: Share, spent: float) -> None:
        self._shares.pop(share.holder, None)
        self._ended_tasks += spent

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                share = Share(**self._asked.get(timeout=_ROUND))
                answer = (share.turn, *self.granted(share))
                if not share.ended:
                    Queue(f"{self._name}-{share.holder}", client=self._client).put(answer)
            except TimeoutError:
                continue
            except Exception:  # of many kinds where the scheduler is gone: the run says so, and asks again are answered
                self._closed.wait(_ROUND)

    def close(self) -> None:
        """Stop answering."""
        self._closed.set()
        self._thread.join(5)


class Allowance:
    """A task's side, with the ledger at `path` that its process uses. Call `tell` repeatedly."""

    def __init__(self, path: Path, name: str, holder: str, unit: str, whole: float) -> None:
        self.path, self._holder, self._unit = path, holder, unit
        write_ledger(path, 0.0, 0.0, wanted=0.0, whole=whole, left=whole)
        self._asked, self._answer = Queue(name), Queue(f"{name}-{holder}")
        self._turn, self._waits, self._next = 0, False, 0.0

    def tell(self, *, ended: bool = False) -> None:
        """Report the ledger, return what is unused, and take what is granted."""
        if self._waits and not ended:
            with suppress(TimeoutError):
                turn, limit, left = self._answer.get(timeout=_ROUND)
                if turn == self._turn:  # else to an earlier message, since when it may have been granted to others
                    self._waits, self._next = False, time.monotonic() + _BETWEEN
                    with open_ledger(self.path) as book:
                        book["limit"], book["left"] = max(limit, _used(book)), left
        if time.monotonic() < self._next and not ended:
            return
        with open_ledger(self.path) as book:
            held = sum(book["held"].values())
            book["limit"] = _used(book)
            self._turn += 1
            said = Share(self._holder, self._unit, book["spent"], held, book["wanted"], self._turn, ended)
        self._asked.put(vars(said))
        self._waits, self._next = True, time.monotonic() + _AGAIN


def _used(book: dict[str, Any]) -> float:
    return float(book["spent"] + sum(book["held"].values()))
