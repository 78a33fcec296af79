"""`beamlib import`, `export`, `judge` and `judge-card`: the results of others, and other judges on answers on file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beam_commands.options import (
    FIELD_PANEL,
    BaseUrl,
    Calls,
    ClusterName,
    Endpoints,
    Json,
    JudgeAnyway,
    KeyVariable,
    MaxCost,
    ModelName,
    Models,
    NoAdmission,
    Prompts,
    ProtocolOption,
    Settings,
    Window,
    check_run_name,
    named_settings,
)
from beamlib.files import temporary_folder, to_json


def import_results(
    files: Annotated[list[Path], typer.Argument(help="Result files: JSON or JSON lines, optionally gzipped.")],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="mem0, cognee, truememory, amb, past, honcho, memorybench, remnic, memmachine, released-code, "
            "beam-results or records (lists of questions and answers); recognised if empty.",
        ),
    ] = "",
    name: Annotated[str, typer.Option(help="Name of the run folder under runs/; by default the format's.")] = "",
    check: Annotated[bool, typer.Option("--check", help="Show what would be imported; write nothing.")] = False,
    reader: Annotated[str, typer.Option(help="The model that answered, if the files do not say it.")] = "",
    judge: Annotated[str, typer.Option(help="The model that judged, if the files do not say it.")] = "",
    gold: Annotated[str, typer.Option(help="Whether gold stood in the answer prompt: yes, no or unknown.")] = "",
    as_json: Json = False,
) -> None:
    """Import FILES that others published: match them to BEAM's questions and score them by every protocol.

    No data is needed and no model is called. What is unmatched, duplicate or missing is counted and named.
    """
    from beam_field.importing import import_record, import_summary, read_runs, write_runs
    from beamlib.places import RUNS, from_root, refuse_data
    from beamlib.report.printed import print_report

    stated = {key: value for key, value in (("reader", reader), ("judge", judge), ("gold_in_prompt", gold)) if value}
    arms = read_runs(files, form, stated)
    name = name or arms[0].imported.format
    check_run_name(name)
    run = RUNS / name
    if not check:
        refuse_data(run)
        write_runs(arms, run)
    if as_json:
        print(to_json([import_record(own) for own in arms], indent=2))
        return
    print_report("\n\n".join(map(import_summary, arms)))
    then = "judge {} --models FILE" if all(own.unjudged for own in arms) else "score {}"
    place = from_root(run)
    print("\nnothing was written" if check else f"\nwrote {place}; next: beamlib {then.format(place)}")


def export_results(
    arm: Annotated[Path, typer.Argument(help="The folder of an arm, for example runs/nano/1m/flat.")],
    file: Annotated[Path, typer.Argument(help="The file to write, for example results.jsonl.")],
) -> None:
    """Write the results in ARM to FILE, for others to import: answers and verdicts, no text of the released data."""
    from beam_field.exporting import export_arm
    from beamlib.places import refuse_data

    refuse_data(file.parent)
    count = export_arm(arm, file)
    print(f"wrote {file}: {count} questions; what others see of it: beamlib import {file} --check")


def judge(
    run: Annotated[Path, typer.Argument(help="A run folder, or a part of one, for example runs/mem0.")],
    judge: Annotated[str, typer.Option("--judge", help="offline: the offline judge, which calls nothing.")] = "",
    models: Models = None,
    base_url: BaseUrl = "",
    model: ModelName = "",
    key_variable: KeyVariable = "",
    context_window: Window = 131_072,
    data: Annotated[
        Path | None, typer.Option("--data", help="The released questions, for answers whose rubric is not on file.")
    ] = None,
    prompts: Prompts = None,
    calls: Calls = "record",
    settings: Settings = None,
    max_cost: MaxCost = None,
    cluster: ClusterName = "",
    yes: Annotated[bool, typer.Option("--yes", help="Confirm the estimated cost.")] = False,
    no_admission: NoAdmission = False,
    judge_anyway: JudgeAnyway = False,
) -> None:
    """Judge the answers of RUN again, by another judge under this project's prompts; the old verdicts stay.

    The new verdicts get a part of their own, such as 1m-gpt-5-imported-by-offline.
    """
    from beam_field.judging_again import JudgeOptions, judge_again
    from beamlib.errors import UserError
    from beamlib.llm.spending import set_spending_limit
    from beamlib.places import refuse_data
    from beamlib.plugins import plugins

    set_spending_limit(max_cost)
    if cluster:
        plugins().use_cluster(cluster)
    if judge not in ("", "offline"):
        raise UserError(f"--judge: {judge!r:.80} does not exist; give offline, or a model with --models or --base-url.")
    endpoints = Endpoints(models, base_url, model, key_variable, context_window)
    refuse_data(run)
    with temporary_folder("beamlib-judge-") as folder:
        file = endpoints.path(folder)
        if bool(file) == bool(judge):
            raise UserError("judge: name one judge, with --judge offline or with --models or --base-url.")
        options = JudgeOptions(
            run, file, data, calls, prompts, named_settings(settings), yes, not no_admission, judge_anyway
        )
        for line in judge_again(options):
            print(line)


def judge_card(
    run: Annotated[Path, typer.Argument(help="The run, or part of one, whose judge is examined.")],
    against: Annotated[Path, typer.Option("--against", help="The run, or part of one, of the judge to compare with.")],
    protocol: ProtocolOption = "nugget-mean",
    as_json: Json = False,
) -> None:
    """Compare the judges of two runs over the same answers: agreement, bias, and what that means for a comparison.

    Where the second judge has judged only a part of the answers, the averages of the first are corrected by it.
    """
    from beam_field.cards import card_of_runs
    from beamlib.report.printed import print_report

    card = card_of_runs(run, against, protocol)
    if as_json:
        print(to_json(card.record(), indent=2))
    else:
        print_report(card.render())


def add_to(app: typer.Typer, data_app: typer.Typer) -> None:
    """Add the commands to the project's `app`."""
    app.command("import", rich_help_panel=FIELD_PANEL)(import_results)
    app.command("export", rich_help_panel=FIELD_PANEL)(export_results)
    app.command("judge", rich_help_panel=FIELD_PANEL)(judge)
    app.command("judge-card", rich_help_panel=FIELD_PANEL)(judge_card)
