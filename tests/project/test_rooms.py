"""The floor plan: what may import what, and that no module is a house of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOMS = ("data", "llm", "retrieval", "memory", "evaluate", "scoring", "report")
PACKAGES = (
    "claims",
    "commands",
    "field",
    "generate",
    "meme",
    "memories",
    "memorycode",
    "offline",
    "page",
    "run",
)
LOWER = ("data", "llm", "retrieval", "memory")
"""Rooms that import none of the others."""


def imported(file: Path) -> Iterator[str]:
    """Yield the modules that a file imports anywhere in it, without those for types only."""
    tree = ast.parse(file.read_text("utf-8"))
    typed = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    for_types = {id(part) for node in typed for part in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_the_rooms_and_packages_are_those_of_the_plan(repo_root: Path) -> None:
    rooms = {path.parent.name for path in (repo_root / "beamlib").glob("*/__init__.py")}
    packages = {path.parent.name for path in (repo_root / "packages").glob("*/__init__.py")}
    assert rooms == set(ROOMS)
    assert packages == {f"beam_{name}" for name in PACKAGES}
    for name in packages:
        assert (repo_root / "packages" / name / "README.md").exists(), name


def test_beamlib_imports_nothing_that_stands_beside_it(repo_root: Path) -> None:
    files = sorted((repo_root / "beamlib").rglob("*.py"))
    assert len(files) > 80
    found = {(file.name, name) for file in files for name in imported(file) if name.startswith("beam_")}
    assert not found


@pytest.mark.parametrize("room", LOWER)
def test_lower_rooms_import_no_upper_one(repo_root: Path, room: str) -> None:
    upper = tuple(f"beamlib.{name}" for name in ROOMS if name not in LOWER)
    files = sorted((repo_root / "beamlib" / room).rglob("*.py"))
    assert files
    assert not {(file.name, name) for file in files for name in imported(file) if name.startswith(upper)}


def test_no_modules_import_each_other_in_a_ring(repo_root: Path) -> None:
    """Imports within functions count: what they put off is a ring all the same."""
    files = {
        ".".join(file.relative_to(top).with_suffix("").parts).removesuffix(".__init__"): file
        for top in (repo_root, repo_root / "packages")
        for file in top.glob("beam*/**/*.py")
    }
    graph = {name: {other for other in imported(file) if other in files} - {name} for name, file in files.items()}
    assert sum(map(len, graph.values())) > 500
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the ring


def test_no_package_imports_one_that_imports_it(repo_root: Path) -> None:
    """What two packages share lies below both; imports within functions count, and those for types do not."""
    graph: dict[str, set[str]] = {}
    for file in (repo_root / "packages").glob("beam*/**/*.py"):
        own = file.relative_to(repo_root / "packages").parts[0]
        found = {name.partition(".")[0] for name in imported(file) if name.startswith("beam_")}
        graph.setdefault(own, set()).update(found - {own})
    assert graph["beam_run"] >= {"beam_generate", "beam_memories", "beam_page"}
    assert not [(name, other) for name, others in graph.items() for other in others if name in graph.get(other, ())]
    assert not [name for name, others in graph.items() if "beam_run" in others]


def test_the_root_is_counted_in_one_place(repo_root: Path) -> None:
    files = [*(repo_root / "beamlib").rglob("*.py"), *(repo_root / "packages").rglob("*.py")]
    assert [file.name for file in files if ".parents[" in file.read_text("utf-8")] == ["places.py"]
