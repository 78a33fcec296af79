"""The ledgers of what the papers say: every name in them exists, and a test holds every row that claims to agree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ledger_mutants import Row, missing_mutants, rows_of

ROOT = Path(__file__).parents[2]
LEDGERS = {"fidelity.md": 120, "memorycode-fidelity.md": 20, "meme-fidelity.md": 20}
"""Each ledger and how many rows it has at least."""
COLUMNS = ["#", "section", "the paper says", "verdict", "where", "deviation and why", "test"]
HOLDS = ("as described", "preset")
VERDICTS = {*HOLDS, "open", "deviates", "not reproduced"}
_NAMED = re.compile(r"`([\w./-]+\.\w+)(?::(\w+))?`")
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")

ROWS = {name: list(rows_of((ROOT / "docs" / name).read_text(encoding="utf-8"))) for name in LEDGERS}
EACH = [pytest.param(row, id=f"{name.removesuffix('.md')}-{row[0]}") for name, rows in ROWS.items() for row in rows]


@cache
def runnable_tests(path: Path) -> dict[str, bool]:
    """The tests of a file, and whether each runs: neither it nor the file is marked skip or xfail."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    marks = [ast.unparse(node.value) for node in tree.body if isinstance(node, ast.Assign) and _is_mark(node)]
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            decorators = [ast.unparse(one) for one in node.decorator_list]
            first = ast.unparse(node.body[0])
            off = any(re.search(r"mark\.(?:skip\b|xfail\b)", one) for one in [*marks, *decorators])
            found[node.name] = not off and not first.startswith("pytest.skip(")
    return found


def _is_mark(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets)


def problems(row: Row) -> Iterator[str]:
    """What is wrong with a row, a sentence each."""
    if len(row) != len(COLUMNS):
        yield f"{len(row)} columns; a row has {', '.join(COLUMNS)}"
        return
    _, _, says, verdict, where, why, test = row
    if verdict not in VERDICTS:
        yield f"verdict {verdict!r}; use one of {', '.join(sorted(VERDICTS))}"
    if not says or not _NAMED.findall(where):
        yield "it states nothing, or names no file in 'where'"
    if not why and verdict not in HOLDS:
        yield "a deviation has a reason"
    for file, name in _NAMED.findall(where):
        path = ROOT / file
        if not path.exists():
            yield f"where: {file} does not exist"
        elif name and not re.search(rf"^\s*(?:(?:async )?def |class )?{name}\b", path.read_text(), re.MULTILINE):
            yield f"where: {file} has no {name}"
    named = _TEST.findall(test)
    if verdict in HOLDS and not named:
        yield "it names no test that would fail if it stopped being true"
    for file, name in named:
        if not (ROOT / file).exists():
            yield f"test: {file} does not exist"
        elif name not in ("", *runnable_tests(ROOT / file)):
            yield f"test: {file} has no {name}"
        elif not runnable_tests(ROOT / file).get(name, any(runnable_tests(ROOT / file).values())):
            yield f"test: {file}::{name} never runs"


@pytest.mark.parametrize("name", LEDGERS)
def test_a_ledger_is_whole(name: str) -> None:
    text, rows = (ROOT / "docs" / name).read_text(encoding="utf-8"), ROWS[name]
    assert [row[0] for row in rows] == [str(number) for number in range(1, len(rows) + 1)]
    assert len(rows) >= LEDGERS[name]
    headers = re.findall(r"^\| # \|.*$", text, re.MULTILINE)
    assert headers and set(headers) == {f"| {' | '.join(COLUMNS)} |"}


@pytest.mark.parametrize("row", EACH)
def test_a_row_names_what_is_there_and_the_test_that_holds_it(row: Row) -> None:
    found = list(problems(row))
    assert found == [], f"row {row[0]}: {'; '.join(found)}"


@pytest.mark.parametrize("ledger", LEDGERS)
def test_each_row_that_names_a_test_has_a_mutant_that_can_be_applied(ledger: str) -> None:
    """That the tests fail under them is tried by the slow tests."""
    assert missing_mutants(ledger.removesuffix(".md")) == []


GOOD = "| 1 | 2 | it is so | as described | `README.md` | | `tests/project/test_fidelity.py::test_a_ledger_is_whole` |"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("it is so", "it is so", ""),
        (" | `tests/project/test_fidelity.py::test_a_ledger_is_whole`", "", "6 columns"),
        ("`tests/project/test_fidelity.py::test_a_ledger_is_whole`", "", "names no test"),
        ("as described | `README.md` | |", "deviates | `README.md` | |", "has a reason"),
        ("as described", "as decribed", "verdict 'as decribed'"),
        ("`README.md`", "README", "names no file"),
        ("README.md", "READ.md", "READ.md does not exist"),
        ("`README.md`", "`tests/project/test_fidelity.py:no_such_name`", "has no no_such_name"),
        ("test_fidelity.py::", "test_fidelties.py::", "test_fidelties.py does not exist"),
        ("test_a_ledger_is_whole", "test_a_ledger_is_half", "has no test_a_ledger_is_half"),
    ],
)
def test_a_wrong_row_is_told(old: str, new: str, problem: str) -> None:
    (row,) = rows_of(GOOD.replace(old, new, 1))
    found = list(problems(row))
    assert bool(found) == bool(problem) and any(problem in one for one in found or [""])


@pytest.mark.parametrize(
    ("source", "runs"),
    [
        ("def test_x(): assert 1", True),
        ("@pytest.mark.skipif(no_library, reason='r')\ndef test_x(): assert 1", True),
        ("@pytest.mark.skip(reason='r')\ndef test_x(): assert 1", False),
        ("@pytest.mark.xfail\nasync def test_x(): assert 1", False),
        ("pytestmark = [pytest.mark.skip]\ndef test_x(): assert 1", False),
        ("def test_x(): pytest.skip('later')", False),
    ],
)
def test_a_test_that_never_runs_holds_nothing(tmp_path: Path, source: str, runs: bool) -> None:
    (tmp_path / "test_x.py").write_text(source)
    assert runnable_tests(tmp_path / "test_x.py") == {"test_x": runs}


def test_the_readme_leads_to_the_ledgers() -> None:
    assert "docs/fidelity.md" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"({name})" in (ROOT / "docs" / "fidelity.md").read_text(encoding="utf-8") for name in [*LEDGERS][1:])
