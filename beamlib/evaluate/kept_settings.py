"""What a replay of a run needs beside its records: parameters, models file and overridden prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from beamlib.files import MOST_YAML, read_json, write_json
from beamlib.llm.endpoints import MODELS
from beamlib.memory.declared import memory_kind, named_memories
from beamlib.memory.outside import only_named
from beamlib.params import FIELDS
from beamlib.run import PARAMETERS, Run

MODELS_PARAMETER, PROMPTS = "models", "prompts"
ELSEWHERE = {"memorycode": "", "meme": "", "paper": "v2"}  # no answer that is published here rests on it
NOBODY_ELSES: dict[str, Any] = {"data": "", "run": "", "own_memory": "", "authors": "", "confirm_cost": False}


def kept_values(path: Path) -> dict[str, Any] | None:
    """Return a run's parameters; None if the file holds no JSON object."""
    kept = read_json(path, MOST_YAML)  # a value takes a hundred times its text: an archive of 68 KB took 2 GB
    return kept if isinstance(kept, dict) else None


def keep_files(run: Run, folder: Path) -> None:
    """Write the models file and the overriding prompts that a run has read into `folder`."""
    run.prompt_files.save_overrides(folder / PROMPTS)
    if run.models_file:
        run.models_file.save(folder)


def kept_files(run: Run, folder: Path) -> dict[str, str]:
    """The paths of the kept files in `folder`, as parameters: those of the user may have changed since."""
    return {name: str(folder / kept) for name, kept in ((MODELS_PARAMETER, MODELS), (PROMPTS, PROMPTS))
            if run[name] and (folder / kept).exists()}  # fmt: skip


def keep_settings(run: Run) -> None:
    """Write what a replay needs beside the arms of a tier: parameters, models file (if any) and overridden prompts.

    Paths become names inside that folder, the data folder is left out: on another machine it lies elsewhere.
    """
    keep_files(run, run.path())
    by_name = {"own_memory"} if only_named(run.own_memory) else set()
    changes: dict[str, Any] = {name: value for name, value in NOBODY_ELSES.items() if name not in by_name}
    changes |= {
        MODELS_PARAMETER: MODELS if run.models_file else "", PROMPTS: PROMPTS if run.prompt_files.overridden else "",
    }  # fmt: skip
    # A setting of a memory that is taken by name is unknown where that memory is not; its usual value says nothing.
    by_memory = {name for memory in named_memories() for name in memory_kind(memory).own_settings.model_fields}
    flat = {name: value for name, value in run.flat().items() if name not in by_memory or value != FIELDS[name].default}
    flat |= changes
    write_json(run.path(PARAMETERS), {name: value for name, value in flat.items() if name not in ELSEWHERE})
