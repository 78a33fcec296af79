"""Rows on standard output."""

from __future__ import annotations

import pandas as pd
import pytest

from beamlib.report.printed import print_by_ability, print_report, print_rows
from beamlib.report.table import Table, markdown_table
from commands import Call

EXAMPLE = "beamlib/data/example"


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


def test_arms_over_other_numbers_of_conversations_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"size": "100K", "arm": arm, "ability": "average", "mean": 0.5, "low": 0.1, "high": 0.9, "n_conversations": n}
        for arm, n in (("alpha", 20), ("beta", 3))
    ]
    print_by_ability(rows, "mean", ("size", "arm"))
    shown = " ".join(capsys.readouterr().out.split())
    assert "over conversations (n = 20)" in shown and "over conversations (n = 3)" in shown
    assert "alpha 0.500 0.100 0.900 20 beta 0.500 0.100 0.900 3" in shown


def test_arms_of_one_name_by_two_judges_are_two_rows(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"size": "100K", "arm": "rag", "part": part, "judge": judge, "ability": "average", "mean": mean, "low": None,
         "high": None, "n_conversations": 1}
        for part, judge, mean in (("100k", "m", 0.664), ("100k-by-offline", "stand-in", 0.004))
    ]  # fmt: skip
    print_by_ability(rows, "mean", ("size", "arm"))
    shown = capsys.readouterr().out
    assert "100k-by-offline" in shown and "0.664" in shown and "0.004" in shown
    print_by_ability(rows[:1], "mean", ("size", "arm"))
    assert "part" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [("claims",), ("data", "readings"), ("data", "check", EXAMPLE), ("data", "audit", EXAMPLE),
     ("data", "detectors", EXAMPLE), ("estimate", "params/100k.yaml", "--data", EXAMPLE, "--per-ability", "1")],
    ids=lambda words: " ".join(words[:2]),
)  # fmt: skip
def test_reports_of_commands_fit_a_terminal(
    called: Call, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = called(*words).stdout
    assert text and max(map(len, text.splitlines())) <= 80


def test_a_report_loses_nothing_where_it_is_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    header = ["tier", "ability", *(f"column {number}" for number in range(9))]
    rows = [["100K", ability, *(f"{number}.123 [a|b]" for number in range(9))] for ability in ("all", "event_ordering")]
    print_report(f"{'word ' * 40}end\n{markdown_table(header, rows, title='A title')}")
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("word") == 40 and "end" in text and "\nA title\n" in text
    assert all(text.count(cell) == 2 for cell in rows[0][2:])
    blocks = text.count("─\n")
    assert blocks > 1 and text.count(" event_ordering ") == text.count(" all ") == blocks


def test_long_names_leave_room_for_the_values() -> None:
    arm = "light-hybrid-k5-without-working-memory"
    cells = pd.DataFrame([[arm, "100K", "Contradiction Resolution", *["0.123"] * 6]], columns=list("abcdefghi"))
    text = Table("T", cells, notes=("what it rests on",), kind="costs", names=3).to_text(80)
    assert max(map(len, text.splitlines())) <= 80 and "what it rests on" in text
    assert text.count("100K") <= 2
