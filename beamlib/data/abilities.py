"""The ten memory abilities by the data set's own names. Which question tests which is gold and stands elsewhere."""

from __future__ import annotations

from typing import Literal, get_args

Ability = Literal[
    "abstention",
    "contradiction_resolution",
    "event_ordering",
    "information_extraction",
    "instruction_following",
    "knowledge_update",
    "multi_session_reasoning",
    "preference_following",
    "summarization",
    "temporal_reasoning",
]
ABILITIES: tuple[Ability, ...] = get_args(Ability)
