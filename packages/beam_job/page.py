"""The page that links everything a run made. It is built from the files in the run folder, so it can be built again."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import bleach
import jinja2
import pandas as pd
from markupsafe import Markup

from beamlib.beside import beside
from beamlib.files import read_json, read_text, write_json, write_text
from beamlib.report.tables import NOTHING, with_interval

_TAGS = frozenset(["br", "caption", "figcaption", "figure", "strong", "table", "tbody", "td", "th", "thead", "tr"])
_ATTRIBUTES = {"figure": ["class"], "tr": ["class"], "th": ["scope", "colspan", "rowspan"]}
_SPREAD = ("low", "high", "conversations")
_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("beam_job", "."), autoescape=True, undefined=jinja2.StrictUndefined
)


@dataclass(frozen=True)
class Section:
    """A part of the page: `published`, all sizes, or a tier with its backbone; `notebooks` are the rendered pages.

    `note` says what could not be made, or which conversations were left out. `configuration` is the preset that it was
    run by, with what was otherwise; empty for published values.
    """

    part: str
    notebooks: Sequence[Path]
    title: str = "Published values"
    note: str = ""
    configuration: str = ""


def write_page(
    folder: Path, sections: Sequence[Section], summary: Sequence[Mapping[str, Any]], *, offline: bool = True
) -> Path:
    """Write `<folder>/index.html` and return its path. Links are relative, so the folder can be moved as a whole.

    `summary` holds the rows of `summary_rows`; `offline` says that they rest on the stand-in.
    The claims audit is made here and stored beside the page.
    """
    engine = beside("claims", "engine")
    claims = engine.audit()
    write_json(folder / "claims.json", [claim.model_dump(mode="json") for claim in claims])
    page = _TEMPLATES.get_template("page.html.j2").render(
        name=folder.name,
        summary=summary,
        offline=offline,
        claims=[{**claim.model_dump(), "shown": engine.compact(claim.recomputed)} for claim in claims],
        totals=engine.totals(claims),
        sections=[_section(folder, section) for section in sections],
    )
    return write_text(folder / "index.html", page)


def _section(folder: Path, section: Section) -> dict[str, Any]:
    part = section.part
    costs = folder / part / "costs.json"
    return {
        "part": part,
        "title": section.title,
        "note": section.note,
        "configuration": section.configuration,
        "costs": Markup(beside("costs", "cost_table").read_costs(read_json(costs)).to_html()) if costs.exists() else "",
        "notebooks": [(_link(folder, page), page.stem) for page in section.notebooks],
        "tables": [_table(folder, path) for path in sorted((folder / "tables" / part).glob("*.html"), key=_number)],
        "figures": [_figure(folder, path) for path in sorted((folder / "figures" / part).glob("*.json"), key=_number)],
        "runs": [
            (_link(folder, path), path.parent.name)
            for pattern in ("*/manifest.json", "outputs/*/run.json")
            for path in sorted((folder / part).glob(pattern))
        ],
    }


def _number(path: Path) -> tuple[int, bool, str]:
    """Tables and figures by their number in the paper; of the same number, this run's before the published one."""
    return int("".join(re.findall(r"\d+", path.stem)[:1]) or 0), "published" in path.stem, path.stem


def _link(folder: Path, path: Path) -> str:
    return quote(os.fsencode(path.relative_to(folder).as_posix()))  # a name may hold any of # ? % :


def _table(folder: Path, path: Path) -> dict[str, Any]:
    others = [path.with_suffix(suffix) for suffix in (".csv", ".md")]
    return {
        "title": path.stem.replace("_", " "),
        # Whoever wrote the file: what is not of a table is shown as text.
        "html": Markup(bleach.clean(read_text(path), tags=_TAGS, attributes=_ATTRIBUTES)),
        "links": [(_link(folder, other), other.suffix[1:]) for other in others if other.exists()],
    }


def _figure(folder: Path, path: Path) -> dict[str, Any]:
    record = read_json(path)
    files = {suffix: _link(folder, path.with_suffix(f".{suffix}")) for suffix in ("png", "pdf", "csv", "json")}
    return {
        **files,
        "caption": record["caption"],
        "alt": record["alt_text"],
        "wide": _is_wide(path.with_suffix(".png")),
    }


def _is_wide(image: Path) -> bool:
    """Whether a PNG is more than twice as wide as high: its header holds both numbers."""
    width, height = struct.unpack(">II", image.read_bytes()[16:24])
    return bool(width > 2 * height)


def summary_rows(folder: Path, parts: Mapping[str, str], *, offline: bool = True) -> list[dict[str, Any]]:
    """The closing summary: the average of the main table and its evidence recall, per tier (and backbone) and memory.

    `parts` maps the label of a tier to the part of the run folder that holds it. Values are as tables show them, with
    their interval or "n = 1".
    """
    score = "score (offline stand-in)" if offline else "score"
    rows = []
    for label, part in parts.items():
        tables = folder / "tables" / part
        scores = _averages(tables / "table1_main_results.csv")
        evidence = _averages(tables / "table1_evidence_recall.csv")
        rows += [
            {"size": label, "memory": series, score: shown, "evidence recall": evidence.get(series, NOTHING)}
            for series, shown in scores.items()
        ]
    return rows


def _averages(path: Path) -> dict[str, str]:
    frame = pd.read_csv(path, comment="#")
    average = frame[frame["ability"] == "average"].iloc[0]
    series = [name for name in frame.columns if f"{name} low" in frame.columns]
    return {
        name: NOTHING
        if pd.isna(average[name])
        else with_interval(f"{average[name]:.3f}", *(average[f"{name} {part}"] for part in _SPREAD))
        for name in series
    }
