"""The hub datasets `Mohammadta/BEAM` and `Mohammadta/BEAM-10M`: pinned download and reading of their parquet rows.

A row holds a whole conversation. Rows are read one at a time, and only the columns that are used, so that a 10M split
never lies in memory as a whole.

The hub has the uncut chats only (section 2 of the format). Under `truncated`, conversations that were cut for the
evaluation are read whole, and that is noted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beamlib.data.checked_json import DataFile, Log, expect, is_a, show
from beamlib.data.conversations import NUMBER, ChatVariant, Size
from beamlib.data.released_layout import Parts, PlanValue, combined_plans
from beamlib.data.sources import Source, refuse_data
from beamlib.errors import UserError
from beamlib.files import read_json, sha256_of_file, write_json

COLUMNS = ["conversation_id", "conversation_seed", "chat", "probing_questions"]
LITERAL_LIMIT = 4_000_000
"""Characters of `probing_questions` above which it is not parsed; real ones have about 40,000."""
CUT: Mapping[Size, frozenset[int]] = {
    "100K": frozenset({5, 7, 10, 11, 12, 16, 17, 18, 19, 20}),
    "500K": frozenset(),
    "1M": frozenset({6, 11, 12, 13, 14, 18, 19, 20, 21, 24, 25, 26, 28, 30, 33, 34}),
    "10M": frozenset(range(1, 11)),
}
"""The 36 conversations whose released folder has a cut chat, which the hub does not have."""

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


def download(folder: Path, sizes: Sequence[Size], pinned: Sequence[HubFile] = PINNED) -> Path:
    """Download the parquet files of `sizes` into `folder`.

    Files that are there with the right hash are not downloaded again. `manifest.json` lists the verified files and is
    written last, so that its presence means the download is complete.

    Raises:
        UserError: If a download fails, a hash differs, or a file is in the way.
    """
    from huggingface_hub import hf_hub_download  # here, because importing it takes longer than most commands

    chosen = [file for file in pinned if file.size in sizes]
    if not chosen:
        raise UserError(f"{folder}: no file of size {', '.join(sizes)} is pinned; choose other sizes.")
    refuse_data(folder, parquet=True)
    downloaded = read_json(folder / "manifest.json") if (folder / "manifest.json").exists() else {}
    for file in chosen:
        path = folder / file.name
        if path.is_file() and sha256_of_file(path) == file.sha256:
            continue
        if path.is_file() and file.name not in downloaded:
            raise UserError(f"{path}: neither the pinned file nor one that was downloaded here; move it away.")
        try:
            hf_hub_download(file.repository, file.name, repo_type="dataset", revision=file.revision, local_dir=folder)
        except Exception as error:  # the hub client raises OSError, httpx and own errors, differently by version
            reason = " ".join(str(error).split()) or type(error).__name__
            raise UserError(
                f"{folder}: {file.name} of {file.repository} could not be downloaded "
                f"({type(error).__name__}: {reason[:300].rstrip('.')}); check the connection and try again, "
                "or put the file there yourself."
            ) from error
        sha256 = sha256_of_file(path)
        if sha256 != file.sha256:
            raise UserError(
                f"{path}: the SHA-256 is {sha256[:12]}… where {file.sha256[:12]}… is pinned for revision "
                f"{file.revision[:12]}; delete the file and try again."
            )
    fields = ("repository", "revision", "sha256", "bytes")
    verified = {
        file.name: {name: getattr(file, name) for name in fields}
        for file in pinned
        if (folder / file.name).is_file() and sha256_of_file(folder / file.name) == file.sha256
    }
    write_json(folder / "manifest.json", verified)
    return folder


def parquet_file(path: Path) -> DataFile:
    """Return a parquet file with the hash that is pinned for its name."""
    pinned = next((file for file in PINNED if Path(file.name).name == path.name), None)
    if pinned is None:
        return DataFile(path, path.name)
    return DataFile(path, path.name, pinned.sha256, f"{pinned.repository} at {pinned.revision}")


def conversation_numbers(path: Path) -> list[str]:
    """Read the column `conversation_id` of a parquet file: directory numbers as text, in row order."""
    try:
        numbers: list[str] = (
            pq.read_table(path, columns=["conversation_id"], partitioning=None).column("conversation_id").to_pylist()
        )
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


def read_row(path: Path, row: int, log: Log) -> dict[str, Any]:
    """Read the `COLUMNS` of one row of a parquet file, without the row groups before it."""
    try:
        with pq.ParquetFile(path) as file:
            names = [name for name in COLUMNS if name in file.schema_arrow.names]
            for name in COLUMNS:
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
                            return values
                first += rows
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:  # such as text that is not UTF-8
        log.fail(f"cannot be read ({_first_line(error)})")
    log.fail("there is no such row")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def read_hub(source: Source, variant: ChatVariant) -> Parts:
    """Read one row of a hub parquet file and bring it into the shape of the released folders."""
    file = parquet_file(source.path)

    def log(name: str) -> Log:
        return Log(f"{source.size}/{source.number}/{name}", f"{source.path}, row {source.row}, {name}", file)

    row_log, chat_log, questions_log = log("row"), log("chat"), log("probing_questions")
    row = read_row(source.path, source.row, row_log)
    if row.get("conversation_id") != str(source.number):
        raise UserError(f"{source.path}: row {source.row} is no longer conversation {source.id}; look for them again.")
    if variant == "truncated" and source.number in CUT[source.size]:
        row_log.note("truncated_chat_missing", "cut for the evaluation, but the hub has only the full chat: it is used")
    plans: Iterator[PlanValue] = (
        combined_plans(row["chat"], chat_log)
        if source.size == "10M"
        else iter([PlanValue(_batches(row["chat"], chat_log), chat_log)])
    )
    return Parts(
        seed=row.get("conversation_seed"),
        seed_log=log("conversation_seed"),
        plans=plans,
        questions=parse_literal(row["probing_questions"], questions_log),
        questions_log=questions_log,
        variant="full",
        log=row_log,
        chat_logs=[chat_log],
    )


def parse_literal(text: Any, log: Log) -> Any:
    """Parse a Python literal in a string; nothing is evaluated."""
    expect(text, str, "text holding a Python literal", log)
    if len(text) > LITERAL_LIMIT:
        log.fail(f"{len(text)} characters are too many to be 20 questions")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        for node in ast.walk(tree):
            keys = (
                [key.value for key in node.keys if isinstance(key, ast.Constant)] if isinstance(node, ast.Dict) else []
            )
            if repeated := [key for number, key in enumerate(keys) if key in keys[:number]]:
                log.fail(f"the key `{show(repeated[0])}` occurs twice in one object")
        return ast.literal_eval(tree)
    except (SyntaxError, ValueError, TypeError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        log.fail(f"not a Python literal ({reason[:80]})")
    except (RecursionError, MemoryError):
        log.fail("nested too deeply to be 20 questions")


def _batches(chat: Any, log: Log) -> list[dict[str, Any] | None]:
    """Group flat message lists into turns: a turn begins at each main question."""
    batches: list[dict[str, Any] | None] = []
    for number, messages in enumerate(expect(chat, list, "a list of batches", log), start=1):
        if messages is None:
            batches.append(None)
            continue
        turns: list[list[Any]] = []
        for message in expect(messages, list, "a list of messages", log.at(f"batch {number}")):
            if not turns or (is_a(message, dict) and message.get("question_type") == "main_question"):
                turns.append([])
            turns[-1].append(message)
        batches.append({"batch_number": number, "time_anchor": None, "turns": turns})
    return batches
