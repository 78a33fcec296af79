"""Map the name of a memory to the command of its process, its code hash, and the messages it is sent."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from beam_memories import keeper
from beamlib.data.conversations import Conversation
from beamlib.errors import UserError
from beamlib.files import sha256, sha256_of_file, to_json
from beamlib.memory.declared import kind_of
from beamlib.memory.outside import PROCESS, program_of
from beamlib.places import ROOT

HOST = Path(__file__).parent / "adapters" / "host.py"
"""What serves every adapter, with nothing of this project: it runs in an environment that may not have it."""

_PATIENCE = 60.0


def interpreter(name: str) -> Path:
    """Return the Python that runs an adapter: that of `.venv-<name>`, else the project's."""
    own = ROOT / f".venv-{name}" / "bin" / "python"
    return own if own.exists() else Path(sys.executable)


def adapter_command(name: str) -> Sequence[str]:
    """Return the command that serves an adapter; `UserError` where its system is not installed."""
    adapter_identity(name)
    return [str(interpreter(name)), "-I", "-u", str(HOST), name]  # bytecode is kept: these systems are large


@cache
def adapter_identity(name: str) -> dict[str, Any]:
    """Describe an adapter without importing it: its code, the versions of its system, notes for tables."""
    command = [str(interpreter(name)), "-I", str(HOST), name, "--describe"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
        description = json.loads(result.stdout) if result.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        description = None
    if not isinstance(description, dict):
        raise UserError(f"--memory {name}: {interpreter(name)} cannot describe it; make its environment anew.")
    if description["missing"]:
        raise UserError(
            f"--memory {name}: it needs {', '.join(description['missing'])}, not installed in {interpreter(name)}; run "
            f"'pip install \"beamlib[{name}]\"' (in a checkout: .venv/bin/pip install -e '.[{name}]'), or "
            f"scripts/adapters_env.sh {name} for an environment of its own."
        )
    return description


_MOST_MESSAGES, _MOST_CHARACTERS = 100, 1 << 20
"""Of one `ingest`, where a program is told a conversation; a single pair may be longer."""


@dataclass(frozen=True, slots=True)
class Program:
    """The command of a memory. `whole`: it gets a conversation at once, as a class does; `kept`: run by `keeper.py`."""

    name: str
    command: Sequence[str]
    whole: bool = False
    kept: bool = True
    adapter: bool = False


def program(target: str) -> Program:
    """Resolve `target`: `file.py:Class`, `process:NAME:COMMAND`, or an adapter's name."""
    begin = [sys.executable, "-I", "-B", "-u", str(keeper.__file__)]
    if kind_of(target).outside:
        return Program(target, [*begin, *adapter_command(target)], adapter=True)
    if target.startswith(PROCESS):
        name, words = program_of(target)
        return Program(name, [*begin, *words])
    path, name = class_of(target)
    # -P: no module of the user's folder shadows another; -B: no bytecode is written to the user's folder.
    begin = [sys.executable, "-P", "-B", "-u", "-m", "beam_memories.own_process", str(path), name]
    return Program(name, begin, whole=True, kept=False)


def identify_memory(target: str) -> tuple[str, tuple[str, ...]]:
    """Hash a memory's code, so that its answers are made again when it changes, and return the notes of tables on it.

    The hash is over the file of a class, over a command and the files that it names, and over an adapter's code and the
    versions of its system. An adapter's notes say what it adapts and how it differs from the vendor's product.
    """
    if kind_of(target).outside:
        identity = adapter_identity(target)
        return sha256(to_json(identity)), tuple(identity["notes"])
    if target.startswith(PROCESS):
        _, words = program_of(target)
        hashes = [[word, sha256_of_file(Path(word)) if Path(word).is_file() else ""] for word in words]
        return sha256(to_json(hashes)), ()
    return sha256_of_file(class_of(target)[0]), ()


def batches(conversation: Conversation) -> Iterator[list[dict[str, Any]]]:
    """Yield the messages of a conversation for a program, some pairs at a time, never of two sessions."""
    for session, batch in enumerate(conversation.batches):
        batch_messages: list[dict[str, Any]] = []
        for pair in (pair for turn in batch.turns for pair in turn.pairs):
            pair_messages = [
                {"id": message.id, "role": message.role, "content": message.content, "session": session,
                 "time": _date(batch.time_anchor)}
                for message in (pair.user, pair.assistant)
            ]  # fmt: skip
            size = sum(len(message["content"]) for message in (*batch_messages, *pair_messages))
            if batch_messages and (len(batch_messages) + 2 > _MOST_MESSAGES or size > _MOST_CHARACTERS):
                yield batch_messages
                batch_messages = []
            batch_messages += pair_messages
        if batch_messages:
            yield batch_messages


@cache
def _date(anchor: str | None) -> str | None:
    """Convert `March-15-2024` to `2024-03-15`; None without a valid date."""
    try:
        return datetime.strptime(anchor or "", "%B-%d-%Y").date().isoformat()
    except ValueError:
        return None


def class_of(target: str) -> tuple[Path, str]:
    """Return the file and the name of the class of `file.py:Class`; `UserError` if there is no such file."""
    file, colon, name = target.rpartition(":")
    if not colon or not file.endswith(".py") or not name.isidentifier():
        raise UserError(f"own memory: {target!r} is not of the form file.py:Class, for example mine.py:Newest.")
    if not Path(file).is_file():
        raise UserError(f"own memory: the file {file} does not exist; give its path, for example ./mine.py:{name}.")
    return Path(file), name
