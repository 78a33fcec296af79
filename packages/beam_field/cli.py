"""`beamlib import`: results that others published become a run like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beam_field import judging_cli
from beam_run.arguments import Json, check_run_name
from beamlib.files import to_json


def import_results(
    files: Annotated[list[Path], typer.Argument(help="Result files: JSON, JSON lines, either of them in gzip.")],
    form: Annotated[
        str,
        typer.Option("--format", help="mem0, cognee, truememory, amb, past, honcho or beam-results; else recognised."),
    ] = "",
    name: Annotated[str, typer.Option(help="Name of the run folder under runs/; by default the format's.")] = "",
    check: Annotated[bool, typer.Option("--check", help="Say what is there and what follows; write nothing.")] = False,
    reader: Annotated[str, typer.Option(help="Who answered, where the files do not say.")] = "",
    judge: Annotated[str, typer.Option(help="Who judged, where the files do not say.")] = "",
    gold: Annotated[str, typer.Option(help="Whether gold stood in the answer prompt: yes, no or unknown.")] = "",
    as_json: Json = False,
) -> None:
    """Import FILES that others published: matched to BEAM's questions without data, scored by every protocol.

    No model is called. What does not match, is there twice or is missing is counted and named.
    """
    from beam_field.importing import read_runs, write_runs
    from beam_field.summary import records, summary
    from beamlib.data.sources import refuse_data
    from beamlib.places import RUNS, from_root

    stated = {key: value for key, value in (("reader", reader), ("judge", judge), ("gold_in_prompt", gold)) if value}
    arms = read_runs(files, form, stated)
    name = name or arms[0].imported.format
    check_run_name(name)
    run = RUNS / name
    if not check:
        refuse_data(run)
        write_runs(arms, run)
    if as_json:
        print(to_json(records(arms), indent=2))
        return
    print("\n\n".join(summary(one) for one in arms))
    print("\nnothing was written" if check else f"\nwrote {from_root(run)}; next: beamlib score {from_root(run)}")


def export_results(
    arm: Annotated[Path, typer.Argument(help="The folder of an arm, for example runs/nano/1m/flat.")],
    file: Annotated[Path, typer.Argument(help="The file to write, for example results.jsonl.")],
) -> None:
    """Write the results in ARM to FILE, for others to import: answers and verdicts, no text of the released data."""
    from beam_field.exporting import export_arm
    from beamlib.data.sources import refuse_data

    refuse_data(file.parent)
    count = export_arm(arm, file)
    print(f"wrote {file}: {count} questions; what others see of it: beamlib import {file} --check")


def add_to(app: typer.Typer, data_app: typer.Typer) -> None:
    """Put the commands into the project's `app`."""
    app.command("import")(import_results)
    app.command("export")(export_results)
    judging_cli.add_to(app)
