"""Generation and LIGHT at all four sizes, offline: `python benchmarks/generation.py --help`.

Every measurement runs in a fresh process, so that its peak memory is its own. The last column says how the time per
token compares with that of the smallest size measured: about 1 or below means that growth is linear.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from beamlib.benchmark.model import SIZES, Size
from beamlib.benchmark.sources import parse_size
from beamlib.errors import UserError
from beamlib.files import temporary_folder

MIB = 1 << 20


def main(
    sizes: Annotated[str, typer.Option(help="Tiers, separated by commas.")] = "100k,500k,1m,10m",
    seed: Annotated[int, typer.Option(help="Seed of the conversations.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes of the generation.")] = 2,
    step: Annotated[str, typer.Option(hidden=True)] = "",
    folder: Annotated[Path, typer.Option(hidden=True)] = Path(),
) -> None:
    """Generate one conversation of each size, then let LIGHT read it and answer its twenty questions."""
    chosen = [parse_size(name.strip()) for name in sizes.split(",")]
    if step:
        _step(step, folder, chosen[0], seed, workers)
        return
    rows: list[tuple[str, Size, int, float, float]] = []
    with temporary_folder("beamlib-generation-") as place:
        for size in tqdm([size for size in SIZES if size in chosen], desc="measuring", unit="size"):
            for name in ("generate", "light"):
                rows.append((name, size, *_measured(name, place, size, seed, workers)))
    _print(rows)


def _measured(name: str, place: Path, size: Size, seed: int, workers: int) -> tuple[int, float, float]:
    """Tokens, seconds and peak MiB (of the largest process) of one step in a process of its own."""
    command = [sys.executable, __file__, "--step", name, "--folder", str(place), "--sizes", size]
    done = subprocess.run([*command, "--seed", str(seed), "--workers", str(workers)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    tokens, seconds, peak = done.stdout.split()[-3:]
    return int(tokens), float(seconds), float(peak)


def _step(name: str, place: Path, size: Size, seed: int, workers: int) -> None:
    from beamlib.benchmark.loading import load
    from beamlib.benchmark.sources import find_conversations
    from beamlib.text import count_tokens

    started = time.monotonic()
    if name == "generate":
        from beamlib.generate.casting import Writing
        from beamlib.generate.pipeline import Commission
        from beamlib.generate.producing import produce
        from beamlib.params import usual_parameters

        commission = Commission(usual_parameters(size, generation_seed=seed))
        produce([commission], place, Writing(), workers, quiet=True)
        seconds = time.monotonic() - started
        conversation = load(find_conversations(place, [size])[0]).conversation
    else:
        from beamlib.memory import Light
        from beamlib.models.base import Prompt, run
        from beamlib.models.offline import OfflineModel

        loaded = load(find_conversations(place, [size])[0])
        conversation, model = loaded.conversation, OfflineModel()
        light = Light(model)
        light.ingest(conversation)
        for probe in loaded.probes:
            context = light.recall(probe.question).context
            run(model.complete(Prompt("answer", {"context": context, "question": probe.question})))
        seconds = time.monotonic() - started
    tokens = sum(count_tokens(message.content) for message in conversation)
    own, others = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(tokens, seconds, max(own, others) * 1024 / MIB)


def _print(rows: list[tuple[str, Size, int, float, float]]) -> None:
    table = Table(box=SIMPLE, title="offline stand-in, not a language model")
    for heading in ("step", "size", "tokens", "seconds", "tokens per second", "peak MiB", "time per token, ratio"):
        table.add_column(heading, justify="left" if heading in ("step", "size") else "right")
    first = {name: seconds / tokens for name, _, tokens, seconds, _ in reversed(rows)}
    for name, size, tokens, seconds, peak in rows:
        ratio = seconds / tokens / first[name]
        table.add_row(
            name, size, f"{tokens:,}", f"{seconds:.1f}", f"{tokens / seconds:,.0f}", f"{peak:.0f}", f"{ratio:.2f}"
        )
    Console().print(table)


if __name__ == "__main__":
    try:
        typer.run(main)
    except UserError as error:
        print(f"generation: {error}", file=sys.stderr)
        raise SystemExit(2) from None
