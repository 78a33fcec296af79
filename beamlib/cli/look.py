"""Commands that call no model: evidence, scores, and fetching the data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beamlib.cli.arguments import Data, Json, SkipBroken, listed, listed_numbers

look_app = typer.Typer()
data_app = typer.Typer(no_args_is_help=True, help="Look at BEAM conversations, or fetch them.")


@look_app.command()
def evidence(
    data: Data,
    size: Annotated[str, typer.Option(help="Tiers, separated by commas.")] = "100k",
    memory: Annotated[str, typer.Option(help="light, rag or both.")] = "light,rag",
    retriever: Annotated[str, typer.Option(help="bm25, dense, hybrid, hybrid-beam.")] = "bm25,hybrid",
    k: Annotated[str, typer.Option("--k", help="Retrieval budgets.")] = "5,10,15,20",
    skip_broken: SkipBroken = False,
    as_json: Json = False,
) -> None:
    """The share of cited messages that K recalled pairs cover: retrieval measured without any model."""
    from beamlib.data.sources import parse_size
    from beamlib.report.table import print_rows
    from beamlib.scoring.evidence import evidence_table
    from beamlib.scoring.intervals import interval_note

    sizes = [parse_size(name) for name in listed(size)]
    rows = evidence_table(
        data, sizes, listed(memory), listed(retriever), listed_numbers(k, "--k"), skip_broken=skip_broken
    )
    print_rows(rows, as_json=as_json)
    if not as_json:
        conversations = {row["size"]: row["conversations"] for row in rows if row["ability"] == "all"}
        print(*(f"Interval, {tier}: {interval_note(n)}." for tier, n in conversations.items()), sep="\n")


@look_app.command()
def score(
    run: Annotated[Path, typer.Argument(help="A run folder, or one arm's folder in it.")],
    protocol: Annotated[str, typer.Option(help="Scoring protocol.")] = "paper",
    as_is: Annotated[bool, typer.Option("--as-is", help="Score judgements that no manifest vouches for.")] = False,
    as_json: Json = False,
) -> None:
    """Score the stored judgements of RUN by a protocol, with intervals; no call is made."""
    from beamlib.report.results import score_folders
    from beamlib.report.table import print_rows
    from beamlib.scoring.intervals import interval_note

    rows = score_folders(run, protocol, as_is=as_is)
    print_rows(rows, as_json=as_json)
    if not as_json:
        conversations = {row["size"]: row["n_conversations"] for row in rows}  # of the average, a size's last row
        print(*(f"Interval, {size}: {interval_note(n)}." for size, n in conversations.items()), sep="\n")


@data_app.command("download")
def data_download(
    folder: Annotated[Path, typer.Argument(help="Where the files go.")] = Path("data"),
    sizes: Annotated[str, typer.Option(help="Tiers to fetch.")] = "100k,500k,1m,10m",
) -> None:
    """Fetch the released data sets at the pinned revision, with checksums."""
    from beamlib.data.hub import download
    from beamlib.data.sources import parse_size

    print(download(folder, [parse_size(size) for size in listed(sizes)]))
