"""Rows on standard output."""

from __future__ import annotations

import pytest

from beamlib.report.printed import print_by_ability, print_rows


def test_no_cell_is_shortened_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_rows([{f"a long column name {number}": number / 8 for number in range(8)}], as_json=False)
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert "0.125" in shown
    assert "a long column name 7" in shown


def test_abilities_are_columns_and_what_all_rows_share_stands_above(capsys: pytest.CaptureFixture[str]) -> None:
    fixed = {"size": "100K", "judge": "m", "left_out": "", "n_conversations": 3}
    rows = [
        {**fixed, "arm": arm, "ability": ability, "mean": mean, "low": 0.1, "high": 0.9, "unscored": number}
        for arm, number in (("rag", 0), ("light", 2))
        for ability, mean in (("event_ordering", 0.25), ("average", 0.5))
    ]
    print_by_ability(rows, "mean", ("size", "arm"))
    shown = capsys.readouterr().out
    assert shown.splitlines()[:3] == ["size: 100K", "judge: m", "n conversations: 3"]
    assert "left out" not in shown and "event" in shown and shown.count("0.250") == 2 and shown.count("0.900") == 2
    assert "unscored" in shown and shown.count("m") and "Interval, 100K: 95 %" in shown
    print_by_ability(rows, "mean", ("size", "arm"), long=True)
    assert capsys.readouterr().out.count("event_ordering") == 2
    print_by_ability(rows, "mean", ("size", "arm"), as_csv=True)
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 5 and table[0].startswith("size,judge,left_out,n_conversations,arm,ability,mean")
