"""At how many questions two budgets K show the reader the same context: `python benchmarks/contexts.py --help`.

LIGHT reads released conversations by the offline stand-in, not a language model; nothing is called. Under `--variant
released-2025-11` contexts are packed as the authors' code packs them, whatever the window.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer
from tqdm import tqdm

from beam_offline import OfflineModel
from beamlib.data.loading import PAPER_TREATMENT, load
from beamlib.data.sources import Source, find_conversations
from beamlib.memory.light import Light, LightSettings
from beamlib.memory.protocol import RetrievedContext
from beamlib.memory.released_memory import LIGHT_FLAGS
from beamlib.text import count
from run import print_table

DEPTHS = (5, 10, 15, 20)


def measure(source: Source, window: int, released: frozenset[str]) -> dict[str, object]:
    """Compare the contexts of neighbouring budgets over the questions of one conversation."""
    loaded = load(source, PAPER_TREATMENT)
    light = Light(OfflineModel(), LightSettings(reader_window=window, released=released))
    light.ingest(loaded.conversation)
    questions = [probe.question for probe in loaded.probes]
    contexts: dict[int, list[RetrievedContext]] = {}
    for k in DEPTHS:
        recalled = light.variant(light.settings.model_copy(update={"k": k})).recall_all(questions)
        contexts[k] = [context for context in recalled if isinstance(context, RetrievedContext)]
    equal = {
        f"equal at {fewer} and {more}": sum(
            ours.context == theirs.context for ours, theirs in zip(contexts[fewer], contexts[more], strict=True)
        )
        for fewer, more in pairwise(DEPTHS)
    }
    dropped = {f"dropped at {k}": sum(own.cuts.pairs_dropped for own in contexts[k]) for k in DEPTHS}
    return {"conversation": loaded.conversation.id, "questions": len(questions), **equal, **dropped}


def main(
    data: Annotated[list[Path], typer.Option("--data", help="Folder of released conversations; several are joined.")],
    window: Annotated[int, typer.Option(help="Tokens that the reader accepts.")] = 32_768,
    variant: Annotated[str, typer.Option(help="paper, or released-2025-11 for the authors' packing.")] = "paper",
    conversations: Annotated[int, typer.Option(help="How many of each folder and size; 0 for all.")] = 0,
) -> None:
    released = frozenset[str]() if variant == "paper" else LIGHT_FLAGS
    sources = {
        source.id: source
        for folder in data
        for size in ("100K", "500K", "1M", "10M")
        for source in (find_conversations(folder, [size]) if (folder / size).is_dir() else [])[: conversations or None]
    }
    rows = [measure(source, window, released) for source in tqdm(sources.values(), leave=False)]
    names = [name for name in rows[0] if name != "conversation"]
    total = {"conversation": "all", **{name: sum(int(str(row[name])) for row in rows) for name in names}}
    title = f"{variant}, window {window:,}: {count(len(rows), 'conversation')}; keys and notes by the stand-in"
    print_table(title, [*rows, total], {name: f"{{{name}}}" for name in rows[0]}, names=1)


if __name__ == "__main__":
    typer.run(main)
