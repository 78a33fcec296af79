"""What `--memory` and the parameter `own_memory` name: declared memories, a class in a file, or a program.

A value is `NAME,NAME`, `file.py:Class`, `label=file.py:Class` or `process:NAME:COMMAND`.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from beamlib.errors import UserError
from beamlib.memory.declared import named_memories
from beamlib.settings import PLAIN_NAME

PROCESS = "process:"
OWN_MEMORY = rf".+\.py:[^\W\d]\w{{0,99}}|{PROCESS}[A-Za-z][A-Za-z0-9_-]{{0,59}}:.+"
"""A memory that is declared nowhere: `file.py:Class`, or `process:NAME:COMMAND`. The class, and the name, names a
folder."""
_LABELLED = re.compile(rf"({PLAIN_NAME})=(.+\.py:\w+)")
_EXAMPLE = "process:mine:./mine.pl"


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


def absolute_target(memory: str) -> str:
    """Make the paths in a value absolute: the file of a class, or all words of a command that name files."""
    names = [name.strip() for name in memory.split(",")]
    if {"", *named_memories()}.issuperset(names):
        return ",".join(dict.fromkeys(filter(None, names)))
    if not re.fullmatch(OWN_MEMORY, memory) and memory.startswith(PROCESS):
        raise UserError(f"--memory: {memory!r:.200} is not of the form process:NAME:COMMAND, for example {_EXAMPLE}.")
    if not memory.startswith(PROCESS):
        file = Path(memory.rpartition(":")[0])
        target = memory if file.is_file() else listed_memories(memory)[0]  # a path may have an = of its own
        return with_label(str(Path(target).absolute()), label_of(memory) if target != memory else None)
    name, words = program_of(memory)
    return (
        f"{PROCESS}{name}:{shlex.join(str(Path(word).absolute()) if Path(word).is_file() else word for word in words)}"
    )


def program_of(target: str) -> tuple[str, list[str]]:
    """Return name and words of the command of `process:NAME:COMMAND`."""
    _, name, command = target.split(":", 2)
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserError(f"--memory: the command {command!r} cannot be read ({error}); correct its quotes.") from None
    if not words:
        raise UserError(f"--memory: process:NAME:COMMAND has no command; give one, for example {_EXAMPLE}.")
    return name, words


def class_of(target: str) -> tuple[Path, str]:
    """Return the file and the name of the class of `file.py:Class`; `UserError` if there is no such file."""
    file, colon, name = target.rpartition(":")
    if not colon or not file.endswith(".py") or not name.isidentifier():
        raise UserError(f"own memory: {target!r} is not of the form file.py:Class, for example mine.py:Newest.")
    if not Path(file).is_file():
        raise UserError(f"own memory: the file {file} does not exist; give its path, for example ./mine.py:{name}.")
    return Path(file), name
