"""Where things lie in the repository: the one place that knows how deep a file is in it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARAMS, PROMPTS, NOTEBOOKS, RUNS = (ROOT / name for name in ("params", "prompts", "notebooks", "runs"))


def in_root(path: str) -> str:
    """A path that counts from the repository's top folder where it is relative, absolute; none stays none."""
    return str(ROOT / path) if path else ""


def from_root(path: str | Path) -> str:
    """A path as it is typed in the repository's top folder: relative where it lies below, else as it is."""
    found = Path(path)
    return found.relative_to(ROOT).as_posix() if found.is_relative_to(ROOT) else str(path)
