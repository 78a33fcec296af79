"""Parquet files of the hub datasets: which revision is pinned, and what a row holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beamlib.data.checked_json import DataFile, Log, is_a, show
from beamlib.data.conversations import NUMBER, Size
from beamlib.errors import UserError
from beamlib.files import refuse_lfs_pointer

_COLUMNS = ["conversation_id", "conversation_seed", "chat", "probing_questions"]

_BEAM = ("Mohammadta/BEAM", "3205395e897e7318c7b094ef4e6047b9b82dbb03")
_BEAM_10M = ("Mohammadta/BEAM-10M", "9b2096193fe74e2837e4713e483351e19817773c")


@dataclass(frozen=True, slots=True)
class HubFile:
    """A parquet file of a dataset at a fixed revision."""

    size: Size
    repository: str
    revision: str
    name: str
    bytes: int
    sha256: str


_100K, _500K, _1M = (f"data/{size}-00000-of-00001.parquet" for size in ("100K", "500K", "1M"))
_10M_FIRST, _10M_SECOND = (f"data/10M-0000{part}-of-00002.parquet" for part in (0, 1))
PINNED = (
    HubFile("100K", *_BEAM, _100K, 5_429_768, "c0519be25907005ba873c927c50877471d550873039d96c041554d0075a78ace"),
    HubFile("500K", *_BEAM, _500K, 33_956_263, "af05921c979355038e1761b7cde3d2dd713200dd3071b278de0200f6c7f30122"),
    HubFile("1M", *_BEAM, _1M, 66_156_374, "41b5acbbb55a586b1305514ef9d9fb03365d9b3331b598a1c2dd7603d93ef533"),
    HubFile(
        "10M", *_BEAM_10M, _10M_FIRST, 153_844_664, "31d96fd47ec56221d202e68792f26c00e49467dd4b36ee105c36ebd19ef78ad5"
    ),
    HubFile(
        "10M", *_BEAM_10M, _10M_SECOND, 189_980_875, "a4f13fe25af51d57405ae41008689c31d1421377f3efde56a024b441deb2ee65"
    ),
)
"""Revisions and hashes as several public projects recorded them independently (2026)."""


def parquet_file(path: Path) -> DataFile:
    """Return a parquet file with the hash that is pinned for its name."""
    pinned = next((file for file in PINNED if Path(file.name).name == path.name), None)
    if pinned is None:
        return DataFile(path, path.name)
    return DataFile(path, path.name, pinned.sha256, f"{pinned.repository} at {pinned.revision}")


def conversation_numbers(path: Path) -> list[str]:
    """Read the column `conversation_id` of a parquet file: directory numbers as text, in row order."""
    try:
        with path.open("rb") as file:
            refuse_lfs_pointer(path, file.read(100))
        column = pq.read_table(path, columns=["conversation_id"], partitioning=None).column("conversation_id")
        numbers = [_as_text(number) for number in column.to_pylist()]
    except (pa.ArrowException, OSError, KeyError, ValueError, OverflowError) as error:
        raise UserError(
            f"{path}: not a readable parquet file with a column `conversation_id` ({_first_line(error)}); "
            f"{parquet_file(path).fix}."
        ) from None
    for row, number in enumerate(numbers):
        if not is_a(number, str) or not NUMBER.fullmatch(number):
            raise UserError(
                f"{path}: row {row}: `conversation_id` is {show(number)} where a number from 1 up belongs; "
                f"{parquet_file(path).fix}."
            )
    return numbers


def _as_text(number: Any) -> Any:
    """Return a conversation's number as the text that it was before pandas or a viewer wrote the file back."""
    return str(int(number)) if type(number) in (int, float) and number == number // 1 else number


def read_row(path: Path, row: int, log: Log) -> dict[str, Any]:
    """Read the `_COLUMNS` of one row of a parquet file, without the row groups before it."""
    try:
        with pq.ParquetFile(path) as file:
            names = [name for name in _COLUMNS if name in file.schema_arrow.names]
            for name in _COLUMNS:
                if name not in names and name != "conversation_seed":  # which is only displayed
                    log.fail(f"the column `{name}` is missing")
            first = 0
            for group in range(file.metadata.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if row < first + rows:
                    batches = file.iter_batches(batch_size=1, row_groups=[group], columns=names)
                    for number, batch in enumerate(batches, start=first):
                        if number == row:
                            values: dict[str, Any] = batch.to_pylist()[0]
                            return values | {"conversation_id": _as_text(values.get("conversation_id"))}
                first += rows
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:  # such as text that is not UTF-8
        log.fail(f"cannot be read ({_first_line(error)})")
    log.fail("there is no such row")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
