"""Serve the user's own memory in this process: JSON lines on stdin and stdout, one reply per request.

    {"id": "a", "method": "hello", ...}                    -> {"id": "a", "protocol": 2, "name": "newest"}
    {"id": "b", "method": "ingest", "conversation": {...}} -> {"id": "b"}
    {"id": "c", "method": "recall", "question": "..."}     -> {"id": "c", "context": "...", "message_ids": [],
                                                               "parts": {}, "gaps": 0}

A failure is `{"id": "c", "error": "why"}`, with `"transient": true` if a connection was lost or timed out. The
conversation has the fields of `beamlib.data.conversations.Conversation`. Nothing else comes in: no probe ids, no gold,
no object of the parent. The memory finds stdin empty, and what it prints goes to stderr, so neither mixes with the
exchange. A process that the memory forks has no part in the exchange either.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import operator
import os
import queue
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from pydantic import TypeAdapter

from beam_memories.adapters.host import is_lost_connection
from beamlib.data.conversations import Conversation
from beamlib.memory.protocol import Memory, RetrievedContext

CONVERSATION = TypeAdapter(Conversation)
GRACE = 2.0
"""Seconds that a memory gets to end by itself once nothing more is asked."""


PROTOCOL = 2
"""The version of the process protocol (docs/memories.md)."""

_PR_SET_PDEATHSIG = 1


class _Unusable(Exception):
    """What the memory did wrong, in our words."""


class _Server:
    def __init__(self, file: str, name: str) -> None:
        self._file, self._name = file, name
        self._memory: Memory | None = None

    def answer(self, line: bytes) -> dict[str, Any]:
        """Answer one request; whatever the memory raises, `SystemExit` too, becomes an error reply."""
        request = json.loads(line)
        return {"id": request["id"], **self._answer(request)}

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        step = "the class"
        try:
            if self._memory is None:
                self._memory = self._made()
            step = request["method"]
            match step:
                case "ingest":
                    self._memory.ingest(CONVERSATION.validate_python(request["conversation"]))
                case "recall":
                    return _plain(self._memory.recall(request["question"]))
                case "hello":
                    name = self._memory.name
                    return {"protocol": PROTOCOL, **({"name": name} if isinstance(name, str) else {})}
            return {}
        except _Unusable as error:
            return {"error": str(error)}
        except BaseException as error:
            reply: dict[str, Any] = {"error": f"{step} raised {_described(error)}"}
            return reply | ({"transient": True} if is_lost_connection(error) else {})

    def _made(self) -> Memory:
        spec = importlib.util.spec_from_file_location(f"beamlib_own_{Path(self._file).stem}", self._file)
        if spec is None or spec.loader is None:
            raise _Unusable("the file cannot be loaded as Python")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found: Memory = getattr(module, self._name)()
        for part in ("name", "ingest", "recall"):
            if not hasattr(found, part):
                raise _Unusable(f"it has no '{part}'; see beamlib/memory/protocol.py for the protocol")
        return found


def _plain(found: Any) -> dict[str, Any]:
    if not isinstance(found, RetrievedContext):
        raise _Unusable(f"recall returned {type(found).__name__}, not a Recollection")
    parts = {part: list(ids) for part, ids in found.parts.items()}
    return {"context": found.context, "message_ids": list(found.message_ids), "parts": parts, "gaps": found.gaps}


def _described(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # its __str__ raises in turn
        return "an exception that cannot be shown"


def _encoded(reply: dict[str, Any]) -> bytes:
    try:
        # operator.index: the ids may be whole numbers of numpy.
        return json.dumps(reply, ensure_ascii=False, allow_nan=False, default=operator.index).encode()
    except BaseException as error:
        reason = f"recall returned what no JSON can carry ({_described(error)})"
        return json.dumps({"id": reply["id"], "error": reason}).encode()


def _listen(requests: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    with suppress(OSError, ValueError):
        for line in requests:
            lines.put(line)
    lines.put(b"")
    time.sleep(GRACE)  # the parent is gone or done, but the memory is still busy
    os.killpg(0, signal.SIGKILL)


def _keep_from_forks(*channel: IO[bytes]) -> None:
    """Let a forked child read and write nothing where `channel` was, and hold no end of it open."""

    def _part() -> None:
        nothing = os.open(os.devnull, os.O_RDWR)
        for file in channel:
            os.dup2(nothing, file.fileno(), inheritable=False)
        os.close(nothing)

    os.register_at_fork(after_in_child=_part)


def main(file: str, name: str) -> None:
    """Serve the class `name` of `file` until stdin closes."""
    if sys.platform == "linux":
        # It ends with its parent, even in a C function; when the system runs out of memory, it is killed first.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    _keep_from_forks(requests, replies)
    process = os.getpid()
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, lines), daemon=True).start()
    server = _Server(file, name)
    while line := lines.get():
        reply = _encoded(server.answer(line))
        if os.getpid() != process:  # a child that the memory forked, perhaps in C, and that came back from its method
            os._exit(0)
        replies.write(reply + b"\n")
        replies.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
