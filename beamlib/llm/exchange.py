"""What crosses a boundary: one type for a request and what came back, and who vouches for each of its values.

The boundaries are an endpoint (`StoredCall`), the loopback endpoint of a memory (stored the same way), a memory's
process (`beam_memories.memory_process`) and a worker's journal (lines of `StoredCall`).
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from beamlib.llm.model import Basis, ModelError, Outcome, Usage

LARGEST_COUNT = 2**53
"""The largest integer that every JSON reader keeps exact."""
Count = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]


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
        """The tokens of the exchange."""
        return Usage(self.input_tokens, self.output_tokens, self.cached_tokens, self.estimated)

    def received(self) -> str:
        """Return the text that came back, or raise the `ModelError` that the exchange ended with."""
        if self.text is None:
            raise ModelError(self.message, self.outcome or Outcome.FAILED, self.usage)
        return self.text
