"""The answers of models: the authors' `output_<id>.json`, and the compact bundle's lines.

An answer is a text, or None where a call failed: such an answer is unscored, never a zero.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beam_memorycode.dialogues import Dialogue
from beamlib.errors import UserError
from beamlib.files import parse_json, read_json, write_json

MOST_BYTES = 1 << 28
"""Of one dialogue, or of a model's answers to one: room for a million characters in every answer."""
MOST_BYTES_OF_A_BUNDLE = 1 << 30
"""Of a bundle's file without its compression, under which a few kilobytes can hold gigabytes."""


def numbered_files(folder: Path, pattern: re.Pattern[str]) -> dict[int, Path]:
    """The files of `folder` by the number that `pattern` finds in their names; two of one number are a `UserError`."""
    files: dict[int, Path] = {}
    for path in sorted(folder.iterdir()):
        if found := pattern.fullmatch(path.name):
            other = files.setdefault(int(found[1]), path)
            if other != path:
                raise UserError(f"{path}: {other.name} has the same number; remove one of the two.")
    return files


def read_bounded(path: Path) -> Any:
    """`read_json` of a file of at most `MOST_BYTES`; a longer one is a `UserError`."""
    if path.is_file() and path.stat().st_size > MOST_BYTES:
        raise UserError(f"{path}: longer than {MOST_BYTES:,} bytes; give the file of one dialogue.")
    return read_json(path)


def json_lines(path: Path) -> Iterator[Any]:
    """The values of a gzip-compressed JSON Lines file, strictly; damage is a `UserError` that names the line.

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


def numbered_rows(path: Path) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """The objects of such a file: where each stands, its `dialogue_id`, its fields. The ids are whole and differ."""
    seen = set()
    for place, row in enumerate(json_lines(path), start=1):
        where = f"{path}: line {place}"
        number = row.get("dialogue_id") if isinstance(row, dict) else None
        if not isinstance(number, int) or isinstance(number, bool):
            raise UserError(f"{where}: dialogue_id is {number!r:.40} where a whole number belongs; correct it.")
        if number in seen:
            raise UserError(f"{where}: dialogue_id {number} occurs twice; remove one of the two lines.")
        seen.add(number)
        yield where, number, row


OUTPUTS = "outputs"
"""The folder of models' outputs in a data folder."""

Answers = tuple[str | None, ...]

_OUTPUT_FILE = re.compile(r"output_([0-9]{1,9})\.json")
_BUNDLE_OUTPUTS = re.compile(r"outputs_(.+)\.jsonl\.gz")
_FIELDS = {
    "instruction": "instruction_model_output",
    "session": "session_model_output",
    "history": "history_model_output",
}


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
    """The models' outputs in a data folder, by model name; see `outputs.read_outputs` for what the paths are."""
    if folder.is_dir():
        names = {path: _BUNDLE_OUTPUTS.fullmatch(path.name) for path in sorted(folder.iterdir())}
        if bundled := {found[1]: path for path, found in names.items() if found}:
            return bundled
    if folder.name != OUTPUTS and (folder / OUTPUTS).is_dir():
        folder = folder / OUTPUTS
    if not folder.is_dir():
        return {}
    if any(folder.glob("output_*.json")):  # one model's, whatever lies in folders beside them
        return {folder.resolve().name: folder}
    return {path.name: path for path in sorted(folder.iterdir()) if path.is_dir() and any(path.glob("output_*.json"))}


def outputs_in(path: Path, model: str = "") -> dict[str, Path]:
    """The models' outputs at `path` by name, only those of `model` where it is given; none is a `UserError`.

    `path` is one model's outputs, a folder with several models', or a bundle.
    """
    found = {path.name: path} if path.is_file() else find_outputs(path)
    if not found:
        raise UserError(f"{path}: holds no model's outputs; give a folder of output_<id>.json files.")
    if model and model not in found:
        raise UserError(f"--model: {path} holds no outputs of {model!r:.80}; choose one of {', '.join(found)}.")
    return {model: found[model]} if model else found


def read_outputs(path: Path, dialogues: Iterable[Dialogue]) -> dict[int, Outputs]:
    """A model's outputs by dialogue id, each checked against its dialogue.

    `path` is a folder of `output_<id>.json`, or a bundle's `outputs_<model>.jsonl.gz` (its instruction answers lie
    beside it, one per instruction and value). Outputs of dialogues that are not among `dialogues` are left out. Bad
    input is a `UserError`.
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
    """Write `<folder>/output_<id>.json` in the authors' layout, atomically; a setup that was not run has no field."""
    setups = {"instruction": outputs.instruction, "session": outputs.session}
    count = max([len(one) for one in setups.values() if one is not None], default=1)
    sessions: list[dict[str, Any]] = [
        {_FIELDS[name]: list(one[place]) for name, one in setups.items() if one is not None} for place in range(count)
    ]
    if outputs.history is not None:
        for session in sessions[:-1]:
            session[_FIELDS["history"]] = []
        sessions[-1][_FIELDS["history"]] = list(outputs.history)
    return write_json(folder / f"output_{outputs.dialogue_id}.json", {"sessions": sessions})


def read_output(path: Path, dialogue: Dialogue) -> Outputs:
    """The outputs in one `output_<id>.json`, checked against its dialogue."""
    value = read_bounded(path)
    sessions = value.get("sessions") if isinstance(value, dict) else None
    if not isinstance(sessions, list) or not all(isinstance(session, dict) for session in sessions) or not sessions:
        raise UserError(f"{path}: holds no list `sessions` of objects; restore the file.")
    per_session: dict[str, tuple[Answers, ...] | None] = {}
    for setup in ("instruction", "session"):
        field = _FIELDS[setup]
        if not any(session.get(field) for session in sessions):  # left out, null or empty all over: not run
            per_session[setup] = None
            continue
        rows = [session.get(field) or [] for session in sessions]
        per_session[setup] = _per_session(rows, dialogue, f"{path}: {field}")
    field = _FIELDS["history"]
    history = None
    if sessions[-1].get(field):
        history = _answers(sessions[-1][field], len(dialogue.queries), f"{path}: {field} of the last session")
    return Outputs(dialogue.id, per_session["instruction"], per_session["session"], history)


def _per_session(rows: Any, dialogue: Dialogue, where: str) -> tuple[Answers, ...]:
    if not isinstance(rows, list):
        raise UserError(f"{where}: not a list of sessions; restore the file.")
    if len(rows) != len(dialogue.sessions):
        raise UserError(
            f"{where}: {len(rows)} sessions where {dialogue.name} has {len(dialogue.sessions)}; give the outputs of "
            "these dialogues."
        )
    return tuple(
        _answers(row, len(session.queries), f"{where} of session {place}")
        for place, (row, session) in enumerate(zip(rows, dialogue.sessions, strict=True))
    )


def _answers(value: Any, count: int, where: str) -> Answers:
    if not isinstance(value, list) or not all(answer is None or isinstance(answer, str) for answer in value):
        raise UserError(f"{where}: not a list of texts; restore the file.")
    if len(value) != count:
        raise UserError(f"{where}: {len(value)} answers to {count} queries; they are matched by place, so add a null.")
    return tuple(value)


def _read_bundle(path: Path, known: Mapping[int, Dialogue]) -> dict[int, Outputs]:
    values = _instruction_answers(path)
    outputs: dict[int, Outputs] = {}
    for where, number, row in numbered_rows(path):
        if not {"session_outputs", "history_outputs"} <= row.keys():
            raise UserError(f"{where}: lacks session_outputs or history_outputs; fetch the file again.")
        dialogue = known.get(number)
        if dialogue is None:
            continue
        instruction = None
        if values is not None:
            rows = [[values.get(f"{m.instruction}.{m.value}") for m in one.mentions] for one in dialogue.sessions]
            instruction = _per_session(rows, dialogue, f"{where}: instruction outputs")
        session = _per_session(row["session_outputs"], dialogue, f"{where}: session_outputs")
        history = _answers(row["history_outputs"], len(dialogue.queries), f"{where}: history_outputs")
        outputs[dialogue.id] = Outputs(dialogue.id, instruction, session, history)
    if not outputs:
        raise UserError(f"{path}: none of its outputs belongs to one of the dialogues; give theirs.")
    return outputs


def _instruction_answers(path: Path) -> dict[str, str] | None:
    """The bundle's instruction answers by `<instruction>.<value>`, None where they were not published."""
    beside = path.with_name("instruction_" + path.name.removesuffix(".jsonl.gz") + ".json.gz")
    if not beside.is_file():
        return None
    try:
        with gzip.open(beside, "rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError(f"longer than {MOST_BYTES:,} bytes")
        value = parse_json(data.decode("utf-8"))
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{beside}: damaged ({error}); fetch the file again.") from None
    if not isinstance(value, dict) or not all(isinstance(answer, str) for answer in value.values()):
        raise UserError(f"{beside}: not an object of texts; fetch the file again.")
    return value
