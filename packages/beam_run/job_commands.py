"""`beamlib run-all`, `tables` and `preflight`: the main job, and what it puts together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beam_run.arguments import (
    BaseUrl,
    ClusterName,
    Json,
    KeyVariable,
    MaxCost,
    MemoryTimeout,
    Model,
    Models,
    PresetName,
    Prompts,
    Settings,
    SkipBroken,
    Window,
    listed,
    named_settings,
)
from beamlib.files import to_json

job_app = typer.Typer()


@job_app.command("run-all")
def run_all(
    data: Annotated[Path | None, typer.Option(envvar="BEAM_DATA", help="Folder of BEAM conversations.")] = None,
    sizes: Annotated[str, typer.Option(help="Tiers to run; by default all that are found.")] = "",
    name: Annotated[str, typer.Option(help="Name of the run folder under runs/.")] = "default",
    conversations: Annotated[int, typer.Option(min=0, help="At most this many per tier; 0 for all.")] = 0,
    protocol: Annotated[str, typer.Option(help="Scoring protocol of the tables.")] = "paper",
    authors: Annotated[Path | None, typer.Option(help="Models file whose authors write conversations.")] = None,
    memory: Annotated[str, typer.Option(help="One more, by name or file.py:Class (docs/memories.md).")] = "",
    memory_timeout: MemoryTimeout = None,
    memorycode: Annotated[
        Path | None, typer.Option(envvar="MEMORYCODE_DATA", help="Folder of MemoryCode dialogues (notebook 10).")
    ] = None,
    meme: Annotated[
        Path | None, typer.Option(envvar="MEME_DATA", help="File or folder of MEME episodes (notebook 11).")
    ] = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch the released data first.")] = False,
    models: Models = None,
    backbones: Annotated[str, typer.Option(help="Readers of the models file; by default its first.")] = "",
    base_url: BaseUrl = "",
    model: Model = "",
    key_variable: KeyVariable = "",
    context_window: Window = 131_072,
    calls: Annotated[str, typer.Option(help="replay, record or refresh.")] = "record",
    prompts: Prompts = None,
    preset: PresetName = "",
    settings: Settings = None,
    skip_broken: SkipBroken = False,
    max_cost: MaxCost = None,
    cluster: ClusterName = "",
    yes: Annotated[bool, typer.Option("--yes", help="Spend what the estimate says.")] = False,
    step: Annotated[
        str, typer.Option(help="Only one: check (say what it costs), conversations, evaluate, notebooks, page.")
    ] = "",
    announced: Annotated[bool, typer.Option("--announced", help="A step before this one said so, with a yes.")] = False,
    figures: Annotated[
        str, typer.Option(help="Of the paper's Figures 3, 4 and 5, draw these and do nothing else.")
    ] = "",
) -> None:
    """The main job of run_all.sh, all steps or one."""
    if figures:
        from beam_run.together import draw_figures

        return draw_figures(name, listed(figures), protocol)
    from beam_run.arguments import Endpoints
    from beam_run.cluster import use_cluster
    from beam_run.job import Job
    from beam_run.steps import run
    from beamlib.llm.spending import spend_at_most

    spend_at_most(max_cost)
    use_cluster(cluster)
    run(
        Job(
            data=data,
            sizes=listed(sizes),
            name=name,
            conversations=conversations,
            protocol=protocol,
            memory=memory,
            suites={name: given for name, given in (("memorycode", memorycode), ("meme", meme)) if given},
            download=download,
            endpoints=Endpoints(models, base_url, model, key_variable, context_window),
            authors=authors,
            backbones=listed(backbones),
            calls=calls,
            prompts=prompts,
            settings={
                **named_settings(settings),
                **({"skip_broken": True} if skip_broken else {}),
                **({"memory_timeout": memory_timeout} if memory_timeout else {}),
            },
            preset=preset or "default",
            yes=yes or announced,
        ),
        step,
        announced=announced,
    )


@job_app.command()
def tables(
    run: Annotated[Path, typer.Argument(help="A run folder, for example runs/default.")],
    protocol: Annotated[str, typer.Option(help="Scoring protocol.")] = "paper",
    parts: Annotated[str, typer.Option(help="Parts of RUN to use, such as 100k,500k-nano; by default all.")] = "",
    base: Annotated[str, typer.Option(help="The arm that is LIGHT in Table 1; by default that with RAG's K.")] = "",
    mixed: Annotated[bool, typer.Option("--mixed", help="Put parts together whose judges or data differ.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the paired tests.")] = 0,
    as_json: Json = False,
) -> None:
    """Put RUN together over its sizes and backbones: Tables 1, 8, 9, 10, Figures 3, 4, 5; no call is made.

    They go to RUN/tables/all and RUN/figures/all. What has not been run stays empty, and captions say what is left out.
    """
    from beam_run.assembly import ALL, AssemblyOptions, assemble
    from beamlib.data.sources import refuse_data

    refuse_data(run)
    options = AssemblyOptions(protocol, seed, parts=listed(parts), base=base, allow_mixed=mixed)
    made = assemble(run, options)
    if as_json:
        print(to_json({name: table.records() for name, table in made.items()}, indent=2))
    else:
        print("\n".join([*(table.to_markdown() for table in made.values()), f"wrote {run}/tables/{ALL}"]))


@job_app.command()
def preflight(params: Annotated[Path, typer.Argument(help="Folder of parameter files.")] = Path("params")) -> None:
    """Compare the parameter files with what the notebooks accept."""
    from beam_run.executing import preflight as check

    for line in check(params):
        print(line)


def add_to(app: typer.Typer, data_app: typer.Typer) -> None:
    """Put the commands into the project's `app`."""
    app.registered_commands += job_app.registered_commands
