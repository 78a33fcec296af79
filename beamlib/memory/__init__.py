"""Memories: what reads a conversation once and recalls what bears on a question.

`NoMemory` is the floor, `FullContext` and `Rag` are the paper's baselines, `Light` is its method. The ceiling needs the
evidence and therefore stands with the evaluation, in `beamlib.evaluate.answering`. A system of one's own needs five
lines: see `beamlib.memory.protocol`.
"""

from __future__ import annotations

from beamlib.memory.full_context import FullContext, NoMemory
from beamlib.memory.light import Light, LightSettings
from beamlib.memory.protocol import Memory, Passage, Recollection, RetrievedContext, passage
from beamlib.memory.rag import Rag

__all__ = [
    "FullContext",
    "Light",
    "LightSettings",
    "Memory",
    "NoMemory",
    "Passage",
    "Rag",
    "Recollection",
    "RetrievedContext",
    "passage",
]
