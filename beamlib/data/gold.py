"""The gold of probing questions. Scoring imports this; memories, retrieval, models and generation must not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from beamlib.data.conversations import ABILITIES, Ability

__all__ = ["ABILITIES", "Ability", "Gold"]


@dataclass(frozen=True, slots=True)
class Gold:
    """Rubric, reference answer and provenance of one probe (paper section 2.3, appendix D).

    Attributes:
        rubric: The nuggets as published, with their stems.
        reference: Never scored, nor is `difficulty`; empty if missing or no text.
        evidence: Cited message ids that are in the chat, in citation order, without repeats.
        evidence_missing: Cited ids that are not (a shortened chat, or an error in the data).
        extras: Every other published field.
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
