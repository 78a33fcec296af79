"""`beamlib data`: look at conversations, or fetch them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beamlib.cli.arguments import listed

data_app = typer.Typer(no_args_is_help=True, help="Look at BEAM conversations, or fetch them.")


@data_app.command("download")
def data_download(
    folder: Annotated[Path, typer.Argument(help="Where the files go.")] = Path("data"),
    sizes: Annotated[str, typer.Option(help="Tiers to fetch.")] = "100k,500k,1m,10m",
) -> None:
    """Fetch the released data sets at the pinned revision, with checksums."""
    from beamlib.data.hub import download
    from beamlib.data.sources import parse_size

    print(download(folder, [parse_size(size) for size in listed(sizes)]))
