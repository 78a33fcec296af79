"""What a replay of a run needs beside its records: parameters, models file and overridden prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from beamlib.evaluate.calling import run_path
from beamlib.files import read_json, write_json, write_text
from beamlib.llm.endpoints import MODELS, load_models
from beamlib.llm.prompts import prompt_ids
from beamlib.params import RunParameters, only_named

PARAMETERS = "parameters.json"
ELSEWHERE = {"memorycode": "", "meme": ""}  # of other benchmarks: no answer that is published here rests on it
NOBODY_ELSES: dict[str, Any] = {"data": "", "run": "", "own_memory": "", "authors": "", "confirm_cost": False}

_GONE = frozenset({"context_budget"})
"""Parameters of versions before 2026-11-26: what they chose among is no more."""


def kept_values(path: Path) -> dict[str, Any] | None:
    """Return a run's parameters without those that this version lacks; None if the file holds no parameters."""
    kept = read_json(path)
    if not isinstance(kept, dict):
        return None
    if isinstance(kept.get("retrievers"), list):
        kept["retrievers"] = [name for name in kept["retrievers"] if name != "hybrid-beam"] or ["hybrid"]
    return {name: value for name, value in kept.items() if name not in _GONE}


def keep_settings(parameters: RunParameters) -> None:
    """Write what a replay needs beside the arms of a tier: parameters, models file (if any) and overridden prompts.

    Paths become names inside that folder, the data folder is left out: on another machine it lies elsewhere.
    """
    folder = run_path(parameters)
    own = Path(parameters.prompts) if parameters.prompts else None
    for earlier in sorted((folder / "prompts").glob("*.md")):  # a replay must not take those of an earlier run
        earlier.unlink()
    for name in prompt_ids() if own else []:
        if own and (own / f"{name}.md").exists():
            write_text(folder / "prompts" / f"{name}.md", (own / f"{name}.md").read_text(encoding="utf-8"))
    if parameters.models:
        load_models(Path(parameters.models)).save(folder)
    by_name = {"own_memory"} if only_named(parameters.own_memory) else set()
    nobody_elses = {name: value for name, value in NOBODY_ELSES.items() if name not in by_name}
    changes = {**nobody_elses, "models": MODELS if parameters.models else "", "prompts": "prompts" if own else ""}
    kept = {
        name: value for name, value in parameters.model_copy(update=changes).flat().items() if name not in ELSEWHERE
    }
    write_json(folder / PARAMETERS, kept)
