"""Compare two runs on one page: the arms of both, paired differences, each question with both answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from beam_page.building import glance, render_page
from beam_page.data_files import INDEX, write_data
from beam_page.headlines import cell_text, comparison_numbers, paired, protocols_of
from beam_page.run_data import write_page_data
from beam_page.run_folder import RunFolder, StoredArm, read_run
from beamlib.data.gold import ABILITIES
from beamlib.errors import UserError
from beamlib.files import read_text, write_text
from beamlib.report.long_frame import ability_label
from beamlib.scoring.scores import AVERAGE, score_run

MARKS = ("A", "B")


def write_comparison(
    first: Path, second: Path, out: Path, data: Path | None = None, *, protocol: str = "", workers: int = 1
) -> Path:
    """Write the page of `first` minus `second` into the folder `out`; return the path of its index.html.

    Raises:
        UserError: The two share no arm or no question, or `out` contains a run.
    """
    if out.resolve() in (first.resolve(), second.resolve()) or any(out.glob("*/*/manifest.json")):
        raise UserError(f"--out: {out} is a run of its own, whose page would be lost; name another folder.")
    if (out / INDEX).exists() and 'content="beam_page"' not in read_text(out / INDEX):
        raise UserError(f"--out: {out} holds an {INDEX} of something else, which would be lost; name another folder.")
    runs = [read_run(run, data) for run in (first, second)]
    for run in runs:
        if not run.arms:
            raise UserError(f"{run.folder}: it holds no finished arm; name a run folder that run_all.sh wrote.")
    arms = [
        replace(arm, part=f"{mark}/{arm.part}", mark=mark)
        for mark, run in zip(MARKS, runs, strict=True)
        for arm in run.arms
    ]
    _same_questions(arms)
    pairs = list(_pairs(arms))
    if not pairs:
        raise UserError(f"{first} and {second} have no arm with a question in common; compare runs over the same data.")
    left_out = {f"{mark}: {k}": why for mark, run in zip(MARKS, runs, strict=True) for k, why in run.left_out.items()}
    sources = {**runs[1].sources, **runs[0].sources}
    both = RunFolder(out, arms, left_out, sources, runs[0].data or runs[1].data)
    page = write_page_data(both, protocol=protocol, workers=workers)
    index = {**page.index, "pairs": {name: list(_rows(pairs, name)) for name in protocols_of(arms)}}
    write_data(out, "run", index)
    lead = f"A: {first.name}. B: {second.name}. Differences are A minus B, on the same questions."
    values = {**glance(both, page), "pairs": list(_tables(index["pairs"][index["protocol"]])), "lead": lead}
    return write_text(out / INDEX, render_page(f"{first.name} – {second.name}", index, values))


def _same_questions(arms: Sequence[StoredArm]) -> None:
    """Raise `UserError` where the runs asked different questions under the same ids."""
    seen: dict[str, str] = {}
    for arm in arms:
        for key, record in arm.manifest.conversations.items() if arm.manifest else ():
            if seen.setdefault(key, record.questions_sha256) != record.questions_sha256:
                raise UserError(
                    f"{arm.run}: it asked other questions about {key} than the other run; compare runs on equal data."
                )


def _pairs(arms: Sequence[StoredArm]) -> Iterator[tuple[str, StoredArm, StoredArm]]:
    """Yield the pairs to compare with a name: the same series of a tier, or the same arm of different readers."""
    for arm in arms:
        if arm.mark != MARKS[0]:
            continue
        others = [other for other in arms if other.mark == MARKS[1] and set(other.sizes) & set(arm.sizes)]
        named = [other for other in others if other.name == arm.name]
        same = [other for other in named if other.series[1:] == arm.series[1:]]
        probes = {judgement.probe_id for judgement in arm.judgements}
        for other in same or named:
            if probes & {judgement.probe_id for judgement in other.judgements}:
                yield (arm.series[2:] if same else f"{arm.series[2:]} – {other.series[2:]}", arm, other)


def _rows(pairs: Sequence[tuple[str, StoredArm, StoredArm]], protocol: str) -> Iterator[dict[str, Any]]:
    for name, arm, other in pairs:
        frames = [score_run(own.judgements, protocol) for own in (arm, other)]
        for size in arm.sizes:
            yield from _of_size(name, arm, other, [frame[frame["size"] == size] for frame in frames], size)


def _of_size(
    name: str, arm: StoredArm, other: StoredArm, frames: Sequence[pd.DataFrame], size: str
) -> Iterator[dict[str, Any]]:
    for ability in (*ABILITIES, AVERAGE):
        own = [frame if ability == AVERAGE else frame[frame["ability"] == ability] for frame in frames]
        if (comparison := paired(*own)) is not None:
            key = {"first": arm.series, "second": other.series, "size": size, "ability": ability}
            yield {**key, "name": name, "numbers": comparison_numbers(comparison)}


def _tables(rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a table per size: a row per ability, a column per pair."""
    for size in dict.fromkeys(row["size"] for row in rows):
        own = [row for row in rows if row["size"] == size]
        columns = list(dict.fromkeys((row["name"], row["first"], row["second"]) for row in own))
        cells = {
            (row["first"], row["second"], row["ability"]): [*row["numbers"], row["numbers"][1] is None] for row in own
        }
        present = [ability for ability in (*ABILITIES, AVERAGE) if any(row["ability"] == ability for row in own)]
        rows_shown = [
            (
                ability_label(ability),
                [
                    {"key": [first, second, size, ability], "text": cell_text(cells.get((first, second, ability)))}
                    for _, first, second in columns
                ],
            )
            for ability in present
        ]
        yield {"size": size, "columns": [name for name, _, _ in columns], "rows": rows_shown}
