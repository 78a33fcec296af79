"""Evidence recall: the share of the cited messages that a memory shows the reader. No model answers or judges."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from beamlib.memory.extraction import episodic_keys, extract, extraction_prompts
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

_Finding = tuple[str, str, int, str, float, float]
"""memory, retriever, k, ability, recall of one question, counting messages shown in part too"""


def evidence_recall(gold: Gold, message_ids: Iterable[int]) -> float | None:
    """Share of the cited messages among `message_ids`, or None for a question that cites no message of the chat."""
    if not gold.evidence:
        return None
    shown = frozenset(message_ids)
    return sum(cited in shown for cited in gold.evidence) / len(gold.evidence)


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

    A cited message counts where the context of the k retrieved pairs holds its whole text. The pairs go into the
    room that they have by default.

    Args:
        workers: Processes; their number changes nothing but the time.
        skip_broken: Name conversations that cannot be read on standard error and leave them out.

    Returns:
        Rows `memory, retriever, size, k, ability, recall, low, high, partial, n, conversations`. `recall` is the mean
        over the `n` questions that cite messages of the chat, with its 95 % interval over `conversations` (None for
        one); `partial` counts messages too that are shown in part; `ability` is "all" or one of the ten.
    """
    _known("memory", memories, MEMORIES)
    _known("retriever", retrievers, RETRIEVERS)
    if not ks or min(ks) < 1:
        raise UserError(f"--k is {', '.join(map(str, ks)) or 'empty'}; every retrieval budget is 1 pair or more.")
    rows = []
    for size in dict.fromkeys(sizes):
        sources = find_conversations(folder, [size])
        if skip_broken:
            left_out: dict[str, str] = {}
            sources = [one.source for one in readable(sources, treatment, skip_broken=True, left_out=left_out)]
            if left_out:
                print(left_out_line(left_out), file=sys.stderr)
        tasks = [_RecallTask(source, tuple(memories), tuple(retrievers), tuple(ks), treatment) for source in sources]
        parts = enumerate(_run(tasks, workers, f"{size}: evidence", quiet))
        findings = [(place, *finding) for place, part in parts for finding in part]
        for memory in dict.fromkeys(memories):
            for retriever in dict.fromkeys(retrievers):
                for k in dict.fromkeys(ks):
                    key = (memory, retriever, k)
                    values = [(place, a, r, p) for place, m, t, n, a, r, p in findings if (m, t, n) == key]
                    common = {"memory": memory, "retriever": retriever, "size": size, "k": k}
                    rows += [common | row for row in _means(values)]
    return rows


@dataclass(frozen=True)
class _RecallTask:
    source: Source
    memories: tuple[str, ...]
    retrievers: tuple[str, ...]
    ks: tuple[int, ...]
    treatment: Treatment


def _run(tasks: Sequence[_RecallTask], workers: int, label: str, quiet: bool) -> list[list[_Finding]]:
    if min(workers, len(tasks)) < 2:
        return [_findings(task) for task in tqdm(tasks, desc=label, unit="conv", disable=quiet or None)]
    with process_pool(min(workers, len(tasks))) as pool:
        return list(tqdm(pool.map(_findings, tasks), total=len(tasks), desc=label, unit="conv", disable=quiet or None))


def _findings(task: _RecallTask) -> list[_Finding]:
    """Every question of one conversation, with every memory, retriever and budget; runs in a process of its own."""
    loaded = load(task.source, task.treatment)
    texts = {message.id: message.content for message in loaded.conversation.messages}
    found: list[_Finding] = []
    for memory in dict.fromkeys(task.memories):
        for retriever, index in _indexes(memory, task.retrievers, loaded.conversation).items():
            for probe in loaded.probes:
                gold = loaded.gold[probe.id]
                if not gold.evidence:
                    continue
                pairs = index.search(probe.question, max(task.ks))
                for k in dict.fromkeys(task.ks):  # a search for fewer pairs gives the first of these
                    passages, _ = fit_pairs([passage(pair) for pair in pairs[:k]], _ROOMS[memory])
                    context = RetrievedContext.of(passages)
                    whole = set(context.message_ids).difference(partly_shown(context, texts))
                    recall, partial = (evidence_recall(gold, ids) or 0.0 for ids in (whole, context.message_ids))
                    found.append((memory, retriever, k, gold.ability, recall, partial))
    return found


def _indexes(memory: str, retrievers: Sequence[str], conversation: Conversation) -> Mapping[str, EpisodicIndex | Rag]:
    if memory == "light":
        replies = extract(plugins().model(), extraction_prompts("episodic_keys", conversation))
        keys = episodic_keys(conversation, replies)
        return {name: EpisodicIndex(conversation, keys, name) for name in retrievers}
    indexes = {name: Rag(retriever=name) for name in retrievers}
    for index in indexes.values():
        index.ingest(conversation)
    return indexes


def _means(values: Sequence[tuple[int, str, float, float]]) -> list[dict[str, Any]]:
    """The row "all", then one per ability that occurs, in the data set's order; `values` name their conversation."""
    rows = []
    for ability in ("all", *ABILITIES):
        chosen = [(place, recall, part) for place, name, recall, part in values if ability in ("all", name)]
        if chosen:
            places, recalls, partial = zip(*chosen, strict=True)
            counts = np.bincount(places).astype(np.float64)
            sums = np.bincount(places, weights=np.array(recalls)).astype(np.float64)
            held = counts > 0
            ends = mean_interval(conversation_values(sums[held], counts[held]))
            low, high = (None if np.isnan(end) else float(end) for end in ends)
            mean = {"ability": ability, "recall": sum(recalls) / len(recalls), "low": low, "high": high}
            counts_of = {"partial": sum(partial) / len(partial), "n": len(recalls), "conversations": int(held.sum())}
            rows.append(mean | counts_of)
    return rows


def _known(option: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise UserError(f"--{option} names {name!r}, which does not exist; choose from {', '.join(known)}.")
    if not given:
        raise UserError(f"--{option} is empty; choose from {', '.join(known)}.")
