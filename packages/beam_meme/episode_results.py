"""What a run keeps of an episode beside its answers: the contexts that the reader saw, kept files, and tokens.

Texts (contexts, kept files) are stored once in `texts`, under a key made of their hash: a full context is the same for
every question of a round, and most files do not change from session to session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from beam_meme.stage_tokens import Spent, Stage
from beamlib.evaluate.answer_record import Answer
from beamlib.files import sha256

CONTEXTS = "contexts"
"""The part of a run's records that these are."""

MOST_KEPT = 16 << 20
"""Characters of kept files that an episode's snapshots hold; the longest wiki that is published has 128,000."""

MOST_FILES = 1_000
"""Files of one snapshot."""

_KEY = 16


class Snapshot(BaseModel):
    """What a memory kept after a session (counted from 0), as keys of texts by file name.

    `left_out` counts the files that were beyond the bounds of a record.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    session: int = Field(ge=0)
    files: dict[str, str]
    left_out: int = Field(default=0, ge=0)


class EpisodeContexts(BaseModel):
    """The record of an episode. `contexts` has the key of what the reader saw, by question id."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    conversation_id: str
    contexts: dict[str, str]
    snapshots: tuple[Snapshot, ...]
    spent: dict[Stage, Spent]
    texts: dict[str, str]

    @model_validator(mode="after")
    def _texts_exist(self) -> EpisodeContexts:
        named = [*self.contexts.values(), *(key for one in self.snapshots for key in one.files.values())]
        if missing := sorted(set(named) - self.texts.keys()):
            raise ValueError(f"texts lacks {missing[0]!r:.40}")
        return self

    def context(self, question: str) -> str:
        """What the reader saw with a question."""
        return self.texts[self.contexts[question]]

    @property
    def kept(self) -> list[dict[str, str]]:
        """What the memory kept after each session it read, as texts by file name."""
        return [{name: self.texts[key] for name, key in one.files.items()} for one in self.snapshots]


def contexts_record(
    episode: str,
    contexts: Mapping[str, str],
    snapshots: Iterable[Mapping[str, str]],
    spent: Mapping[Stage, Spent],
) -> EpisodeContexts:
    """Build the record of an episode; `contexts` are texts by question id, `snapshots` texts by file name."""
    texts: dict[str, str] = {}

    def key(text: str) -> str:
        name = sha256(text)[:_KEY]
        texts[name] = text
        return name

    keys = {question: key(writable_text(text)) for question, text in contexts.items()}
    left = MOST_KEPT
    records = []
    for number, files in enumerate(snapshots):
        # Names are those that a memory gives its files, which a model may have chosen: they are keys here and no path.
        kept: dict[str, str] = {}
        for name, text in sorted((name, writable_text(text)) for name, text in files.items()):
            cost = 0 if sha256(text)[:_KEY] in texts else len(text)
            if cost <= left and len(kept) < MOST_FILES:
                left -= cost
                kept[writable_text(name)[:200]] = key(text)
        records.append(Snapshot(session=number, files=kept, left_out=len(files) - len(kept)))
    return EpisodeContexts(
        conversation_id=episode, contexts=keys, snapshots=tuple(records), spent=dict(spent), texts=texts
    )


def writable_answer(answer: Answer) -> Answer:
    """`answer` with texts that a file can hold."""
    texts = {"text": answer.text, "unscored": answer.unscored}
    return answer.model_copy(update={name: writable_text(text) for name, text in texts.items() if text is not None})


def writable_text(text: str) -> str:
    """`text` with halves of surrogate pairs, which no file can hold, joined or replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
