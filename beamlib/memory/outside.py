"""Memories that stand for what is named otherwise: a program of somebody else's, and results that others published."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

from beamlib.memory.declared import DeclaredMemory, Given, Joins
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


class Own(DeclaredMemory):
    """A memory from outside this package, in a process of its own: a class in a file, or a command."""

    name = "own"
    order = 80
    joins: ClassVar[Joins] = "by target"
    uses = ("full_context_window", "token_counter", "memory_timeout")
    roles = ("reader", "memory")  # its own calls go to the role memory
    outside = True
    rule: ClassVar[CallRule | None] = None
    """What an estimate counts it by, if it is known."""

    @classmethod
    def opened(cls, given: Given) -> AbstractContextManager[Any]:
        """Start its process, which ends with the block."""
        return plugins().open_memory(given.arm, given.settings, given.models)


class Imported(DeclaredMemory):
    """A memory of which only published answers and verdicts are known."""

    name = "imported"
    order = 90
    joins = "by target"
