"""Memories that stand for what is named otherwise: a program of somebody else's, and results that others published."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

from beamlib.memory.declared import DeclaredMemory, Given, Joins, MemorySettings, setting
from beamlib.plugins import plugins


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


def spread_k(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that options give, with a K that they give for systems of others, too."""
    return {"adapter_k": settings["k"], **settings} if "k" in settings else dict(settings)


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
        """Start its process, which ends with the block."""
        return plugins().open_memory(given.arm, given.settings, given.models)


class Imported(DeclaredMemory):
    """A memory of which only published answers and verdicts are known."""

    name = "imported"
    order = 90
    joins = "by target"
