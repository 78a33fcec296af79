"""Write the page of a run: `index.html` and the data files that it loads from the folder `page`."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from beam_claims.engine import audit, compact_value, status_counts
from beam_claims.reproducing import render, reproduce
from beam_offline.judge_error import stated_error
from beam_page.data_files import FOLDER, INDEX
from beam_page.headlines import RECALL_COLUMN, cell_text
from beam_page.run_data import PageData, write_page_data
from beam_page.run_folder import RunFolder, in_order
from beam_page.sections import (
    field_section,
    part_title,
    released_tables,
    sections_of,
    shown_section,
    tier_order,
    top_figures,
)
from beamlib.data.gold import ABILITIES
from beamlib.errors import UserError
from beamlib.files import read_text, write_json, write_text
from beamlib.llm.call_store import answerers, calls_of_sizes
from beamlib.report.long_frame import ability_label
from beamlib.report.outcomes import OUTCOMES
from beamlib.scoring.scores import AVERAGE, score_run, unscored_reasons
from beamlib.text import money

_HERE = Path(__file__).parent
_VIEWER = ("scoring", "data", "list", "question", "verify", "main")
_VENDORED = _HERE / "vendor" / "minisearch-7.2.0.js"
_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("beam_page", "."), autoescape=True, undefined=jinja2.StrictUndefined
)


# The chart that opens a page, in pixels; the last is the most characters of a name.
_LEFT, _WIDTH, _STEP, _TOP = 190, 460, 20, 26
_SHORT = 24


@dataclass(frozen=True)
class Allowed:
    """A script or style of the page, and the hash by which the page's content policy allows it."""

    text: Markup
    hash: str

    @classmethod
    def of(cls, text: str) -> Allowed:
        """Hash a script or style."""
        if any(end in text.lower() for end in ("</script", "</style", "<!--")):
            raise ValueError("a script or style of the page would end before its end")
        return cls(Markup(text), f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}")


def scripts() -> tuple[Allowed, ...]:
    """Return all scripts of a page: MiniSearch as published, and the viewer."""
    viewer = "\n".join(read_text(_HERE / "viewer" / f"{name}.js") for name in _VIEWER)
    return (Allowed.of(read_text(_VENDORED)), Allowed.of(f'"use strict";\n(() => {{\n{viewer}}})();\n'))


def write_page(
    run: RunFolder, *, protocol: str = "", workers: int = 1, notes: Mapping[str, str] | None = None, claims: bool = True
) -> Path:
    """Write the page of `run` into its folder and return the path of index.html, which opens without a server.

    The claims audit runs here; its result is stored in the run folder.

    Args:
        run: The run.
        protocol: The scoring protocol that the page opens with, empty for the first by which all memories have an
            average.
        workers: Processes to use.
        notes: Sentences about parts of the run.
        claims: Whether to audit the paper's claims.
    """
    data = write_page_data(run, protocol=protocol, workers=workers)
    shown = [shown_section(run.folder, section) for section in sections_of(run, notes or {})]
    values = {
        **glance(run, data),
        "released": top_figures(run.folder, released=True),
        "released_tables": released_tables(run.folder),
        "drawn": top_figures(run.folder, released=False),
        "sections": shown,
        "field": field_section(run.folder),
        **(_claims(run.folder) if claims else {}),
    }
    return write_text(run.folder / INDEX, render_page(run.folder.name, data.index, values))


def render_page(name: str, index: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """Render index.html."""
    usual: dict[str, Any] = {"claims": [], "totals": {}, "sections": [], "field": None}
    usual |= {
        "released": [],
        "released_tables": [],
        "evidence_lost": [],
        "drawn": [],
        "offline": False,
        "reproduced": None,
    }
    return _TEMPLATES.get_template("page.html.j2").render(
        name=name,
        scripts=scripts(),
        evidence_columns=EVIDENCE,
        style=Allowed.of(read_text(_HERE / "viewer" / "style.css")),
        folder=FOLDER,
        protocols=index["protocols"],
        protocol=index["protocol"],
        left_out=index["left_out"],
        **{**usual, **values},
    )


def glance(run: RunFolder, data: PageData) -> dict[str, Any]:
    """Build the tables at the top of the page: memories by size, and per size abilities by memories."""
    index, numbers = data.index, data.headlines.numbers
    protocol = index["protocol"]
    scores, recalls = numbers[protocol]["full"], numbers[RECALL_COLUMN]["full"]
    sizes = in_order({size for arm in run.arms for size in arm.sizes})
    best = data.headlines.best[protocol]["full"] if run.arms else {}
    called = any(series["spent"] for series in index["series"])
    most = index["most"]
    rows = [
        {
            "series": series["id"],
            "main": series["main"],
            "cells": [
                {
                    "score": _cell("score", series["id"], size, AVERAGE, scores, most),
                    "recall": _cell("recall", series["id"], size, AVERAGE, recalls, most),
                    "best": best.get(size, {}).get("series") == series["id"] and best[size]["supported"],
                }
                for size in sizes
            ],
            **_context(run, series["id"], series["spent"]),
        }
        for series in index["series"]
    ]
    return {
        "sizes": sizes,
        "rows": rows,
        "called": called,
        "without_score": list(_without_score(run, protocol)),
        "scored": any(own[AVERAGE][0] is not None for by_size in scores.values() for own in by_size.values()),
        "offline": any(arm.offline for arm in run.arms),
        "judged_offline": sorted({arm.series for arm in run.arms if arm.judged_offline and not arm.offline}),
        "judge_error": stated_error(),
        "costs_rest_on": index["costs_rest_on"],
        "answerers": answerers(calls_of_sizes(run.folder, sizes)),
        "claimed": sorted({arm.series for arm in run.arms if arm.manifest and arm.manifest.claimed}),
        "drop": bool(data.spoilt),
        "by_ability": [table for size in sizes for table in _by_ability(size, index["series"], scores, most)],
        "evidence_lost": _evidence_lost(index),
        "lost": list(_lost(run.folder, {series["id"] for series in index["series"]})),
        "chart": chart(sizes, [series["id"] for series in index["series"] if series["main"]], scores),
        "alone": [size for size in sizes if most.get(size) == 1],
        "counts": {size: _range(s[size][AVERAGE][4] for s in scores.values() if size in s) for size in sizes},
    }


def _range(numbers: Iterable[int]) -> str:
    least, most = (values := sorted({*numbers} or {0}))[0], values[-1]
    return f"{least} to {most}" if least < most else str(most)


def _without_score(run: RunFolder, protocol: str) -> Iterator[str]:
    """Yield for every arm without a scored answer how many it has, why none is scored, and an example."""
    for arm in run.arms:
        scores = score_run(arm.judgements, protocol)
        if scores.empty or scores["score"].notna().any() or not (reasons := unscored_reasons(scores)):
            continue
        why = ", ".join(f"{number:,} {reason}" for reason, number in reasons.items())
        example = shorten(str(scores["unscored"].iloc[0]), 300)
        sizes = ", ".join(sorted(arm.sizes))
        yield f"{arm.series}, {sizes}: none of {len(scores):,} answers is scored ({why}). For example: {example}"


LOST: Mapping[str, str] = dict(
    zip(OUTCOMES, ("right", "whole", "part", "none", "uncited", "oracle", "defective", "unscored"), strict=True)
)
"""Outcomes by the filter of the list of questions (`viewer/list.js`) that shows theirs."""


def _lost(folder: Path, known: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield for each part of the run the shares of outcomes by arm, as notebook 06 saved them."""
    paths = set(folder.glob("tables/*/table1_outcomes.csv")) - set(folder.glob("tables/all/*"))
    for path in sorted(paths, key=lambda path: tier_order(path.parent.name)):
        frame = pd.read_csv(path, comment="#")
        average = frame[(frame["ability"] == AVERAGE) & frame["series"].isin(known)]
        shares = average.pivot_table("mean", "series", "outcome", sort=False).reindex(columns=list(OUTCOMES))
        rows = [
            (series, [f"{share:.3f}" for share in own])
            for series, own in zip(shares.index, shares.to_numpy(), strict=True)
        ]
        if rows:
            size = average["size"].iloc[0]
            yield {"part": part_title(path.parent.name), "size": size, "columns": list(LOST.items()), "rows": rows}


EVIDENCE: Mapping[str, str] = {"shown whole": "seen", "shown in part": "partly", "not shown": "unseen"}
"""What a context shows of the cited messages, by the filter of the list of questions that shows these questions."""


def _evidence_lost(index: Mapping[str, Any]) -> list[tuple[str, list[int]]]:
    """Count, for each main memory, the questions whose cited messages its contexts show whole, in part, or not."""
    cited = {row["id"]: row["e"] for own in index["conversations"] for row in own["questions"] if row.get("e")}
    rows = []
    for name in (series["id"] for series in index["series"] if series["main"]):
        counts = dict.fromkeys(EVIDENCE.values(), 0)
        for key, cell in index["cells"][name].items():
            if key in cited and "s" in cell:
                whole = len(cell["s"]) == len(cited[key])
                counts["seen" if whole else "partly" if cell["s"] or cell.get("p") else "unseen"] += 1
        if any(counts.values()):
            rows.append((name, list(counts.values())))
    return rows


def _cell(
    kind: str, series: str, size: str, ability: str, numbers: Mapping[str, Any], most: Mapping[str, int]
) -> dict[str, Any]:
    text = cell_text(numbers.get(series, {}).get(size, {}).get(ability), most.get(size, 0))
    return {"key": [kind, series, size, ability], "text": text}


def _context(run: RunFolder, series: str, spent: Sequence[float | None] | None) -> dict[str, str]:
    """Return mean tokens of context, and the reader's cost and time per answer where models were called."""
    tokens = [
        answer.context_tokens
        for arm in run.arms
        if arm.series == series and not (arm.manifest and arm.manifest.imported)  # theirs are not known
        for answer in arm.answers.values()
        if answer.text is not None
    ]
    shown = {"tokens": f"{sum(tokens) / len(tokens):,.0f}" if tokens else "–", "cost": "–", "seconds": "–"}
    if spent and spent[0]:
        calls, seconds, dollars = spent[0], spent[3], spent[4]
        shown["cost"] = money(dollars) if dollars is not None else "–"
        shown["seconds"] = f"{(seconds or 0) / calls:.1f}"
    return shown


def _by_ability(
    size: str, series: Sequence[Mapping[str, Any]], scores: Mapping[str, Any], most: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """Yield tables with a row per ability and a column per series: Table 1's memories, then the others."""
    for title, main in (("memories", True), ("variants", False)):
        names = [own["id"] for own in series if own["main"] == main and size in scores.get(own["id"], {})]
        if names:
            yield {
                "size": size,
                "title": title,
                "series": names,
                "rows": [
                    (ability_label(ability), [_cell("score", name, size, ability, scores, most) for name in names])
                    for ability in (*ABILITIES, AVERAGE)
                    if any(ability in scores[name][size] for name in names)
                ],
            }


def _claims(folder: Path) -> dict[str, Any]:
    """Recompute the claims on the printed tables, and ask the run of those on scores, where it has results."""
    claims = audit()
    write_json(folder / "claims.json", [claim.model_dump(mode="json") for claim in claims])
    rows = [{**claim.model_dump(), "shown": compact_value(claim.recomputed)} for claim in claims]
    try:
        found = reproduce(folder).model_copy(update={"run": folder.name})  # where it lies is nobody's business
    except UserError:  # no arm of its own, as where results were imported
        return {"claims": rows, "totals": status_counts(claims)}
    counts = {name: number for name, number in found.counts.items() if number}
    said = {"offline": found.offline, "counts": counts, "text": render(found)}
    return {"claims": rows, "totals": status_counts(claims), "reproduced": said}


def chart(sizes: Sequence[str], series: Sequence[str], scores: Mapping[str, Any]) -> dict[str, Any] | None:
    """Place the dots, intervals, labels and axis of the SVG drawing of averages; None where there is nothing to draw.

    `scores` are the printed numbers by series, size and ability; both axis and values go from 0 to 1.
    """
    rows: list[dict[str, Any]] = []
    at = _TOP
    for size in sizes:
        own = [(name, scores[name][size][AVERAGE]) for name in series if size in scores.get(name, {})]
        own = [(name, numbers) for name, numbers in own if numbers[0] is not None]
        if own:
            rows.append({"y": at, "size": size, "n": max(numbers[4] for _, numbers in own)})
            at += _STEP
        for name, (mean, low, high, *_) in own:
            short = name if len(name) <= _SHORT else f"…{name[1 - _SHORT :]}"  # the end tells arms apart
            ends = [_x(float(end)) for end in (low, high)] if low is not None and high is not None else []
            rows.append(
                {"y": at, "name": short, "x": _x(float(mean)), "ends": ends, "mean": mean, "low": low, "high": high}
            )
            at += _STEP
    ticks = [{"x": _x(tick / 4), "label": f"{tick / 4:g}"} for tick in range(5)]
    places = {"width": _LEFT + _WIDTH + 60, "height": at + 24, "top": _TOP - 12, "bottom": at, "left": _LEFT}
    return {**places, "rows": rows, "ticks": ticks} if rows else None


def _x(value: float) -> float:
    return round(_LEFT + _WIDTH * min(1.0, max(0.0, value)), 1)
