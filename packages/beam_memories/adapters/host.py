"""Serves one adapter by the process protocol (docs/memories.md): `python host.py mem0`, JSON lines on stdin and stdout.

It runs in the environment of the system that it adapts, and so imports nothing of this project. What a system makes of
chance and of time would reach its prompts, and a stored call is found by its prompt alone: so here ids are drawn from a
seed, and the clock stands at the time of what is being told.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import random
import re
import sys
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

_PROTOCOL = 2
_LOST = r"Connect(ion)?Error$|Connection(Closed|Lost)|Timeout(Error|Exception)?$|ServiceUnavailable$"
_NO_DATE = "2024-01-01"  # where a conversation has none: a day like another, the same in every replay

_Message = dict[str, Any]


class Adapter(Protocol):
    """What a module `<name>_memory` has under the name `Adapter`; it is made of what `hello` says."""

    def add(self, messages: list[_Message], when: datetime) -> None:
        """Take in a user's message and its answer."""

    def recall(self, question: str) -> tuple[str, list[int]]:
        """The context for a question, and the ids of the messages that it rests on."""


class _Clock:
    """Time stands still while a pair is taken in, and goes on by a minute with the next one."""

    def __init__(self) -> None:
        import time_machine

        self._traveller: Callable[..., Any] = time_machine.travel
        self._standing: Any = None
        self._session = -1
        self._now = self._stand(_morning(None))

    def pair(self, session: int, date: str | None) -> datetime:
        """Set the clock to the next pair, of a session that took place on `date`; it never goes back."""
        later = self._now + timedelta(minutes=1)
        if session != self._session:
            first, self._session = self._session < 0, session
            later = _morning(date) if first else max(later, _morning(date))
        self._now = self._stand(later)
        return self._now

    def _stand(self, when: datetime) -> datetime:
        if self._standing is not None:
            self._standing.stop()
        self._standing = self._traveller(when, tick=False)
        self._standing.start()
        return when


def _morning(date: str | None) -> datetime:
    return datetime.fromisoformat(f"{date or _NO_DATE}T09:00:00+00:00")


class _Server:
    def __init__(self, name: str) -> None:
        self._name = name
        self._adapter: Adapter | None = None
        self._clock = _Clock()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["method"] == "hello":
            module = importlib.import_module(f"{self._name}_memory")
            self._adapter = module.Adapter(request["api"], request["folder"], request.get("k", module.TOP))
            return {"protocol": _PROTOCOL}
        assert self._adapter is not None, "hello comes first"
        if request["method"] == "ingest":
            messages = request["messages"]
            for pair in (messages[start : start + 2] for start in range(0, len(messages), 2)):
                self._adapter.add(pair, self._clock.pair(pair[0]["session"], pair[0]["time"]))
            return {}
        context, ids = self._adapter.recall(request["question"])
        found = list(dict.fromkeys(ids))
        return {"context": context, "message_ids": found, "parts": {"facts": found} if found else {}}


def is_lost_connection(error: BaseException | None) -> bool:
    """Tell by its class whether `error`, or what caused it, is a lost connection or a timeout of any library."""
    causes: list[BaseException] = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__ or error.__context__
    names = (kind.__name__ for cause in causes for kind in type(cause).__mro__)
    return any(re.search(_LOST, name) for name in names)


def _drawn_ids() -> None:
    drawn = random.Random(0)
    uuid.uuid4 = lambda: uuid.UUID(int=drawn.getrandbits(128), version=4)
    random.seed(0)


def _describe(name: str) -> dict[str, Any]:
    """Versions, notes and what is missing, with nothing of the system imported."""
    here = Path(__file__).parent
    module = importlib.import_module(f"{name}_memory")
    found, missing = dict[str, str](), list[str]()
    for distribution in (*module.NEEDS, "time-machine"):
        try:
            found[distribution] = version(distribution)
        except PackageNotFoundError:
            missing.append(distribution)
    files = [here / "host.py", here / f"{name}_memory.py"]
    code = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    notes = [] if missing else module.notes(found)
    return {"code": code, "versions": found, "notes": notes, "missing": missing}


def main(name: str, describe: str = "") -> None:
    """Serve `name` until stdin ends, or print what it is."""
    sys.path.insert(0, str(Path(__file__).parent))
    if describe:
        print(json.dumps(_describe(name)))
        return
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what the system prints is no reply
    _drawn_ids()
    server, process = _Server(name), os.getpid()
    for line in requests:
        request = json.loads(line)
        try:
            reply = server.answer(request)
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}", "transient": is_lost_connection(error)}
        if os.getpid() != process:  # a child that the system forked: no part of the exchange
            os._exit(0)
        replies.write(json.dumps({"id": request["id"], **reply}).encode() + b"\n")
        replies.flush()
    # Embedded databases end with an orderly exit; the parent ends what they leave.


if __name__ == "__main__":
    main(*sys.argv[1:])
