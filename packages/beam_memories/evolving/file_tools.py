"""Files that a model edits by tools. They are texts in memory: no name becomes part of a path.

Names, number of files and sizes are bounded. A refused call is answered by one sentence (`ToolRefused`). ("MEME", arXiv
2605.12477, section 1 of the fact sheet.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from beamlib.llm.model import ToolDefinition
from beamlib.memory.budget import shorten
from beamlib.text import WORDS, TokenCounter

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}\.md", re.ASCII)
_RANGES = re.compile(r"\d{1,7}(\s*-\s*\d{1,7})?(\s*[,;]\s*\d{1,7}(\s*-\s*\d{1,7})?){0,99}", re.ASCII)
_WORD = re.compile(r"\w{2,}")
_MOST_FOUND = 60  # lines that words find
_MOST_DELETED = 10  # lines that one call deletes: a common word would empty the file
_MOST_LINES = 50_000
_MOST_RANGES = 200  # that one text names


class ToolRefused(Exception):
    """A call that is refused; the text is one sentence for the model."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that a folder may hold: `files`, and characters per file and in all."""

    files: int = 200
    file_characters: int = 400_000
    characters: int = 4_000_000


class Folder:
    """Texts by file name. A change is applied completely or refused by `ToolRefused`."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        self.bounds = bounds or Bounds()
        self._texts: dict[str, str] = {}

    @property
    def texts(self) -> dict[str, str]:
        """A copy of all texts, in order of name."""
        return dict(sorted(self._texts.items()))

    def read(self, name: str) -> str:
        """Return the text of a file; empty where a valid name has none."""
        if not NAME.fullmatch(name):
            raise ToolRefused(
                f"{name!r:.80} is no file name here; use small letters, digits and hyphens, then .md, as in trips.md."
            )
        return self._texts.get(name, "")

    def write(self, name: str, text: str) -> None:
        """Replace or create the text of a file; an empty text deletes it."""
        before = self.read(name)
        if len(text) > self.bounds.file_characters or text.count("\n") > _MOST_LINES:
            raise ToolRefused(f"{name} would be longer than a file may be; write less, or take something out first.")
        if sum(map(len, self._texts.values())) - len(before) + len(text) > self.bounds.characters:
            raise ToolRefused("All files together would be longer than they may be; take something out first.")
        if name not in self._texts and text and len(self._texts) >= self.bounds.files:
            raise ToolRefused(f"There are {self.bounds.files} files, and no more are possible; use one of them.")
        self._texts[name] = text
        if not text:
            del self._texts[name]


Arguments = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its definition for the model, and the function that carries out a call and describes the result."""

    definition: ToolDefinition
    act: Callable[[Folder, Arguments], str]


@dataclass(frozen=True, slots=True)
class FileTools:
    """Create the tools on a folder: on its single file `only`, or on the file that a call names.

    `tokens` bounds the result of one read.
    """

    only: str = ""
    tokens: int = 8_000
    counter: TokenCounter = WORDS

    def reading(self) -> tuple[Tool, ...]:
        """Return the tool `read`."""
        return (self._tool("read", "Shows lines of the file, each with its number.", self._read, (_WHAT,)),)

    def writing(self) -> tuple[Tool, ...]:
        """Return `read`, `append`, `replace` and `delete`."""
        appended = ("text", "the line or lines to add at the end of the file")
        old, new = ("old", "text that stands in the file once, without line numbers"), ("new", "what it becomes")
        deleted = ("text", f"text without line numbers; at most {_MOST_DELETED} lines may hold it")
        return (
            *self.reading(),
            self._tool("append", "Adds text at the end of the file.", self._append, (appended,)),
            self._tool("replace", "Replaces a text in the file by another.", self._replace, (old, new)),
            self._tool("delete", "Deletes every line of the file that holds a text.", self._delete, (deleted,)),
        )

    def _tool(
        self, name: str, about: str, act: Callable[[Folder, Arguments], str], arguments: tuple[tuple[str, str], ...]
    ) -> Tool:
        named = () if self.only else (("file", "the file's name, such as trips.md"),)
        return Tool(ToolDefinition(name, about, (*named, *arguments)), act)

    def _name(self, arguments: Arguments) -> str:
        return self.only or arguments.get("file", "").strip()

    def _read(self, folder: Folder, arguments: Arguments) -> str:
        lines = folder.read(self._name(arguments)).splitlines()
        found = chosen_lines(arguments.get("what", ""), lines)
        if not found:
            return "The file is empty." if not lines else "No line is like that."
        text = "\n".join(f"{number}: {lines[number - 1]}" for number in found)
        return shorten(text, self.tokens, self.counter)

    def _append(self, folder: Folder, arguments: Arguments) -> str:
        name, text = self._name(arguments), _needed(arguments, "text").strip("\n")
        before = folder.read(name)
        folder.write(name, f"{before}{text}\n")
        return "Added."

    def _replace(self, folder: Folder, arguments: Arguments) -> str:
        name, old = self._name(arguments), _needed(arguments, "old")
        before = folder.read(name)
        times = before.count(old)
        if times != 1:
            raise ToolRefused(f"The text to replace stands in the file {times} times; give one that stands there once.")
        folder.write(name, before.replace(old, arguments.get("new", "")))
        return "Replaced."

    def _delete(self, folder: Folder, arguments: Arguments) -> str:
        name, text = self._name(arguments), _needed(arguments, "text").strip()
        lines = folder.read(name).splitlines()
        kept = [line for line in lines if text.lower() not in line.lower()]
        if not 0 < len(lines) - len(kept) <= _MOST_DELETED:
            raise ToolRefused(f"{len(lines) - len(kept)} lines hold that text; give a text that 1 to 10 lines hold.")
        folder.write(name, "".join(f"{line}\n" for line in kept))
        return f"Deleted {len(lines) - len(kept)} of {len(lines)} lines."


_WHAT = ("what", "`all`, line numbers such as 1-40, 95, or words: then the lines that hold most of them")


def _needed(arguments: Arguments, name: str) -> str:
    if not arguments.get(name, "").strip():
        raise ToolRefused(f"The call lacks the argument {name!r}; give it.")
    return arguments[name]


def chosen_lines(what: str, lines: Sequence[str]) -> list[int]:
    """Return the line numbers (from 1) that `what` selects: all, ranges, or the lines with most of its words."""
    what = what.strip()
    if what.lower() in ("", "all"):
        return list(range(1, len(lines) + 1))
    return numbers_in(what, len(lines)) if _RANGES.fullmatch(what) else _holding(what, lines)


def numbers_in(text: str, last: int) -> list[int]:
    """Return the line numbers from 1 to `last` in a text of ranges, in order, without repeats."""
    found: set[int] = set()
    for one in islice(re.finditer(r"(\d{1,7})(?:\s*-\s*(\d{1,7}))?", text, re.ASCII), _MOST_RANGES):
        found.update(range(max(int(one[1]), 1), min(int(one[2] or one[1]), last) + 1))
    return sorted(found)


def _holding(words: str, lines: Sequence[str]) -> list[int]:
    wanted = {word.lower() for word in _WORD.findall(words)}
    shares = [len(wanted.intersection(word.lower() for word in _WORD.findall(line))) for line in lines]
    best = sorted((number for number, share in enumerate(shares, 1) if share), key=lambda n: (-shares[n - 1], n))
    return sorted(best[:_MOST_FOUND])
