"""Finding conversations on disk: the released folder layout, or parquet files of the hub datasets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from beamlib.data.conversations import NUMBER, SIZES, Size
from beamlib.errors import UserError

CHAT, CUT_CHAT, QUESTIONS = "chat.json", "chat_trunecated.json", "probing_questions/probing_questions.json"
CUTOFF = "plan_cutoff.txt"
"""In a 10M conversation: how many of its plans the evaluation read."""
RECORD = "generation.json"
"""In a conversation that was made here, or beside dialogues: how (`beam_generate.folder`)."""
EXPECTED = (
    "expected a folder laid out like the released chats/ (100K/1/chat.json, ...), one of its tiers, one conversation, "
    "or parquet files of the hub datasets (100K-00000-of-00001.parquet, ...)"
)
_TIER = "[0-9]*[KkMm]/*/"
_HUB = "[0-9]*[KkMm]-*-of-*.parquet"
_DATA = (
    CHAT, f"{_TIER}{CHAT}", f"{_TIER}plan-*/{CHAT}", _HUB,
    "dialogue_*.json", "dataset/dialogue_*.json", "templates.jsonl.gz",
    "*nofiller.json", "*filler32k.json", "*filler128k.json",
)  # fmt: skip
_DATA_BELOW = (f"chats/{_TIER}{CHAT}", f"data/{_HUB}")
"""Data as it is released, seen from a folder that holds it; the second, only where somebody wants to write into it."""
_PLAN = re.compile(r"plan-(0|[1-9][0-9]{0,2})")
_PARQUET = re.compile(r"(?P<split>[0-9]+[KkMm])-[0-9]+-of-[0-9]+\.parquet")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a conversation lies. `id` is `<size>-<directory>`; `path` is its folder, or the parquet file and `row`."""

    id: str
    size: Size
    path: Path
    kind: Literal["released", "hub"]
    row: int = 0

    @property
    def number(self) -> int:
        """The directory number in the released layout."""
        return int(self.id.rpartition("-")[2])


def parse_size(text: str) -> Size:
    """A tier by its name in any case; `128K` is the paper's name of 100K. Anything else is a `UserError`."""
    name = text.strip().upper()
    for size in SIZES:
        if name == size or (size == "100K" and name == "128K"):
            return size
    raise UserError(f"{text!r} is no size of the benchmark; use one of {', '.join(SIZES)} (128K means 100K).")


def find_conversations(folder: Path, sizes: Sequence[Size] | None = None) -> list[Source]:
    """The conversations in `folder`, sorted by size, then number; only `sizes` if given.

    Accepts the released layout (`folder/100K/7`, `folder/chats/100K/7`), one tier of it, one conversation folder, or a
    folder with parquet files of the hub datasets (searched through all its subfolders). Finding nothing, or, of the
    sizes asked for, a conversation twice or one under a name that is no number, is a `UserError`.
    """
    found, problems = scan(folder)
    for problem in problems:
        if (not found) if problem.size is None else (sizes is None or problem.size in sizes):
            raise UserError(problem.sentence)
    wanted = [source for source in found if sizes is None or source.size in sizes]
    if not wanted:
        there = ", ".join(size for size in SIZES if any(source.size == size for source in found))
        raise UserError(f"{folder}: no conversation of size {', '.join(sizes or ())}; there are {there}.")
    return wanted


class SourceProblem(NamedTuple):
    """What is wrong with a folder, as a sentence, and in which tier; where in none, no run misses anything."""

    size: Size | None
    sentence: str


def scan(folder: Path) -> tuple[list[Source], list[SourceProblem]]:
    """All conversations in `folder`, sorted, and what is wrong with the folder.

    Only a folder without any conversation or problem is a `UserError`.
    """
    if not _is_folder(folder):
        raise UserError(f"{folder}: not a folder; {EXPECTED}.")
    parts = [_released(folder.absolute()), _parquet(folder.absolute())]  # a folder may hold both
    found = [source for sources, _ in parts for source in sources]
    problems = [problem for _, told in parts for problem in told]
    if not found and not problems:
        raise UserError(f"{folder}: no conversation found; {EXPECTED}.")
    first: dict[str, Source] = {}
    for source in found:
        other = first.setdefault(source.id, source)
        if other is not source:
            sentence = f"{source.path}: conversation {source.id} is also at {other.path}; remove one of them."
            problems.append(SourceProblem(source.size, sentence))
    return sorted(first.values(), key=lambda source: (SIZES.index(source.size), source.number)), problems


def plan_folders(folder: Path) -> dict[int, Path]:
    """The `plan-k` folders of a 10M conversation that hold a chat, by their 0-based number."""
    found = {
        int(match[1]): path
        for path in _subfolders(folder)
        if (match := _PLAN.fullmatch(path.name)) and present(path / CHAT)
    }
    return dict(sorted(found.items()))


def present(path: Path) -> bool:
    """Whether there is something at `path`, be it a broken link: what is there and unreadable is not passed over."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UserError(f"{path}: cannot be looked at ({error.strerror}); check path and permissions.") from None
    return True


def _tier(name: str) -> Size | None:
    return next((size for size in SIZES if name.upper() == size or (size == "100K" and name.upper() == "128K")), None)


def _subfolders(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if _is_folder(path)]


def _is_folder(path: Path) -> bool:
    return present(path) and path.is_dir()


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise UserError(f"{folder}: cannot be listed ({error.strerror}); check its permissions.") from None


def _looks_like_conversation(folder: Path) -> bool:
    return any(present(folder / name) for name in (CHAT, CUT_CHAT, QUESTIONS)) or bool(plan_folders(folder))


def _released(folder: Path) -> tuple[list[Source], list[SourceProblem]]:
    if _looks_like_conversation(folder):
        size = _tier(folder.parent.name)
        if size is None or not NUMBER.fullmatch(folder.name):
            sentence = "a conversation whose size cannot be told; name it like 100K/7 (its tier, then its number)"
            return [], [SourceProblem(None, f"{folder}: {sentence}.")]
        return [Source(f"{size}-{folder.name}", size, folder, "released")], []
    own = _tier(folder.name)
    tiers = [(folder, own)] if own is not None else []
    for base in (folder, folder / "chats"):
        if _is_folder(base):
            tiers += [(path, size) for path in _subfolders(base) if (size := _tier(path.name)) is not None]
    found: list[Source] = []
    problems: list[SourceProblem] = []
    for tier, size in tiers:
        for path in _entries(tier):
            if NUMBER.fullmatch(path.name):  # also what is no folder: it is named like a conversation, and missed
                found.append(Source(f"{size}-{path.name}", size, path, "released"))
            elif _is_folder(path) and _tier(path.name) is None and _looks_like_conversation(path):
                sentence = "holds a conversation, but its name is no number from 1 up; rename it or move it away"
                problems.append(SourceProblem(size, f"{path}: {sentence}."))
    return found, problems


def _parquet(folder: Path) -> tuple[list[Source], list[SourceProblem]]:
    found: list[Source] = []
    problems: list[SourceProblem] = []
    for path in sorted(folder.rglob("*.parquet")):
        name = _PARQUET.fullmatch(path.name)
        size = _tier(name["split"]) if name else None
        if size is None:
            sentence = "the file name does not tell the split; expected a name like 100K-00000-of-00001.parquet"
            problems.append(SourceProblem(None, f"{path}: {sentence}."))
            continue
        from beamlib.data.parquet import conversation_numbers  # here, because pyarrow takes 0.2 s to import

        try:
            found += [Source(f"{size}-{n}", size, path, "hub", row) for row, n in enumerate(conversation_numbers(path))]
        except UserError as error:
            problems.append(SourceProblem(size, str(error)))
    return found, problems


def refuse_data(place: Path, *, parquet: bool = False) -> None:
    """A `UserError` where `place` is, holds or lies in a folder of data that was not generated here.

    Data are conversations, dialogues and episodes in the released layouts without a record of their generation. With
    `parquet`, files of the hub data sets are no reason: the download writes them.
    """
    for folder in (place.absolute(), *place.resolve().parents):
        patterns = (*_DATA, *_DATA_BELOW) if folder == place.absolute() else _DATA
        for found in (path for pattern in patterns for path in folder.glob(pattern)):
            beside = found.parent.parent if found.parent.name == "dataset" else found.parent
            if not (beside / RECORD).exists() and not (parquet and found.suffix == ".parquet"):
                raise UserError(
                    f"{place}: nothing is written into a folder of data, and {found} was not generated here; choose "
                    "another folder."
                )
