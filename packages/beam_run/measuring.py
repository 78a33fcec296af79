"""`beamlib measure` and `evidence`: retrieval on released conversations, as ids and numbers and as evidence recall."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from beam_commands.options import (
    Csv,
    Json,
    KeyVariable,
    Long,
    MaxCost,
    ModelName,
    Models,
    Sizes,
    SkipBroken,
    Yes,
    listed,
    listed_numbers,
)
from beam_commands.own_vectors import PassagePrefix, QueryPrefix, VectorOptions, VectorUrl, own_vectors
from beamlib.errors import UserError

if TYPE_CHECKING:
    from beamlib.data.sources import Source

ARM_NAMES = (
    "rag, light, light retrieval alone, light without retrieval, light without working memory, "
    "light without scratchpad, light without noise filter, best possible."
)


def evidence(
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder of BEAM conversations; by default the shipped measurements.")
    ] = None,
    size: Sizes = "",
    arm: Annotated[str, typer.Option(help=ARM_NAMES)] = "rag,light retrieval alone",
    retriever: Annotated[str, typer.Option(help="bm25, dense, hybrid.")] = "bm25,hybrid",
    k: Annotated[str, typer.Option("--k", help="Retrieval budgets, 1 to 30.")] = "5,15",
    long: Long = False,
    skip_broken: SkipBroken = False,
    models: Models = None,
    base_url: VectorUrl = "",
    model: ModelName = "",
    key_variable: KeyVariable = "",
    query_prefix: QueryPrefix = "",
    passage_prefix: PassagePrefix = "",
    max_cost: MaxCost = None,
    yes: Yes = False,
    as_csv: Csv = False,
    as_json: Json = False,
) -> None:
    """Print evidence recall, the share of the cited messages that a context shows whole: no model answers or judges.

    `average` is the mean over abilities, as in every table and figure. LIGHT's keys are the offline stand-in's, which
    is not a language model. With --data, `dense` and `hybrid` take your own vectors: name the encoder with --models
    (role embedding) or --base-url; no reader is asked.
    """
    from beam_commands.measuring import evidence_rows
    from beamlib.data.conversations import SIZES, parse_size
    from beamlib.data.sources import find_conversations
    from beamlib.report.footer import domain_mix
    from beamlib.report.printed import print_by_ability
    from beamlib.report.series import series_named
    from beamlib.scoring.average_recall import average_recall
    from beamlib.scoring.measured import read_measurements

    sizes = [parse_size(name) for name in listed(size)] or list(SIZES)
    arms, retrievers, ks = listed(arm), listed(retriever), listed_numbers(k, "--k")
    vectors = VectorOptions(
        models=models, base_url=base_url, model=model, key_variable=key_variable, query_prefix=query_prefix,
        passage_prefix=passage_prefix, max_cost=max_cost, yes=yes,
    )  # fmt: skip
    if data is None:
        if vectors.models_file():
            raise UserError("--data: name the conversations that your encoder is to search; texts are not shipped.")
        measured = [one for one in read_measurements()[1] if one.size in sizes]
        rows = average_recall(measured, arms, retrievers, ks)
    else:
        present = {source.size for source in find_conversations(data)}
        tiers = [tier for tier in sizes if size or tier in present]
        rows_of = partial(evidence_rows, data, tiers, arms, retrievers, ks, skip_broken=skip_broken)
        with own_vectors(vectors, lambda own: rows_of(own=own)) as own:
            rows = rows_of(own=own)
    names = ("size", "arm", "retriever", "k")
    if not (as_csv or as_json):
        rows = [row | {"arm": series_named(row["arm"]).label} for row in rows if long or row["ability"] != "all"]
    print_by_ability(rows, "recall", names, long=long, as_csv=as_csv, as_json=as_json)
    if data is None and not (as_csv or as_json):
        print(fill(domain_mix(one.id for one in measured), 80))


def measure(
    data: Annotated[list[Path], typer.Option("--data", help="Folder of BEAM conversations; may be repeated.")],
    size: Sizes = "",
    out: Annotated[Path | None, typer.Option(help="The file to write, *.jsonl.xz.")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Measure again what the file (by default the shipped one) states; compare.")
    ] = False,
    sample: Annotated[int, typer.Option(min=0, help="With --verify: this many conversations at random; 0: all.")] = 2,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    models: Models = None,
    base_url: VectorUrl = "",
    model: ModelName = "",
    key_variable: KeyVariable = "",
    query_prefix: QueryPrefix = "",
    passage_prefix: PassagePrefix = "",
    max_cost: MaxCost = None,
    yes: Yes = False,
) -> None:
    """Measure retrieval on released conversations: ids and numbers, no text, no model (LIGHT's keys: offline stand-in).

    For every question and arm the file has the pairs that are retrieved for K = 1 to 30, the notes that are shown, and
    the time. Exit code 1 when --verify finds a difference. `dense` and `hybrid` take the vectors of the encoder that
    --models (role embedding) or --base-url names.
    """
    from beam_commands.measuring import MEASURED_CODE, measure_all, write_measurements
    from beamlib.data.conversations import parse_size
    from beamlib.data.loading import PAPER_TREATMENT
    from beamlib.data.sources import find_conversations
    from beamlib.files import code_hash
    from beamlib.places import refuse_data
    from beamlib.scoring.measured import SHIPPED_FILE, FileHeader

    sizes = [parse_size(name) for name in listed(size)] or None
    sources = [source for folder in data for source in find_conversations(folder, sizes)]
    vectors = VectorOptions(
        models=models, base_url=base_url, model=model, key_variable=key_variable, query_prefix=query_prefix,
        passage_prefix=passage_prefix, max_cost=max_cost, yes=yes,
    )  # fmt: skip
    encoder = vectors.models_file()
    if verify and encoder:
        raise UserError("--verify: it compares with the shipped table's vectors; leave out the encoder.")
    if verify:
        raise SystemExit(_verify(sources, out or SHIPPED_FILE, sample, workers))
    if out is None:
        raise UserError("beamlib measure needs --out FILE, where it writes, or --verify.")
    refuse_data(out.parent)
    start = time.monotonic()
    with own_vectors(vectors, lambda own: list(measure_all(sources, own=own))) as own:
        measurements = list(measure_all(sources, workers=workers, own=own))
    by = f", vectors of {encoder.embedding.model}" if encoder and encoder.embedding else ""
    header = FileHeader(
        command=f"beamlib measure {' '.join(f'--data {folder.name}' for folder in data)}{by}",
        code=code_hash(MEASURED_CODE),
        treatment={name: value for name, value in asdict(PAPER_TREATMENT).items() if name != "per_ability"},
        seconds=round(time.monotonic() - start),
    )
    print(f"{write_measurements(out, header, measurements)}: {len(measurements)} conversations")


def _verify(sources: Sequence[Source], path: Path, sample: int, workers: int) -> int:
    from beam_commands.measuring import MEASURED_CODE, differences, measure_all
    from beamlib.files import code_hash
    from beamlib.scoring.measured import read_measurements

    header, stated = read_measurements(path)
    by_id = {measurement.id: measurement for measurement in stated}
    at_hand = [source for source in sources if source.id in by_id]
    if not at_hand:
        raise UserError(f"--data has none of the {len(by_id)} conversations of {path}.")
    if sample and sample < len(at_hand):
        at_hand = random.sample(at_hand, sample)
    lines = [line for made in measure_all(at_hand, workers=workers) for line in differences(by_id[made.id], made)]
    print(*lines, sep="\n", end="\n" if lines else "")
    if header.code != code_hash(MEASURED_CODE):
        print("The code has changed since the file was written.", file=sys.stderr)
    names = ", ".join(source.id for source in at_hand)
    print(f"{len(at_hand)} of {len(by_id)} conversations measured again ({names}): {len(lines)} differences")
    return 1 if lines else 0
