"""Exact arithmetic on printed figures: the range that a three-decimal table allows, and the status of a claim.

ScoreTable are decimals read from the `printed` strings, so that no status depends on binary rounding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import Any, Literal

import pandas as pd

from beamlib.data import published
from beamlib.errors import UserError

Status = Literal["holds", "holds within rounding", "differs", "cannot be checked"]
STATUSES: tuple[Status, ...] = ("holds", "holds within rounding", "differs", "cannot be checked")

# A printed score was rounded or cut to three decimals; the true value lies in this range around it.
BELOW, ABOVE = Decimal("0.0005"), Decimal("0.001")

SERIES_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "table1": ("backbone", "method"),
    "table8": ("variant",),
    "table9": ("k",),
    "table10": ("retriever",),
    "table11": ("method", "embedding"),
    "table12": ("faiss_index",),
    "table13": ("method",),
}
"""The score tables and the columns that name a series."""

_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER_WORDS = {word: Decimal(value) for value, word in enumerate(_WORDS, start=1)}
# A minus sign is a sign only where it does not separate the ends of a range ("3.5%-12.69%", "1-9").
_NUMBER = re.compile(r"(?<![\d%])[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class ClaimOutcome:
    """The result of a formula: the recomputed value (JSON types), the status and a note.

    `cells` says of a claim on several cells in how many it holds, and of how many.
    """

    recomputed: Any
    status: Status
    note: str = ""
    cells: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """The closed range of true values that printed figures allow."""

    low: Decimal
    high: Decimal

    def __contains__(self, value: Decimal) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"[{show_decimal(self.low, signed=True)}, {show_decimal(self.high, signed=True)}]"

    def minus(self, other: Interval) -> Interval:
        """Return the range of differences to `other`, in percentage points."""
        return Interval(100 * (self.low - other.high), 100 * (self.high - other.low))

    def relative_to(self, other: Interval) -> Interval:
        """Return the range of relative changes from `other` (positive), in percent."""
        return Interval(change(self.low, other.high), change(self.high, other.low))


def change(value: Decimal, base: Decimal) -> Decimal:
    """Return the relative change from `base` to `value` in percent."""
    return 100 * (value / base - 1)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:

    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]


def mean(values: Sequence[Decimal]) -> Decimal:
    """Return the arithmetic mean; exact for the ten rows of a table."""
    return sum(values, Decimal(0)) / len(values)


def rounded(value: Decimal | float, places: int) -> Decimal:
    """Round to `places` decimals, ties away from zero; a float counts as its printed digits."""
    return Decimal(str(value)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)


def truncated(value: Decimal, places: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-places), ROUND_DOWN)


def show_decimal(value: Decimal, places: int = 2, *, signed: bool = False) -> str:
    """Format `value` with a fixed number of decimals."""
    return f"{rounded(value, places):{'+' if signed else ''}}"


def number(value: Decimal, places: int = 2) -> float:
    """Round `value` to `places` decimals, as the JSON number of a result."""
    return float(rounded(value, places))


def figures(printed: str) -> list[Decimal]:
    """Return the numbers in a printed figure: "3.5%-12.69%" gives 3.5 and 12.69; a leading number word counts."""
    numbers = [Decimal(text.replace(",", "")) for text in _NUMBER.findall(printed)]
    word = printed.split(" ", 1)[0]
    return numbers or ([_NUMBER_WORDS[word]] if word in _NUMBER_WORDS else [])


def places_of(value: Decimal) -> int:

    exponent = value.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def verdict(printed: Decimal, value: Decimal, *others: Decimal, allowed: Interval | None = None) -> Status:
    """Compare `printed` with `value`, recomputed from printed inputs.

    It holds when `value` rounds to it. It holds within rounding when it lies in the `allowed` range of the inputs, or
    when `value`, or one of `others` in that range (the same formula on the ability rows), gives it if cut.
    """
    places = places_of(printed)
    if rounded(value, places) == printed:
        return "holds"
    candidates = [value, *(other for other in others if allowed is None or other in allowed)]
    if any(truncated(candidate, places) == printed for candidate in candidates):
        return "holds within rounding"
    return "holds within rounding" if allowed is not None and printed in allowed else "differs"


def unchecked(reason: str) -> ClaimOutcome:
    """Return the outcome of a claim that nothing available can decide."""
    return ClaimOutcome(None, "cannot be checked", reason)


def count_outcome(printed: str, counts: Any, note: str = "") -> ClaimOutcome:
    """Return the outcome of a count, or a list of them: it holds when the printed figures are the same."""
    return ClaimOutcome(counts, holds(figures(printed) == (counts if isinstance(counts, list) else [counts])), note)


def holds(condition: bool) -> Status:
    return "holds" if condition else "differs"


def every(recomputed: Any, cells: Collection[bool], note: str = "") -> ClaimOutcome:
    """Return the outcome of a claim on several cells, which holds when it holds in all of them."""
    return ClaimOutcome(recomputed, holds(all(cells)), note, (sum(cells), len(cells)))


def worst(statuses: Sequence[Status]) -> Status:

    return max(statuses, key=STATUSES.index)


def named(items: Iterable[str]) -> str:
    """Join names with commas; "none" for an empty list."""
    return ", ".join(items) or "none"


def sign(value: Decimal) -> str:

    return "+" if value > 0 else "-" if value < 0 else "0"


def series_name(series: str) -> str:
    """Write a series as words: "without_noise_filtering" becomes "without noise filtering"."""
    return "sparse" if series == "sparse_splade" else series.replace("_", " ")


class ScoreTable:
    """One score table (1, 8 to 13) by length, ability and series; a series of Table 1 is "backbone / method"."""

    def __init__(self, name: str, frame: pd.DataFrame, misprints: pd.DataFrame) -> None:
        parts = [[str(value) for value in frame[column]] for column in SERIES_COLUMNS[name]]
        series = map(" / ".join, zip(*parts, strict=True))
        self._keys = list(zip(frame["length"], frame["ability"], series, strict=True))
        self.printed = dict(zip(self._keys, map(Decimal, frame["printed"]), strict=True))
        # A correction counts only while the cell still shows the misprint it was made for.
        self.corrected = self.printed | {
            key: Decimal(row["implied"])
            for row in records(misprints[misprints["table"] == name])
            if self.printed.get(key := (row["length"], row["ability"], row["column"])) == Decimal(row["printed"])
        }
        self.lengths = list(dict.fromkeys(length for length, _, _ in self._keys))
        self.series = list(dict.fromkeys(series for _, _, series in self._keys))
        self.abilities = [name for name in dict.fromkeys(key[1] for key in self._keys) if name != published.AVERAGE]

    def average(self, length: str, series: str) -> Decimal:
        return self.printed[length, published.AVERAGE, series]

    def row_mean(self, length: str, series: str, *, corrected: bool = True) -> Decimal:
        """Return the mean of the ten printed ability rows, by default with the two misprints corrected."""
        cells = self.corrected if corrected else self.printed
        return mean([cells[length, ability, series] for ability in self.abilities])

    def points(self, length: str, series: str, base: str, *, by_rows: bool = False) -> Decimal:
        """Return the Average (or the mean of the rows) of `series` minus that of `base`, in percentage points."""
        read = self.row_mean if by_rows else self.average
        return 100 * (read(length, series) - read(length, base))

    def interval(self, length: str, series: str) -> Interval:
        """Return the true Averages that fit the printed Average and, where both can fit, the ten rows."""
        average, rows = self.average(length, series), self.row_mean(length, series)
        low, high = max(average, rows) - BELOW, min(average, rows) + ABOVE
        return Interval(low, high) if low <= high else Interval(average - BELOW, average + ABOVE)


class PublishedTables:
    """The tables of a paper by name, as printed. `read` reads one of `names`; `replaced` frames take precedence.

    Raises `UserError` for a replaced table that does not exist.
    """

    def __init__(
        self,
        names: Collection[str],
        read: Callable[[str], pd.DataFrame],
        replaced: Mapping[str, pd.DataFrame] | None = None,
    ) -> None:
        self._read = read
        self._frames = dict(replaced or {})
        if unknown := sorted(set(self._frames) - set(names)):
            raise UserError(f"published table {unknown[0]!r} does not exist; use one of: {', '.join(names)}.")

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._frames:
            self._frames[name] = self._read(name)
        return self._frames[name]


class Tables(PublishedTables):
    """The tables of the BEAM paper in one of its versions."""

    def __init__(
        self, replaced: Mapping[str, pd.DataFrame] | None = None, paper: published.Paper = published.PAPERS[0]
    ) -> None:
        names = published.published_names(paper)
        super().__init__(names, lambda name: published.table(name, paper), replaced)
        self._scores: dict[str, ScoreTable] = {}
        self.score_tables = tuple(name for name in SERIES_COLUMNS if name in names)

    def scores(self, name: str) -> ScoreTable:
        if name not in self._scores:
            self._scores[name] = ScoreTable(name, self[name], self["misprints"])
        return self._scores[name]
