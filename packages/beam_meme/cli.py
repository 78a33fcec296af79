"""`beamlib meme`: generate or download episodes, run memories on them, score their answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beam_run.arguments import BENCHMARKS, Calls, Json, MaxCost, Models, Prompts, listed
from beam_run.task_commands import Variant, Yes, task_group
from beamlib.files import to_json

if TYPE_CHECKING:
    from beamlib.evaluate.task import Task

Episodes = Annotated[
    Path, typer.Option("--data", envvar="MEME_DATA", help="File or folder of episodes in the released layout.")
]


def _open(place: Path, variant: str) -> Task:
    from beam_meme.task import open_meme

    return open_meme(place, variant)


meme_app = task_group(
    "meme",
    "MEME: facts that change, depend on one another, and are deleted.",
    "none, gold-facts, full-context, bm25, dense, rag, light, md-flat, wiki, dependencies, mem0, graphiti, langmem, "
    "own",
    _open,
)


@meme_app.command("generate")
def generate(
    out: Annotated[Path, typer.Option(help="Folder to write to, in the released layout.")],
    episodes: Annotated[
        int, typer.Option(min=1, help="How many, half of each domain; the published set has 100.")
    ] = 10,
    variants: Annotated[str, typer.Option(help="nofiller, filler32k, filler128k, separated by commas.")] = "filler32k",
    seed: Annotated[int, typer.Option(min=0, help="What everything is drawn from.")] = 42,
    fillers: Annotated[
        Path | None, typer.Option(help="Folder of your own filler sessions; else the offline author writes them.")
    ] = None,
    filler_judge: Annotated[str, typer.Option(help="Who looks for conflicts: rules, or model after them.")] = "rules",
    models: Models = None,
    calls: Calls = "record",
    prompts: Prompts = None,
    max_cost: MaxCost = None,
    yes: Yes = False,
) -> None:
    """Generate episodes with their gold; without --models the sessions are told by rules."""
    from beam_meme.episode_generating import EpisodeOptions, generate_episodes
    from beamlib.llm.spending import set_spending_limit

    set_spending_limit(max_cost)
    generate_episodes(
        EpisodeOptions(
            out=out,
            count=episodes,
            variants=listed(variants),
            seed=seed,
            fillers=fillers,
            filler_judge=filler_judge,
            models=models,
            calls=calls,
            prompts=prompts,
            yes=yes,
        )
    )


@meme_app.command("download")
def download(
    out: Annotated[Path, typer.Option(help="Folder to fetch the released episodes into.")],
    variants: Annotated[
        str, typer.Option(help="nofiller, filler32k, filler128k, separated by commas; default all.")
    ] = "",
) -> None:
    """Fetch the released episodes at their pinned revision."""
    from beam_meme.episodes import VARIANTS
    from beam_meme.meme_hub import download_episodes

    print(download_episodes(out, listed(variants) or VARIANTS))


@meme_app.command("stats")
def stats(data: Episodes, variant: Variant = "", as_json: Json = False) -> None:
    """What the episodes hold, beside what was published."""
    from beam_meme.episode_files import load_episodes
    from beam_meme.meme_tables import statistics

    table = statistics(load_episodes(data, variant))
    print(to_json(table.records(), indent=2) if as_json else table.to_text())


def add_to(app: typer.Typer, data: typer.Typer) -> None:
    """Add the commands to `beamlib`."""
    app.add_typer(meme_app, name="meme", rich_help_panel=BENCHMARKS)
