"""Which stages of a folder are complete: `generation.json` (`RECORD`), written last after each stage.

A stage is known by the hashes of its files and of those it was made from. A file that changed afterwards was edited by
hand: it is kept, and every stage made from the older version is done again. Each 10M plan folder has a file of its own,
so that plans can be made in separate processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from beam_generate.shapes import Layout, Limits
from beamlib.data.sources import RECORD
from beamlib.errors import UserError
from beamlib.files import read_json, sha256_of_file, write_json

State = Literal["missing", "done", "edited", "stale"]
"""`missing`: never finished. `done`: as it was made. `edited`: complete, changed by hand, to be kept. `stale`: made of
files that have changed since, or by another author, so to be done again."""


def recognised(folder: Path, parameters: Mapping[str, Any]) -> bool:
    """Whether the conversation drawn from `parameters` (JSON values: size, number, seed, ...) was begun in `folder`.

    A folder that holds another conversation, or files that no generation left, is a `UserError`: nothing is ever mixed
    or overwritten.
    """
    held = _read(folder).get("parameters")
    if held is None:
        kept = (".", "calls.sqlite")  # files of a write that was killed, and calls, which are no conversation
        files = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
        strange = [path for path in files if not path.name.startswith(kept)]
        if strange:
            raise UserError(
                f"{min(strange)}: was not generated here, and nothing is written over it; choose another folder."
            )
        return False
    if held != dict(parameters):
        differs = sorted(name for name in {*held, *parameters} if held.get(name) != parameters.get(name))
        raise UserError(
            f"{folder / RECORD}: the folder holds a conversation with another {', '.join(differs)}; choose another "
            "folder or delete this one."
        )
    return True


def begin(folder: Path, parameters: Mapping[str, Any], layout: Layout, limits: Limits) -> None:
    """Make `folder` that of the conversation drawn from `parameters`, if it is `recognised` or free.

    `layout` and `limits` may change: each is in the record of the stages that depend on it, which are then done again.
    """
    recognised(folder, parameters)
    record = _read(folder)
    begun = {**record, "parameters": dict(parameters), "layout": asdict(layout), "limits": asdict(limits)}
    if begun != record:
        write_json(folder / RECORD, begun)


def settings_of(folder: Path) -> tuple[Layout, Limits]:
    """How large the folder's plans are to be, and what bounds its dialogues, as `begin` last put it on record."""
    record = _read(folder)
    try:
        return Layout(**record["layout"]), Limits(**record["limits"])
    except (KeyError, TypeError):
        raise UserError(
            f"{folder / RECORD}: does not say how large the plans are to be; generate into another folder, or delete "
            "this one."
        ) from None


def stage_state(folder: Path, stage: str, made_by: Mapping[str, Any] | None = None) -> State:
    """The state of one stage; `made_by` None leaves open what it was made by."""
    entry = _read(folder)["stages"].get(stage)
    if entry is None or not all((folder / name).is_file() for name in entry["files"]):
        return "missing"
    if _hashes(folder, entry["made_from"]) != entry["made_from"]:
        return "stale"
    if _hashes(folder, entry["files"]) != entry["files"]:
        return "edited"
    return "done" if made_by is None or entry["made_by"] == dict(made_by) else "stale"


@contextmanager
def making(
    folder: Path, stage: str, made_from: Sequence[str] = (), made_by: Mapping[str, Any] | None = None
) -> Iterator[list[Path]]:
    """Do a stage: its files are put into the list that this gives, and the stage is on record once the block has ended.

    `made_from` are the files it rests on, relative to `folder`. The record of an earlier time is taken away first, so
    that a stage that is interrupted is missing and not taken for edited.
    """
    record = _read(folder)
    if record["stages"].pop(stage, None) is not None:
        write_json(folder / RECORD, record)
    before = _hashes(folder, made_from)
    files: list[Path] = []
    yield files
    names = [path.relative_to(folder).as_posix() for path in files]
    record = _read(folder)
    record["stages"][stage] = {
        "made_by": dict(made_by or {}),
        "made_from": before,
        "files": _hashes(folder, names),
    }
    write_json(folder / RECORD, record)


def _hashes(folder: Path, names: Iterator[str] | Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """SHA-256 by name; a file that is not there has none."""
    return {name: sha256_of_file(folder / name) if (folder / name).is_file() else "" for name in names}


def _read(folder: Path) -> dict[str, Any]:
    path = folder / RECORD
    if not path.exists():
        return {"stages": {}}
    value = read_json(path)
    stages = value.get("stages") if isinstance(value, dict) else None
    if not isinstance(stages, dict) or not all(map(_is_entry, stages.values())):
        raise UserError(f"{path}: not a record of stages; delete the folder, and the conversation is written again.")
    return dict(value)


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and all(
        isinstance(entry.get(part), dict) for part in ("made_by", "made_from", "files")
    )
