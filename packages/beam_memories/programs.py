"""What the name of a memory stands for: the command of its process, and what it is told."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from beam_memories import keeper
from beam_memories.own_process import PROTOCOL
from beamlib.beside import beside
from beamlib.data.conversations import Conversation
from beamlib.errors import UserError
from beamlib.files import sha256, sha256_of_file, to_json
from beamlib.params import ADAPTERS, EVOLVING, OWN_MEMORY, PROCESS

__all__ = ["PROTOCOL", "Program", "batches", "memory_place", "notes_of", "own_memory_hash", "own_settings", "program"]

_EXAMPLE = "process:mine:./mine.pl"

_MOST_MESSAGES, _MOST_CHARACTERS = 100, 1 << 20
"""Of one `ingest`, where a program is told a conversation; a single pair may be longer."""


@dataclass(frozen=True, slots=True)
class Program:
    """How a memory is begun. `whole`: it is told a conversation at once, as a class is; `kept`: by `keeper.py`."""

    name: str
    command: Sequence[str]
    whole: bool = False
    kept: bool = True
    adapter: bool = False


def program(target: str) -> Program:
    """What `target` stands for: `file.py:Class`, `process:NAME:COMMAND`, or an adapter by its name."""
    begin = [sys.executable, "-I", "-B", "-u", str(keeper.__file__)]
    if target in ADAPTERS:
        return Program(target, [*begin, *beside("memories", "adapters.installed").command(target)], adapter=True)
    if target.startswith(PROCESS):
        _, name, command = target.split(":", 2)
        return Program(name, [*begin, *_words(command)])
    path, name = _parts(target)
    # -P: no module of the user's folder stands in for another's; -B: nothing is left beside the user's file.
    begin = [sys.executable, "-P", "-B", "-u", "-m", "beam_memories.own_process", str(path), name]
    return Program(name, begin, whole=True, kept=False)


def memory_place(given: str) -> str:
    """The memory that an option names, as it is found from any folder: its file absolute, in a command all words that
    name files."""
    if given in ("", *EVOLVING, *ADAPTERS):
        return given
    if not re.fullmatch(OWN_MEMORY, given) and PROCESS in given[: len(PROCESS)]:
        raise UserError(f"--memory: {given!r:.200} is not of the form process:NAME:COMMAND, for example {_EXAMPLE}.")
    if not given.startswith(PROCESS):
        return str(Path(given).absolute())
    kind, name, command = given.split(":", 2)
    words = [str(Path(word).absolute()) if Path(word).is_file() else word for word in _words(command)]
    return f"{kind}:{name}:{shlex.join(words)}"


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserError(f"--memory: the command {command!r} cannot be read ({error}); correct its quotes.") from None
    if not words:
        raise UserError(f"--memory: process:NAME:COMMAND has no command; give one, for example {_EXAMPLE}.")
    return words


def _parts(target: str) -> tuple[Path, str]:
    file, colon, name = target.rpartition(":")
    if not colon or not file.endswith(".py") or not name.isidentifier():
        raise UserError(f"own memory: {target!r} is not of the form file.py:Class, for example mine.py:Newest.")
    if not Path(file).is_file():
        raise UserError(f"own memory: the file {file} does not exist; give its path, for example ./mine.py:{name}.")
    return Path(file), name


def own_memory_hash(target: str) -> str:
    """Hash of what a memory is made of, so that its answers are made again when it changes.

    That is the file of a class, a command with the files that it names, and of an adapter its code and the versions of
    what it adapts.
    """
    if target in ADAPTERS:
        return sha256(to_json(beside("memories", "adapters.installed").identity(target)))
    if target.startswith(PROCESS):
        words = _words(target.split(":", 2)[2])
        return sha256(to_json([[word, sha256_of_file(Path(word)) if Path(word).is_file() else ""] for word in words]))
    return sha256_of_file(_parts(target)[0])


def notes_of(target: str) -> tuple[str, ...]:
    """What a table has to say of a memory: what an adapter adapts, and how that differs from the vendor's product."""
    return tuple(beside("memories", "adapters.installed").identity(target)["notes"]) if target in ADAPTERS else ()


def own_settings(name: str, target: str) -> dict[str, Any]:
    """What a suite's answers record of a memory called `name`: the hash of what it is, and an adapter's notes."""
    found: dict[str, Any] = {"own_memory": name, "file": own_memory_hash(target)}
    notes = notes_of(target)
    return {**found, "notes": notes} if notes else found


def batches(conversation: Conversation) -> Iterator[list[dict[str, Any]]]:
    """The messages of a conversation as a program is told them, a few pairs at a time and never of two sessions."""
    for session, batch in enumerate(conversation.batches):
        held: list[dict[str, Any]] = []
        for pair in (pair for turn in batch.turns for pair in turn.pairs):
            told = [
                {"id": one.id, "role": one.role, "content": one.content, "session": session,
                 "time": _date(batch.time_anchor)}
                for one in (pair.user, pair.assistant)
            ]  # fmt: skip
            size = sum(len(one["content"]) for one in (*held, *told))
            if held and (len(held) + 2 > _MOST_MESSAGES or size > _MOST_CHARACTERS):
                yield held
                held = []
            held += told
        if held:
            yield held


@cache
def _date(anchor: str | None) -> str | None:
    """`March-15-2024` as `2024-03-15`; None where there is none, or one that no calendar has."""
    try:
        return datetime.strptime(anchor or "", "%B-%d-%Y").date().isoformat()
    except ValueError:
        return None
