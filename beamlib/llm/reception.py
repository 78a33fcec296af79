"""Judge an endpoint by what it does: a ledger per role of what its requests came to, and when they end the run.

Two rules, without wordings:

1. An outcome that `ALIKE` different requests came to, with no success since, ends the run. It is a refusal, a redirect,
   an empty reply or, before any success, an answer with status 200 that is no completion. Refusals for length or
   content concern their request alone. Empty replies after a success may, so that `_OF_ANY_KIND` of them count.
2. Failures that may pass (no response, busy, 5xx) are repeated. After `_IN_A_ROW` of them the role waits: one request
   at a time is tried, with growing pauses. If nothing has succeeded for a while, and as many different requests
   failed, the run ends.
3. Replies that cannot be used are asked for once more. `_OF_ANY_KIND` requests in a row without a usable reply end the
   run: the endpoint is not what it was when it was admitted. The next run sends these requests again.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Callable
from http import HTTPStatus

from beamlib.errors import UserError
from beamlib.llm.faults import CONTINUE, Asker, RetryableError, advice, excerpt

ALIKE = 5
"""Different requests of a role that end the run if all come to the same."""
_OF_ANY_KIND = 4 * ALIKE
"""Different requests of a role that end the run if none comes to anything, whatever each is told."""
_IN_A_ROW = 8
"""Tries in a row before a role waits. If one try in five fails, the chance is 3 in 10^6."""
_PROBES = 3
_FIRST_PATIENCE = 5.0
"""Seconds for an address that has never answered: probably a wrong one, or the server is not running. One that says
itself that it is not ready (503) gets its patience: a server that loads a model needs a minute."""
_QUOTA_SECONDS = 120.0
"""Seconds for a busy server at least: most limits are per minute."""


class Terms:
    """The calls to one address since the last time that it ended a run.

    Calls of an ended term all raise its verdict, queued ones included. Later calls start afresh, as when a notebook's
    cell runs again.
    """

    def __init__(self) -> None:
        self.number = 0
        self.verdict = ""

    def check(self, number: int) -> None:
        """Raise the `UserError` that ended term `number`, if it has ended."""
        if number < self.number:
            raise UserError(self.verdict)

    def end(self, verdict: str) -> None:
        """End the current term."""
        self.number += 1
        self.verdict = verdict


class Reception:
    """What an endpoint has made of one role's requests in the current term.

    Attributes:
        refused: Fields that it refused, left out of later requests; `system` stands for the system message.
        answered: Whether any request was answered.
        open: Whether the role waits, and one request at a time is tried.
        pause: Seconds before the next of these.
        overdue: Whether waiting has lasted too long for the few requests that failed.
        said: What was already said of this role, so that it is said once; that it waits, once a term.
    """

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self.refused: set[str] = set()
        self.said: set[str] = set()
        self.probing = asyncio.Lock()
        self.answered = False
        self.pause = 0.0
        self._alike: dict[str, set[int]] = {}
        self._unusable = _no_streaks()
        self._useless = [0, 0]  # the terms before which unusable replies are of a streak that ended the run
        self.record_success(False)

    def record_success(self, answered: bool = True) -> None:
        """Note a usable reply."""
        self.answered = self.answered or answered
        self._alike.clear()
        self.record_contact()

    def record_contact(self) -> None:
        """Note that the server works, whatever it said."""
        self.open = self.overdue = False
        self._failed = self._probes = 0
        self._requests = set[int]()
        self._since = 0.0

    def record_alike(self, request: int, message: str, asker: Asker, status: int) -> None:
        """Note an outcome that counts by rule 1.

        Raises:
            UserError: it has repeated so often that it ends the run.
        """
        self.record_contact()
        same = self._alike.setdefault(likeness(message), set())
        same.add(request)
        every = set[int]().union(*self._alike.values())
        most = _OF_ANY_KIND if status == HTTPStatus.OK and self.answered else ALIKE
        if len(same) < most and len(every) < _OF_ANY_KIND:
            return
        number, what = (len(same), "came to the same") if len(same) >= most else (len(every), "came to nothing")
        self._end(
            f"{message}; {number} different requests of this role in a row {what}, and none was answered since; "
            f"{advice(message.replace(asker.name, ''), status, asker)}; {CONTINUE}."
        )

    def record_passing(self, request: int, failure: RetryableError, asker: Asker, patience: float) -> None:
        """Note a failure that may pass.

        Raises:
            UserError: it has lasted so long that it ends the run.
        """
        now = time.monotonic()
        if not self._failed:
            self._since = now
        self._failed += 1
        self._requests.add(request)
        limit = patience if self.answered or failure.loading else min(patience, _FIRST_PATIENCE)
        if failure.throttled:
            limit = max(patience, _QUOTA_SECONDS)
        if self.open:
            self._probes += 1
        elif self._failed >= _IN_A_ROW or not (failure.reached or self.answered):
            self.open = True
            self._say_once(failure, asker, limit)
        first = failure.wait or min(0.25, max(0.05, limit / 60))
        self.pause = max(failure.wait or 0.0, min(limit / 4, first * 2**self._probes))
        if not self.open or now - self._since < limit or (failure.throttled and self._probes < _PROBES):
            return
        if self.answered and failure.reached and len(self._requests) < ALIKE:
            self.overdue = True  # it may be these requests alone that the server cannot answer
            return
        cure = failure.cure or advice(str(failure).replace(asker.name, ""), 0, asker)
        message = str(failure)
        named = message if message.startswith(asker.name) else f"{asker.name}: {message}"
        self._end(
            f"{named}; it has not answered for {now - self._since:.0f} seconds (tries: {self._failed}, of "
            f"{len(self._requests)} different requests); perhaps {cure}; {CONTINUE}."
        )

    def record_reading(
        self, complaint: str | None, who: str, term: int, resend: Callable[[], None], *, of_value: bool
    ) -> None:
        """Note what a reader made of the last reply to a request, by the complaint that it would ask again with.

        Args:
            term: The one in which its model was first asked.
            resend: Has the next run send the request again. It is called if the reply is one of those that end this.

        Raises:
            UserError: too many requests in a row got no usable reply.
        """
        streak = self._unusable[of_value]
        if complaint is None:
            streak.clear()
            self._useless[of_value] = 0
            return
        if term < self._useless[of_value]:  # it is of the run that has ended
            resend()
        self.check_repetition(term)
        streak.append(resend)
        if len(streak) >= _OF_ANY_KIND:
            for resend in streak:
                resend()
            self._useless[of_value] = self._terms.number + 1
            about = f" (the last was asked for again with {excerpt(complaint, '')!r})" if complaint else ""
            self._end(
                f"{who} gave {_OF_ANY_KIND} requests in a row no reply that can be used, though each was asked again"
                f"{about}; another model or chat template may answer by now, or the limit of output tokens may be too "
                f"small: see what it replies by `beamlib endpoints`, and correct the server or the models file; "
                f"{CONTINUE}."
            )

    def check_repetition(self, term: int) -> None:
        """Raise the `UserError` of a run that unusable replies have ended, if `term` is one of its own."""
        if term < max(self._useless):
            raise UserError(self._terms.verdict)

    def _say_once(self, failure: RetryableError, asker: Asker, limit: float) -> None:
        if "waits" not in self.said and self.answered:
            self.said.add("waits")
            message = str(failure).removeprefix(f"{asker.name} ")
            print(
                f"{asker.name} {message}; this role now tries one request at a time, with growing pauses, and ends the "
                f"run if none is answered within {limit:.0f} seconds.",
                file=sys.stderr, flush=True,
            )  # fmt: skip

    def _end(self, verdict: str) -> None:
        self.record_success(False)
        self.answered = False
        self._unusable = _no_streaks()
        self.said.discard("waits")
        self._terms.end(verdict)
        raise UserError(verdict)


def _no_streaks() -> tuple[list[Callable[[], None]], list[Callable[[], None]]]:
    """Return the streaks of unusable replies: as text, and as the value that is read from it."""
    return [], []


def likeness(message: str) -> str:
    """Normalise a message: what stands in quotes and whatever contains a digit differs from request to request."""
    text = re.sub(r"(?<!\w)(['\"`])[^'\"`]{1,200}?\1(?!\w)|[“‘«][^”’»]{1,200}[”’»]", "…", message.casefold())
    return re.sub(r"[\w./:-]*\d[\w./:-]*", "0", text)
