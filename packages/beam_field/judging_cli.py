"""`beamlib judge` and `beamlib judge-card`: another judge on answers on file, and how far two judges agree."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beam_run.arguments import (
    BaseUrl,
    ClusterName,
    Endpoints,
    Json,
    KeyVariable,
    MaxCost,
    Model,
    Models,
    Prompts,
    Settings,
    Window,
    named_settings,
)
from beamlib.files import temporary_folder, to_json


def judge(
    run: Annotated[Path, typer.Argument(help="A run folder, or a part of one, for example runs/mem0.")],
    judge: Annotated[str, typer.Option("--judge", help="offline: the offline judge, which calls nothing.")] = "",
    models: Models = None,
    base_url: BaseUrl = "",
    model: Model = "",
    key_variable: KeyVariable = "",
    context_window: Window = 131_072,
    data: Annotated[
        Path | None, typer.Option("--data", help="The released questions, for answers whose rubric is not on file.")
    ] = None,
    prompts: Prompts = None,
    calls: Annotated[str, typer.Option("--calls", help="With models: replay, record or refresh.")] = "record",
    settings: Settings = None,
    max_cost: MaxCost = None,
    cluster: ClusterName = "",
    yes: Annotated[bool, typer.Option("--yes", help="Spend what the estimate says.")] = False,
) -> None:
    """Judge the answers of RUN again, by another judge under this project's prompts; the old verdicts stay.

    The new ones lie in a part of their own, such as 1m-gpt-5-imported-by-offline.
    """
    from beam_field.judging_again import JudgeOptions, judge_again
    from beam_run.cluster import use_cluster
    from beamlib.data.sources import refuse_data
    from beamlib.errors import UserError
    from beamlib.llm.spending import spend_at_most

    spend_at_most(max_cost)
    use_cluster(cluster)
    if judge not in ("", "offline"):
        raise UserError(f"--judge: {judge!r:.80} does not exist; give offline, or a model with --models or --base-url.")
    endpoints = Endpoints(models, base_url, model, key_variable, context_window)
    refuse_data(run)
    with temporary_folder("beamlib-judge-") as place:
        file = endpoints.path(place)
        if bool(file) == bool(judge):
            raise UserError("judge: say by whom, with --judge offline or with --models or --base-url, and one of them.")
        for line in judge_again(JudgeOptions(run, file, data, calls, prompts, named_settings(settings), yes)):
            print(line)


def judge_card(
    run: Annotated[Path, typer.Argument(help="The run, or part of one, whose judge is looked at.")],
    against: Annotated[Path, typer.Option("--against", help="The run, or part, whose judge it is held against.")],
    protocol: Annotated[str, typer.Option(help="Scoring protocol of the averages.")] = "nugget-mean",
    as_json: Json = False,
) -> None:
    """How far the judges of two runs over the same answers agree, and what that means for a comparison.

    Where the second has judged a part of the answers only, the first's averages are corrected by it.
    """
    from beam_field.card_of_runs import card_of_runs, record

    found = card_of_runs(run, against, protocol)
    print(to_json(record(found), indent=2) if as_json else found.render())


def add_to(app: typer.Typer) -> None:
    """Put the commands into the project's `app`."""
    app.command("judge")(judge)
    app.command("judge-card")(judge_card)
