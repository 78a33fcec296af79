"""Paths in the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARAMS, PROMPTS, NOTEBOOKS, RUNS = (ROOT / name for name in ("params", "prompts", "notebooks", "runs"))


def in_root(path: str) -> str:
    """Make a path absolute, relative paths from the repository's top folder; empty stays empty."""
    return str(ROOT / path) if path else ""


def from_root(path: str | Path) -> str:
    """Write a path relative to the repository's top folder if it is below it, else unchanged."""
    return Path(path).relative_to(ROOT).as_posix() if Path(path).is_relative_to(ROOT) else str(path)
