"""One stored call: what is kept of it, the key it is found by, and what many of them come to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from beamlib.files import sha256
from beamlib.llm.model import TRANSIENT, Completion, ModelError, Outcome, Usage

MOST = 2**53
"""The largest count that every program reads back as it was written."""

Count = Annotated[int, Field(ge=0, le=MOST)]


class StoredCall(BaseModel):
    """One call as it ended: `text`, or an `outcome` with its `message` where there was no usable reply.

    `step` is the prompt's id; `latency` is in seconds, `time` is when the answer arrived (UTC, ISO 8601), tokens are as
    the endpoint reported them. The request is not kept (contexts are huge): the key is its hash.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: str
    conversation: str
    step: str
    about: str
    model: str
    base_url: str
    repeat: Count = 0
    attempt: Count = 0
    text: str | None = None
    outcome: Outcome | None = None
    message: str = ""
    input_tokens: Count = 0
    output_tokens: Count = 0
    cached_tokens: Count = 0
    latency: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    finish_reason: str = ""
    time: str = Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00$")

    @model_validator(mode="after")
    def _one_end(self) -> StoredCall:
        if (self.text is None) == (self.outcome is None):
            raise ValueError("exactly one of text and outcome must be set")
        return self

    @property
    def usage(self) -> Usage:
        """The tokens of the call."""
        return Usage(self.input_tokens, self.output_tokens, self.cached_tokens)

    @property
    def transient(self) -> bool:
        """Whether it failed in a way that may pass."""
        return self.outcome in TRANSIENT

    def completion(self) -> Completion:
        """What the model said, or the `ModelError` that the call ended with."""
        if self.text is None:
            raise ModelError(self.message, self.outcome or Outcome.FAILED)
        return Completion(self.text, self.usage, self.latency, self.finish_reason)


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the stored calls of one role, step and model; latency is in seconds, `calls` includes `failures`."""

    role: str
    step: str
    model: str
    calls: int
    failures: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    latency: float


def call_key(request: Mapping[str, Any], base_url: str, repeat: int) -> str:
    """Hex SHA-256 of everything a reply depends on: where it goes, the body that is sent, and the repeat's number."""
    asked = {"base_url": base_url, "repeat": repeat, "request": request}
    return sha256(json.dumps(asked, sort_keys=True, separators=(",", ":"), allow_nan=False))
