"""The record of an answer: protocol-free facts, one line of `answers.jsonl` per probe."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Answer(BaseModel):
    """What the reader said to one probe, or why it said nothing.

    Exactly one of `text` and `unscored` is set: a failed call has a reason and no text, and `transient` says that the
    same call may succeed later. `message_ids` are the messages in the context, `parts` the same by part of the memory;
    `context_tokens` by the counter that the manifest names; `gaps` counts calls of the memory that gave nothing usable.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    probe_id: str
    conversation_id: str
    text: str | None = None
    unscored: str | None = None
    transient: bool = False
    message_ids: tuple[int, ...] = ()
    parts: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    context_tokens: int = 0
    gaps: int = 0

    @model_validator(mode="after")
    def _one_outcome(self) -> Answer:
        if (self.text is None) == (self.unscored is None):
            raise ValueError("exactly one of text and unscored must be set")
        return self
