"""Evidence recall: the share of the cited messages that a memory shows the reader. No model answers or judges."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from beamlib.data.checked_json import left_out_line
from beamlib.data.conversations import Conversation, Size, Treatment
from beamlib.data.gold import ABILITIES, Gold
from beamlib.data.loading import PAPER, load, readable
from beamlib.data.sources import Source, find_conversations
from beamlib.errors import UserError
from beamlib.memory.budget import fit_pairs
from beamlib.memory.episodic import EpisodicIndex
from beamlib.memory.extraction import extract, extraction_prompts, keys_of_pairs
from beamlib.memory.light import LightSettings
from beamlib.memory.protocol import RetrievedContext, partly_shown, passage
from beamlib.memory.rag import Rag
from beamlib.plugins import plugins
from beamlib.processes import process_pool
from beamlib.retrieval import RETRIEVERS
from beamlib.scoring.intervals import conversation_values, mean_interval

MEMORIES = ("light", "rag")
"""`light`: the episodic index alone, its keys by the offline stand-in (not a language model). `rag`: pairs."""

WORKERS = 2

_ROOMS = {"light": LightSettings().budget["episodic"], "rag": LightSettings().context_tokens}
"""Tokens that retrieved pairs may fill by default."""


def evidence_recall(gold: Gold, message_ids: Iterable[int]) -> float | None:
    """Return the share of the cited messages among `message_ids`; None if the question cites no message of the chat."""
    if not gold.evidence:
        return None
    shown = frozenset(message_ids)
    return sum(cited in shown for cited in gold.evidence) / len(gold.evidence)


class _Recall(NamedTuple):
    """The recall of one question with one memory, retriever and budget; `partial` counts messages shown in part too."""

    memory: str
    retriever: str
    k: int
    ability: str
    recall: float
    partial: float


def evidence_table(
    folder: Path,
    sizes: Sequence[Size],
    memories: Sequence[str] = MEMORIES,
    retrievers: Sequence[str] = ("bm25", "hybrid"),
    ks: Sequence[int] = (5, 10, 15, 20),
    treatment: Treatment = PAPER,
    *,
    workers: int = WORKERS,
    quiet: bool = False,
    skip_broken: bool = False,
) -> list[dict[str, Any]]:
    """Measure evidence recall of retrieval alone over the conversations in `folder`.

    A cited message counts if the context of the k retrieved pairs has its whole text. The context has the room that
    these pairs have by default.

    Args:
        workers: Processes; they change only the time.
        skip_broken: Leave out conversations that cannot be read and name them on standard error.

    Returns:
        Rows `memory, retriever, size, k, ability, recall, low, high, partial, n, conversations`. `recall` is the mean
        over the `n` questions that cite messages of the chat, with its 95 % interval over `conversations` (None for
        one). `partial` also counts messages that are shown in part. `ability` is "all" or one of the ten.
    """
    _check_names("memory", memories, MEMORIES)
    _check_names("retriever", retrievers, RETRIEVERS)
    if not ks or min(ks) < 1:
        raise UserError(f"--k is {', '.join(map(str, ks)) or 'empty'}; every retrieval budget is 1 pair or more.")
    names = tuple(dict.fromkeys(memories)), tuple(dict.fromkeys(retrievers)), tuple(dict.fromkeys(ks))
    rows = []
    for size in dict.fromkeys(sizes):
        sources = find_conversations(folder, [size])
        if skip_broken:
            left_out: dict[str, str] = {}
            sources = [loaded.source for loaded in readable(sources, treatment, skip_broken=True, left_out=left_out)]
            if left_out:
                print(left_out_line(left_out), file=sys.stderr)
        measure = partial(_recalls, *names, treatment)
        by_conversation = _run(measure, sources, workers, f"{size}: evidence", quiet)
        for memory, retriever, k in product(*names):
            chosen = [
                (conversation, recall)
                for conversation, recalls in enumerate(by_conversation)
                for recall in recalls
                if recall[:3] == (memory, retriever, k)
            ]
            common = {"memory": memory, "retriever": retriever, "size": size, "k": k}
            rows += [common | row for row in _means(chosen)]
    return rows


def _run(
    measure: Callable[[Source], list[_Recall]], sources: Sequence[Source], workers: int, label: str, quiet: bool
) -> list[list[_Recall]]:
    bar = partial(tqdm, total=len(sources), desc=label, unit="conv", disable=quiet or None)
    if min(workers, len(sources)) < 2:
        return list(bar(map(measure, sources)))
    with process_pool(min(workers, len(sources))) as pool:
        return list(bar(pool.map(measure, sources)))


def _recalls(
    memories: Sequence[str], retrievers: Sequence[str], ks: Sequence[int], treatment: Treatment, source: Source
) -> list[_Recall]:
    """Measure a conversation: every question with every memory, retriever and budget."""
    loaded = load(source, treatment)
    texts = {message.id: message.content for message in loaded.conversation.messages}
    cited = [(probe, gold) for probe in loaded.probes if (gold := loaded.gold[probe.id]).evidence]
    recalls = []
    for memory in memories:
        for retriever, index in _indexes(memory, retrievers, loaded.conversation).items():
            for probe, gold in cited:
                pairs = index.search(probe.question, max(ks))
                for k in ks:  # a search for fewer pairs returns the first of these
                    passages, _ = fit_pairs([passage(pair) for pair in pairs[:k]], _ROOMS[memory])
                    context = RetrievedContext.of(passages)
                    whole = set(context.message_ids).difference(partly_shown(context, texts))
                    recall, in_part = (evidence_recall(gold, ids) or 0.0 for ids in (whole, context.message_ids))
                    recalls.append(_Recall(memory, retriever, k, gold.ability, recall, in_part))
    return recalls


def _indexes(memory: str, retrievers: Sequence[str], conversation: Conversation) -> Mapping[str, EpisodicIndex | Rag]:
    if memory == "light":
        replies = extract(plugins().model(), extraction_prompts("episodic_keys", conversation))
        keys = keys_of_pairs(conversation, replies)
        return {name: EpisodicIndex(conversation, keys, name) for name in retrievers}
    indexes = {name: Rag(retriever=name) for name in retrievers}
    for index in indexes.values():
        index.ingest(conversation)
    return indexes


def _means(recalls: Sequence[tuple[int, _Recall]]) -> list[dict[str, Any]]:
    """Average recalls, each with the number of its conversation: over "all", then per ability in the usual order."""
    rows = []
    for ability in ("all", *ABILITIES):
        chosen = [(conversation, row) for conversation, row in recalls if ability in ("all", row.ability)]
        if chosen:
            numbers = [conversation for conversation, _ in chosen]
            counts = np.bincount(numbers).astype(np.float64)
            sums = np.bincount(numbers, weights=np.array([row.recall for _, row in chosen])).astype(np.float64)
            present = counts > 0
            ends = mean_interval(conversation_values(sums[present], counts[present]))
            low, high = (None if np.isnan(end) else float(end) for end in ends)
            row = {"ability": ability, "recall": sum(row.recall for _, row in chosen) / len(chosen)}
            row |= {"low": low, "high": high, "partial": sum(row.partial for _, row in chosen) / len(chosen)}
            rows.append(row | {"n": len(chosen), "conversations": int(present.sum())})
    return rows


def _check_names(option: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise UserError(f"--{option} names {name!r}, which does not exist; choose from {', '.join(known)}.")
    if not names:
        raise UserError(f"--{option} is empty; choose from {', '.join(known)}.")
