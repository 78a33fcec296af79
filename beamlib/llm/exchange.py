"""What crosses a boundary: one type for a request and what came back, and who vouches for each of its values.

The boundaries are an endpoint (`StoredCall`), the loopback endpoint of a memory (stored the same way), a memory's
process (`beam_memories.memory_process`) and a worker's journal (lines of `StoredCall`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from beamlib.llm.model import ModelError, Outcome, Usage

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


def stated_basis(kind: type[BaseModel], labels: Mapping[str, str], *, claimed: bool = False) -> str:
    """Say what the printed fields of a record rest on, for example `tokens: reported by the server`.

    Args:
        labels: Fields, and what they are called where they are printed.
        claimed: The records came from somebody's archive and were not replayed: its publisher vouches for all of it.
    """
    groups: dict[Basis, list[str]] = {}
    for name, label in labels.items():
        groups.setdefault(Basis.CLAIMED if claimed else basis_of(kind)[name], []).append(label)
    return "; ".join(f"{', '.join(names)}: {basis}" for basis, names in groups.items())


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
