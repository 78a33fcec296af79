"""Commands that call nobody: evidence, scores, tables, the parameter files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beamlib.cli.arguments import Data, Json, SkipBroken, listed, listed_numbers
from beamlib.files import to_json

look_app = typer.Typer()


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
    from beamlib.report.text import print_rows
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
    from beamlib.report.text import print_rows
    from beamlib.scoring.intervals import interval_note

    rows = score_folders(run, protocol, as_is=as_is)
    print_rows(rows, as_json=as_json)
    if not as_json:
        conversations = {row["size"]: row["n_conversations"] for row in rows}  # of the average, a size's last row
        print(*(f"Interval, {size}: {interval_note(n)}." for size, n in conversations.items()), sep="\n")


@look_app.command()
def tables(
    run: Annotated[Path, typer.Argument(help="A run folder, for example runs/default.")],
    protocol: Annotated[str, typer.Option(help="Scoring protocol.")] = "paper",
    parts: Annotated[str, typer.Option(help="Parts of RUN to use, such as 100k,500k-nano; by default all.")] = "",
    base: Annotated[str, typer.Option(help="The arm that is LIGHT in Table 1; by default that with RAG's K.")] = "",
    mixed: Annotated[bool, typer.Option("--mixed", help="Put parts together whose judges or data differ.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the paired tests.")] = 0,
    as_json: Json = False,
) -> None:
    """Put RUN together over its sizes and backbones: Tables 1, 8, 9, 10, Figures 3, 4, 5; no call is made.

    They go to RUN/tables/all and RUN/figures/all. What has not been run stays empty, and captions say what is left out.
    """
    from beamlib.data.sources import refuse_data
    from beamlib.report.assembly import ALL, AssemblyOptions, assemble

    refuse_data(run)
    options = AssemblyOptions(protocol, seed, parts=listed(parts), base=base, allow_mixed=mixed)
    made = assemble(run, options)
    if as_json:
        print(to_json({name: table.records() for name, table in made.items()}, indent=2))
    else:
        print("\n".join([*(table.to_markdown() for table in made.values()), f"wrote {run}/tables/{ALL}"]))


@look_app.command()
def preflight(params: Annotated[Path, typer.Argument(help="Folder of parameter files.")] = Path("params")) -> None:
    """Compare the parameter files with what the notebooks accept."""
    from beamlib.report.notebooks import preflight as check

    for line in check(params):
        print(line)
