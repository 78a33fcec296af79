"""`beamlib memorycode`: score outputs, generate dialogues, run models and memories."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from beamlib.files import to_json

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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Score the code that models wrote, as the paper's Table 4 does: in percent, with standard errors over dialogues.

    With one model, JSON holds instruction, session, short_history and long_history; with several, that per model.
    """
    from beamlib.suites.memorycode.outputs import outputs_in
    from beamlib.suites.memorycode.tally import tally, tally_text

    found = outputs_in(outputs or dialogues, model)
    tallies = {name: tally(dialogues, path, order, variant) for name, path in found.items()}
    for name, one in tallies.items():
        for note in one.notes:
            print(f"beamlib: {name}: {note}", file=sys.stderr)
    if as_json:
        values: dict[str, Any] = {name: one.as_json for name, one in tallies.items()}
        print(to_json(values if len(values) > 1 else next(iter(values.values())), indent=2))
    else:
        print("\n\n".join(tally_text(name, one) for name, one in tallies.items()))
