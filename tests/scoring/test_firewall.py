"""The gold firewall, static part: what a memory or reader can import.

Nothing under memory, models, retrieval or generate may reach gold data, scoring, runs or reports by an import, be it
its own, one of a module it imports, or one of a package's `__init__` that runs on the way. Imports inside functions
and under TYPE_CHECKING count as well. (That no gold text reaches a prompt is tested by the canaries.)

A suite has a firewall of its own: what makes prompts of a MemoryCode dialogue, or answers them, cannot reach its rules.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

INSIDE = (
    *("beamlib.memory", "beamlib.llm", "beamlib.retrieval", "beam_generate", "beam_offline"),
    *(f"beam_memories.{name}" for name in ("evolving", "transformer", "own_process")),
)
OUTSIDE = (
    *("beamlib.data.gold", "beamlib.data.loading", "beamlib.scoring", "beamlib.evaluate", "beamlib.report"),
    *("beam_claims", "beam_memorycode"),
)
SHOWING = ("beam_generate.described", "beam_generate.notebooks")
"""What notebooks show of generated data; it generates nothing."""
SUITE = "beam_memorycode"
ASKING = tuple(f"{SUITE}.{name}" for name in ("dialogues", "running"))
ANSWERING = (*ASKING, f"{SUITE}.outputs")
RULES = tuple(
    f"{SUITE}.{name}" for name in ("rules", "rule_scoring", "scored", "dialogue_files", "templates", "generating")
)
CHECKING = (*RULES, f"{SUITE}.outputs", f"{SUITE}.task", "beamlib.data.gold", "beamlib.scoring", "beamlib.report")


FOR_PEOPLE = ("beamlib.frames",)


def test_nothing_of_ours_opens_runs_for_reading(repo_root):
    files = [file for package in house(repo_root) for file in package.rglob("*.py")]
    named = [file.relative_to(repo_root).as_posix() for file in files if "open_run" in file.read_text("utf-8")]
    assert {name for name in named if not name.startswith("beamlib/__init__")} <= {
        "beamlib/frames.py",
        "packages/beam_run/cli.py",
    }
    loaded = "import beamlib.memory.light, beam_memories.own_memory, sys"
    source = f"{loaded}; print('beamlib.frames' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, cwd=repo_root)
    assert done.stdout.strip() == "False"


def modules(package: Path) -> dict[str, Path]:
    """Dotted name of every module of a package, and its file."""
    found = {}
    for file in sorted(package.rglob("*.py")):
        parts = (package.name, *file.relative_to(package).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports(name: str, file: Path, known: dict[str, Path]) -> Iterator[str]:
    """Known modules that a module imports, with the packages above each."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - (node.level - 1)] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            targets = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            targets = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        else:
            continue
        for target in targets:
            parts = target.split(".")
            yield from (parent for end in range(1, len(parts) + 1) if (parent := ".".join(parts[:end])) in known)


@cache
def import_graph(packages: tuple[Path, ...]) -> dict[str, list[str]]:
    """What each module of `packages` imports of them."""
    known = {name: file for package in packages for name, file in modules(package).items()}
    graph = {name: sorted(set(imports(name, file, known))) for name, file in known.items()}
    # `beamlib.open_run` is for people who look at a run: it imports what it needs when called, and a command alone
    # calls it (`test_nothing_of_ours_opens_runs_for_reading`), so no memory has it by importing the package.
    return graph | {"beamlib": [name for name in graph.get("beamlib", ()) if name not in FOR_PEOPLE]}


def leaks(packages: Sequence[Path], inside: tuple[str, ...] = INSIDE, outside: tuple[str, ...] = OUTSIDE) -> list[str]:
    """Import chains from the inside to the outside, as `a -> b -> c`."""
    graph = import_graph(tuple(packages))

    def under(name: str, groups: tuple[str, ...]) -> bool:
        return any(f"{name}.".startswith(f"{group}.") for group in groups)

    found = []
    for start in (name for name in graph if under(name, inside)):
        chains = {start: start}
        queue = [start]
        for name in queue:
            for target in graph[name]:
                if target not in chains:
                    chains[target] = f"{chains[name]} -> {target}"
                    queue.append(target)
        found += [chain for name, chain in chains.items() if under(name, outside)]
    return found


def house(root: Path) -> list[Path]:
    """`beamlib` and the packages beside it."""
    return [
        root / "beamlib",
        *sorted(path for path in (root / "packages").iterdir() if (path / "__init__.py").exists()),
    ]


def test_no_memory_model_or_retriever_reaches_gold(repo_root):
    packages = house(repo_root)
    known = import_graph(tuple(packages))
    assert all(any(f"{name}.".startswith(f"{group}.") for name in known) for group in (*INSIDE, *OUTSIDE))
    assert [chain for chain in leaks(packages) if not chain.startswith(SHOWING)] == []
    assert leaks(packages, ("beam_generate.pipeline",), SHOWING) == []


def test_nothing_that_asks_about_a_memorycode_dialogue_reaches_its_rules(repo_root):
    packages = house(repo_root)
    assert {*ANSWERING, *RULES, *CHECKING[:-3]} <= set(modules(repo_root / "packages" / SUITE))
    assert leaks(packages, ASKING, CHECKING) == []
    assert leaks(packages, ANSWERING, RULES) == []  # nor does what keeps the answers on file
    assert leaks(packages, (f"{SUITE}.task",), (f"{SUITE}.rules",)), "the test would not see a leak"


PLANTED = ("house.memory",), ("house.data.gold", "house.scoring")


def plant(folder: Path, files: dict[str, str]) -> Path:
    package = folder / "house"
    for name in ("", "memory/", "data/", "scoring/"):
        files.setdefault(f"{name}__init__.py", "")
    files.setdefault("data/gold.py", "")
    for name, source in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(source, "utf-8")
    return package


def test_planted_leaks_are_found(tmp_path):
    for number, (name, source) in enumerate(
        {
            "memory/direct.py": "from house.data.gold import Gold",
            "memory/plain.py": "import house.data.gold as g",
            "memory/package.py": "from house.data import gold",
            "memory/relative.py": "from ..data import gold",
            "memory/late.py": "def f():\n    from house.scoring import judge",
            "memory/hidden.py": "from importlib import import_module\nimport_module('house.scoring')",
            "memory/__init__.py": "from house.data.gold import Gold",
        }.items()
    ):
        assert leaks([plant(tmp_path / str(number), {name: source})], *PLANTED), name


def test_a_leak_through_a_helper_or_a_package_is_found(tmp_path):
    helper = {"memory/rag.py": "from house.text import f", "text.py": "from house.data import gold"}
    assert leaks([plant(tmp_path / "helper", helper)], *PLANTED) == [
        "house.memory.rag -> house.text -> house.data.gold"
    ]
    package = {
        "memory/rag.py": "from house.data.model import Conversation",
        "data/model.py": "",
        "data/__init__.py": "from house.data.gold import Gold",
    }
    assert leaks([plant(tmp_path / "package", package)], *PLANTED)


def test_a_clean_house_has_no_leak(tmp_path):
    clean = {
        "memory/rag.py": "from house.data.model import Conversation\nimport json",
        "data/model.py": "",
        "scoring/judge.py": "from house.data.gold import Gold\nfrom house.memory import rag",
    }
    assert leaks([plant(tmp_path, clean)], *PLANTED) == []
