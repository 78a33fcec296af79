"""`beamlib generate` and `beamlib titles`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beam_commands.options import (
    DATA,
    Calls,
    MaxCost,
    Models,
    NoAdmission,
    Prompts,
    Settings,
    Sizes,
    listed,
    named_settings,
)


def generate(
    out: Annotated[Path, typer.Option(help="Folder to write to, in the released layout.")],
    size: Sizes = "100k",
    conversations: Annotated[int, typer.Option(min=1, help="How many of each tier.")] = 1,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed that everything is drawn from.")] = None,
    domain: Annotated[
        str | None, typer.Option(help="One of the 19 domains, some only with --models; by default drawn.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="A title; by default drawn from Table 5.")] = None,
    titles: Annotated[Path | None, typer.Option(help="A file of titles in place of Table 5's.")] = None,
    strategy: Annotated[str | None, typer.Option(help="10M: hierarchical or sequential.")] = None,
    reach: Annotated[
        str | None, typer.Option(help="Dialogue memory: conversation (paper) or batch (released).")
    ] = None,
    models: Models = None,
    calls: Annotated[str | None, typer.Option(help="With --models: replay, record or refresh.")] = None,
    prompts: Prompts = None,
    settings: Settings = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes.")] = None,
    max_cost: MaxCost = None,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm the estimate.")] = False,
    no_admission: NoAdmission = False,
) -> None:
    """Generate conversations with plans and probing questions; without --models the offline author writes them.

    Other parameters are as in params/<size>.yaml.
    """
    values = {
        "generation_seed": seed, "domain": domain, "title": title, "strategy": strategy, "reach": reach,
        "authors": str(models.absolute()) if models else None, "calls": calls,
        "prompts": str(prompts.absolute()) if prompts else None, "workers": workers, "confirm_cost": yes or None,
    }  # fmt: skip
    set_values = {name: value for name, value in values.items() if value is not None}
    from beam_generate.of_run import run_generate
    from beamlib.llm.spending import set_spending_limit

    set_spending_limit(max_cost)
    run_generate(
        out, listed(size), conversations, set_values, named_settings(settings), titles, admission=not no_admission
    )


def new_titles(
    out: Annotated[Path, typer.Argument(help="File to add titles to, for example titles.json.")],
    domain: Annotated[str, typer.Option(help="One of the 19 domains.")],
    models: Annotated[Path, typer.Option("--models", help="Models file; its authors.titler is asked.")],
    count: Annotated[int, typer.Option(min=1, max=50, help="How many.")] = 10,
    calls: Calls = "record",
    prompts: Prompts = None,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm the estimate.")] = False,
) -> None:
    """Ask a model for titles of a domain, with theme and subtopics, for people to refine (generate --titles)."""
    from beam_generate.of_run import config_of
    from beam_generate.titles import ask_titles
    from beamlib.params import usual_parameters

    paths = {"authors": str(models.absolute()), "prompts": str(prompts.absolute()) if prompts else ""}
    parameters = usual_parameters("100K", **paths, calls=calls, confirm_cost=yes)
    print(ask_titles(out, domain, count, config_of(parameters), models))


def add_to(app: typer.Typer, data: typer.Typer) -> None:
    """Add the commands to `beamlib`."""
    app.command("generate", rich_help_panel=DATA)(generate)
    app.command("titles", rich_help_panel=DATA)(new_titles)
