"""What the MemoryCode paper prints (Tables 1, 2 and 4), and which of its models an outputs folder belongs to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from importlib.resources import files
from io import StringIO

import pandas as pd

from beam_claims.values import PublishedTables, records, rounded
from beam_memorycode.averages import Column

FILES = {
    "table1": "memorycode_table1_parameters.csv",
    "table2": "memorycode_table2_statistics.csv",
    "table4": "memorycode_table4_scores.csv",
}
"""Name -> file in `beamlib/data/published`; cells are kept as the strings that were printed."""

COLUMN_LABELS: Mapping[Column, str] = {
    "instruction": "Instruction",
    "session": "Session",
    "short_history": "Short history",
    "long_history": "Long history",
}
"""The columns of Table 4 and how they are shown."""

# Folder names differ by host ("Meta-Llama-3.1-8B-Instruct-Turbo", "llama-3.1-8b-instruct"). Neighbours of the models
# of Table 4 (Llama 3.3, gpt-4o-mini, Command R7B, distilled R1) must not take their rows.
ROWS = {
    "Llama 3.1 8B": r"llama.?3[._-]1\D*(?<!\d)8b",
    "Llama 3.1 70B": r"llama.?3[._-]1\D*(?<!\d)70b",
    "Llama 3.1 405B": r"llama.?3[._-]1\D*(?<!\d)405b",
    "Command R+": r"command.?r(?![a-z0-9])",
    "Command A": r"command.?a(?![a-z0-9])",
    "GPT-4o": r"gpt.?4o(?!.?mini)",
    "DeepSeek-V3": r"deepseek.?v3(?![.\d])",
    "DeepSeek-R1": r"deepseek.?r1(?!.?distill)",
}
"""The rows of Table 4, in its order, and what the name of an outputs folder has in it."""
_OTHER_SETUP = re.compile(r"[-_](chain|retrieval|rag|light|full[-_]context|alone)$")


def row_of(name: str) -> str | None:
    """The row of Table 4 that the outputs folder `name` belongs to, None for other models and other setups."""
    text = name.casefold()
    if _OTHER_SETUP.search(text):
        return None
    return next((row for row, pattern in ROWS.items() if re.search(pattern, text)), None)


def table(name: str) -> pd.DataFrame:
    """One of `FILES` in long form, every cell as the string that was printed (or "")."""
    text = (files("beamlib.data.published") / FILES[name]).read_text(encoding="utf-8")
    return pd.read_csv(StringIO(text), dtype=str, keep_default_na=False)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of Table 4 in percent, with the decimals it was printed with."""

    mean: Decimal
    stderr: Decimal

    def __str__(self) -> str:
        return f"{self.mean} ±{self.stderr}"

    @classmethod
    def of(cls, mean: float, stderr: float) -> Cell:
        """A computed mean and standard error, rounded as the table does."""
        return cls(rounded(mean, 1), rounded(stderr, 2))


class Published(PublishedTables):
    """The tables of the MemoryCode paper; `scores` has the cells of Table 4 by model and setup."""

    def __init__(self, replaced: Mapping[str, pd.DataFrame] | None = None) -> None:
        super().__init__(FILES, table, replaced)
        self.scores: dict[tuple[str, str], Cell] = {
            (row["model"], row["setup"]): Cell(Decimal(row["mean"]), Decimal(row["stderr"]))
            for row in records(self["table4"])
        }
        self.models = tuple(dict.fromkeys(model for model, _ in self.scores))

    def values(self, parameter: str) -> list[Decimal]:
        """The values of a generation parameter of Table 1."""
        rows = self["table1"]
        found = rows.loc[rows["parameter"] == parameter, "values"]
        return [Decimal(value) for value in found.iloc[0].split("|")]

    def statistic(self, parameter: str, subset: str) -> tuple[Decimal, Decimal | None]:
        """Mean and standard deviation (None where none was printed) of Table 2."""
        rows = self["table2"]
        row = rows[(rows["parameter"] == parameter) & (rows["subset"] == subset)].iloc[0]
        cents = Decimal("0.01")  # the file holds 48 for what was printed as 48.00
        return Decimal(row["mean"]).quantize(cents), Decimal(row["std"]).quantize(cents) if row["std"] else None
