"""Count what a reader reads: modules and lines behind notebooks 05 to 09, the share of logic, and the mean function.

    python benchmarks/reading_set.py [FOLDER ...]

A line is logic unless it is blank, a comment, a docstring, an import or part of a signature. Folders are `beamlib` by
default; those of notebooks are counted by imports at the top of modules, as `tests/project/test_reading_set.py` does.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/project")]

from test_reading_set import closure, modules, notebook_imports  # noqa: E402

NO_NOUNS = ("one", "own", "found", "asked", "given", "told", "said", "held")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def kinds_of_lines(source: str, tree: ast.Module) -> Counter[str]:
    """Count the lines of a module by kind."""
    kinds = ["blank" if not line.strip() else "logic" for line in source.splitlines()]
    for number, line in enumerate(source.splitlines()):
        if line.lstrip().startswith("#"):
            kinds[number] = "comment"
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            kinds[node.lineno - 1 : node.end_lineno] = ["import"] * (node.end_lineno - node.lineno + 1)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            kinds[node.lineno - 1 : node.end_lineno] = ["docstring"] * (node.end_lineno - node.lineno + 1)
        elif isinstance(node, Function | ast.ClassDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1
            length = node.body[0].lineno - 1 - first
            kinds[first : first + length] = ["signature"] * length
    return Counter(kinds)


def main() -> None:
    known = modules(ROOT)
    for notebook in sorted((ROOT / "notebooks").glob("0[5-9]_*.ipynb")):
        read = closure(notebook_imports(notebook, known), known)
        lines = sum(len(known[name].read_text("utf-8").splitlines()) for name in read)
        print(f"{notebook.stem}: {len(read)} modules, {lines:,} lines")
    for folder in sys.argv[1:] or ["beamlib"]:
        kinds, names, functions = Counter[str](), Counter[str](), list[int]()
        for file in sorted((ROOT / folder).rglob("*.py")):
            source = file.read_text("utf-8")
            tree = ast.parse(source)
            kinds += kinds_of_lines(source, tree)
            functions += [n.end_lineno - n.lineno + 1 for n in ast.walk(tree) if isinstance(n, Function)]
            nodes = (n for n in ast.walk(tree) if isinstance(n, ast.Name | ast.arg))
            names.update(n.id if isinstance(n, ast.Name) else n.arg for n in nodes)
        print(
            f"{folder}: {kinds.total():,} lines, " + ", ".join(f"{n / kinds.total():.0%} {k}" for k, n in kinds.items())
        )
        print(f"  {len(functions):,} functions of {sum(functions) / len(functions):.1f} lines")
        print("  names that are no nouns: " + ", ".join(f"{name} {names[name]}" for name in NO_NOUNS))


if __name__ == "__main__":
    main()
