"""What a reader of the notebooks has to read, by imports at the top of modules (figures: docs/measurements.md)."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from beamlib.places import NOTEBOOKS, ROOT

RUNNING = ("answering", "calling", "jobs", "judging", "run", "run_store", "runner", "task")
"""Modules of `beamlib.evaluate` that run something; the others are records."""


@cache
def modules() -> dict[str, Path]:
    files = [(top, file) for top in (ROOT, ROOT / "packages") for file in top.glob("beam*/**/*.py")]
    named = {".".join(file.relative_to(top).with_suffix("").parts): file for top, file in files}
    return {name.removesuffix(".__init__"): file for name, file in named.items()}


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the modules that are imported outside functions, without those for types only."""
    inner = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    typed = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    put_off = {id(part) for node in (*inner, *typed) for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if id(node) in put_off:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def reading_set(start: Iterable[str]) -> set[str]:
    """Return the modules that are read with `start`, their packages' `__init__` included."""
    found: set[str] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name in modules() and name not in found:
            found.add(name)
            waiting += [*imported(ast.parse(modules()[name].read_text())), name.rpartition(".")[0]]
    return found


def lines(names: Iterable[str]) -> int:
    return sum(len(modules()[name].read_text().splitlines()) for name in names)


def of_notebook(name: str) -> set[str]:
    cells = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return reading_set(name for source in sources for name in imported(ast.parse(source)))


def test_notebook_06_pulls_in_what_a_person_can_read() -> None:
    found = of_notebook("06_main_results")
    assert {"beamlib.report.results", "beamlib.scoring.protocols"} <= found
    assert len(found) <= 70 and lines(found) <= 12_500


@pytest.mark.parametrize("room", ["report", "scoring"])
def test_reports_and_scoring_read_records_and_run_nothing(room: str) -> None:
    start = [name for name in modules() if name.startswith(f"beamlib.{room}.")]
    assert len(start) > 5
    asking = ("judge", "items", "replies")  # of scoring, what asks a judge; reports do not import it
    found = reading_set(name for name in start if name.rpartition(".")[2] not in asking)
    assert not found & {f"beamlib.evaluate.{name}" for name in RUNNING}
    assert not {name for name in found if name.startswith(("beamlib.retrieval", "beamlib.memory.light", "beam_"))}
    assert not found & {f"beamlib.llm.{name}" for name in ("client", "call_store", "retrying", "stored_model")}
