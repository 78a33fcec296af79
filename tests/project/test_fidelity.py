"""The ledger of what the paper says and where it is held: nothing it names may be gone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

VERDICTS = {"as described", "preset", "open", "deviates", "not reproduced"}
_ROW = re.compile(r"\| (\d+) \|(.*)\|\n")
_NAMED = re.compile(r"`([\w./-]+\.\w+)(?::(\w+))?`")
LEDGER = (Path(__file__).parents[2] / "docs" / "fidelity.md").read_text()
ROWS = [[found[1], *(cell.strip() for cell in found[2].split("|"))] for found in _ROW.finditer(LEDGER)]


def test_the_ledger_is_whole() -> None:
    assert [row[0] for row in ROWS] == [str(number) for number in range(1, len(ROWS) + 1)] and len(ROWS) >= 104
    assert all(len(row) == 6 for row in ROWS)
    assert {row[3] for row in ROWS} == VERDICTS


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_what_a_row_names_is_there(row: list[str], repo_root: Path) -> None:
    _, _, says, verdict, where, why = row
    named = _NAMED.findall(where)
    assert says and named
    assert why or verdict in ("as described", "preset"), "a deviation has a reason"
    for file, name in named:
        text = (repo_root / file).read_text()
        assert not name or re.search(rf"^(?:(?:async )?def |class )?{name}\b", text, re.MULTILINE), f"{file}: {name}"


def test_the_readme_leads_to_it(repo_root: Path) -> None:
    assert "docs/fidelity.md" in (repo_root / "README.md").read_text()
