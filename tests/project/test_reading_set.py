"""What one reads to know where a table comes from: reports read records, and no runner is behind them."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

MOST = {"05_memory": (96, 18_550), "06_main_results": (59, 10_700)}
"""Modules and lines behind a notebook."""
RECORDS_ALONE = (
    "beam_commands",
    "beamlib.processes",
    "beamlib.retrieval",
    *(f"beamlib.evaluate.{name}" for name in ("answering", "calling", "ingest_cache", "jobs", "judging", "roster")),
    *(f"beamlib.evaluate.{name}" for name in ("run", "run_store", "runner", "task")),
    *(f"beamlib.llm.{name}" for name in ("call_store", "client", "door", "embedding_model", "entrance", "spending")),
    *(f"beamlib.llm.{name}" for name in ("stored_model", "token_server")),
    *(f"beamlib.memory.{name}" for name in ("budget", "episodic", "extraction", "full_context", "light", "oracle")),
    *(f"beamlib.memory.{name}" for name in ("rag", "scratchpad")),
)
"""What computes records: running, remembering, calling."""


def modules(root: Path) -> dict[str, Path]:
    files = {}
    for top in (root, root / "packages"):
        for file in top.glob("beam*/**/*.py"):
            files[".".join(file.relative_to(top).with_suffix("").parts).removesuffix(".__init__")] = file
    return files


def imports(tree: ast.AST, known: Mapping[str, Path]) -> set[str]:
    """The modules of ours that a module imports at its top level, but for types."""
    found = set()
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        waiting += ast.iter_child_nodes(node)
    return found & known.keys()


def closure(begun: Iterable[str], known: Mapping[str, Path]) -> set[str]:
    """`begun`, all that they import, and the packages around it."""
    found: set[str] = set()
    waiting = [*begun]
    while waiting:
        name = waiting.pop()
        if name in known and name not in found:
            found.add(name)
            waiting += [*imports(ast.parse(known[name].read_text("utf-8")), known), name.rpartition(".")[0]]
    return found


def notebook_imports(file: Path, known: Mapping[str, Path]) -> set[str]:
    cells = [cell["source"] for cell in json.loads(file.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    return {name for source in cells for name in imports(ast.parse("".join(source)), known)}


@pytest.mark.parametrize("notebook", MOST)
def test_a_notebook_rests_on_few_modules(repo_root: Path, notebook: str) -> None:
    known = modules(repo_root)
    begun = notebook_imports(repo_root / "notebooks" / f"{notebook}.ipynb", known)
    assert {"beam_run.notebooks"} < begun
    read = closure(begun, known)
    lines = sum(len(known[name].read_text("utf-8").splitlines()) for name in read)
    most_modules, most_lines = MOST[notebook]
    assert (len(read) <= most_modules, lines <= most_lines) == (True, True), f"{len(read)} modules, {lines:,} lines"


@pytest.mark.parametrize("room", ["report", "scoring"])
def test_reports_and_scores_import_nothing_that_computes_records(repo_root: Path, room: str) -> None:
    known = modules(repo_root)
    begun = [name for name in known if name.startswith(f"beamlib.{room}.")]
    assert len(begun) > 7
    read = closure(begun, known)
    assert not {name for name in read if name.startswith(RECORDS_ALONE)}
    assert not {name for name in read if not name.startswith("beamlib")}
    for name in begun:  # nor within functions
        tree = ast.parse(known[name].read_text("utf-8"))
        froms = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not [module for module in froms if module.startswith(RECORDS_ALONE)], name


def test_what_computes_records_would_be_seen(repo_root: Path) -> None:
    known = modules(repo_root)
    assert {name for name in RECORDS_ALONE if not any(other.startswith(name) for other in known)} == set()
    read = closure(["beamlib.evaluate.run", "beamlib.evaluate.calling"], known)
    assert len([name for name in read if name.startswith(RECORDS_ALONE)]) > 12


def test_what_works_imports_nothing_of_what_calls(repo_root: Path) -> None:
    """A worker asks at the door: it starts without the client, the call store's rules and the spending limit."""
    known = modules(repo_root)
    read = closure(["beamlib.evaluate.jobs", "beamlib.evaluate.answering", "beamlib.evaluate.judging"], known)
    calling = ("admission", "client", "door", "embedding_model", "faults", "reception", "reply_body", "spending")
    calling += ("stored_model", "token_server", "transport")
    assert not {f"beamlib.llm.{name}" for name in calling} & read
