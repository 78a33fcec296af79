"""`beamlib meme`: generate or download episodes, run memories on them, score what they answered."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beam_run.arguments import (
    BaseUrl,
    Json,
    KeyVariable,
    MaxCost,
    MemoryTimeout,
    Model,
    Models,
    Prompts,
    Settings,
    Window,
    listed,
    named_settings,
)
from beamlib.files import temporary_folder, to_json

meme_app = typer.Typer(no_args_is_help=True, help="MEME: facts that change, depend on one another, and are deleted.")

Episodes = Annotated[
    Path, typer.Option("--data", envvar="MEME_DATA", help="File or folder of episodes in the released layout.")
]
VariantName = Annotated[
    str, typer.Option("--variant", help="nofiller, filler32k or filler128k, of several in a folder.")
]
RunName = Annotated[str, typer.Option("--name", help="Name of the run folder under runs/.")]
Memories = Annotated[str, typer.Option("--memories", help="Names of memories, separated by commas; default all.")]
Backbone = Annotated[str, typer.Option("--backbone", help="Which reader of the models file; by default its first.")]
Calls = Annotated[str, typer.Option("--calls", help="With models: replay, record or refresh.")]
Yes = Annotated[bool, typer.Option("--yes", help="Spend what the estimate says.")]


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
    from beamlib.llm.spending import spend_at_most

    spend_at_most(max_cost)
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


@meme_app.command("run")
def run(
    data: Episodes,
    variant: VariantName = "",
    name: RunName = "default",
    memories: Memories = "",
    models: Models = None,
    backbone: Backbone = "",
    base_url: BaseUrl = "",
    model: Model = "",
    key_variable: KeyVariable = "",
    context_window: Window = 131_072,
    calls: Calls = "record",
    memory: Annotated[str, typer.Option(help="A memory called own, by name or file.py:Class (docs/memories.md).")] = "",
    memory_timeout: MemoryTimeout = None,
    prompts: Prompts = None,
    episodes: Annotated[int, typer.Option(min=0, help="At most this many episodes of each domain; 0 for all.")] = 0,
    settings: Settings = None,
    max_cost: MaxCost = None,
    yes: Yes = False,
) -> None:
    """Ask memories and a reader about episodes; without models the offline stand-in answers."""
    from beam_meme.meme_ordering import RunOptions, run_memories
    from beam_run.arguments import Endpoints, check_run_name
    from beamlib.llm.spending import spend_at_most
    from beamlib.places import ROOT

    spend_at_most(max_cost)
    check_run_name(name)
    with temporary_folder("beamlib-meme-") as place:  # a run that is refused leaves nothing
        run_memories(
            RunOptions(
                data=data,
                folder=ROOT / "runs" / name,
                variant=variant,
                memories=listed(memories),
                models=Endpoints(models, base_url, model, key_variable, context_window).path(place),
                keep_models=bool(base_url),
                backbone=backbone,
                calls=calls,
                memory=memory,
                prompts=prompts,
                most=episodes,
                settings=named_settings(settings) | ({"memory_timeout": memory_timeout} if memory_timeout else {}),
                yes=yes,
            )
        )


@meme_app.command("score")
def score(
    data: Episodes,
    variant: VariantName = "",
    name: RunName = "default",
    memories: Memories = "",
    models: Models = None,
    backbone: Annotated[str, typer.Option("--backbone", help="Whose answers, of several readers.")] = "",
    calls: Calls = "record",
    prompts: Prompts = None,
    settings: Settings = None,
    max_cost: MaxCost = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Judge what a run has answered; without --models the offline stand-in judges."""
    from beam_meme.meme_ordering import RunOptions
    from beam_meme.meme_tally import score_run
    from beam_run.arguments import Endpoints, check_run_name
    from beamlib.llm.spending import spend_at_most
    from beamlib.places import ROOT

    spend_at_most(max_cost)
    check_run_name(name)
    tables = score_run(
        RunOptions(
            data=data,
            folder=ROOT / "runs" / name,
            variant=variant,
            memories=listed(memories),
            models=Endpoints(models).path(Path()),
            backbone=backbone,
            calls=calls,
            prompts=prompts,
            settings=named_settings(settings),
            yes=yes,
        )
    )
    if as_json:
        print(to_json({table.title: table.records() for table in tables}, indent=2))
    else:
        print("\n".join(table.to_text() for table in tables))


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
def stats(data: Episodes, variant: VariantName = "", as_json: Json = False) -> None:
    """What the episodes hold, beside what was published."""
    from beam_meme.episode_files import load_episodes
    from beam_meme.episode_statistics import statistics

    table = statistics(load_episodes(data, variant))
    print(to_json(table.records(), indent=2) if as_json else table.to_text())


def add_to(app: typer.Typer, data: typer.Typer) -> None:
    """Add the commands to `beamlib`."""
    app.add_typer(meme_app, name="meme")
