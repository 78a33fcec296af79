"""Memories: they read a conversation once and recall what matters for a question.

`full_context` has the floor and a baseline, `rag` the other, `light` the paper's method. The ceiling needs the evidence
and is therefore in `beamlib.evaluate.answering`. A system of your own needs five lines: see `beamlib.memory.protocol`,
whose names are exported here.
"""

from __future__ import annotations

from beamlib.memory.protocol import Memory, Passage, Recollection, RetrievedContext, passage

__all__ = ["Memory", "Passage", "Recollection", "RetrievedContext", "passage"]
