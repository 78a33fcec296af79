"""The input of tables and figures: a long frame with a row per size, ability and series.

size      tier of the benchmark: "100K", "500K", "1M", "10M"
ability   the data set's name, or "average" for the mean over abilities
series    the displayed name of what is compared: an arm, a method, a retriever, a budget ("K=5"), an ablation
mean      the value on the scale of the measure (scores: 0 to 1); NaN if nothing could be scored
low, high ends of its interval, both NaN if there is none (published values)
n         number of questions, missing if unknown (published values)
conversations   number of conversations, missing if unknown; a single one has no interval

An optional column `printed` has the string of the paper, which is displayed instead of `mean`. The columns of
`SERIES_FIELDS` describe a series; nothing is parsed from its name. Series keep their order of appearance in tables and
legends.
"""

from __future__ import annotations

import pandas as pd

from beamlib.data import published
from beamlib.data.gold import ABILITIES
from beamlib.errors import UserError

COLUMNS = ("size", "ability", "series", "mean", "low", "high", "n", "conversations")
SERIES_FIELDS = ("backbone", "method", "memory", "retriever", "k", "removed")
"""Describe a series: the reader, if several are compared, and the method; the arm's memory, retriever and budget, and
the component that was removed."""
AVERAGE_ABILITY = "average"
ROWS = (*ABILITIES, AVERAGE_ABILITY)
"""Abilities in the order of every table, the average last."""

_ABILITY_LABELS = {str(ability): label for ability, label in published.PRINTED_ABILITY.items()} | {
    AVERAGE_ABILITY: published.AVERAGE
}
_SERIES_COLUMNS = {
    "table1": ["backbone", "method"],
    "table8": ["variant"],
    "table9": ["k"],
    "table10": ["retriever"],
    "table11": ["method", "embedding"],
    "table12": ["faiss_index"],
    "table13": ["method"],
}
_REMOVED = {
    "without_retrieval": "retrieval",
    "without_scratchpad": "scratchpad",
    "without_working_memory": "working memory",
    "without_noise_filtering": "noise filtering",
}
"""Variants of Table 8 and their removed components; `base` has all."""


def published_long(table: str, backbone: str | None = None, paper: published.Paper = "v2") -> pd.DataFrame:
    """Load a published score table (1, 8 to 13; 1, 8 to 10 in `v1`) as a long frame with the printed strings.

    Series are "backbone / method" in Table 1, or the method alone if `backbone` names one of its four; the printed
    variants in Table 8; "K=5" and so on in Table 9; the retrievers in Table 10; "method / embedding" in Table 11; the
    indexes in Table 12; the methods in Table 13.
    """
    if table not in _SERIES_COLUMNS:
        raise UserError(f"published table {table!r} has no scores; use one of: {', '.join(_SERIES_COLUMNS)}.")
    frame = published.table(table, paper)
    names = [column for column in _SERIES_COLUMNS[table] if backbone is None or column != "backbone"]
    if backbone is not None:
        known = list(dict.fromkeys(frame["backbone"])) if "backbone" in frame else []
        if backbone not in known:
            raise UserError(f"{table} has no backbone {backbone!r}; known ones: {', '.join(known) or 'none'}.")
        frame = frame[frame["backbone"] == backbone]
    prefix = "K=" if table == "table9" else ""
    parts = [[str(value) for value in frame[name]] for name in names]
    return pd.DataFrame(
        {
            "size": list(frame["length"]),
            "ability": [
                AVERAGE_ABILITY if name == published.AVERAGE else published.ability_of(name)
                for name in frame["ability"]
            ],
            "series": [prefix + " / ".join(values) for values in zip(*parts, strict=True)],
            "mean": list(frame["score"]),
            "low": float("nan"),
            "high": float("nan"),
            "n": pd.array([pd.NA] * len(frame), dtype="Int64"),
            "conversations": pd.array([pd.NA] * len(frame), dtype="Int64"),
            "printed": list(frame["printed"]),
            **({"removed": frame["variant"].map(_REMOVED).to_list()} if "variant" in names else {}),
            **{name: frame[name].to_list() for name in names if name in SERIES_FIELDS},
        }
    )


def benchmark_comparison() -> pd.DataFrame:
    """Load Table 2: the abilities that each benchmark covers according to the authors, a row per benchmark."""
    frame = published.table("table2")
    frame["covered"] = frame["covered"].map({"yes": "✓", "no": "–"})
    rows = ["benchmark", "domain", "chat_length"]
    names = dict.fromkeys(frame["ability"])
    return frame.pivot(index=rows, columns="ability", values="covered").loc[
        list(dict.fromkeys(frame["benchmark"])), list(names)
    ]


def misprint_notes(table: str, paper: published.Paper = "v2") -> list[str]:
    """Write caption notes about cells of a published table that contradict their own average."""
    rows = published.table("misprints", paper).to_dict("records")
    return [
        f"{row['length']}, {row['ability']}, {series_label(row['column'])} is printed {row['printed']}; "
        f"the printed Average implies {row['implied']}."
        for row in rows
        if row["table"] == table
    ]


def check_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return `frame` if it is a long frame with rows, known abilities and no cell twice; else raise `UserError`."""
    if missing := [name for name in COLUMNS if name not in frame]:
        raise UserError(f"results: the column '{missing[0]}' is missing; the columns are {', '.join(COLUMNS)}.")
    if frame.empty:
        raise UserError("results: there is no row to show; run at least one arm on one conversation first.")
    if unknown := sorted(set(frame["ability"]) - set(ROWS)):
        raise UserError(f"results: ability {unknown[0]!r} is not one of {', '.join(ROWS)}.")
    if (repeated := frame.duplicated(["size", "ability", "series"])).any():
        cell = " / ".join(str(value) for value in frame.loc[repeated, ["size", "ability", "series"]].iloc[0])
        raise UserError(f"results: {cell} occurs twice; give every arm its own series name.")
    return frame


def sizes_of(frame: pd.DataFrame) -> list[str]:
    """List the sizes of a frame, shortest first, then others in order of appearance."""
    present = dict.fromkeys(frame["size"])
    known = [size for size in published.LENGTHS if size in present]
    return [*known, *(size for size in present if size not in known)]


def series_of(frame: pd.DataFrame) -> list[str]:
    """List the series of a frame in order of appearance."""
    return list(dict.fromkeys(frame["series"]))


def ability_label(ability: str) -> str:
    """Return an ability, or "average", as the paper's tables print it."""
    return _ABILITY_LABELS[ability]


def series_label(series: str) -> str:
    """Write a series in words: "without_noise_filtering" -> "without noise filtering"."""
    return "sparse (SPLADE)" if series == "sparse_splade" else series.replace("_", " ")
