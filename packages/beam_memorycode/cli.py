"""`beamlib memorycode`: score outputs, generate dialogues, run models and memories."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

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
    listed_numbers,
    named_settings,
)
from beamlib.files import temporary_folder, to_json

memorycode_app = typer.Typer(no_args_is_help=True, help="MemoryCode: coding instructions over many sessions.")


@memorycode_app.command("score")
def score(
    dialogues: Annotated[
        Path, typer.Option(help="Folder of dialogue_<id>.json files, the authors' repository, or a compact bundle.")
    ],
    outputs: Annotated[
        Path | None,
        typer.Option(help="Folder of output_<id>.json files, or a bundle or folder with several models' outputs."),
    ] = None,
    model: Annotated[str, typer.Option(help="Only this one of several models.")] = "",
    order: Annotated[
        str, typer.Option(help="dialogue-mean (the paper's Table 4), position-mean (released script) or rule-mean.")
    ] = "dialogue-mean",
    variant: Annotated[str, typer.Option(help="A departure from the released rules, by name.")] = "released",
    as_json: Json = False,
) -> None:
    """Score the code that models wrote, as the paper's Table 4 does: in percent, with standard errors over dialogues.

    With one model, JSON holds instruction, session, short_history and long_history; with several, that per model.
    """
    from beam_memorycode.outputs import outputs_in
    from beam_memorycode.tally import tally, tally_text

    found = outputs_in(outputs or dialogues, model)
    tallies = {name: tally(dialogues, path, order, variant) for name, path in found.items()}
    if as_json:
        for name, one in tallies.items():
            for note in one.notes:
                print(f"beamlib: {name}: {note}", file=sys.stderr)
        values: dict[str, Any] = {name: one.as_json for name, one in tallies.items()}
        print(to_json(values if len(values) > 1 else next(iter(values.values())), indent=2))
    else:
        print("\n\n".join(tally_text(name, one) for name, one in tallies.items()))


Calls = Annotated[str, typer.Option("--calls", help="With models: replay, record or refresh.")]
Yes = Annotated[bool, typer.Option("--yes", help="Spend what the estimate says.")]


@memorycode_app.command("generate")
def generate(
    out: Annotated[Path, typer.Option(help="Folder to write to, in the authors' layout.")],
    counts: Annotated[
        str, typer.Option(help="Numbers of sessions, separated by commas; by default the twelve of Table 1.")
    ] = "",
    per_count: Annotated[int, typer.Option(min=1, help="How many of each; the published set has 30.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="What everything is drawn from.")] = 7,
    recipe: Annotated[str, typer.Option(help="paper (Table 1) or released (the authors' script).")] = "paper",
    models: Models = None,
    calls: Calls = "record",
    prompts: Prompts = None,
    max_cost: MaxCost = None,
    yes: Yes = False,
) -> None:
    """Generate dialogues with their rules; without --models the offline stand-in writes what is said."""
    from beam_memorycode.dialogues import SESSION_COUNTS
    from beam_memorycode.generating import GenerateOptions, generate_dialogues
    from beamlib.llm.spending import spend_at_most

    spend_at_most(max_cost)
    generate_dialogues(
        GenerateOptions(
            out=out,
            seed=seed,
            recipe=recipe,
            counts=listed_numbers(counts, "--counts") if counts else SESSION_COUNTS,
            per_count=per_count,
            models=models,
            calls=calls,
            prompts=prompts,
            yes=yes,
        )
    )


@memorycode_app.command("run")
def run(
    data: Annotated[Path, typer.Option(envvar="MEMORYCODE_DATA", help="Folder of dialogues, in any layout.")],
    name: Annotated[str, typer.Option(help="Name of the run folder under runs/.")] = "default",
    setups: Annotated[
        str,
        typer.Option(
            help="instruction, session, history, chain, retrieval, alone, full_context, rag, light, own; default all."
        ),
    ] = "",
    models: Models = None,
    backbone: Annotated[str, typer.Option(help="Which reader of the models file; by default its first.")] = "",
    base_url: BaseUrl = "",
    model: Model = "",
    key_variable: KeyVariable = "",
    context_window: Window = 131_072,
    calls: Calls = "record",
    memory: Annotated[
        str, typer.Option(help="Memory of the setup own, by name or file.py:Class (docs/memories.md).")
    ] = "",
    memory_timeout: MemoryTimeout = None,
    prompts: Prompts = None,
    conversations: Annotated[
        int, typer.Option(min=0, help="At most this many dialogues of each number of sessions; 0 for all.")
    ] = 0,
    settings: Settings = None,
    max_cost: MaxCost = None,
    yes: Yes = False,
) -> None:
    """Ask a reader, over the whole history or over what a memory recalls; without models the offline stand-in."""
    from beam_memorycode.ordering import RunOptions, run_setups
    from beam_run.arguments import Endpoints, check_run_name
    from beamlib.llm.spending import spend_at_most
    from beamlib.places import ROOT

    spend_at_most(max_cost)
    check_run_name(name)
    with temporary_folder("beamlib-memorycode-") as place:  # a run that is refused leaves nothing
        run_setups(
            RunOptions(
                data=data,
                folder=ROOT / "runs" / name,
                setups=listed(setups),
                models=Endpoints(models, base_url, model, key_variable, context_window).path(place),
                keep_models=bool(base_url),
                backbone=backbone,
                calls=calls,
                memory=memory,
                prompts=prompts,
                most=conversations,
                settings=named_settings(settings) | ({"memory_timeout": memory_timeout} if memory_timeout else {}),
                yes=yes,
            )
        )


def add_to(app: typer.Typer, data: typer.Typer) -> None:
    """Add the commands to `beamlib`."""
    app.add_typer(memorycode_app, name="memorycode")
