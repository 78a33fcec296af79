"""What an HNSW index loses and wins beside a flat one: `python benchmarks/hnsw.py --help`.

The keys are LIGHT's, by the offline stand-in, not a language model; the questions are the released ones. Everything
runs on one thread. The output, a line per conversation, is what `beamlib/data/measured/hnsw.csv` holds. Recall is the
share of the K pairs of the flat index that the graph finds, too; times are the best of three.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from tqdm import tqdm

from beam_offline import OfflineModel
from beamlib.data.loading import PAPER_TREATMENT, load
from beamlib.data.sources import Source, find_conversations
from beamlib.memory.extraction import keys_of_pairs, read_pairs
from beamlib.retrieval import embedded_encoder
from beamlib.retrieval.dense import DenseIndex, one_thread

DEPTHS = (5, 20)


def seconds(work: Callable[[], Any]) -> float:
    """Return the shortest of three runs."""
    best = float("inf")
    for _ in range(3):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return best


def measure(source: Source) -> dict[str, object]:
    """Compare both indexes over the questions of one conversation; encoding is left out of all times."""
    loaded = load(source, PAPER_TREATMENT)
    replies, _, _ = read_pairs(OfflineModel(), loaded.conversation)
    keys = keys_of_pairs(loaded.conversation, replies)
    encoder = Encoded([text for texts in keys for text in texts], [probe.question for probe in loaded.probes])
    questions = list(encoder.questions)
    with one_thread():
        flat, graph = DenseIndex(keys, encoder), DenseIndex(keys, encoder, "hnsw")
        row: dict[str, object] = {
            "conversation": loaded.conversation.id, "keys": sum(map(len, keys)), "questions": len(questions)
        }  # fmt: skip
        for k in DEPTHS:
            exact = [{hit.owner for hit in flat.search(question, k)} for question in questions]
            near = [{hit.owner for hit in graph.search(question, k)} for question in questions]
            row[f"recall at {k}"] = round(
                sum(len(ours & theirs) for ours, theirs in zip(exact, near, strict=True)) / sum(map(len, exact)), 4
            )
        for name, index in (("flat", flat), ("hnsw", graph)):
            row[f"{name} ms per question"] = round(
                1000 * seconds(lambda own=index: [own.search(question, 5) for question in questions]) / len(questions),
                3,
            )
        row["flat s to build"] = round(seconds(lambda: DenseIndex(keys, encoder)), 3)
        row["hnsw s to build"] = round(seconds(lambda: DenseIndex(keys, encoder, "hnsw")), 3)
    return row


class Encoded:
    """The shipped encoder's vectors of known texts, computed before anything is timed."""

    name, dim = "embedded, computed before", embedded_encoder().dim

    def __init__(self, keys: list[str], questions: list[str]) -> None:
        self.keys = embedded_encoder().encode(keys)
        self.questions = {question: embedded_encoder().encode([question]) for question in questions}

    def encode(self, texts: list[str]) -> Any:
        """Return the vectors of all keys, in order."""
        return self.keys

    def encode_queries(self, texts: list[str]) -> Any:
        """Return the vector of a question."""
        return self.questions[texts[0]]


def main(
    data: Annotated[list[Path], typer.Option("--data", help="Folder of released conversations; several are joined.")],
    conversations: Annotated[int, typer.Option(help="How many of each folder and size; 0 for all.")] = 0,
) -> None:
    sources = {
        source.id: source
        for size in ("100K", "500K", "1M", "10M")
        for folder in data
        for source in (find_conversations(folder, [size]) if (folder / size).is_dir() else [])[: conversations or None]
    }
    pd.DataFrame([measure(source) for source in tqdm(sources.values(), leave=False)]).to_csv(sys.stdout, index=False)


if __name__ == "__main__":
    typer.run(main)
