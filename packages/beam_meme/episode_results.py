"""What a run keeps of an episode with one memory, as a file holds it, and how it is read back.

Texts (contexts, kept files) stand once in `texts`, under a key made of their hash: a full context is the same for every
question of a round, and most files do not change from session to session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from beam_meme.episode_running import EpisodeRun
from beam_meme.episodes import Episode, Phase
from beam_meme.meme_memories import MemeMemory
from beam_meme.stage_tokens import Spent, Stage
from beamlib.errors import UserError
from beamlib.evaluate.answer_record import Answer
from beamlib.evaluate.run_store import checked
from beamlib.files import read_json, sha256

MOST_FILE = 256 << 20
"""Bytes of an episode's file that are read; one of ours has a few million."""

MOST_KEPT = 16 << 20
"""Characters of kept files that an episode's snapshots hold; the longest wiki that is published has 128,000."""

MOST_FILES = 1_000
"""Files of one snapshot."""

EPISODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""What names a file of a run: ids come from files of data."""

EpisodeId = Annotated[str, Field(pattern=rf"^{EPISODE_ID.pattern}$")]

_KEY = 16


def check_id(episode: str) -> str:
    """The id, where it can name a file; else a `UserError`."""
    if not EPISODE_ID.fullmatch(episode):
        raise UserError(
            f"episode_id {episode!r:.80} cannot name a file; use at most 64 letters, digits, '-' and '_', beginning "
            "with a letter or digit."
        )
    return episode


class KeptAnswer(BaseModel):
    """An answer with the round it was asked in; `context` is the key of the text that the reader saw."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    phase: Phase
    context: str
    answer: Answer


class Snapshot(BaseModel):
    """What a memory kept after a session (counted from 0), as keys of texts by file name.

    `left_out` counts the files that were beyond the bounds of a record.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    session: int = Field(ge=0)
    files: dict[str, str]
    left_out: int = Field(default=0, ge=0)


class EpisodeResults(BaseModel):
    """An episode's file. `sha256` is of the episode that was asked about, `texts` holds what the others name by key."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    suite: Literal["meme"] = "meme"
    arm: MemeMemory
    episode: EpisodeId
    sha256: str
    answers: tuple[KeptAnswer, ...]
    snapshots: tuple[Snapshot, ...]
    spent: dict[Stage, Spent]
    texts: dict[str, str]

    @model_validator(mode="after")
    def _texts_there(self) -> EpisodeResults:
        named = [one.context for one in self.answers]
        named += [key for one in self.snapshots for key in one.files.values()]
        if missing := sorted(set(named) - self.texts.keys()):
            raise ValueError(f"texts lacks {missing[0]!r:.40}")
        return self

    @property
    def contexts(self) -> dict[str, str]:
        """What the reader saw, by question id."""
        return {one.answer.probe_id: self.texts[one.context] for one in self.answers}

    @property
    def kept(self) -> list[dict[str, str]]:
        """What the memory kept after each session it read, as texts by file name."""
        return [{name: self.texts[key] for name, key in one.files.items()} for one in self.snapshots]


def results_of(episode: Episode, arm: MemeMemory, ran: EpisodeRun) -> EpisodeResults:
    """What a run came to, for its file."""
    texts = _Texts()
    answers = tuple(
        KeptAnswer(phase=one.phase, context=texts.key(sound(one.context)), answer=_sound_answer(one.answer))
        for one in ran.answers
    )
    return EpisodeResults(
        arm=arm,
        episode=episode.id,
        sha256=episode.sha256,
        answers=answers,
        snapshots=tuple(_snapshots(ran.snapshots, texts)),
        spent=ran.meter.spent,
        texts=texts.held,
    )


def read_episode(path: Path) -> EpisodeResults:
    """The results in a file; `UserError` where it is too large, damaged, or of another version."""
    if path.is_file() and path.stat().st_size > MOST_FILE:
        raise UserError(f"{path}: {path.stat().st_size:,} bytes, more than the {MOST_FILE:,} that are read; delete it.")
    return checked(EpisodeResults, read_json(path), f"{path}: ")


def sound(text: str) -> str:
    """`text` with halves of surrogate pairs, which no file can hold, joined or replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _sound_answer(answer: Answer) -> Answer:
    said = {"text": answer.text, "unscored": answer.unscored}
    return answer.model_copy(update={name: sound(text) for name, text in said.items() if text is not None})


class _Texts:
    """Texts by key, each once."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}

    def key(self, text: str) -> str:
        key = sha256(text)[:_KEY]
        self.held[key] = text
        return key


def _snapshots(snapshots: Iterable[Mapping[str, str]], texts: _Texts) -> Iterable[Snapshot]:
    """Snapshots within the bounds, whole files in the order of their names; a text that is held already costs nothing.

    Names are those that a memory gives its files, which a model may have chosen: they are keys here and no path.
    """
    left = MOST_KEPT
    for number, files in enumerate(snapshots):
        kept: dict[str, str] = {}
        for name, text in sorted(files.items()):
            text = sound(text)
            cost = 0 if sha256(text)[:_KEY] in texts.held else len(text)
            if cost <= left and len(kept) < MOST_FILES:
                left -= cost
                kept[sound(name)[:200]] = texts.key(text)
        yield Snapshot(session=number, files=kept, left_out=len(files) - len(kept))
