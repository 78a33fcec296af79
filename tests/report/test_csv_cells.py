"""A CSV that somebody opens in a spreadsheet: others' texts are no formulas there."""

from __future__ import annotations

import csv
from io import StringIO

import pandas as pd
import pytest

from beamlib.report.csv_cells import safe_cell, safe_cells, safe_line
from beamlib.report.table import Table


@pytest.mark.parametrize(
    "text",
    ["=1+1", '=HYPERLINK("http://a.b")', "+cmd|' /C calc'!A0", "-2+3+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1",
     "\n=1", "＝1+1", "-a", "+1+1", "=", "@"],
)  # fmt: skip
def test_a_formula_is_marked_as_text(text: str) -> None:
    assert safe_cell(text) == f"'{text}"


@pytest.mark.parametrize(
    "value",
    ["-0.5", "+0.123 [0.1, 0.2]", "-1,234.5 (-3 – 2)", "-", "–", "-12 %", "a=b", "'=1", "", " -x", -1.5, None, 3],
)
def test_numbers_and_texts_stay_as_they_are(value: object) -> None:
    assert safe_cell(value) == value


def test_cells_and_names_of_columns_are_both_written_safely() -> None:
    frame = pd.DataFrame({"=model": ["@x", "-0.5", None], "n": [1, -2, 3], "same": [-1.5, float("nan"), 2.0]})
    rows = list(csv.reader(StringIO(safe_cells(frame).to_csv(index=False))))
    assert rows[0] == ["'=model", "n", "same"]
    assert [row[0] for row in rows[1:]] == ["'@x", "-0.5", ""]
    assert [row[1:] for row in rows[1:]] == [["1", "-1.5"], ["-2", ""], ["3", "2.0"]]
    assert list(frame) == ["=model", "n", "same"]


def test_two_columns_of_one_name_are_both_written() -> None:
    frame = pd.DataFrame([["=a", "=b"]], columns=["x", "x"])
    assert safe_cells(frame).to_csv(index=False) == "x,x\n'=a,'=b\n"


def test_a_line_of_comment_has_no_formula_in_any_of_its_cells() -> None:
    evil = 'Reader: m,=HYPERLINK("http://a.b"); +cmd|x!A0\n=SUM(A1),@SUM(A1)'
    assert safe_line(evil) == "Reader: m,'=HYPERLINK(\"http://a.b\"); '+cmd|x!A0 =SUM(A1),'@SUM(A1)"
    plain = "Scores of 20 conversations, -0.03 [-0.1, 0.2], -0.02 (n = 3), --mixed (docs/running.md)"
    assert safe_line(plain) == plain
    written = Table("t", pd.DataFrame({"a": ["x"]}), footer=("one\n=two,=SUM(1)",)).to_csv()
    assert written.endswith("# one =two,'=SUM(1)\n")
    assert pd.read_csv(StringIO(written), comment="#").shape == (1, 1)
