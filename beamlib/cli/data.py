"""`beamlib data`: look at conversations, or fetch them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beamlib.cli.arguments import Json, listed
from beamlib.files import to_json

data_app = typer.Typer(no_args_is_help=True, help="Look at BEAM conversations, or fetch them.")


@data_app.command("check")
def data_check(folder: Path, as_json: Json = False) -> None:
    """Count what is in FOLDER, tell changed files from released ones, and list every anomaly.

    Exit code 2 when a conversation cannot be read; a changed file that can be is an anomaly.
    """
    from beamlib.data.check import check_folder

    report = check_folder(folder)
    print(to_json(report.model_dump(mode="json"), indent=2) if as_json else report.render())
    if report.errors:
        raise SystemExit(2)


@data_app.command("download")
def data_download(
    folder: Annotated[Path, typer.Argument(help="Where the files go.")] = Path("data"),
    sizes: Annotated[str, typer.Option(help="Tiers to fetch.")] = "100k,500k,1m,10m",
) -> None:
    """Fetch the released data sets at the pinned revision, with checksums."""
    from beamlib.data.hub import download
    from beamlib.data.sources import parse_size

    print(download(folder, [parse_size(size) for size in listed(sizes)]))
