"""What a probing question is worth. Scoring imports this; memories, retrieval, models and generation must not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from beamlib.data.conversations import ABILITIES, Ability

__all__ = ["ABILITIES", "Ability", "Gold"]


@dataclass(frozen=True, slots=True)
class Gold:
    """Rubric, reference answer and provenance of one probe (paper section 2.3, appendix D).

    `rubric` holds the nuggets as published, stems included. `evidence` holds the cited message ids that exist in the
    chat, in citation order without repeats; `evidence_missing` those that do not (a shortened chat, or an error in the
    data). `reference` and `difficulty` are never scored; they are empty where they are missing or no text. `extras`
    keeps every other published field under its own name.
    """

    probe_id: str
    conversation_id: str
    ability: Ability
    rubric: tuple[str, ...]
    reference: str
    evidence: tuple[int, ...]
    difficulty: str
    evidence_missing: tuple[int, ...] = ()
    extras: Mapping[str, Any] = field(default_factory=dict)
