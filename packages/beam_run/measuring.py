"""`beamlib measure` and `evidence`: retrieval on released conversations, as ids and numbers and as evidence recall."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beam_run.arguments import Json, SkipBroken, listed, listed_numbers
from beamlib.errors import UserError

if TYPE_CHECKING:
    from beamlib.data.sources import Source


def evidence(
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder of BEAM conversations; by default the shipped measurements.")
    ] = None,
    size: Annotated[str, typer.Option(help="Tiers, separated by commas; by default all.")] = "",
    arm: Annotated[str, typer.Option(help="rag, light, light retrieval alone, light without retrieval, ...")] = (
        "rag,light retrieval alone"
    ),
    retriever: Annotated[str, typer.Option(help="bm25, dense, hybrid.")] = "bm25,hybrid",
    k: Annotated[str, typer.Option("--k", help="Retrieval budgets, 1 to 30.")] = "5,15",
    long: Annotated[bool, typer.Option("--long", help="A row per ability, with interval and counts.")] = False,
    skip_broken: SkipBroken = False,
    as_json: Json = False,
) -> None:
    """Print evidence recall, the share of the cited messages that a context shows whole: no model answers or judges.

    LIGHT's keys are the offline stand-in's, which is not a language model.
    """
    from beamlib.data.conversations import SIZES
    from beamlib.data.sources import find_conversations, parse_size
    from beamlib.report.table import print_rows
    from beamlib.scoring.intervals import interval_note
    from beamlib.scoring.measured import ARMS, average_recall, check_choices, evidence_rows, read_measurements

    sizes = [parse_size(name) for name in listed(size)] or list(SIZES)
    arms, retrievers, ks = listed(arm), listed(retriever), listed_numbers(k, "--k")
    if data is None:
        check_choices("arm", arms, ARMS)
        measured = [one for one in read_measurements()[1] if one.size in sizes]
        rows = average_recall(measured, arms, retrievers, ks)
    else:
        present = {source.size for source in find_conversations(data)}
        rows = evidence_rows(
            data, [tier for tier in sizes if size or tier in present], arms, retrievers, ks, skip_broken=skip_broken
        )
    print_rows(rows if long or as_json else _by_ability(rows), as_json=as_json)
    if not as_json:
        numbers = {row["size"]: row["conversations"] for row in rows if row["ability"] == "all"}
        print(*(f"Interval, {tier}: {interval_note(n)}." for tier, n in numbers.items()), sep="\n")


def _by_ability(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Put the abilities of a tier, arm, retriever and budget into one row."""
    wide: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        names = ("size", "arm", "retriever", "k")
        own = wide.setdefault(tuple(row[name] for name in names), {name: row[name] for name in names})
        own[row["ability"].replace("_", " ")] = row["recall"]
        if row["ability"] == "all":
            own |= {"low": row["low"], "high": row["high"]}
    return list(wide.values())


def measure(
    data: Annotated[list[Path], typer.Option("--data", help="Folder of BEAM conversations; may be repeated.")],
    size: Annotated[str, typer.Option(help="Tiers, separated by commas; by default all.")] = "",
    out: Annotated[Path | None, typer.Option(help="The file to write, *.jsonl.xz.")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Measure again what the file (by default the shipped one) states; compare.")
    ] = False,
    sample: Annotated[int, typer.Option(min=0, help="With --verify: this many conversations at random; 0: all.")] = 2,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
) -> None:
    """Measure retrieval on released conversations: ids and numbers, no text, no model (LIGHT's keys: offline stand-in).

    For every question and arm the file has the pairs that are retrieved for K = 1 to 30, the notes that are shown, and
    the time. Exit code 1 when --verify finds a difference.
    """
    from beamlib.data.loading import PAPER
    from beamlib.data.sources import find_conversations, parse_size, refuse_data
    from beamlib.files import code_hash
    from beamlib.scoring.measured import CODE, SHIPPED_FILE, FileHeader, measure_all, write_measurements

    sizes = [parse_size(name) for name in listed(size)] or None
    sources = [source for folder in data for source in find_conversations(folder, sizes)]
    if verify:
        raise SystemExit(_verify(sources, out or SHIPPED_FILE, sample, workers))
    if out is None:
        raise UserError("beamlib measure needs --out FILE, where it writes, or --verify.")
    refuse_data(out.parent)
    start = time.monotonic()
    measurements = list(measure_all(sources, workers=workers))
    header = FileHeader(
        command=f"beamlib measure {' '.join(f'--data {folder.name}' for folder in data)}",
        code=code_hash(CODE),
        treatment=asdict(PAPER),
        seconds=round(time.monotonic() - start),
    )
    print(f"{write_measurements(out, header, measurements)}: {len(measurements)} conversations")


def _verify(sources: Sequence[Source], path: Path, sample: int, workers: int) -> int:
    from beamlib.files import code_hash
    from beamlib.scoring.measured import CODE, differences, measure_all, read_measurements

    header, stated = read_measurements(path)
    by_id = {measurement.id: measurement for measurement in stated}
    at_hand = [source for source in sources if source.id in by_id]
    if not at_hand:
        raise UserError(f"--data has none of the {len(by_id)} conversations of {path}.")
    if sample and sample < len(at_hand):
        at_hand = random.sample(at_hand, sample)
    lines = [line for made in measure_all(at_hand, workers=workers) for line in differences(by_id[made.id], made)]
    print(*lines, sep="\n", end="\n" if lines else "")
    if header.code != code_hash(CODE):
        print("The code has changed since the file was written.", file=sys.stderr)
    names = ", ".join(source.id for source in at_hand)
    print(f"{len(at_hand)} of {len(by_id)} conversations measured again ({names}): {len(lines)} differences")
    return 1 if lines else 0
