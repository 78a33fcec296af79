"""Find conversations on disk: the released folder layout, or parquet files of the hub datasets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from beamlib.data.conversations import NUMBER, SIZES, Size, find_size
from beamlib.errors import UserError
from beamlib.places import CHAT

CUT_CHAT, QUESTIONS = "chat_trunecated.json", "probing_questions/probing_questions.json"
CUTOFF = "plan_cutoff.txt"
"""In a 10M conversation: how many of its plans the evaluation read."""
_EXPECTED = (
    "expected a folder laid out like the released chats/ (100K/1/chat.json, ...), one of its tiers, one conversation, "
    "or parquet files of the hub datasets (100K-00000-of-00001.parquet, ...)"
)
_PLAN = re.compile(r"plan-(0|[1-9][0-9]{0,2})")
_PARQUET = re.compile(r"(?P<split>[0-9]+[KkMm])-(?P<part>[0-9]+)-of-(?P<parts>[0-9]+)\.parquet")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a conversation lies. `id` is `<size>-<directory>`; `path` is its folder, or the parquet file of `row`."""

    id: str
    size: Size
    path: Path
    kind: Literal["released", "hub"]
    row: int = 0

    @property
    def number(self) -> int:
        """The directory number in the released layout."""
        return int(self.id.rpartition("-")[2])


class SourceProblem(NamedTuple):
    """What is wrong with a folder, as a sentence. `size` is the tier that lacks something; None if no tier does."""

    size: Size | None
    sentence: str


_Scan = tuple[list[Source], list[SourceProblem]]


def find_conversations(folder: Path, sizes: Sequence[Size] | None = None) -> list[Source]:
    """Find the conversations in `folder`, sorted by size, then number.

    Accepts the released layout (`folder/100K/7`, `folder/chats/100K/7`), one tier of it, one conversation folder, or a
    folder with parquet files of the hub datasets (searched through all its subfolders).

    Args:
        sizes: Find these only; None for all.

    Raises:
        UserError: If there is none, or if one of these sizes has a conversation twice or without a number.
    """
    sources, problems = scan(folder)
    for problem in problems:
        if (not sources) if problem.size is None else (sizes is None or problem.size in sizes):
            raise UserError(problem.sentence)
    chosen = [source for source in sources if sizes is None or source.size in sizes]
    if not chosen:
        there = ", ".join(size for size in SIZES if any(source.size == size for source in sources))
        raise UserError(f"{folder}: no conversation of size {', '.join(sizes or ())}; there are {there}.")
    return chosen


def scan(folder: Path) -> _Scan:
    """Find all conversations in `folder`, sorted, and what is wrong with the folder.

    Raises:
        UserError: If there is neither a conversation nor a problem.
    """
    if not _is_folder(folder):
        raise UserError(f"{folder}: not a folder; {_EXPECTED}.")
    released, problems = _scan_released(folder.absolute())
    in_parquet, more_problems = _scan_parquet(folder.absolute())  # a folder may have both
    problems += more_problems
    unique: dict[str, Source] = {}
    for source in released + in_parquet:
        other = unique.setdefault(source.id, source)
        if other is not source:
            sentence = f"{source.path}: conversation {source.id} is also at {other.path}; remove one of them."
            problems.append(SourceProblem(source.size, sentence))
    if not unique and not problems:
        raise UserError(f"{folder}: no conversation found; {_EXPECTED}.")
    return sorted(unique.values(), key=lambda source: (SIZES.index(source.size), source.number)), problems


def plan_folders(folder: Path) -> dict[int, Path]:
    """Find the `plan-k` folders of a 10M conversation that hold a chat, by k."""
    plans = {
        int(match[1]): path
        for path in _entries(folder)
        if (match := _PLAN.fullmatch(path.name)) and present(path / CHAT)
    }
    return dict(sorted(plans.items()))


def present(path: Path) -> bool:
    """Tell whether anything is at `path`, even a broken link: what is unreadable must not be skipped silently."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UserError(f"{path}: cannot be looked at ({error.strerror}); check path and permissions.") from None
    return True


def _is_folder(path: Path) -> bool:
    return present(path) and path.is_dir()


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise UserError(f"{folder}: cannot be listed ({error.strerror}); check its permissions.") from None


def _is_conversation(folder: Path) -> bool:
    return any(present(folder / name) for name in (CHAT, CUT_CHAT, QUESTIONS)) or bool(plan_folders(folder))


def _scan_released(folder: Path) -> _Scan:
    if _is_conversation(folder):
        size = find_size(folder.parent.name)
        if size is None or not NUMBER.fullmatch(folder.name):
            sentence = "a conversation whose size cannot be told; name it like 100K/7 (its tier, then its number)"
            return [], [SourceProblem(None, f"{folder}: {sentence}.")]
        return [Source(f"{size}-{folder.name}", size, folder, "released")], []
    below = [path for base in (folder, folder / "chats") if _is_folder(base) for path in _entries(base)]
    candidates = [folder, *filter(_is_folder, below)]
    tiers = [(path, size) for path in candidates if (size := find_size(path.name)) is not None]
    sources: list[Source] = []
    problems: list[SourceProblem] = []
    for tier, size in tiers:
        for path in _entries(tier):
            if NUMBER.fullmatch(path.name):  # a file too: it is named like a conversation, and reading it says so
                sources.append(Source(f"{size}-{path.name}", size, path, "released"))
            elif _is_folder(path) and find_size(path.name) is None and _is_conversation(path):
                sentence = "holds a conversation, but its name is no number from 1 up; rename it or move it away"
                problems.append(SourceProblem(size, f"{path}: {sentence}."))
    return sources, problems


def _scan_parquet(folder: Path) -> _Scan:
    sources: list[Source] = []
    problems: list[SourceProblem] = []
    parts: dict[tuple[Path, str, Size, str], set[int]] = {}
    for path in sorted(folder.rglob("*.parquet")):
        name = _PARQUET.fullmatch(path.name)
        size = find_size(name["split"]) if name else None
        if size is None:
            sentence = "the file name does not tell the split; expected a name like 100K-00000-of-00001.parquet"
            problems.append(SourceProblem(None, f"{path}: {sentence}."))
            continue
        if name:
            parts.setdefault((path.parent, name["split"], size, name["parts"]), set()).add(int(name["part"]))
        from beamlib.data.parquet import conversation_numbers  # here, because pyarrow takes 0.2 s to import

        try:
            numbers = conversation_numbers(path)
        except UserError as error:
            problems.append(SourceProblem(size, str(error)))
        else:
            sources += [Source(f"{size}-{number}", size, path, "hub", row) for row, number in enumerate(numbers)]
    for (parent, split, size, total), there in parts.items():
        if int(total) > len(there):
            absent = next(part for part in range(int(total)) if part not in there)
            sentence = (
                f"{parent}: {split}-{absent:05}-of-{total}.parquet is missing: {len(there)} of {int(total)} files of "
                f"{size} are there; download the rest into this folder."
            )
            problems.append(SourceProblem(size, sentence))
    return sources, problems
