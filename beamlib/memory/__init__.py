"""Memories: what reads a conversation once and recalls what bears on a question.

`full_context` holds the floor and a baseline, `rag` the other, `light` the paper's method. The ceiling needs the
evidence and therefore stands with the evaluation, in `beamlib.evaluate.answering`. A system of one's own needs five
lines: see `beamlib.memory.protocol`, whose names are exported here.
"""

from __future__ import annotations

from beamlib.memory.protocol import Memory, Passage, Recollection, RetrievedContext, passage

__all__ = ["Memory", "Passage", "Recollection", "RetrievedContext", "passage"]
