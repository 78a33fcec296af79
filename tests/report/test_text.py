"""Rows on standard output."""

from __future__ import annotations

import pytest

from beamlib.report.table import print_rows


def test_no_cell_is_shortened_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_rows([{f"a long column name {number}": number / 8 for number in range(8)}], as_json=False)
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert "0.125" in shown
    assert "a long column name 7" in shown
