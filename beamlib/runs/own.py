"""A memory from outside this package: a class in a file of one's own."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from beamlib.benchmark.model import Conversation
from beamlib.errors import UserError
from beamlib.files import sha256_of_file
from beamlib.memory import Memory, Recollection
from beamlib.models.base import ModelError


def _parts(target: str) -> tuple[Path, str]:
    file, colon, name = target.rpartition(":")
    if not colon or not file.endswith(".py") or not name.isidentifier():
        raise UserError(f"own memory: {target!r} is not of the form file.py:Class, for example mine.py:Newest.")
    if not Path(file).is_file():
        raise UserError(f"own memory: the file {file} does not exist; give its path, for example ./mine.py:{name}.")
    return Path(file), name


def own_memory_hash(target: str) -> str:
    """Hash of the file that holds the memory, so that its answers are made again when it changes."""
    return sha256_of_file(_parts(target)[0])


def own_memory(target: str) -> Memory:
    """A fresh instance of the class named by `file.py:Class`, called without arguments.

    The file is executed: run only what you trust. `UserError` if the class is missing or lacks a part of the protocol.
    """
    file, name = _parts(target)
    spec = importlib.util.spec_from_file_location(f"beamlib_own_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise UserError(f"own memory: {file} cannot be loaded as a Python file.")
    module = importlib.util.module_from_spec(spec)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # nothing is left beside the user's file
    try:
        spec.loader.exec_module(module)
        found: Memory = getattr(module, name)()
    except Exception as error:  # the file is the user's: whatever it raises is told as their input
        raise UserError(f"own memory: {target} could not be made ({type(error).__name__}: {error}).") from error
    finally:
        sys.dont_write_bytecode = writes
    for part in ("name", "ingest", "recall"):
        if not hasattr(found, part):
            raise UserError(f"own memory: {target} has no '{part}'; see beamlib/memory/base.py for the protocol.")
    return _Guarded(found)


class _Guarded:
    """Someone else's memory: what it raises is a failed call with a reason, not the end of the run."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._ids: frozenset[int] = frozenset()

    @property
    def name(self) -> str:
        return self._memory.name

    def ingest(self, conversation: Conversation) -> None:
        self._ids = frozenset(message.id for message in conversation)
        try:
            self._memory.ingest(conversation)
        except Exception as error:
            raise ModelError(f"{self.name}: ingest raised {type(error).__name__}: {error}") from error

    def recall(self, question: str) -> Recollection:
        try:
            found = self._memory.recall(question)
        except Exception as error:
            raise ModelError(f"{self.name}: recall raised {type(error).__name__}: {error}") from error
        if not isinstance(found, Recollection):
            raise ModelError(f"{self.name}: recall returned {type(found).__name__}, not a Recollection")
        try:
            found.context.encode("utf-8")
        except (AttributeError, UnicodeEncodeError) as error:
            raise ModelError(f"{self.name}: recall returned a context that is not text ({error})") from error
        unknown = set(found.message_ids).union(*found.parts.values()) - self._ids
        if unknown:
            raise ModelError(f"{self.name}: recall names message {min(unknown)}, which the conversation does not have")
        return found
