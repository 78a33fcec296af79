"""Scoring protocols: the same judgements, counted in different ways. One module each; its docstring defines it."""

from __future__ import annotations

from beamlib.errors import UserError
from beamlib.scoring.protocols import binary, f1_weighted, nugget_mean, paper, released_code
from beamlib.scoring.protocols.base import Protocol, QuestionScore

PROTOCOLS: dict[str, Protocol] = {
    module.PROTOCOL.name: module.PROTOCOL for module in (paper, released_code, f1_weighted, nugget_mean, binary)
}


def find_protocol(name: str) -> Protocol:
    """The protocol called `name`; `UserError` with the known names otherwise."""
    try:
        return PROTOCOLS[name]
    except KeyError:
        raise UserError(f"protocol: {name!r} is not one of {', '.join(PROTOCOLS)}; choose one of these.") from None


__all__ = ["PROTOCOLS", "Protocol", "QuestionScore", "find_protocol"]
