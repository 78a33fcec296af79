"""Who writes a conversation: the offline author, or the endpoints of a models file behind a call store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

from beamlib.files import sha256, sha256_of_file
from beamlib.generate.author.author import OfflineAuthor
from beamlib.generate.dialogue import Reach
from beamlib.generate.journal import prompt_hashes
from beamlib.generate.shapes import Story
from beamlib.models.base import Model
from beamlib.models.careful import Careful
from beamlib.models.client import EndpointModel
from beamlib.models.endpoints import Author, load_models
from beamlib.models.offline import OFFLINE_NAME
from beamlib.models.prompts import prompt_file, prompt_ids
from beamlib.models.store import CallStore, Mode, StoredModel, now

OTHER_BENCHMARK = "memorycode_"
"""Begins the ids of prompts that write dialogues of `beamlib.suites.memorycode`, and nothing here."""

_HERE = Path(__file__).parent
_STARTED = now()


@dataclass(frozen=True, slots=True)
class Writing:
    """How conversations are written, beside their stories.

    `models` is a models file, empty for the offline author; `prompts` a folder of overriding prompt files or empty.
    `calls`, `confirmed` and `command` are as in `beamlib.models.store.StoredModel`. `reach` says how far back a
    dialogue remembers. `processes` share the endpoints' concurrency.
    """

    models: str = ""
    prompts: str = ""
    calls: Mode = "record"
    confirmed: bool = False
    command: str = ""
    reach: Reach = "conversation"
    processes: int = 1

    def made_by(self, role: Author) -> dict[str, Any]:
        """What the work of a role rests on, for the record of its stage."""
        if not self.models:
            return {"author": OFFLINE_NAME, "rules": _rules(), "reach": self.reach}
        folder = Path(self.prompts) if self.prompts else None
        names = [name for name in prompt_ids() if prompt_file(name).role in get_args(Author)]
        hashes = prompt_hashes(tuple(name for name in names if not name.startswith(OTHER_BENCHMARK)), folder)
        endpoint = load_models(Path(self.models)).author(role)
        return {"author": endpoint.settings, "prompts": sha256(repr(sorted(hashes.items()))), "reach": self.reach}

    def name(self, role: Author) -> str:
        """The name of who plays a role."""
        return load_models(Path(self.models)).author(role).model if self.models else OFFLINE_NAME


@dataclass(frozen=True, slots=True)
class Cast:
    """A model for each authoring role (reference 3.1): plans, main questions, both sides of the dialogue, probes."""

    planner: Model
    asker: Model
    speaker: Model
    prober: Model


@contextmanager
def open_cast(writing: Writing, story: Story, store: Path) -> Iterator[Cast]:
    """The models that write `story`; with endpoints their calls go through the call store at `store`."""
    if not writing.models:
        author = OfflineAuthor(story)
        yield Cast(author, author, author, author)
        return
    found = load_models(Path(writing.models))
    prompts = Path(writing.prompts) if writing.prompts else None
    with CallStore(store, read_only=writing.calls == "replay") as calls:
        roles: dict[str, Model] = {}
        for role in get_args(Author):
            endpoint = found.author(role)
            lanes = max(1, endpoint.concurrency // writing.processes)
            roles[role] = Careful(
                StoredModel(
                    EndpointModel(role, endpoint, prompts=prompts, lanes=lanes),
                    calls,
                    writing.calls,
                    role=role,
                    conversation=f"{story.size}-{story.number}",
                    command=writing.command,
                    confirmed=writing.confirmed,
                    since=_STARTED,
                )
            )
        yield Cast(**roles)


@cache
def _rules() -> str:
    """Hash of the code and banks that the offline author's texts rest on."""
    files = sorted(path for path in _HERE.rglob("*") if path.suffix in (".py", ".toml", ".yaml"))
    return sha256("".join(f"{path.relative_to(_HERE).as_posix()} {sha256_of_file(path)}\n" for path in files))
