"""What a run would cost, and the main job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beamlib.cli.arguments import (
    BaseUrl,
    Json,
    KeyVariable,
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

run_app = typer.Typer()


@run_app.command("estimate")
def estimate_cost(
    params: Annotated[Path, typer.Argument(help="Parameter file, for example params/100k.yaml.")],
    data: Annotated[
        Path | None, typer.Option("--data", envvar="BEAM_DATA", help="Folder of BEAM conversations.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the run folder under runs/.")] = "default",
    models: Models = None,
    backbone: Annotated[str, typer.Option(help="Which reader of the models file; by default its first.")] = "",
    base_url: BaseUrl = "",
    model: Model = "",
    key_variable: KeyVariable = "",
    context_window: Window = 131_072,
    prompts: Prompts = None,
    conversations: Annotated[int | None, typer.Option(min=0, help="At most this many; 0 for all.")] = None,
    preset: PresetName = "",
    settings: Settings = None,
    skip_broken: SkipBroken = False,
    count_at_endpoint: Annotated[
        bool, typer.Option("--count-at-endpoint", help="Have endpoints count tokens (vLLM's /tokenize route).")
    ] = False,
    as_json: Json = False,
) -> None:
    """What a run would call, and what that costs; no request is sent, save those of --count-at-endpoint.

    Where PARAMS names no models file, models.yaml beside it is taken.
    """
    from beamlib.cli.arguments import Endpoints
    from beamlib.cli.job import estimate_lines

    endpoints = Endpoints(models, base_url, model, key_variable, context_window)
    overrides = {**named_settings(settings), **({} if conversations is None else {"conversations": conversations})}
    overrides |= {"skip_broken": True} if skip_broken else {}
    found = estimate_lines(
        params, data, name, endpoints, backbone, prompts, overrides, preset, count_at_endpoint=count_at_endpoint
    )
    print(to_json(found.model_dump(mode="json"), indent=2) if as_json else found.render())


@run_app.command("run-all")
def run_all(
    data: Annotated[Path | None, typer.Option(envvar="BEAM_DATA", help="Folder of BEAM conversations.")] = None,
    sizes: Annotated[str, typer.Option(help="Tiers to run; by default all that are found.")] = "",
    name: Annotated[str, typer.Option(help="Name of the run folder under runs/.")] = "default",
    conversations: Annotated[int, typer.Option(min=0, help="At most this many per tier; 0 for all.")] = 0,
    protocol: Annotated[str, typer.Option(help="Scoring protocol of the tables.")] = "paper",
    authors: Annotated[Path | None, typer.Option(help="Models file whose authors write conversations.")] = None,
    memory: Annotated[str, typer.Option(help="A memory of your own beside the others, as file.py:Class.")] = "",
    memory_timeout: MemoryTimeout = None,
    memorycode: Annotated[
        Path | None, typer.Option(envvar="MEMORYCODE_DATA", help="Folder of MemoryCode dialogues (notebook 10).")
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
    from beamlib.cli.arguments import Endpoints
    from beamlib.cli.job import Job
    from beamlib.cli.steps import draw_figures, run

    if figures:
        return draw_figures(name, listed(figures), protocol)

    run(
        Job(
            data=data,
            sizes=listed(sizes),
            name=name,
            conversations=conversations,
            protocol=protocol,
            memory=memory,
            memorycode=memorycode,
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
