"""`beamlib calls`: publish what models were asked, or check it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

calls_app = typer.Typer(no_args_is_help=True, help="Publish the stored model calls of a run, or check them.")


@calls_app.command("export")
def calls_export(
    run: Annotated[Path, typer.Argument(help="A run folder, for example runs/nano.")],
    archive: Annotated[Path, typer.Argument(help="The file to write, for example nano.tar.zst.")],
) -> None:
    """Write the stored calls of RUN, with its answers and judgements, into ARCHIVE (.tar.zst) with a list of hashes."""
    from beam_run.publish import publish
    from beamlib.data.sources import refuse_data

    refuse_data(archive.parent)
    print(publish(run, archive))


@calls_app.command("import")
def calls_import(
    archive: Annotated[Path, typer.Argument(help="An archive of `calls export`.")],
    run: Annotated[Path, typer.Argument(help="The run folder that its calls go into.")],
) -> None:
    """Check ARCHIVE and merge its calls into the run folder RUN, so that it can be replayed."""
    from beam_run.archive import import_calls
    from beam_run.publish import described
    from beamlib.data.sources import refuse_data

    refuse_data(run)
    print(f"{run}: every hash agrees; {described(import_calls(archive, run))}")


@calls_app.command("verify")
def calls_verify(
    archive: Annotated[Path, typer.Argument(help="An archive of `calls export`.")],
    data: Annotated[Path | None, typer.Option("--data", envvar="BEAM_DATA", help="Replay it on these too.")] = None,
) -> None:
    """Check every hash in ARCHIVE; with --data, replay it without any call and compare answers and judgements."""
    from beam_run.publish import verify

    print(verify(archive, data))


def add_to(app: typer.Typer, data: typer.Typer) -> None:
    """Add the commands to `beamlib`."""
    app.add_typer(calls_app, name="calls")
