"""`beamlib memorycode`: generate dialogues, run models and memories, score outputs."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from beam_commands.options import BENCHMARKS, Calls, Json, MaxCost, Models, NoAdmission, Prompts, Yes, listed_numbers
from beam_commands.task_group import task_group
from beamlib.files import to_json

if TYPE_CHECKING:
    from beamlib.evaluate.task import Task


def _open(place: Path, variant: str) -> Task:
    from beam_memorycode.task import MEMORYCODE

    return MEMORYCODE


memorycode_app = task_group(
    "memorycode",
    "MemoryCode: coding instructions over many sessions.",
    "instruction, session, history, chain, retrieval, alone, full_context, rag, light, own",
    _open,
    judged=False,
)

VARIANT_HELP = (
    "How rules are read: released; all rules at once; every name, not the first; absent counts 0; absent counts "
    "1; unparsed left out; empty arguments or attributes are absent; attributes anywhere in __init__; from-"
    "imports count; a # in a string is no comment; all python fences joined."
)


@memorycode_app.command("score")
def score(
    data: Annotated[
        Path,
        typer.Option(
            "--data",
            "--dialogues",
            envvar="MEMORYCODE_DATA",
            help="Folder of dialogue_<id>.json files, the authors' repository, or a compact bundle.",
        ),
    ],
    name: Annotated[str, typer.Option(help="Score the outputs of this run under runs/.")] = "",
    outputs: Annotated[
        Path | None,
        typer.Option(help="Folder of output_<id>.json files, or a bundle or folder with several models' outputs."),
    ] = None,
    model: Annotated[str, typer.Option(help="Only this one of several models.")] = "",
    order: Annotated[
        str, typer.Option(help="dialogue-mean (the paper's Table 4), position-mean (released script) or rule-mean.")
    ] = "dialogue-mean",
    variant: Annotated[str, typer.Option(help=VARIANT_HELP)] = "released",
    as_json: Json = False,
) -> None:
    """Score the code that models wrote, as the paper's Table 4 does: in percent, with standard errors over dialogues.

    With one model, JSON holds instruction, session, short_history and long_history; with several, that per model.
    """
    from beam_memorycode.dialogue_files import dialogues_revision
    from beam_memorycode.memorycode_tables import own_table
    from beam_memorycode.outputs import OUTPUTS, outputs_in
    from beam_memorycode.rule_scoring import ORDERS, SCORING_VARIANTS, AveragingOrder
    from beam_memorycode.scored import score_data
    from beamlib.errors import UserError
    from beamlib.places import ROOT

    for option, value, known in (("--order", order, ORDERS), ("--variant", variant, SCORING_VARIANTS)):
        if value not in known:
            raise UserError(f"{option}: {value!r:.60} does not exist; choose one of {'; '.join(known)}.")
    place = outputs or (ROOT / "runs" / name / "memorycode" / OUTPUTS if name else data)
    averaging, scoring = cast(AveragingOrder, order), SCORING_VARIANTS[variant]
    models = score_data(data, outputs_in(place, model))
    title = "MemoryCode" + ("" if variant == "released" else f", scored with the variant: {variant}")
    table = own_table(models, title, dialogues_revision(models[0].items), averaging, scoring)
    if as_json:
        for line in table.footer:
            print(f"beamlib: {line}", file=sys.stderr)
        values = {own.name: own.summarised(averaging, scoring) for own in models}
        columns = {name: {key: asdict(cell) for key, cell in own.items()} for name, own in values.items()}
        print(to_json(columns if len(columns) > 1 else next(iter(columns.values())), indent=2))
    else:
        print(table.to_text(), end="")


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
    no_admission: NoAdmission = False,
) -> None:
    """Generate dialogues with their rules; without --models the offline stand-in writes what is said."""
    from beam_memorycode.dialogues import SESSION_COUNTS
    from beam_memorycode.generating import GenerateOptions, generate_dialogues
    from beamlib.llm.spending import set_spending_limit

    set_spending_limit(max_cost)
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
            admission=not no_admission,
        )
    )


def add_to(app: typer.Typer, data: typer.Typer) -> None:
    """Add the commands to `beamlib`."""
    app.add_typer(memorycode_app, name="memorycode", rich_help_panel=BENCHMARKS)
