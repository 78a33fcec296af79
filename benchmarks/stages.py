"""The stages that `run.py` measures; imported only in child processes, each of which runs one function and ends.

A stage prepares its input, which is not timed, and returns the amount of work and the work itself, which is. Peak
memory is that of the process: package, conversations and preparation included. What only one stage needs is imported by
that stage, so that it does not count against the others.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from beam_offline import OfflineModel
from beam_run.plugins import register_packages
from beamlib.data.loading import Loaded, load
from beamlib.data.sources import Source
from beamlib.memory import Memory
from beamlib.memory.light import Light
from beamlib.memory.rag import Rag
from beamlib.retrieval import SHIPPED, Document, build_index, embedded_encoder

Work = tuple[int, Callable[[], object]]
"""The number of characters or questions, and the work on them."""

BUDGET = 5
"""Recalled pairs: the K of the paper's main table."""

register_packages()


class Cost(NamedTuple):
    """The amount in the stage's unit, wall time in seconds, and peak memory of the largest process in bytes."""

    amount: int
    seconds: float
    peak: int


def measure(stage: str, sources: Sequence[Source]) -> Cost:
    """Measure one of `STAGES` over `sources`."""
    return _timed(*STAGES[stage](sources))


def measure_import() -> Cost:
    """Measure importing the package and loading the encoder, which every stage but "load" does."""
    return _timed(1, _warm_up)


def _timed(amount: int, work: Callable[[], object]) -> Cost:
    started = time.perf_counter()
    work()
    seconds = time.perf_counter() - started
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return Cost(amount, seconds, peak * (1 if sys.platform == "darwin" else 1024))  # macOS counts bytes, Linux KiB


def _warm_up() -> None:
    """Load what a process loads once (token table, stemmer), so that it is in no stage's time."""
    embedded_encoder().encode(["one text"])
    for retriever in SHIPPED:
        build_index([Document((text,), (text,)) for text in ("one text", "another text")], retriever).search("text", 1)


def _characters(loaded: Sequence[Loaded]) -> int:
    return sum(len(message.content) for own in loaded for message in own.conversation.messages)


def _load_all(sources: Sequence[Source]) -> list[Loaded]:
    return [load(source) for source in sources]


def _prepared(sources: Sequence[Source]) -> list[Loaded]:
    _warm_up()
    return _load_all(sources)


def _loading(sources: Sequence[Source]) -> Work:
    return _characters(_load_all(sources)), lambda: _load_all(sources)


def _ingesting(make: Callable[[], Memory], sources: Sequence[Source]) -> Work:
    loaded = _prepared(sources)

    def work() -> None:
        for own in loaded:
            make().ingest(own.conversation)

    return _characters(loaded), work


def _ingested(make: Callable[[], Memory], sources: Sequence[Source]) -> list[tuple[Loaded, Memory]]:
    pairs = [(loaded, make()) for loaded in _prepared(sources)]
    for loaded, memory in pairs:
        memory.ingest(loaded.conversation)
    return pairs


def _recalling(make: Callable[[], Memory], sources: Sequence[Source]) -> Work:
    asked = [(memory, probe) for loaded, memory in _ingested(make, sources) for probe in loaded.probes]
    return len(asked), lambda: [memory.recall(probe.question) for memory, probe in asked]


def _rag(retriever: str) -> Callable[[], Memory]:
    return lambda: Rag(k=BUDGET, retriever=retriever)


def _light() -> Memory:
    return Light(OfflineModel())


STAGES: Mapping[str, Callable[[Sequence[Source]], Work]] = {
    "load": _loading,
    "index pairs, bm25": partial(_ingesting, _rag("bm25")),
    "index pairs, dense": partial(_ingesting, _rag("dense")),
    "index pairs, hybrid": partial(_ingesting, _rag("hybrid")),
    "ingest, light": partial(_ingesting, _light),
    "recall, rag bm25": partial(_recalling, _rag("bm25")),
    "recall, rag dense": partial(_recalling, _rag("dense")),
    "recall, rag hybrid": partial(_recalling, _rag("hybrid")),
    "recall, light": partial(_recalling, _light),
}
"""The stages of `run.STAGES` by name, LIGHT with its defaults."""
