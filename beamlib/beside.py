"""What stands beside `beamlib`, in `packages/`, found by its name: nothing here imports any of it.

A package is `beam_<name>`. Those that add commands have a module `cli` with a function `add_to`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from beamlib.data.conversations import Size
from beamlib.errors import UserError

PACKAGES = (
    "claims", "field", "generate", "meme", "memorycode", "memories", "offline", "page", "run", "suite",
)  # fmt: skip


def beside(name: str, module: str = "") -> Any:
    """The package `beam_<name>` or a module of it; a `UserError` where it is not installed."""
    if find_spec(f"beam_{name}") is None:
        raise UserError(f"beam_{name} is not installed; it stands in packages/: install the project whole.")
    return import_module(f"beam_{name}.{module}" if module else f"beam_{name}")


class Priced(Protocol):
    """What some calls come to, before any is made."""

    @property
    def pending(self) -> int:
        """Calls to make."""

    @property
    def dollars(self) -> float:
        """What they cost."""

    def render(self) -> str:
        """A table as text."""


class Generation(Protocol):
    """The conversations that a run writes into its own folder (`beam_generate.of_run`)."""

    @property
    def names(self) -> str:
        """Who writes."""

    def estimate(self) -> Priced | None:
        """What is left to write would call; None where the offline author writes."""

    def ready(self) -> None:
        """A `UserError` where the key of a model is missing."""

    def stood_in(self, place: Path) -> tuple[Mapping[Size, int], Path]:
        """How many conversations of a size are not written yet, and a folder that has the offline author's instead."""

    def make(self) -> tuple[int, int]:
        """Write them: how many had to be worked on, and how many there are."""
