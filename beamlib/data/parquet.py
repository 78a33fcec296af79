"""Parquet files of the hub datasets `Mohammadta/BEAM` and `Mohammadta/BEAM-10M`: what is pinned, and their rows.

A row holds a whole conversation. Rows are read one at a time and only the columns that are used, so that a 10M split
never lies in memory as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beamlib.data.checked_json import Log, is_a, show
from beamlib.data.checksums import DataFile
from beamlib.data.conversations import NUMBER, Size
from beamlib.errors import UserError

BEAM, BEAM_10M = "Mohammadta/BEAM", "Mohammadta/BEAM-10M"
COLUMNS = ["conversation_id", "conversation_seed", "chat", "probing_questions"]


@dataclass(frozen=True, slots=True)
class HubFile:
    """One parquet file of a dataset at a fixed revision."""

    size: Size
    repository: str
    revision: str
    name: str
    bytes: int
    sha256: str


_R1, _R10 = "3205395e897e7318c7b094ef4e6047b9b82dbb03", "9b2096193fe74e2837e4713e483351e19817773c"
PINNED: tuple[HubFile, ...] = (
    HubFile(
        "100K",
        BEAM,
        _R1,
        "data/100K-00000-of-00001.parquet",
        5_429_768,
        "c0519be25907005ba873c927c50877471d550873039d96c041554d0075a78ace",
    ),
    HubFile(
        "500K",
        BEAM,
        _R1,
        "data/500K-00000-of-00001.parquet",
        33_956_263,
        "af05921c979355038e1761b7cde3d2dd713200dd3071b278de0200f6c7f30122",
    ),
    HubFile(
        "1M",
        BEAM,
        _R1,
        "data/1M-00000-of-00001.parquet",
        66_156_374,
        "41b5acbbb55a586b1305514ef9d9fb03365d9b3331b598a1c2dd7603d93ef533",
    ),
    HubFile(
        "10M",
        BEAM_10M,
        _R10,
        "data/10M-00000-of-00002.parquet",
        153_844_664,
        "31d96fd47ec56221d202e68792f26c00e49467dd4b36ee105c36ebd19ef78ad5",
    ),
    HubFile(
        "10M",
        BEAM_10M,
        _R10,
        "data/10M-00001-of-00002.parquet",
        189_980_875,
        "a4f13fe25af51d57405ae41008689c31d1421377f3efde56a024b441deb2ee65",
    ),
)
"""Revisions and hashes as several public projects that downloaded the files recorded them independently (2026)."""


def parquet_file(path: Path) -> DataFile:
    """A parquet file, with what is pinned for its name."""
    pinned = next((file for file in PINNED if Path(file.name).name == path.name), None)
    if pinned is None:
        return DataFile(path, path.name)
    return DataFile(path, path.name, pinned.sha256, f"{pinned.repository} at {pinned.revision}")


def conversation_numbers(path: Path) -> list[str]:
    """The column `conversation_id` of a parquet file: directory numbers as text, in row order."""
    try:
        numbers: list[str] = (
            pq.read_table(path, columns=["conversation_id"], partitioning=None).column("conversation_id").to_pylist()
        )
    except (pa.ArrowException, OSError, KeyError, ValueError, OverflowError) as error:
        raise UserError(
            f"{path}: not a readable parquet file with a column `conversation_id` ({_line(error)}); "
            f"{parquet_file(path).fix}."
        ) from None
    for row, number in enumerate(numbers):
        if not is_a(number, str) or not NUMBER.fullmatch(number):
            raise UserError(
                f"{path}: row {row}: `conversation_id` is {show(number)} where a number from 1 up belongs; "
                f"{parquet_file(path).fix}."
            )
    return numbers


def _line(error: Exception) -> str:
    """The first line of an error of the parquet library, short enough for a sentence."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def read_row(path: Path, row: int, log: Log) -> dict[str, Any]:
    """Row `row` of a parquet file, only `COLUMNS`, without reading the row groups before it."""
    try:
        with pq.ParquetFile(path) as file:
            names = [name for name in COLUMNS if name in file.schema_arrow.names]
            for name in COLUMNS:
                if name not in names and name != "conversation_seed":  # which is only shown
                    log.fail("", f"the column `{name}` is missing")
            first = 0
            for group in range(file.metadata.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if row < first + rows:
                    batches = file.iter_batches(batch_size=1, row_groups=[group], columns=names)
                    for number, batch in enumerate(batches, start=first):
                        if number == row:
                            values: dict[str, Any] = batch.to_pylist()[0]
                            return values
                first += rows
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:  # such as text that is not UTF-8
        log.fail("", f"cannot be read ({_line(error)})")
    log.fail("", "there is no such row")
