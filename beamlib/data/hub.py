"""The hub datasets `Mohammadta/BEAM` and `Mohammadta/BEAM-10M`: pinned download and reading of their parquet rows.

A row holds a whole conversation. Rows are read one at a time, and only the columns that are used, so that a 10M split
never lies in memory as a whole.

The hub has the uncut chats only (section 2 of the format). Under `truncated`, conversations that were cut for the
evaluation are read whole, and that is noted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beamlib.data.checked_json import Log, expect, is_a, show
from beamlib.data.conversations import ChatVariant, Size
from beamlib.data.parquet import PINNED, HubFile, parquet_file, read_row
from beamlib.data.released_layout import Parts, PlanValue, combined_plans
from beamlib.data.sources import Source
from beamlib.errors import UserError
from beamlib.files import read_json, sha256_of_file, write_json
from beamlib.places import refuse_data

LITERAL_LIMIT = 4_000_000
"""Characters of `probing_questions` above which it is not parsed; real ones have about 40,000."""
CUT: Mapping[Size, frozenset[int]] = {
    "100K": frozenset({5, 7, 10, 11, 12, 16, 17, 18, 19, 20}),
    "500K": frozenset(),
    "1M": frozenset({6, 11, 12, 13, 14, 18, 19, 20, 21, 24, 25, 26, 28, 30, 33, 34}),
    "10M": frozenset(range(1, 11)),
}
"""The 36 conversations whose released folder has a cut chat, which the hub does not have."""


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
