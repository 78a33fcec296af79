"""Ledgers by mutants: each row that names a test ships a change that makes the row untrue, and the test has to fail.

The rows stand in `docs/*fidelity.md`, their mutants in `tests/mutants/NAME.toml`: tables `[[mutant]]` with `row`,
`file`, `old` (once in the file) and `new`. A mutant leaves the file importable: only a test that fails counts, not an
error before it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LEFT_BEHIND = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "runs")
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")
Row = list[str]


def rows_of(text: str) -> Iterator[Row]:
    """Yield the cells of every row of a ledger that has a number."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if cells and cells[0].isdecimal():
            yield cells


@dataclass(frozen=True)
class Mutant:
    """A change of one file under which a row of a ledger is not true any more, and the tests that the row names."""

    row: int
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"row-{self.row}"


def mutants_of(ledger: str, root: Path = ROOT) -> list[Mutant]:
    """Read the mutants of a ledger (`meme-fidelity`), each with the tests of its row."""
    rows = rows_of((root / "docs" / f"{ledger}.md").read_text(encoding="utf-8"))
    tests = {int(row[0]): tuple("::".join(filter(None, match)) for match in _TEST.findall(row[-1])) for row in rows}
    mutants = tomllib.loads((root / "tests" / "mutants" / f"{ledger}.toml").read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**mutant, tests=tests[mutant["row"]]) for mutant in mutants]


def missing_mutants(ledger: str, root: Path = ROOT) -> list[str]:
    """Say what is wrong with the mutants of a ledger: rows without one, texts that are not once in their file."""
    rows = list(rows_of((root / "docs" / f"{ledger}.md").read_text(encoding="utf-8")))
    mutants = mutants_of(ledger, root)
    held = {mutant.row for mutant in mutants}
    faults = [f"row {row[0]} names a test and has no mutant" for row in rows if row[-1] and int(row[0]) not in held]
    for mutant in mutants:
        times = (root / mutant.file).read_text(encoding="utf-8").count(mutant.old)
        if times != 1 or mutant.old == mutant.new:
            faults.append(
                f"row {mutant.row}: {mutant.old!r} is {times} times in {mutant.file}; it becomes {mutant.new!r}"
            )
        if not mutant.tests:
            faults.append(f"row {mutant.row} has a mutant and names no test")
    return faults


class Checkout:
    """A copy of the repository in which one mutant after another is tried by the tests of its row."""

    def __init__(self, folder: Path, mutants: Iterable[Mutant]) -> None:
        self.folder, self.tests = folder, sorted({test for mutant in mutants for test in mutant.tests})
        shutil.copytree(ROOT, folder, ignore=LEFT_BEHIND)
        self.written = 0

    @cached_property
    def unchanged(self) -> Mapping[str, str]:
        """What becomes of every named test without a mutant, in one run."""
        return self.outcomes(self.tests)

    def check(self, mutant: Mutant) -> None:
        """Fail unless a test of the mutant's row passes without the mutant and fails with it."""
        before = {name: outcome for name, outcome in self.unchanged.items() if _belongs(name, mutant.tests)}
        if not set(before.values()) - {"skipped"}:
            pytest.skip(f"the tests of row {mutant.row} are skipped here")
        assert set(before.values()) <= {"passed", "skipped"}, f"without the mutant: {before}"
        with self.changed(mutant):
            after = self.outcomes(mutant.tests, "-x")
        assert "failed" in after.values(), f"row {mutant.row}: {mutant.old!r} -> {mutant.new!r} gives {after}"

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """Write the mutant, and the old text afterwards."""
        path = self.folder / mutant.file
        text = path.read_text(encoding="utf-8")
        self._write(path, text.replace(mutant.old, mutant.new, 1))
        yield
        self._write(path, text)

    def _write(self, path: Path, text: str) -> None:
        """Write with a time of its own: compiled modules are told apart by size and second."""
        self.written += 1
        path.write_text(text, encoding="utf-8")
        os.utime(path, (self.written, self.written))

    def outcomes(self, tests: Iterable[str], *options: str) -> dict[str, str]:
        """Run tests in the copy; `passed`, `failed`, `error` or `skipped` by name, parameters included."""
        report = self.folder / "report.xml"
        report.unlink(missing_ok=True)
        shared = os.environ.get("BEAM_SHARED", str(ROOT.parent / "shared"))
        data = {"BEAM_DATA": f"{shared}/data/beam", "MEMORYCODE_DATA": f"{shared}/data/memorycode"}
        paths = os.pathsep.join(str(self.folder / name) for name in (".", "packages"))
        environment = {**data, **os.environ, "BEAM_SHARED": shared, "PYTHONPATH": paths}
        environment.pop("PYTEST_XDIST_WORKER", None)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n0", "--slow", f"--junitxml={report}"]
        done = subprocess.run(
            [*command, *options, *tests],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=850,
            stdin=subprocess.DEVNULL,
        )
        assert report.exists(), done.stdout[-2000:] + done.stderr[-2000:]
        return {_node(case): _outcome(case) for case in ElementTree.parse(report).iter("testcase")}


def _node(case: ElementTree.Element) -> str:
    return f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"


def _outcome(case: ElementTree.Element) -> str:
    for tag, outcome in (("error", "error"), ("failure", "failed"), ("skipped", "skipped")):
        if case.find(tag) is not None:
            return outcome
    return "passed"


def _belongs(name: str, tests: Iterable[str]) -> bool:
    return any(name == test or name.startswith((f"{test}[", f"{test}::")) for test in tests)
