"""Tables in the paper's shape: abilities as rows, series as columns, the average last, and what they rest on below.

A table comes from a frame of `beamlib.report.long_frame` and leaves as CSV, Markdown or HTML. It says which protocol,
judge and reader are behind it, and it does not mix runs that cannot be compared unless it is told to, and then says so.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from itertools import groupby
from typing import Any

import pandas as pd

from beamlib.data.checked_json import left_out_line
from beamlib.errors import UserError
from beamlib.evaluate.arms import searches
from beamlib.evaluate.configuration import stated, windows_stated
from beamlib.report.fitness import fitness
from beamlib.report.long_frame import (
    AVERAGE,
    COLUMNS,
    ROWS,
    ability_label,
    checked,
    misprint_notes,
    published_long,
    series_label,
    series_of,
    sizes_of,
)
from beamlib.report.table import html_table
from beamlib.report.text import counted, markdown_table

OFFLINE = "offline stand-in, not a language model"
ORDERING = (
    "Event ordering, and the average with it: Kendall's tau-b over the aligned events, negative values as 0. The "
    "published tables hold the released code's normalised tau, (tau + 1) / 2 over the lines of an answer: compare them "
    "under the protocol released-code."
)
"""What the footer of a table with event ordering says under the protocol `paper`."""
_CSV_PARTS = ("", " low", " high", " n", " conversations")
NOTHING = "–"
"""Shown where a cell has no value: nothing was asked, or nothing could be scored (the footer counts the latter)."""

_TREATMENT = ("chat_variant", "strip_markers", "errata")
_DIFFERENCES = {
    "question_set_sha256": "questions",
    "data_sha256": "conversations",
    "treatment": "data treatments",
    "judge": "judges",
}


@dataclass(frozen=True, slots=True)
class Footer:
    """What a table rests on. Counts are None where they are not known, as for published values.

    `reasons` counts the unscored questions by named outcome, `gaps` the answers behind which a call of the memory gave
    nothing usable; `departures` are settings that change what is asked, where they are not the paper's;
    `left_out` are conversations that cannot be read, with the reason. `configuration` is the preset with what differs
    from it, `windows` the tokens that memories may fill, `retrieval` the indexes, and what each memory searches there.
    """

    protocol: str
    judge: str
    reader: str
    data_revision: str
    n_conversations: int | None
    n_questions: int | None
    unscored: int | None
    interval: str
    treatment: str
    token_counter: str
    reasons: Mapping[str, int] = field(default_factory=dict)
    gaps: int = 0
    departures: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    configuration: str = ""
    windows: str = ""
    retrieval: str = ""

    def lines(self) -> list[str]:
        """The footer as sentences, one per line, the warning about the stand-in first."""
        roles = [role for role, name in (("reader", self.reader), ("judge", self.judge)) if is_offline(name)]
        warning = [f"{' and '.join(roles).capitalize()}: {OFFLINE}."] if roles else []
        return [
            *warning,
            f"Protocol: {self.protocol}. Judge: {model_shown(self.judge)}. Reader: {model_shown(self.reader)}.",
            f"Data: {self.data_revision}; {counted(self.n_conversations, 'conversation')}, "
            f"{counted(self.n_questions, 'question')}, {counted(self.unscored, 'unscored', plural='unscored')}"
            f"{self._why()}.{fitness(self.data_revision)}",
            *([f"Configuration: {self.configuration}."] if self.configuration else []),
            *([f"Context windows in tokens: {self.windows}."] if self.windows else []),
            f"Treatment: {self.treatment}. Tokens counted by: {self.token_counter}. Interval: {self.interval}.",
            *([f"Retrieval: {self.retrieval}."] if self.retrieval else []),
            *([f"Departing from the paper: {'; '.join(self.departures)}."] if self.departures else []),
            *([left_out_line(self.left_out)] if self.left_out else []),
            *([f"{counted(self.gaps, 'answer')} from a memory that lacks a reply of its model."] if self.gaps else []),
        ]

    def _why(self) -> str:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in self.reasons.items())
        return f" ({counts})" if counts else ""


def is_offline(model: str) -> bool:
    """Whether a model name is that of the offline stand-in."""
    return model.casefold().startswith("offline")


def model_shown(name: str) -> str:
    """A model's name as tables and figures show it."""
    return OFFLINE if is_offline(name) else name


def footer(
    manifests: Sequence[Mapping[str, Any]],
    *,
    protocol: str,
    n_questions: int,
    unscored: int,
    interval: str,
    reasons: Mapping[str, int] | None = None,
    gaps: int = 0,
) -> Footer:
    """The footer of a table over the runs whose `manifests` are given; differing entries are all named."""
    conversations = {key for manifest in manifests for key in _entry(manifest, "conversations")}
    settings = [manifest.get("settings", {}) for manifest in manifests]
    return Footer(
        protocol=protocol,
        judge=_all(manifests, "judge"),
        reader=_all(manifests, "reader"),
        data_revision=_all(manifests, "data_revision"),
        n_conversations=len(conversations),
        n_questions=n_questions,
        unscored=unscored,
        interval=interval,
        treatment=" | ".join(dict.fromkeys(_treatment(manifest) for manifest in manifests)),
        token_counter=_all(manifests, "token_counter"),
        reasons=reasons or {},
        gaps=gaps,
        departures=tuple(dict.fromkeys(text for manifest in manifests for text in _departures(manifest))),
        left_out={key: why for manifest in manifests for key, why in manifest.get("left_out", {}).items()},
        configuration=stated(manifest["configuration"] for manifest in manifests if manifest.get("configuration")),
        windows=windows_stated(manifests),
        retrieval="; ".join(searches([{**one, **one.get("arm", {})} for one in settings])),
    )


def _departures(manifest: Mapping[str, Any]) -> list[str]:
    settings = manifest.get("settings", {})
    found = [f"released behaviour {name}" for name in settings.get("released", ())]
    found += [] if settings.get("question_in_prompt", True) else ["the judge does not see the question"]
    found += ["events aligned in one call"] if settings.get("alignment") == "batched" else []
    repeats = settings.get("judge_repeats", 1)
    return found + ([f"every verdict asked {repeats} times, scores averaged"] if repeats > 1 else [])


def _all(manifests: Sequence[Mapping[str, Any]], key: str) -> str:
    return " | ".join(dict.fromkeys(str(_entry(manifest, key)) for manifest in manifests))


def published_footer(reader: str) -> Footer:
    """The footer of published values from the backbone `reader`."""
    return Footer(
        protocol="as published",
        judge="not named (the released code uses gpt-4.1-mini)",
        reader=reader,
        data_revision="as published",
        n_conversations=None,
        n_questions=None,
        unscored=None,
        interval="none published",
        treatment="as published",
        token_counter="not reported",
    )


def _entry(manifest: Mapping[str, Any], key: str) -> Any:
    if key not in manifest:
        raise UserError(f"manifest of {manifest.get('arm', 'a run')}: the field '{key}' is missing; run it again.")
    return manifest[key]


def _treatment(manifest: Mapping[str, Any]) -> str:
    settings = _entry(manifest, "settings")
    return ", ".join(f"{name}={_plain(_entry(settings, name))}" for name in _TREATMENT)


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def ensure_comparable(manifests: Sequence[Mapping[str, Any]], *, allow_mixed: bool = False) -> list[str]:
    """Refuse runs of one size whose questions, conversations, data treatments or judges differ.

    A manifest needs `question_set_sha256`, `data_sha256`, `conversations`, `judge`, `reader` and `settings`. The
    hashes are compared between runs that name the same conversations of a `size`, judges and treatments
    throughout. Returns what a caption has to say: with `allow_mixed` the differences, and always differing readers.
    """
    differing, examples = [], list[str]()
    for key, noun in _DIFFERENCES.items():
        groups: dict[str, dict[str, str]] = {}
        for manifest in manifests:
            value = _treatment(manifest) if key == "treatment" else str(_entry(manifest, key))
            own = f"{manifest.get('size', '')} {sorted(_entry(manifest, 'conversations'))}" if "sha256" in key else ""
            groups.setdefault(own, {}).setdefault(value, str(manifest.get("arm", "unnamed run")))
        if apart := [values for values in groups.values() if len(values) > 1]:
            differing.append(noun)
            examples += apart[0].values()
    if differing and not allow_mixed:
        arms = ", ".join(dict.fromkeys(examples))
        raise UserError(
            f"table: the runs {arms} differ in their {' and '.join(differing)} and cannot share a table; "
            "run them on the same settings, or allow mixed runs."
        )
    notes = [f"Mixed runs: their {' and '.join(differing)} differ, so columns are not comparable."] if differing else []
    readers = list(dict.fromkeys(model_shown(str(_entry(manifest, "reader"))) for manifest in manifests))
    return notes + ([f"Readers differ: {', '.join(readers)}."] if len(readers) > 1 else [])


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A table ready to be shown: `sizes` x `abilities` rows of cells, a column per series, title, notes and footer.

    Without `intervals` a cell shows its mean alone; the CSV has them all the same.
    """

    title: str
    frame: pd.DataFrame = field(repr=False)
    footer: Footer
    notes: tuple[str, ...] = ()
    intervals: bool = True

    def _footer(self) -> list[str]:
        ordering = self.footer.protocol == "paper" and {"event_ordering", AVERAGE} & set(self.frame["ability"])
        return [*self.footer.lines(), *([ORDERING] if ordering else [])]

    def _header(self) -> list[str]:
        lead = ["Size", "Ability"] if len(sizes_of(self.frame)) > 1 else ["Ability"]
        return [*lead, *map(series_label, series_of(self.frame))]

    def _blocks(self) -> list[list[dict[str, Any]]]:
        """Per size its rows: the ability, one cell per series, and on the first the number of rows it heads."""
        most = self.frame.groupby("size")["conversations"].max()
        cells = {
            (row["size"], row["ability"], row["series"]): _cell(row, most[row["size"]], intervals=self.intervals)
            for row in self.frame.to_dict("records")
        }
        sizes, series = sizes_of(self.frame), series_of(self.frame)
        blocks = []
        for size in sizes:
            present = set(self.frame.loc[self.frame["size"] == size, "ability"])
            rows = [ability for ability in ROWS if ability in present]
            block = [
                {
                    "size": size,
                    "ability": ability_label(ability),
                    "average": ability == AVERAGE,
                    "cells": [cells.get((size, ability, name), NOTHING) for name in series],
                    "span": len(rows) if ability == rows[0] and len(sizes) > 1 else 0,
                }
                for ability in rows
            ]
            blocks.append(block)
        return blocks

    def to_html(self) -> str:
        """A self-contained HTML figure, see `html_table`; series "backbone / method" stand below their backbones."""
        header, heads = self._header(), [name.partition(" / ")[0::2] for name in series_of(self.frame)]
        groups: list[tuple[str, int]] = []
        if all(method for _, method in heads):
            lead = header[: len(header) - len(heads)]
            header = [*lead, *(series_label(method) for _, method in heads)]
            groups = [("", len(lead)), *((head, len(list(own))) for head, own in groupby(head for head, _ in heads))]
        return html_table(self.title, header, self._blocks(), self._footer(), self.notes, groups)

    def _repr_html_(self) -> str:
        return self.to_html()

    def records(self) -> list[dict[str, Any]]:
        """The long frame as rows, None where a value is missing."""
        shown = self.frame[list(COLUMNS)].astype(object)
        rows: list[dict[str, Any]] = shown.where(shown.notna(), None).to_dict("records")  # type: ignore[assignment]
        return rows

    def to_markdown(self) -> str:
        """Title, Markdown table and footer."""
        header = self._header()
        rows = [row for block in self._blocks() for row in block]
        lead = ["size", "ability"][-(len(header) - len(series_of(self.frame))) :]
        return markdown_table(
            header,
            [[*(row[name] for name in lead), *row["cells"]] for row in rows],
            title=self.title,
            notes=self.notes,
            footer=self._footer(),
            strong=[number for number, row in enumerate(rows) if row["average"]],
        )

    def to_csv(self) -> str:
        """Size, ability and per series its mean, low, high, n and conversations in columns of their own.

        Means are as printed for published values and with three decimals otherwise; missing values are empty. Notes and
        footer follow as lines that begin with "#" (`pandas.read_csv(..., comment="#")` leaves them out).
        """
        names = series_of(self.frame)
        rows = {(row["size"], row["ability"], row["series"]): row for row in self.frame.to_dict("records")}
        buffer = StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(["size", "ability", *(f"{name}{part}" for name in names for part in _CSV_PARTS)])
        for size in sizes_of(self.frame):
            for ability in (name for name in ROWS if any((size, name, one) in rows for one in names)):
                writer.writerow(
                    [size, ability, *(value for one in names for value in _numbers(rows.get((size, ability, one))))]
                )
        comments = [self.title, *self.notes, *self._footer()]
        return buffer.getvalue() + "".join(f"# {line}\n" for line in comments)


def _mean(row: Mapping[Any, Any]) -> str:
    """The mean as printed in the paper, or with three decimals; empty when missing."""
    printed = row.get("printed")
    if isinstance(printed, str):
        return printed
    return "" if pd.isna(row["mean"]) else f"{row['mean']:.3f}"


def _cell(row: Mapping[Any, Any], most: Any = 0, *, intervals: bool = True) -> str:
    """A cell as text; where fewer than `most` conversations of its size are behind it, it says how many."""
    mean, n = _mean(row), row["conversations"]
    if not mean:
        return NOTHING
    shown = with_interval(mean, row["low"] if intervals else float("nan"), row["high"], n)
    return f"{shown} (n = {int(n)})" if not pd.isna(n) and 1 < n < most else shown


def with_interval(mean: str, low: float, high: float, conversations: int | None) -> str:
    """ "0.412 [0.38, 0.45]", "0.412 (n = 1)" of one conversation, or the mean alone where there is no interval."""
    if not pd.isna(conversations) and conversations == 1:
        return f"{mean} (n = 1)"
    return mean if pd.isna(low) or pd.isna(high) else f"{mean} [{low:.2f}, {high:.2f}]"


def shown_averages(frame: pd.DataFrame) -> pd.Series[str]:
    """The averages of a long frame of one size as cells show them, by series: for small tables within a text."""
    rows = frame[frame["ability"] == AVERAGE].to_dict("records")
    return pd.Series({str(row["series"]): _cell(row) for row in rows}, dtype=str)


def _numbers(row: Mapping[Any, Any] | None) -> list[str]:
    if row is None:
        return [""] * 5
    ends = ["" if pd.isna(row[name]) else f"{row[name]:.3f}" for name in ("low", "high")]
    counts = ["" if pd.isna(count) else str(int(count)) for count in (row["n"], row["conversations"])]
    return [_mean(row), *ends, *counts]


def result_table(
    frame: pd.DataFrame,
    title: str,
    footer: Footer,
    manifests: Sequence[Mapping[str, Any]] = (),
    *,
    allow_mixed: bool = False,
) -> ResultTable:
    """A table of a long frame. `manifests` are those of all runs in it; see `ensure_comparable` for what is refused.

    Raises `UserError` for a frame that is not in long form and for runs that cannot share a table.
    """
    notes = ensure_comparable(manifests, allow_mixed=allow_mixed)
    return ResultTable(title, checked(frame), footer, tuple(notes))


def published_table(table: str, backbone: str | None = None) -> ResultTable:
    """A published score table as printed, with its known misprints in the caption; arguments as `published_long`."""
    title = f"Table {table.removeprefix('table')} as published" + (f", {backbone}" if backbone else "")
    reader = backbone or ("as named in the columns" if table == "table1" else "Qwen2.5-32B-AWQ")
    return ResultTable(title, published_long(table, backbone), published_footer(reader), tuple(misprint_notes(table)))


def side_by_side(published: ResultTable, ours: ResultTable) -> str:
    """Why the published table and this run's never share a grid: readers, judges and conversations differ."""
    offline = is_offline(ours.footer.reader) or is_offline(ours.footer.judge)
    caption = (
        "The published table above and this run's table below are not one table: the published values come from "
        f"another reader and judge ({published.footer.judge}) on all conversations, this run's from "
        f"{model_shown(ours.footer.reader)} as reader and {model_shown(ours.footer.judge)} as judge on "
        f"{counted(ours.footer.n_conversations, 'conversation')}."
    )
    if offline:
        caption += " Compare the order of the columns within each table, not the numbers across them."
    return caption
