"""What the values of a record rest on, so that whatever prints one can say it."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel


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
