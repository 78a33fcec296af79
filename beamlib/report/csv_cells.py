"""Write others' texts into CSV so that no spreadsheet takes one for a formula."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

_FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
_NUMBERS = re.compile(r"[-+]?[\d.,]*[\d\s.,%()\[\]±–-]*")
"""A number, with its interval perhaps, or a dash: nothing that a spreadsheet would compute."""


def safe_cell(value: Any) -> Any:
    """Put an apostrophe, which marks a text, before what a spreadsheet would compute: what begins with = + - @.

    Numbers stay as they are, negative ones too.
    """
    if not isinstance(value, str) or not _FORMULA.match(value) or _NUMBERS.fullmatch(value):
        return value
    return f"'{value}"


def safe_line(line: str) -> str:
    """Make a line of comment of a text: a spreadsheet cuts it into cells at its commas, and there is no other line."""
    pieces = re.split(r"([,;]\s*)", re.sub(r"\s", " ", line))
    # A sign before a number, or an option of a command (--mixed), is none in a sentence.
    return "".join(safe_cell(piece) if re.search(r"^[=@＝＠]|\w\(|[|!]", piece) else piece for piece in pieces)


def safe_cells(frame: pd.DataFrame) -> pd.DataFrame:
    """Apply `safe_cell` to all texts of a frame and to the names of its columns."""
    texts = [place for place, kind in enumerate(frame.dtypes) if not pd.api.types.is_numeric_dtype(kind)]
    safe = frame.copy()
    for place in texts:
        safe.isetitem(place, [safe_cell(value) for value in frame.iloc[:, place]])
    return safe.rename(columns=safe_cell)
