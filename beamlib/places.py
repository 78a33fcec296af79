"""Paths in the repository, and folders of data, which nothing is written into."""

from __future__ import annotations

from pathlib import Path

from beamlib.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
PARAMS, PROMPTS, NOTEBOOKS, RUNS = (ROOT / name for name in ("params", "prompts", "notebooks", "runs"))

CHAT = "chat.json"
RECORD = "generation.json"
"""In a generated conversation, or beside generated dialogues: how it was generated (`beam_generate.folder`)."""
_TIER = "[0-9]*[KkMm]/*/"
_HUB = "[0-9]*[KkMm]-*-of-*.parquet"
_DATA = (
    CHAT, f"{_TIER}{CHAT}", f"{_TIER}plan-*/{CHAT}", _HUB,
    "dialogue_*.json", "dataset/dialogue_*.json", "templates.jsonl.gz",
    "*nofiller.json", "*filler32k.json", "*filler128k.json",
)  # fmt: skip
"""Released data as seen from the folder that holds it."""
_DATA_BELOW = (f"chats/{_TIER}{CHAT}", f"data/{_HUB}")


def in_root(path: str) -> str:
    """Make a path absolute, relative paths from the repository's top folder; empty stays empty."""
    return str(ROOT / path) if path else ""


def from_root(path: str | Path) -> str:
    """Write a path relative to the repository's top folder if it is below it, else unchanged."""
    return Path(path).relative_to(ROOT).as_posix() if Path(path).is_relative_to(ROOT) else str(path)


def refuse_data(folder: Path, *, parquet: bool = False) -> None:
    """Raise `UserError` if `folder` is, holds or lies in a folder of data that was not generated here.

    Data are conversations, dialogues and episodes in the released layouts without a record of their generation.

    Args:
        parquet: Ignore files of the hub datasets: the download writes them.
    """
    for parent in (folder.absolute(), *folder.resolve().parents):
        patterns = (*_DATA, *_DATA_BELOW) if parent == folder.absolute() else _DATA
        for path in (path for pattern in patterns for path in parent.glob(pattern)):
            recorded_in = path.parent.parent if path.parent.name == "dataset" else path.parent
            if not (recorded_in / RECORD).exists() and not (parquet and path.suffix == ".parquet"):
                raise UserError(
                    f"{folder}: nothing is written into a folder of data, and {path} was not generated here; choose "
                    "another folder."
                )
