"""Each row of docs/fidelity.md that claims to agree is held: its tests fail where its mutation is made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ledger_mutants import MUTANTS, Mutant
from test_fidelity import HOLDS, ROOT, ROWS, TEST

HELD = {
    int(row[0]): [f"{file}::{name}" for file, name in TEST.findall(row[6])]
    for row in ROWS["fidelity.md"]
    if row[3] in HOLDS
}
SHARED = Path(os.environ.get("BEAM_SHARED", ROOT.parent / "shared"))


@pytest.mark.parametrize("row", HELD)
def test_a_row_ships_a_mutation_that_can_be_made(row: int) -> None:
    assert (ROOT / MUTANTS[row].file).read_text(encoding="utf-8").count(MUTANTS[row].old) == 1


def test_no_mutation_is_of_a_row_that_does_not_claim_to_agree() -> None:
    assert set(MUTANTS) == set(HELD)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository's files, to be changed."""
    folder = tmp_path_factory.mktemp("mutants") / "copy"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    if SHARED.is_dir():
        (folder.parent / "shared").symlink_to(SHARED)
    return folder


def run_tests(copy: Path, tests: list[str]) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(map(str, (copy, copy / "packages", copy / "tests")))
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n0", *dict.fromkeys(tests)]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture
def mutated(copy: Path, row: int) -> Iterator[Path]:
    mutant: Mutant = MUTANTS[row]
    place = copy / mutant.file
    before = place.read_text(encoding="utf-8")
    place.write_text(before.replace(mutant.old, mutant.new, 1), encoding="utf-8")
    yield copy
    place.write_text(before, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("row", HELD)
def test_the_tests_of_a_row_fail_where_it_is_wrong(mutated: Path, row: int) -> None:
    result = run_tests(mutated, HELD[row])
    assert result.returncode == 1, result.stdout[-3000:] + result.stderr[-2000:]


@pytest.mark.slow
def test_the_tests_of_all_rows_pass_in_an_unchanged_copy(copy: Path) -> None:
    result = run_tests(copy, [test for tests in HELD.values() for test in tests])
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-2000:]
