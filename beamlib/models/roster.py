"""The models of a run by role."""

from __future__ import annotations

from dataclasses import dataclass

from beamlib.models.base import Model


@dataclass(frozen=True, slots=True)
class Roster:
    """Who answers (paper section 4.1), reads for LIGHT and compresses its notes (3), judges and aligns (2.4)."""

    reader: Model
    memory: Model
    compressor: Model
    judge: Model
    aligner: Model

    @classmethod
    def of(cls, model: Model) -> Roster:
        """One model in every role."""
        return cls(model, model, model, model, model)
