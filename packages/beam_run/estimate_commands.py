"""`beamlib estimate`: what a run would cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from beam_run.arguments import (
    BaseUrl,
    Endpoints,
    Json,
    KeyVariable,
    Model,
    Models,
    PresetName,
    Prompts,
    Settings,
    SkipBroken,
    Window,
    check_run_name,
    named_settings,
)
from beamlib.errors import UserError
from beamlib.files import temporary_folder, to_json

costs_app = typer.Typer()


@costs_app.command("estimate")
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

    endpoints = Endpoints(models, base_url, model, key_variable, context_window)
    overrides = {**named_settings(settings), **({} if conversations is None else {"conversations": conversations})}
    overrides |= {"skip_broken": True} if skip_broken else {}
    found = estimate_lines(
        params, data, name, endpoints, backbone, prompts, overrides, preset, count_at_endpoint=count_at_endpoint
    )
    print(to_json(found.model_dump(mode="json"), indent=2) if as_json else found.render())


def estimate_lines(
    params: Path,
    data: Path | None,
    name: str,
    endpoints: Endpoints,
    backbone: str,
    prompts: Path | None,
    settings: Mapping[str, Any],
    preset: str = "",
    *,
    count_at_endpoint: bool = False,
) -> Any:
    """What a run by `params` would call; see `beam_run.estimate.estimate`."""
    from beam_run.estimate import estimate
    from beamlib.evaluate.arms import arms_of, experiments
    from beamlib.llm.endpoints import MODELS
    from beamlib.params import load_parameters
    from beamlib.places import RUNS, in_root

    check_run_name(name)
    for option, parameter in (("--name", "run"), ("--preset", "preset")):
        if parameter in settings:
            raise UserError(f"--set {parameter}: this parameter has an option of its own; give {option}.")
    settings = {**settings, **({"preset": preset} if preset else {})}
    found = load_parameters(params, **settings)
    models_beside = params.parent / MODELS
    with temporary_folder("beamlib-estimate-") as place:  # not over the models file of the run
        usual = found.models or (str(models_beside.absolute()) if models_beside.exists() else "")
        changes: dict[str, Any] = {"run": str(RUNS / name), "backbone": backbone or found.backbone}
        changes |= {"models": in_root(endpoints.path(place, usual))}
        changes |= {"data": str(data.absolute())} if data else {}
        changes |= {"prompts": str(prompts.absolute())} if prompts else {}
        found = load_parameters(params, **{**settings, **changes})
        if not found.data:
            raise UserError(f"{params}: it names no data; give a folder of conversations with --data.")
        arms = arms_of(found, experiments(found))
        return estimate(found, arms, count_at_endpoint=count_at_endpoint)


def add_to(app: typer.Typer, data_app: typer.Typer) -> None:
    """Put the commands into the project's `app`."""
    app.registered_commands += costs_app.registered_commands
