"""Memories from outside this package: how `--memory` and the parameter `own_memory` name them, and what declares them.

A value is `NAME,NAME` (declared memories), `file.py:Class`, `label=file.py:Class` or `process:NAME:COMMAND`.
"""

from __future__ import annotations

import re
import shlex
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

from beamlib.errors import UserError
from beamlib.memory.declared import DeclaredMemory, Given, Joins, MemorySettings, named_memories, setting
from beamlib.plugins import plugins
from beamlib.settings import PLAIN_NAME

PROCESS = "process:"
OWN_MEMORY = rf".+\.py:[^\W\d]\w{{0,99}}|{PROCESS}[A-Za-z][A-Za-z0-9_-]{{0,59}}:.+"
"""A memory that is declared nowhere: `file.py:Class`, or `process:NAME:COMMAND`. The class, and the name, names a
folder."""
_LABELLED = re.compile(rf"({PLAIN_NAME})=(.+\.py:\w+)")
EXAMPLE = "process:mine:./mine.pl"


def listed_memories(memory: str) -> tuple[str, ...]:
    """Split the value of `own_memory`: several memories can be given only by their names, separated by commas."""
    names = memory.split(",")
    if memory and set(named_memories()).issuperset(names):
        return tuple(dict.fromkeys(names))
    labelled = _LABELLED.fullmatch(memory)
    return (labelled[2],) if labelled else (memory,) if memory else ()


def label_of(memory: str) -> str | None:
    """Return the name that the value of `own_memory` has before the file: `newest=mine.py:Newest`."""
    labelled = _LABELLED.fullmatch(memory)
    return labelled[1] if labelled else None


def with_label(target: str, label: str | None) -> str:
    """Return the value of `own_memory` for a memory; only those in files bear labels."""
    return f"{label}={target}" if label and _LABELLED.fullmatch(f"{label}={target}") else target


def only_named(memory: str) -> bool:
    """Tell whether the value of `own_memory` is empty or holds names of declared memories alone."""
    return set(named_memories()).issuperset(listed_memories(memory))


def program_of(target: str) -> tuple[str, list[str]]:
    """Return name and words of the command of `process:NAME:COMMAND`."""
    _, name, command = target.split(":", 2)
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserError(f"--memory: the command {command!r} cannot be read ({error}); correct its quotes.") from None
    if not words:
        raise UserError(f"--memory: process:NAME:COMMAND has no command; give one, for example {EXAMPLE}.")
    return name, words


@dataclass(frozen=True, slots=True)
class CallRule:
    """What a system calls, by which an estimate counts: its own code would find nothing in replies nobody has written.

    Attributes:
        calls: Calls for each pair of messages.
        tokens: Tokens that each call has beside the pair's text.
        output: Tokens of its reply.
        vectors: Requests for vectors for each pair.
    """

    calls: int
    tokens: int
    output: int
    vectors: int


class AdapterSettings(MemorySettings):
    """What memory systems of others are asked with, where they are taken in by name."""

    adapter_k: int = setting(
        0,
        "entries that Mem0, Graphiti and LangMem recall; 0: the K of an option, else 20",
        source="20: ours",
        ge=0,
    )


class Own(DeclaredMemory):
    """A memory from outside this package, in a process of its own: a class in a file, or a command."""

    name = "own"
    order = 80
    joins: ClassVar[Joins] = "by target"
    uses: ClassVar[tuple[str, ...]] = ("full_context_window", "token_counter", "memory_timeout")
    own_settings: ClassVar[type[MemorySettings]] = AdapterSettings
    roles = ("reader", "memory")  # its own calls go to the role memory
    outside = True
    rule: ClassVar[CallRule | None] = None
    """What an estimate counts it by, if it is known."""

    @classmethod
    def settings_names(cls) -> tuple[str, ...]:
        """Return what it uses: `adapter_k` reaches adapters alone, which use it."""
        return cls.uses

    @classmethod
    def opened(cls, given: Given) -> AbstractContextManager[Any]:
        return plugins().open_memory(given.arm, given.settings, given.models)


class Imported(DeclaredMemory):
    """A memory of which only published answers and verdicts are known."""

    name = "imported"
    order = 90
    joins = "by target"
