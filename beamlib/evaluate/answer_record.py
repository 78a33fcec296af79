"""The record of an answer: protocol-free facts, one line of `answers.jsonl` per probe."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from beamlib.memory.protocol import NO_CUTS, Cuts


@dataclass(frozen=True, slots=True)
class ContextLosses:
    """What the contexts of some answers lack, for the footer of a table.

    Attributes:
        gaps: Answers behind which a call of the memory returned nothing usable.
        cut_answers: Answers whose context lacks something that was recalled.
        cuts: The sum of what did not fit.
    """

    gaps: int = 0
    cut_answers: int = 0
    cuts: Cuts = NO_CUTS

    @classmethod
    def of(cls, answers: Iterable[Answer]) -> ContextLosses:
        """Count over `answers`; those that do not record cuts count as having none."""
        total = cls()
        for answer in answers:
            cuts = answer.cuts or NO_CUTS
            total += cls(int(answer.gaps > 0), int(cuts != NO_CUTS), cuts)
        return total

    def __add__(self, other: ContextLosses) -> ContextLosses:
        return ContextLosses(self.gaps + other.gaps, self.cut_answers + other.cut_answers, self.cuts + other.cuts)


NO_LOSSES = ContextLosses()


class Answer(BaseModel):
    """The reader's answer to one probe, or the reason why there is none.

    Attributes:
        text: The answer; exactly one of `text` and `unscored` is set.
        unscored: Why a call failed. Where it was the reader's, the rest still says what the context showed.
        transient: Whether a later run asks again: the call failed for the time being, or was refused.
        message_ids: Messages that the context speaks of.
        parts: The same by part of the memory.
        partial_ids: Those of `message_ids` whose text is not whole in the context. None where this was not recorded.
        cuts: What was recalled and did not fit into the context. None where this was not recorded.
        context_tokens: Size of the context by the counter that the manifest names.
        gaps: Calls of the memory that returned nothing usable.
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
    partial_ids: tuple[int, ...] | None = None
    cuts: Cuts | None = None
    context_tokens: int = 0
    gaps: int = 0

    @model_validator(mode="after")
    def _one_outcome(self) -> Answer:
        if (self.text is None) == (self.unscored is None):
            raise ValueError("exactly one of text and unscored must be set")
        return self

    @model_serializer(mode="wrap")
    def _recorded(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Imported answers and those of other tasks lack these fields.
        record: dict[str, Any] = dump(self)
        added = ("partial_ids", "cuts")
        return {name: value for name, value in record.items() if name not in added or value is not None}

    @property
    def context_key(self) -> tuple[object, ...]:
        """Name what the context was made of: two of one conversation that share it are taken to be equal.

        Records hold no hash of the text, but its messages by part and order, which of them are not whole, and its
        tokens. What did not fit (`cuts`) is not part of a context.
        """
        return (self.message_ids, tuple(self.parts.items()), self.partial_ids, self.context_tokens)

    @property
    def context_recorded(self) -> bool:
        """Whether the record says what the context showed: also where the reader failed, but for imported answers."""
        return self.unscored is None or self.cuts is not None

    @property
    def whole_ids(self) -> frozenset[int]:
        """Messages whose text is whole in the context; all `message_ids` where this was not recorded."""
        return frozenset(self.message_ids) - frozenset(self.partial_ids or ())
