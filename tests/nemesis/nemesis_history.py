"""What a run and its server have done, over all of its disturbances, and what must hold of it at any time."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from scripted_server import ScriptedServer
from steady_replies import steady_reply

LOST_BY_POWER_CUT = 1
"""Replies of a store that may have been on their way to the disk."""


def reply_to(body: dict[str, Any]) -> str:
    """A reply that occurs once: its text names the request."""
    mark = hashlib.sha256(json.dumps(body["messages"]).encode()).hexdigest()[:12]
    text = str(body["messages"][-1]["content"])
    if text.startswith("Recall: "):
        return f"Recalled {mark}."
    reply = steady_reply(body)
    return json.dumps({**json.loads(reply), "reason": mark}) if reply.startswith('{"score"') else f"{reply} {mark}"


class History:
    """The history of a run folder: `events` tell a reader what was done, the rest is checked.

    Attributes:
        stored: Every reply that is in a store.
    """

    def __init__(self, run: Path, server: ScriptedServer) -> None:
        self.run, self.server = run, server
        self.events: list[str] = []
        self.stored: set[str] = set()
        self._checked = len(server.requests)
        self._began = self._checked

    def check(self) -> None:
        """Nothing stored is lost or paid for again, no more is stored than was sent, and contexts are their own."""
        requests = self.server.requests[self._checked :]
        now = {text for texts in stored(self.run).values() for text in texts}
        assert self.stored <= now, (self.events, "lost", sorted(self.stored - now)[:3])
        again = {reply_to(request.body) for request in requests} & self.stored
        assert not again, (self.events, "paid again", sorted(again)[:3])
        assert len(now) <= len(self.server.requests) - self._began, (self.events, "more stored than sent")
        for request in requests:
            text = str(request.body["messages"][-1]["content"])
            question = re.findall(r"<question>\n(.*?)\n</question>", text, re.DOTALL)
            if question and (nonce := re.search(r"NONCE ([0-9a-f]{64})", text)):
                assert hashlib.sha256(question[-1].encode()).hexdigest() == nonce[1], (self.events, "another's context")
            assert "NONCE of nobody" not in text, (self.events, "a line of the log is a context")
        self.stored = now
        self._checked = len(self.server.requests)

    def cut_power(self, whole: Path, left: Path) -> None:
        """Go on with what a power cut has left of `whole`; both are folders, the run's own is replaced."""
        seen, kept = stored(whole), stored(left)
        for name, texts in seen.items():
            lost = texts - kept.get(name, set())
            assert len(lost) <= LOST_BY_POWER_CUT, (self.events, name, "lost by the power cut", sorted(lost)[:3])
        shutil.rmtree(self.run, ignore_errors=True)
        shutil.copytree(left, self.run)
        # What was stored after the instant never was: it may be paid for again.
        self.stored &= {text for texts in seen.values() for text in texts}

    def records(self) -> dict[str, bytes]:
        """The bytes of all records."""
        paths = [path for path in sorted(self.run.glob("100k*/*/*")) if path.suffix in (".json", ".jsonl")]
        return {path.relative_to(self.run).as_posix(): path.read_bytes() for path in paths}


def stored(run: Path) -> dict[str, set[str]]:
    """The replies in each call store of a run, read from a copy: reading merges what a kill left."""
    texts: dict[str, set[str]] = {}
    for path in run.glob("calls/*/*.sqlite"):
        copy = run.parent / "copy" / path.name
        shutil.rmtree(copy.parent, ignore_errors=True)
        copy.parent.mkdir()
        for part in path.parent.glob(f"{path.name}*"):
            shutil.copy(part, copy.parent / part.name)
        with closing(sqlite3.connect(copy)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            rows = connection.execute("SELECT text FROM calls WHERE text IS NOT NULL") if "calls" in tables else ()
            texts[path.name] = {row[0] for row in rows}
    return texts
