"""`beamlib page`, `beamlib compare` and `beamlib replay`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from beam_commands.options import RESULTS, Json, ProtocolOption
from beamlib.errors import UserError
from beamlib.files import to_json

PageProtocol = Annotated[
    str,
    typer.Option(
        "--protocol",
        help="The page opens with it: paper, released-code, f1-weighted, nugget-mean or binary.",
        show_default="paper, or the first by which all memories have an average",
    ),
]

Run = Annotated[Path, typer.Argument(help="A run folder, for example runs/default.")]
DataOf = Annotated[
    Path | None,
    typer.Option("--data", envvar="BEAM_DATA", help="The conversations that RUN was asked about, where it made none."),
]


def page(
    run: Run,
    data: DataOf = None,
    protocol: PageProtocol = "",
    zipped: Annotated[
        bool, typer.Option("--zip", help="Put the page and all it links to into RUN.zip as well.")
    ] = False,
) -> None:
    """Write the page of RUN, RUN/index.html; no call is made.

    It opens without a server. Without the conversations, it shows verdicts and answers alone. A conversation whose
    answers and verdicts have not changed keeps its data files.
    """
    from beam_page.building import write_page
    from beam_page.run_folder import read_run
    from beamlib.evaluate.beam_records import MANIFEST, run_and_part
    from beamlib.evaluate.records import RUN
    from beamlib.places import refuse_data
    from beamlib.text import count

    refuse_data(run)
    if not any(next(run.rglob(name), None) for name in (MANIFEST, RUN, "*.csv", "*.html")):
        raise UserError(f"{run}: nothing of a run in it or below; name a run folder that run_all.sh wrote.")
    whole, part = run_and_part(run)
    if part:
        raise UserError(f"{run}: it is a part of a run, and a page shows all of it; name {whole}.")
    folder = read_run(run, data_of(run, data))
    print(f"wrote {write_page(folder, protocol=protocol, workers=os.cpu_count() or 1)}")
    for name, why in folder.left_out.items():
        print(f"left out {name}: {why}")
    if missing := [name for name in folder.conversations if name not in folder.sources]:
        print(f"without the text of {count(len(missing), 'conversation')}: name the folder of the data with --data")
    if zipped:
        from beam_page.data_files import zip_page

        print(zip_page(run))


def compare(
    first: Annotated[Path, typer.Argument(help="A run folder, or a part of one.")],
    second: Annotated[Path, typer.Argument(help="Another one, on the same questions.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the table as CSV, Markdown and HTML.")] = None,
    protocol: ProtocolOption = "paper",
    as_json: Json = False,
) -> None:
    """Compare two runs: paired differences of their arms with intervals, by ability."""
    from beam_page.comparing import compare_runs
    from beamlib.places import refuse_data
    from beamlib.report.table import save_table

    if out is not None:
        refuse_data(out)
    table = compare_runs(first, second, protocol)
    if out is not None:
        save_table(table, "differences", out)
    print(to_json(table.records(), indent=2) if as_json else table.to_text())


def replay(
    run: Run,
    arm: Annotated[str, typer.Argument(help="Part and arm, for example 100k/rag-hybrid-k5.")],
    question: Annotated[str, typer.Argument(help="A question's id, for example 100K-1-q00.")],
    data: DataOf = None,
) -> None:
    """Recall, answer and judge one question again from the run's files, and compare with the record."""
    from beam_page.replaying import replay_question
    from beam_page.run_folder import find_arm, read_run

    folder = read_run(run, data_of(run, data))
    for line in replay_question(folder, find_arm(folder, arm), question):
        print(line)


def data_of(run: Path, data: Path | None) -> Path | None:
    """Return the data folder of `run`: `--data` if given, but its generated conversations before BEAM_DATA."""
    from beamlib.evaluate.beam_records import run_and_part
    from beamlib.params import GENERATED

    from_environment = data is not None and os.environ.get("BEAM_DATA") == str(data)
    return None if from_environment and (run_and_part(run)[0] / GENERATED).is_dir() else data


def add_to(app: typer.Typer, data_app: typer.Typer) -> None:
    """Add the commands to the project's `app`."""
    for command in (page, compare, replay):
        app.command(rich_help_panel=RESULTS)(command)
