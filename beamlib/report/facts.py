"""The one layer of facts: a function for each quantity that prose states, and the marks that prose carries.

A mark holds the name of a fact, its arguments and, between it and the closing mark, the value:
`<!-- fact: errata.listed -->195<!-- -->`. `beamlib facts` prints the facts, `--write` fills the marks in. A fact of
several lines stands in lines of its own, a code fence inside its marks.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from beamlib.data.errata import load_errata
from beamlib.errors import UserError
from beamlib.files import read_text, write_text
from beamlib.report.long_frame import AVERAGE_ABILITY, ability_label
from beamlib.report.released import ReleasedRecall
from beamlib.report.series import series_named
from beamlib.report.table import markdown_table
from beamlib.scoring.measured import BEST, LIGHT, MOST_PAIRS, RAG, RETRIEVERS

OVER_CONVERSATIONS = "95 % t-interval over conversations, logit scale"
PAIRED = "95 % t-interval over paired conversations"
SHIPPED = "beamlib/data/measured/retrieval.jsonl.xz"


class Estimate(NamedTuple):
    """A value with its interval; its ends are None where there is none."""

    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Fact:
    """A quantity.

    Attributes:
        definition: What it is, from the function's docstring.
        interval: The rule of its interval; "none" for what is counted.
        source: The file that it is computed from.
        command: What prints it, or measures it anew.
        examples: Arguments with which `beamlib facts` prints it.
    """

    name: str
    compute: Callable[..., Any]
    unit: str
    source: str
    command: str
    interval: str = "none"
    examples: Sequence[str] = ("",)

    @property
    def definition(self) -> str:
        return (inspect.getdoc(self.compute) or "").partition("\n")[0]


_FACTS: dict[str, Fact] = {}
_MARK = re.compile(r"<!-- fact: (?P<fact>[^>]*?) -->(?P<value>(?:(?!<!--).)*)<!-- -->", re.DOTALL)
_OPENING = re.compile(r"<!--\s*fact\b[^\n]{0,60}")


def fact(name: str, **about: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a fact; the keywords are the fields of `Fact`."""

    def enter(compute: Callable[..., Any]) -> Callable[..., Any]:
        _FACTS[name] = Fact(name, compute, **about)
        return compute

    return enter


def known_facts() -> list[Fact]:
    """Return the registered facts by name."""
    return [_FACTS[name] for name in sorted(_FACTS)]


def fact_text(call: str) -> str:
    """Return the text of a fact, named with its arguments: `recall rag hybrid 100K 5`.

    The first argument may be `interval` ("[.60, .65]"), `ends` (".60 to .65") or `two` (two decimals).

    Raises:
        UserError: There is no such fact, or it does not take these arguments.
    """
    name, *arguments = [part.strip('"') for part in re.findall(r'"[^"]*"|\S+', call)]
    if name not in _FACTS:
        raise UserError(f"fact: {name!r} does not exist; `beamlib facts` lists those that do.")
    form = arguments.pop(0) if arguments[:1] and arguments[0] in _FORMS else ""
    try:
        inspect.signature(_FACTS[name].compute).bind(*arguments)
    except TypeError as error:
        raise UserError(f"fact: {call!r}: {error}.") from None
    value = _FACTS[name].compute(*arguments)
    return _FORMS[form](value) if isinstance(value, Estimate) else str(value)


def decimals(value: float, places: int = 3) -> str:
    """Write a number as prose has it: .625, -.163."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.{places}f}")


def _ends(value: Estimate, between: str) -> str:
    if value.low is None or value.high is None:
        raise UserError("fact: this value has no interval; mark it without `interval` or `ends`.")
    return f"{decimals(value.low, 2)}{between}{decimals(value.high, 2)}"


_FORMS: dict[str, Callable[[Estimate], str]] = {
    "": lambda value: decimals(value.mean),
    "two": lambda value: decimals(value.mean, 2),
    "interval": lambda value: f"[{_ends(value, ', ')}]",
    "ends": lambda value: _ends(value, " to "),
}


def fill_marks(text: str) -> str:
    """Return a text with the value of each fact between its marks.

    Raises:
        UserError: A mark names no fact, or is written in another form, so that its number would never be checked.
    """
    if broken := _OPENING.search(_MARK.sub("", text)):
        raise UserError(f"fact: {broken[0]!r} is no mark; write <!-- fact: NAME ARGUMENTS -->VALUE<!-- -->.")

    def filled(mark: re.Match[str]) -> str:
        value = fact_text(mark["fact"])
        value = f"\n{value}\n" if "\n" in value else value
        return f"<!-- fact: {mark['fact']} -->{value}<!-- -->"

    return _MARK.sub(filled, text)


_NO_RESULT = re.compile(
    r"`[^`\n]*`|\"[^\"\n]*\"|\]\([^)]*\)|https?://\S+"  # code, what is quoted from print, links
    r"|\b\d{4}\.\d{5}\b|\b(?:19|20)\d\d(?:-\d\d-\d\d)?\b|\b95 %"  # numbers of papers, dates, the level of intervals
    r"|\b[A-Z][\w-]* [1-9]\d?\.\d+(?: to [1-9]\d?\.\d+)?|\b\d+ (?:[MG]i?B|min|s)\b"  # versions, sizes, times
)
_RESULT = re.compile(
    r"(?<![\w.])(?<!\w-)(?:\d*\.\d+|\d+ %|\d{1,3}(?:,\d{3})+|\d{3,})(?![\w-])"
    r"|(?<![\w.-])[1-9]\d+ (?:\w+ )?(?:claims|holds?|differs?|cannot|listed|questions|conversations|runs|verdicts)\b"
)


def unmarked_values(text: str) -> list[str]:
    """Return what looks like a measured value outside marks: decimals, percentages, large numbers and counts."""
    return _RESULT.findall(_NO_RESULT.sub(" ", _MARK.sub(" ", text)))


def fill_files(files: Sequence[Path], *, write: bool) -> Iterator[Path]:
    """Yield the files whose marks hold other values than the facts; with `write` they are mended."""
    for path in files:
        text = read_text(path)
        try:
            filled = fill_marks(text)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        if filled != text:
            if write:
                write_text(path, filled)
            yield path


# What the released benchmark shows ------------------------------------------------------------------------------------


@cache
def _released() -> ReleasedRecall:
    return ReleasedRecall()


@cache
def _scored(arm: str, index: str, k: int) -> dict[tuple[str, str], Estimate]:
    rows = _released().table("", [arm], [index], [k], abilities=True).records()
    return {(row["size"], row["ability"]): Estimate(row["mean"], row["low"], row["high"]) for row in rows}


@fact(
    "recall",
    unit="share of cited messages shown whole, mean over abilities",
    interval=OVER_CONVERSATIONS,
    source=SHIPPED,
    command="beamlib evidence",
    examples=("rag hybrid 100K 5", '"light retrieval alone" hybrid 500K 15', f'"{BEST}" hybrid 100K 5'),
)
def recall(arm: str, index: str, size: str, k: str, ability: str = AVERAGE_ABILITY) -> Estimate:
    """Evidence recall of an arm of the released benchmark, with an index and K pairs."""
    try:
        return _scored(arm, index, int(k))[size, ability]
    except (KeyError, ValueError):
        raise UserError(f"fact: recall of {arm}, {index}, {size}, K = {k}, {ability} was not measured.") from None


@fact(
    "recall.gain",
    unit="change of evidence recall",
    interval=PAIRED,
    source=SHIPPED,
    command="beamlib evidence",
    examples=('"light retrieval alone" 100K 5 15',),
)
def gain(arm: str, size: str, first: str, second: str) -> Estimate:
    """Paired change of average evidence recall from one number of retrieved pairs to another, index hybrid."""
    rows = _released().gains([int(first), int(second)], arm).to_dict("records")
    (row,) = (row for row in rows if row["size"] == size)
    return Estimate(row["mean"], row["low"], row["high"])


@fact("recall.conversations", unit="conversations", source=SHIPPED, command="beamlib evidence", examples=("100K",))
def conversations(size: str = "") -> int:
    """Released conversations behind the tables of evidence recall."""
    return sum(size in ("", measurement.size) for measurement in _released().measurements)


@fact("recall.questions", unit="questions", source=SHIPPED, command="beamlib evidence", examples=("100K",))
def questions(size: str = "") -> int:
    """Questions of the released conversations that cite messages."""
    chosen = [measurement for measurement in _released().measurements if size in ("", measurement.size)]
    return sum(bool(question.cited) for measurement in chosen for question in measurement.questions)


@fact("recall.table", unit="table", interval=OVER_CONVERSATIONS, source=SHIPPED, command="beamlib evidence")
def recall_table() -> str:
    """Evidence recall by index, memory, size and K."""
    arms = [(arm, index) for index in reversed(RETRIEVERS) for arm in (RAG, "light retrieval alone")]
    names = [(arm, index, f"`{index}`, {series_named(arm).label}") for arm, index in (arms[:2] + arms[4:] + arms[2:4])]
    names += [(LIGHT, "hybrid", "LIGHT, whole context, `hybrid`"), (BEST, "hybrid", BEST)]
    cells = [(size, k) for size in ("100K", "500K") for k in ("5", "15")]
    rows = []
    for arm, index, label in names:
        values = [recall(arm, index, size, k) for size, k in cells]
        rows.append([label, *(_FORMS[""](value) + _with_ends(value) for value in values)])
    return _plain_table(["index, memory", *(f"{size}, K = {k}" for size, k in cells)], rows)


@fact("recall.abilities", unit="table", source=SHIPPED, command="beamlib evidence --long")
def recall_by_ability() -> str:
    """Evidence recall of LIGHT's index `hybrid` by ability, beside the best choice of as many pairs."""
    cells = [(size, k) for size in ("100K", "500K") for k in ("5", "15")]
    header = ["ability", *(name for size, k in cells for name in (f"{size}, K = {k}", "best"))]
    abilities = [name for size, name in _scored(RAG, "hybrid", 5) if size == "100K" and name != AVERAGE_ABILITY]
    arms = ("light retrieval alone", BEST)
    rows = [
        [
            ability_label(name).lower(),
            *(decimals(recall(arm, "hybrid", size, k, name).mean) for size, k in cells for arm in arms),
        ]
        for name in abilities
    ]
    return _plain_table(header, rows)


def _with_ends(value: Estimate) -> str:
    return "" if value.low is None else f" {_FORMS['interval'](value)}"


def _plain_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    table = markdown_table(header, rows, names=1).strip()
    return "\n" + table.replace("\\", "") + "\n"


@fact("domain.k", unit="pairs", source=SHIPPED, command="beamlib evidence --k")
def budgets() -> str:
    """The retrieval budgets K that were measured."""
    return f"1 to {MOST_PAIRS}"


@fact("domain.indexes", unit="names", source="beamlib/scoring/measured.py", command="beamlib evidence --retriever")
def indexes() -> str:
    """The indexes that were measured."""
    return ", ".join(RETRIEVERS)


@fact("errata.listed", unit="questions", source="beamlib/data/errata.json", command="beamlib data errata")
def listed_errata() -> int:
    """Questions with a known defect."""
    return len(load_errata().entries)
