"""Measure retrieval on conversations: the messages that each context shows, as ids and numbers without any text.

No model answers or judges. RAG is measured exactly. LIGHT's keys, notes and filter come from the offline stand-in,
which is not a language model. `beamlib.scoring.measured` holds the records and what is computed from them.
"""

from __future__ import annotations

import lzma
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from beam_commands.own_vectors import OwnVectors
from beamlib.data.conversations import Conversation, Size, Treatment
from beamlib.data.loading import PAPER_TREATMENT, Loaded, load, readable
from beamlib.data.sources import Source, find_conversations
from beamlib.evaluate.records import left_out_line
from beamlib.files import sha256_of_file, to_json, write_bytes
from beamlib.llm.model import ModelError
from beamlib.memory.budget import fit_pairs, passage_tokens
from beamlib.memory.light import Light, LightSettings
from beamlib.memory.protocol import RetrievedContext, partly_shown, passage
from beamlib.memory.rag import Rag
from beamlib.plugins import plugins
from beamlib.processes import process_pool
from beamlib.retrieval import RETRIEVERS as KNOWN_RETRIEVERS
from beamlib.retrieval import Encoders
from beamlib.scoring.average_recall import average_recall, check_choices
from beamlib.scoring.measured import (
    ARMS,
    BEST,
    MOST_PAIRS,
    RETRIEVERS,
    ROOMS,
    FileHeader,
    MeasuredQuestion,
    Measurement,
    Notes,
    check_budgets,
)
from beamlib.text import count_tokens

MEASURED_CODE = (
    "beamlib.retrieval",
    "beamlib.memory",
    "beamlib.data",
    "beamlib.text",
    "beam_offline.notes",
    "beamlib.scoring.measured",
    __name__,
)
"""Modules that the measurements rest on."""
_EMPTY = RetrievedContext("")


def measure(
    source: Source,
    treatment: Treatment = PAPER_TREATMENT,
    retrievers: Sequence[str] = RETRIEVERS,
    memories: Sequence[str] = ("rag", "light"),
    own: OwnVectors | None = None,
) -> Measurement:
    """Measure memories on every question of a conversation, for all retrieval budgets to `MOST_PAIRS`.

    Args:
        own: The encoder of `dense` and `hybrid`; by default the shipped table.
    """
    with own.open(source.id) if own else nullcontext(Encoders()) as encoders:
        return _measure(load(source, treatment), retrievers, memories, encoders)


def _measure(loaded: Loaded, retrievers: Sequence[str], memories: Sequence[str], encoders: Encoders) -> Measurement:
    questions = [probe.question for probe in loaded.probes]
    conversation = loaded.conversation
    position = {pair.user.id: number for number, pair in enumerate(conversation.pairs)}
    seconds: dict[str, tuple[float, float]] = {}
    ranks: dict[str, list[list[int]]] = {}
    for retriever in retrievers if "rag" in memories else ():
        rag = Rag(retriever=retriever, encoder=encoders.dense, embedding=encoders.endpoint)
        _, reading = _timed(partial(rag.ingest, conversation))
        rag.expect(questions)
        ranks[f"rag {retriever}"], searching = _ranks(rag.search, loaded, position)
        seconds[f"rag {retriever}"] = (reading, searching)
    filtered: Sequence[RetrievedContext | ModelError] = [_EMPTY] * len(loaded.probes)
    unfiltered = newest = _EMPTY
    if "light" in memories:
        settings = partial(LightSettings, encoder=encoders.dense)
        light = Light(plugins().model(), settings(retriever=retrievers[0]), embedding=encoders.endpoint)
        _, reading = _timed(partial(light.ingest, conversation))
        for retriever in retrievers:
            variant = light.variant(settings(retriever=retriever))
            variant.expect(questions)
            ranks[f"light {retriever}"], searching = _ranks(variant.retrieved, loaded, position)
            seconds[f"light {retriever}"] = (reading, searching)
        without = partial(settings, retriever=retrievers[0], use_retrieval=False)
        filtered = light.variant(without(use_working=False)).recall_all(questions)
        unfiltered = light.variant(without(use_working=False, use_filter=False)).recall("")
        newest = light.variant(without(use_scratchpad=False)).recall("")
    return Measurement(
        id=conversation.id,
        size=conversation.size,
        files={file.path.name: sha256_of_file(file.path) for file in loaded.files},
        pairs=[(*pair.message_ids, passage_tokens(passage(pair).text)) for pair in conversation.pairs],
        overlong={memory: _overlong(conversation, room) for memory, room in ROOMS.items()},
        newest=[position[i] for i in newest.message_ids if i in position],
        notes=_notes(unfiltered, conversation),
        seconds=seconds,
        questions=[
            MeasuredQuestion(
                id=probe.id,
                ability=loaded.gold[probe.id].ability,
                cited=list(loaded.gold[probe.id].evidence),
                ranks={arm: pairs[number] for arm, pairs in ranks.items()},
                notes=_notes(filtered[number], conversation),
            )
            for number, probe in enumerate(loaded.probes)
        ],
    )


def evidence_rows(
    folder: Path,
    sizes: Sequence[Size],
    arms: Sequence[str] = ("rag", "light retrieval alone"),
    retrievers: Sequence[str] = ("bm25", "hybrid"),
    ks: Sequence[int] = (5, 10, 15, 20),
    treatment: Treatment = PAPER_TREATMENT,
    *,
    workers: int = 2,
    quiet: bool = False,
    skip_broken: bool = False,
    own: OwnVectors | None = None,
) -> list[dict[str, Any]]:
    """Measure the conversations in `folder` and return `average_recall`.

    Args:
        workers: Processes; they change only the time.
        skip_broken: Leave out conversations that cannot be read and name them on standard error.
        own: The encoder of `dense` and `hybrid`; by default the shipped table.
    """
    check_choices("arm", arms, (*ARMS, BEST))
    check_choices("retriever", retrievers, KNOWN_RETRIEVERS)
    check_budgets(ks)
    sources = [source for size in dict.fromkeys(sizes) for source in find_conversations(folder, [size])]
    if skip_broken:
        left_out: dict[str, str] = {}
        sources = [loaded.source for loaded in readable(sources, treatment, skip_broken=True, left_out=left_out)]
        if left_out:
            print(left_out_line(left_out), file=sys.stderr)
    memories = list(dict.fromkeys(arm.partition(" ")[0] for arm in arms if arm != BEST))  # which ranks nothing
    measured = measure_all(sources, treatment, retrievers, memories, workers=workers, quiet=quiet, own=own)
    return average_recall(measured, arms, retrievers, ks)


def measure_all(
    sources: Sequence[Source],
    treatment: Treatment = PAPER_TREATMENT,
    retrievers: Sequence[str] = RETRIEVERS,
    memories: Sequence[str] = ("rag", "light"),
    *,
    workers: int = 2,
    quiet: bool = False,
    own: OwnVectors | None = None,
) -> Iterator[Measurement]:
    """Measure conversations in order; `workers` processes change only the time, and one's `own` encoder takes one."""
    work = partial(measure, treatment=treatment, retrievers=retrievers, memories=memories, own=own)
    workers = 1 if own else workers
    bar = partial(tqdm, total=len(sources), desc="measure", unit="conv", disable=quiet or None)
    if min(workers, len(sources)) < 2:
        yield from bar(map(work, sources))
        return
    with process_pool(min(workers, len(sources))) as pool:
        yield from bar(pool.map(work, sources))


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, round(time.perf_counter() - start, 3)


def _ranks(
    search: Callable[[str, int], Sequence[Any]], loaded: Loaded, position: Mapping[int, int]
) -> tuple[list[list[int]], float]:
    """Search for every question; return the positions of its best pairs, and the mean seconds of a search."""
    hits, seconds = _timed(lambda: [search(probe.question, MOST_PAIRS) for probe in loaded.probes])
    return [[position[pair.user.id] for pair in pairs] for pairs in hits], round(seconds / len(hits), 4)


def _overlong(conversation: Conversation, room: int) -> dict[int, tuple[int, list[int]]]:
    texts = {message.id: message.content for message in conversation.messages}
    overlong = {}
    for place, pair in enumerate(conversation.pairs):
        (item,), cuts = fit_pairs([passage(pair)], room)
        if cuts.pairs_shortened:
            lost = partly_shown(RetrievedContext.of([item]), texts)
            overlong[place] = (passage_tokens(item.text), sorted(lost))
    return overlong


def _notes(context: RetrievedContext | ModelError, conversation: Conversation) -> Notes:
    if isinstance(context, ModelError):
        raise context
    texts = {message.id: message.content for message in conversation.messages}
    whole = set(context.message_ids).difference(partly_shown(context, texts))
    return Notes(ids=sorted(context.message_ids), whole=sorted(whole), tokens=count_tokens(context.context))


def differences(stated: Measurement, measured: Measurement) -> list[str]:
    """Name what differs between two measurements of a conversation, times aside: one line each, empty if nothing."""
    lines = [
        f"{stated.id}: {name} differ"
        for name in ("size", "files", "pairs", "overlong", "newest", "notes")
        if getattr(stated, name) != getattr(measured, name)
    ]
    if [question.id for question in stated.questions] != [question.id for question in measured.questions]:
        return [*lines, f"{stated.id}: other questions"]
    for ours, theirs in zip(stated.questions, measured.questions, strict=True):
        names = [name for name in ("ability", "cited", "notes") if getattr(ours, name) != getattr(theirs, name)]
        arms = sorted({*ours.ranks, *theirs.ranks})
        names += [f"ranks of {arm}" for arm in arms if ours.ranks.get(arm) != theirs.ranks.get(arm)]
        if names:
            lines.append(f"{ours.id}: {', '.join(names)} differ")
    return lines


def write_measurements(path: Path, header: FileHeader, measurements: Iterable[Measurement]) -> Path:
    """Write measurements as JSON lines in xz, the header first."""
    lines = "".join(f"{to_json(record.model_dump(mode='json'))}\n" for record in (header, *measurements))
    return write_bytes(path, lzma.compress(lines.encode(), preset=9 | lzma.PRESET_EXTREME))
