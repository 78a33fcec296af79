"""The answers of models: the authors' `output_<id>.json`, and the compact bundle's lines.

An answer is a text, or None where a call failed: such an answer is unscored, never a zero.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, RootModel, StrictInt, StrictStr

from beam_memorycode.dialogues import Dialogue
from beamlib.errors import UserError
from beamlib.evaluate.records import checked
from beamlib.files import parse_json, read_json, write_json

MOST_BYTES = 1 << 28
"""Most bytes of one dialogue, or of a model's answers to one."""
MOST_BYTES_OF_A_BUNDLE = 1 << 30
"""Most bytes of a bundle's file, unpacked: a few kilobytes can unpack to gigabytes."""


def numbered_files(folder: Path, pattern: re.Pattern[str]) -> dict[int, Path]:
    """Return the files of `folder` by the number that `pattern` matches; raise `UserError` for two of one number."""
    files: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        if match := pattern.fullmatch(path.name):
            other = files.setdefault(int(match[1]), path)
            if other != path:
                raise UserError(f"{path}: {other.name} has the same number; remove one of the two.")
    return files


def read_bounded(path: Path) -> Any:
    """Read a JSON file of at most `MOST_BYTES`; raise `UserError` for a longer one."""
    if path.is_file() and path.stat().st_size > MOST_BYTES:
        raise UserError(f"{path}: longer than {MOST_BYTES:,} bytes; give the file of one dialogue.")
    return read_json(path)


def json_lines(path: Path) -> Iterator[Any]:
    """Yield the values of a gzip-compressed JSON Lines file; raise `UserError` with the line where it is damaged.

    No line may be longer than `MOST_BYTES`, nor the whole than `MOST_BYTES_OF_A_BUNDLE`.
    """
    number = read = 0
    try:
        with gzip.open(path, "rb") as lines:
            while line := lines.readline(MOST_BYTES + 1):
                number, read = number + 1, read + len(line)
                if len(line) > MOST_BYTES or read > MOST_BYTES_OF_A_BUNDLE:
                    raise ValueError(f"longer than {MOST_BYTES:,} bytes, or than {MOST_BYTES_OF_A_BUNDLE:,} in all")
                if line.strip():
                    yield parse_json(line.decode("utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: the file does not exist.") from None
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        problem = str(error).removeprefix("line 1, ")
        raise UserError(f"{path}: damaged near line {number} ({problem}); fetch the file again.") from None


class _Line(BaseModel):
    dialogue_id: StrictInt


def numbered_rows(path: Path) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield the objects of such a file: place, `dialogue_id`, fields; raise `UserError` where an id is repeated."""
    seen = set()
    for place, row in enumerate(json_lines(path), start=1):
        where = f"{path}: line {place}"
        number = checked(_Line, row, f"{where}: ", FETCH_AGAIN).dialogue_id
        if number in seen:
            raise UserError(f"{where}: dialogue_id {number} occurs twice; remove one of the two lines.")
        seen.add(number)
        yield where, number, row


OUTPUTS = "outputs"
"""The folder of models' outputs in a data folder."""

Answers = tuple[str | None, ...]

_OUTPUT_FILE = re.compile(r"output_([0-9]{1,9})\.json")
_BUNDLE_OUTPUTS = re.compile(r"outputs_(.+)\.jsonl\.gz")
FETCH_AGAIN = "fetch the file again."
_Texts = list[StrictStr | None]


class _Session(BaseModel):
    instruction_model_output: _Texts | None = None
    session_model_output: _Texts | None = None
    history_model_output: _Texts | None = None


class _Outputs(BaseModel):
    """An `output_<id>.json`; a setup whose fields are left out, null or empty all over was not run."""

    sessions: list[_Session] = Field(min_length=1)


class _BundleRow(BaseModel):
    session_outputs: list[_Texts]
    history_outputs: _Texts


class _InstructionAnswers(RootModel[dict[str, StrictStr]]):
    pass


@dataclass(frozen=True, slots=True)
class Outputs:
    """The answers to one dialogue's queries; a setup that was not run is None.

    `instruction` and `session` hold one tuple per session, one answer per query of that session. In the instruction
    setup answer *j* is to the session's instruction *j* alone. `history` holds one answer per query of the dialogue.
    """

    dialogue_id: int
    instruction: tuple[Answers, ...] | None = None
    session: tuple[Answers, ...] | None = None
    history: Answers | None = None


def find_outputs(folder: Path) -> dict[str, Path]:
    """Return the models' outputs in a data folder by model name; see `read_outputs` for what the paths are."""
    if folder.is_dir():
        names = {path: _BUNDLE_OUTPUTS.fullmatch(path.name) for path in sorted(folder.iterdir())}
        if bundled := {match[1]: path for path, match in names.items() if match}:
            return bundled
    if folder.name != OUTPUTS and (folder / OUTPUTS).is_dir():
        folder = folder / OUTPUTS
    if not folder.is_dir():
        return {}
    if any(folder.glob("output_*.json")):  # one model's; folders below are not looked into
        return {folder.resolve().name: folder}
    return {path.name: path for path in sorted(folder.iterdir()) if path.is_dir() and any(path.glob("output_*.json"))}


def outputs_in(path: Path, model: str = "") -> dict[str, Path]:
    """Return the models' outputs at `path` by name, only those of `model` if given; raise `UserError` for none.

    `path` is one model's outputs, a folder with several models', or a bundle.
    """
    paths = {path.name: path} if path.is_file() else find_outputs(path)
    if not paths:
        raise UserError(f"{path}: holds no model's outputs; give a folder of output_<id>.json files.")
    if model and model not in paths:
        raise UserError(f"--model: {path} holds no outputs of {model!r:.80}; choose one of {', '.join(paths)}.")
    return {model: paths[model]} if model else paths


def read_outputs(path: Path, dialogues: Iterable[Dialogue]) -> dict[int, Outputs]:
    """Read a model's outputs by dialogue id and check each against its dialogue; others are left out.

    `path` is a folder of `output_<id>.json`, or a bundle's `outputs_<model>.jsonl.gz` with its instruction answers in
    a file beside it. Raises `UserError` for bad input.
    """
    known = {dialogue.id: dialogue for dialogue in dialogues}
    if path.is_file():
        return _read_bundle(path, known)
    if not path.is_dir():
        raise UserError(f"{path}: no such folder or file; give a folder of output_<id>.json files.")
    files = numbered_files(path, _OUTPUT_FILE)
    if not files:
        raise UserError(f"{path}: holds no output_<id>.json file; give the folder of one model's outputs.")
    outputs = {number: read_output(files[number], known[number]) for number in sorted(files) if number in known}
    if not outputs:
        raise UserError(f"{path}: none of its {len(files)} outputs belongs to one of the dialogues; give theirs.")
    return outputs


def write_outputs(folder: Path, outputs: Outputs) -> Path:
    """Write `<folder>/output_<id>.json` in the authors' layout; a setup that was not run has no field."""
    setups = {"instruction": outputs.instruction, "session": outputs.session}
    count = max([len(answers) for answers in setups.values() if answers is not None], default=1)
    sessions: list[dict[str, Any]] = [
        {f"{name}_model_output": list(answers[place]) for name, answers in setups.items() if answers is not None}
        for place in range(count)
    ]
    if outputs.history is not None:
        for session in sessions:
            session["history_model_output"] = []
        sessions[-1]["history_model_output"] = list(outputs.history)
    return write_json(folder / f"output_{outputs.dialogue_id}.json", {"sessions": sessions})


def read_output(path: Path, dialogue: Dialogue) -> Outputs:
    """Read one `output_<id>.json` and check it against its dialogue."""
    sessions = checked(_Outputs, read_bounded(path), f"{path}: ", "restore the file.").sessions

    def by_session(field: str) -> tuple[Answers, ...] | None:
        rows = [getattr(session, field) or [] for session in sessions]
        return _per_session(rows, dialogue, f"{path}: {field}") if any(rows) else None

    last = sessions[-1].history_model_output
    history = (
        _answers(last, len(dialogue.queries), f"{path}: history_model_output of the last session") if last else None
    )
    return Outputs(dialogue.id, by_session("instruction_model_output"), by_session("session_model_output"), history)


def _per_session(rows: Sequence[_Texts], dialogue: Dialogue, where: str) -> tuple[Answers, ...]:
    if len(rows) != len(dialogue.sessions):
        raise UserError(
            f"{where}: {len(rows)} sessions where {dialogue.name} has {len(dialogue.sessions)}; give the outputs of "
            "these dialogues."
        )
    return tuple(
        _answers(row, len(session.queries), f"{where} of session {place}")
        for place, (row, session) in enumerate(zip(rows, dialogue.sessions, strict=True))
    )


def _answers(texts: _Texts, count: int, where: str) -> Answers:
    if len(texts) != count:
        raise UserError(f"{where}: {len(texts)} answers to {count} queries; they are matched by place, so add a null.")
    return tuple(texts)


def _read_bundle(path: Path, known: Mapping[int, Dialogue]) -> dict[int, Outputs]:
    # Published with one answer per instruction and value, by "<instruction>.<value>".
    instruction_file = path.with_name("instruction_" + path.name.removesuffix(".jsonl.gz") + ".json.gz")
    values: dict[str, str] | None = None
    if instruction_file.is_file():
        (row,) = json_lines(instruction_file)
        values = checked(_InstructionAnswers, row, f"{instruction_file}: ", FETCH_AGAIN).root
    outputs: dict[int, Outputs] = {}
    for where, number, row in numbered_rows(path):
        answers = checked(_BundleRow, row, f"{where}: ", FETCH_AGAIN)
        if (dialogue := known.get(number)) is None:
            continue
        instruction = None
        if values is not None:
            rows = [[values.get(f"{m.instruction}.{m.value}") for m in own.mentions] for own in dialogue.sessions]
            instruction = _per_session(rows, dialogue, f"{where}: instruction outputs")
        session = _per_session(answers.session_outputs, dialogue, f"{where}: session_outputs")
        history = _answers(answers.history_outputs, len(dialogue.queries), f"{where}: history_outputs")
        outputs[number] = Outputs(number, instruction, session, history)
    if not outputs:
        raise UserError(f"{path}: none of its outputs belongs to one of the dialogues; give theirs.")
    return outputs
