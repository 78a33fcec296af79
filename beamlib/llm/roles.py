"""The models of a run by role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from beamlib.llm.model import Model


@dataclass(frozen=True, slots=True)
class ModelRoles:
    """Who answers (paper section 4.1), reads for LIGHT and compresses its notes (3), judges and aligns (2.4).

    `methods` holds the readers of methods that the backbone is served otherwise for, by the name of the memory, and
    `outside` what passes on the calls of other programs, by route (`beamlib.llm.client`).
    """

    reader: Model
    memory: Model
    compressor: Model
    judge: Model
    aligner: Model
    methods: Mapping[str, Model] = field(default_factory=dict)
    outside: Mapping[str, Model] = field(default_factory=dict)

    def reader_of(self, memory: str) -> Model:
        """Who answers over what `memory` recalls."""
        return self.methods.get(memory, self.reader)

    @classmethod
    def of(cls, model: Model) -> ModelRoles:
        """One model in every role."""
        return cls(model, model, model, model, model)
