"""`beamlib claims`, `reproduce`, and the `beamlib data` commands on claims, defects and readings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from beam_commands.options import RESULTS, Json, ProtocolOption
from beamlib.data.published import Paper
from beamlib.errors import UserError
from beamlib.files import to_json


def _print(values: object, text: str, as_json: bool) -> None:
    from beamlib.report.printed import print_report

    if as_json:
        print(to_json(values, indent=2))
    else:
        print_report(text)


def data_audit(folder: Path, as_json: Json = False) -> None:
    """Look for defective questions in FOLDER, with or without chats, by twelve detectors."""
    from beam_claims.defects import audit_folder

    report = audit_folder(folder)
    _print(report.model_dump(mode="json"), report.render(), as_json)
    if report.errors:
        raise SystemExit(2)


def data_errata(
    verdicts: Annotated[
        Path | None, typer.Option(help="CSV of published verdicts: also show what `drop` does to their scores.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the known defects of the released questions, as docs/errata.md has them; no data is needed."""
    from beam_claims.defects import errata_page, published_effect
    from beamlib.data.errata import load_errata

    if not as_json:
        print(errata_page(verdicts), end="")
        return
    effect = {"published": published_effect(verdicts).to_dict("records")} if verdicts else {}
    print(to_json({**load_errata().model_dump(mode="json"), **effect}, indent=2))


def data_readings(
    file: Annotated[Path | None, typer.Argument(help="A CSV with the columns of beamlib/data/readings.csv.")] = None,
    as_json: Json = False,
) -> None:
    """Show how far readers of the questions agree, and how many questions are spoiled; no data is needed.

    Shares by tier and ability have 95 % intervals over conversations, at two thresholds (docs/readings.md).
    """
    from beam_field.readings import report_readings
    from beamlib.data.readings import READINGS_FILE, load_planted, load_readings

    report = report_readings(load_readings(file or READINGS_FILE), load_planted())
    _print(report.model_dump(mode="json"), report.render(), as_json)


def data_detectors(
    folders: Annotated[list[Path], typer.Argument(help="Folders of conversations, with or without chats.")],
    as_json: Json = False,
) -> None:
    """Show precision and recall of each detector by the readings, and what to expect of questions that nobody read."""
    from beam_claims.screening import screen

    result = screen(folders)
    _print(result.model_dump(mode="json"), result.render(), as_json)


def data_read(
    folder: Path,
    question: Annotated[str, typer.Option(help="A question, for example 100K-3-q12.")] = "",
    sheet: Annotated[Path | None, typer.Option(help="A blind sheet (sheet.json) to take --question from.")] = None,
    find: Annotated[
        list[str] | None, typer.Option(help="A word to search the user's messages for; repeatable.")
    ] = None,
    user_side: Annotated[bool, typer.Option(help="Add all messages of the user, in order.")] = False,
) -> None:
    """Show a question with its gold, the cited messages and what a search of the chat finds, for a blind reading.

    docs/readings.md says how a question is read and how a reading is recorded.
    """
    from beam_claims.sheets import load_chat, load_sheet, load_sheet_question, render_question

    if sheet:
        item = load_sheet(sheet, question)
        messages = load_chat(folder, item.conversation)[0]
    else:
        item, messages = load_sheet_question(folder, question)
    print(render_question(item, messages, find or (), user_side=user_side), end="")


def data_plant(
    folders: Annotated[list[Path], typer.Argument(help="Folders with the chats of the questions that are read.")],
    out: Annotated[Path, typer.Option(help="The sheet's new folder.")],
    key: Annotated[Path, typer.Option(help="The key's file, outside that folder.")],
    seed: Annotated[int, typer.Option(help="Which questions and defects; keep it from the readers.")],
    count: Annotated[int, typer.Option(min=20, help="Questions on the sheet.")] = 60,
) -> None:
    """Plant defects of each kind into copies of questions that were right, mixed with untouched ones, for readers."""
    from beam_claims.planting import plant, write_sheet

    items, entries = plant(folders, count, seed)
    write_sheet(folders, out, key, items, entries)
    print(f"{len(items)} questions in {out}: read sheet.md, fill in readings.csv. The key is {key}.")


def data_readers(
    answers: Annotated[list[Path], typer.Argument(help="Filled-in readings.csv of a blind sheet, a file per reader.")],
    key: Annotated[Path, typer.Option(help="The key that `beamlib data plant` wrote.")],
    as_json: Json = False,
) -> None:
    """Measure readers by a blind sheet: sensitivity and specificity by kind of defect."""
    from beam_claims.planting import read_answers
    from beam_field.readings import measure_readers, render_scores

    scores = measure_readers(read_answers(answers, key))
    _print([own.model_dump() for own in scores], render_scores(scores), as_json)


def claims(
    paper: Annotated[str, typer.Option(help="v2: the published paper; v1: the submission.")] = "v2",
    versions: Annotated[
        bool, typer.Option("--versions", help="Show what v2 changed in v1, as docs/paper-versions.md has it.")
    ] = False,
    table: Annotated[str, typer.Option(help="Only claims on this table, such as 9.")] = "",
    section: Annotated[str, typer.Option(help="Only claims of this section and those below it, such as 4.2.")] = "",
    status: Annotated[str, typer.Option(help="Only claims of this status, such as differs.")] = "",
    as_json: Json = False,
) -> None:
    """Recompute every claim of the paper from its published tables."""
    from beam_claims.engine import audit
    from beam_claims.terminal import render_claims, select

    if versions:
        if table or section or status or as_json or paper != "v2":
            raise UserError("--versions shows all that v2 changed, as a page; leave the other options out.")
        from beam_claims.versions import versions_page

        print(versions_page(), end="")
        return
    results = select(audit(paper=cast(Paper, paper)), table, section, status)
    print(
        to_json([result.model_dump(mode="json") for result in results], indent=2) if as_json else render_claims(results)
    )


def reproduce(
    run: Annotated[Path, typer.Argument(help="A run folder, or a part of one, for example runs/default.")],
    protocol: ProtocolOption = "released-code",
    paper: Annotated[str, typer.Option(help="v2: the published paper; v1: the submission.")] = "v2",
    as_json: Json = False,
) -> None:
    """Say of every claim of the paper on scores what RUN says of it; no call is made.

    Reproduced, contradicted, undecided (and how many conversations would decide), not run (and the options that would
    run it) or confounded.
    """
    from beam_claims.reproducing import render, reproduce

    found = reproduce(run, protocol, cast(Paper, paper))
    _print(found.model_dump(mode="json"), render(found), as_json)


def data_appendix(
    folder: Path,
    appendix: Annotated[str, typer.Option(help="B.6, D, E or F; by default all.")] = "",
    run: Annotated[Path | None, typer.Option(help="A run folder: also show what its LIGHT answered.")] = None,
    out: Annotated[Path | None, typer.Option(help="Copy their conversations into this new data folder.")] = None,
    as_json: Json = False,
) -> None:
    """Print the examples of the paper's appendices from FOLDER: B.6, D, E, and the case study F.

    `--appendix F --out OUT`, then `./run_all.sh --data OUT --sizes 500k` answers F by LIGHT with and without the
    scratchpad; with --run, both answers stand below each question.
    """
    from beam_claims.appendices import copy_conversations, examples, render

    found = examples(folder, appendix, run)
    _print([one.model_dump(mode="json") for one in found], render(found), as_json)
    if out is not None:
        print(copy_conversations(found, out))


def data_check(folder: Path, as_json: Json = False) -> None:
    """Count what is in FOLDER, compare its files with the released ones, and list every anomaly.

    Exit code 2 when a conversation cannot be read.
    """
    from beam_claims.data_check import check_folder

    report = check_folder(folder)
    _print(report.model_dump(mode="json"), report.render(), as_json)
    if report.errors:
        raise SystemExit(2)


def add_to(app: typer.Typer, data: typer.Typer) -> None:
    """Add the commands to `beamlib` and `beamlib data`."""
    app.command("claims", rich_help_panel=RESULTS)(claims)
    app.command("reproduce", rich_help_panel=RESULTS)(reproduce)
    data.command("check")(data_check)
    data.command("audit")(data_audit)
    data.command("appendix")(data_appendix)
    data.command("errata")(data_errata)
    data.command("readings")(data_readings)
    data.command("detectors")(data_detectors)
    data.command("read")(data_read)
    data.command("plant")(data_plant)
    data.command("readers")(data_readers)
