"""What crosses a boundary: a request and what came back, how it can fail, and who vouches for each of its values.

The boundaries are an endpoint (`StoredCall`), the loopback endpoint of a memory (stored the same way) and a memory's
process (`beam_memories.memory_process`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

OFFLINE_NAME = "offline stand-in, not a language model"
"""The model name in everything that `beam_offline` answered."""
MOST_REPLY_BYTES = 32 << 20
"""The most bytes of any reply, and so of any reply in an archive of calls."""
LARGEST_COUNT = 2**53
"""The largest integer that every JSON reader keeps exact."""
Count = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]


class Basis(StrEnum):
    """Who says that a value is so. A field's type carries it: `model: Annotated[str, Basis.COMPUTED]`."""

    COMPUTED = "computed here"
    """It follows from what is sent; a replay computes it again."""
    REPORTED = "reported by the server"
    MEASURED = "measured where it was recorded"
    CLAIMED = "claimed by a publisher"


def basis_of(kind: type[BaseModel]) -> dict[str, Basis]:
    """Return the basis of each field of a record. A field that says nothing is claimed: nobody has shown it."""
    return {
        name: next((mark for mark in field.metadata if isinstance(mark, Basis)), Basis.CLAIMED)
        for name, field in kind.model_fields.items()
    }


def unverified(kind: type[BaseModel]) -> tuple[str, ...]:
    """List the fields of a record that a replay does not compute again."""
    return tuple(name for name, basis in basis_of(kind).items() if basis is not Basis.COMPUTED)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call as the endpoint counts them; `cached_tokens` are part of `input_tokens`.

    `estimated` says that the endpoint left counts out and our own counter stands in.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.estimated or other.estimated,
        )


class Outcome(StrEnum):
    """Why a call gave no usable reply. The value begins the reason that tables count and records keep."""

    TRUNCATED = "truncated"
    EMPTY = "empty reply"
    FILTERED = "content filter"
    CONTEXT_LENGTH = "context length"
    TOO_LONG = "reply too long"
    REDIRECTED = "redirected"
    UNREADABLE = "unreadable reply"
    REFUSED = "refused"
    UNUSABLE = "unusable replies"
    UNAVAILABLE = "endpoint unavailable"
    LOST = "memory lost"
    FAILED = "failed"


TRANSIENT = frozenset({Outcome.UNAVAILABLE, Outcome.REDIRECTED, Outcome.LOST})
"""Outcomes of calls that may end otherwise within the run."""

REFUSALS = frozenset({Outcome.REFUSED, Outcome.UNUSABLE, Outcome.CONTEXT_LENGTH})
"""Outcomes that stay until the server or its settings change: the next recording run sends these calls again, once."""


class ModelError(Exception):
    """A call without a usable reply. The answer or verdict it was for is `unscored` with this text as its reason.

    `usage` is what it cost all the same.
    """

    def __init__(self, message: str, outcome: Outcome = Outcome.FAILED, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.usage = usage or Usage()

    @property
    def reason(self) -> str:
        """The outcome and the message, for records."""
        return str(self) if self.outcome is Outcome.FAILED else f"{self.outcome}: {self}"

    @property
    def transient(self) -> bool:
        """Whether the same call may succeed later in the run."""
        return self.outcome in TRANSIENT

    @property
    def resent(self) -> bool:
        """Whether the next recording run sends the call again. Records keep it as `transient`."""
        return self.outcome in TRANSIENT | REFUSALS


class Exchange(BaseModel):
    """A request and what came back: a `text`, or an `outcome` with a `message` where there was no usable reply.

    `key` identifies the request, and nothing counts as its reply that does not belong to it: by its connection, its
    stream, or by repeating the key. `sent` is the SHA-256 of the request as it was sent, empty where that is what the
    key is a hash of. `answered_by` is who answered by the reply's own words, where that is not who was asked. Tokens
    are the other side's counts, or ours where `estimated`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: Annotated[str, Basis.COMPUTED]
    sent: Annotated[str, Basis.MEASURED] = ""
    text: Annotated[str | None, Basis.REPORTED] = None
    outcome: Annotated[Outcome | None, Basis.REPORTED] = None
    message: Annotated[str, Basis.REPORTED] = ""
    input_tokens: Annotated[Count, Basis.REPORTED] = 0
    output_tokens: Annotated[Count, Basis.REPORTED] = 0
    cached_tokens: Annotated[Count, Basis.REPORTED] = 0
    answered_by: Annotated[str, Basis.REPORTED] = ""
    fingerprint: Annotated[str, Basis.REPORTED] = ""
    estimated: Annotated[bool, Basis.MEASURED] = False

    @model_validator(mode="after")
    def _text_or_outcome(self) -> Exchange:
        if (self.text is None) == (self.outcome is None):
            raise ValueError("exactly one of text and outcome must be set")
        return self

    @property
    def usage(self) -> Usage:
        return Usage(self.input_tokens, self.output_tokens, self.cached_tokens, self.estimated)

    def received(self) -> str:
        """Return the text that came back, or raise the `ModelError` that the exchange ended with."""
        if self.text is None:
            raise ModelError(self.message, self.outcome or Outcome.FAILED, self.usage)
        return self.text
