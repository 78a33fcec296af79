"""A memory's name stands in its own module: whoever else needs it asks the registry."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

from beamlib.memory.declared import memories

OTHERS = frozenset({"none", "own", "imported", "oracle", "dependencies", "mem0"})
"""Names that are words of other things too: of a setting's value, an option, a published source, a field of a reply."""

_MEASURED = ("commands/measuring.py", "scoring/measured.py", "report/released.py")
_LOOKS = ("report/series.py",)  # colours of what the paper compares
_PAPER = ("beam_claims/reproducing.py", "beam_memorycode/running.py")
OF_THE_PAPER = {
    "full-context": (*_LOOKS, *_PAPER[:1]),
    "light": (*_LOOKS, *_MEASURED, *_PAPER, "report/results.py"),
    "rag": (*_LOOKS, *_MEASURED, *_PAPER),
}
"""Where measurements, setups and claims of papers are about a memory by name."""


@cache
def texts(file: Path) -> frozenset[str]:
    """Return the texts in a module, without those that document it."""
    nodes = list(ast.walk(ast.parse(file.read_text("utf-8"))))
    documenting = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    constants = (node for node in nodes if isinstance(node, ast.Constant) and id(node) not in documenting)
    return frozenset(node.value for node in constants if isinstance(node.value, str))


@pytest.mark.parametrize("name", sorted(memories().keys() - OTHERS))
def test_only_its_own_module_names_a_memory(name: str, repo_root: Path) -> None:
    files = [file for top in ("beamlib", "packages") for file in sorted((repo_root / top).rglob("*.py"))]
    assert len(files) > 200
    naming = [file for file in files if name in texts(file)]
    allowed = (Path(str(sys.modules[memories()[name].__module__].__file__)),)
    others = [str(file) for file in naming if file not in allowed and file.stem != f"{name}_memory"]  # an adapter's
    assert [file for file in others if not file.endswith(OF_THE_PAPER.get(name, ()) or "no file")] == []
