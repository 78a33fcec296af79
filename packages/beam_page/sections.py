"""Build the page's sections from files of the run: tables, figures, notebooks, costs, manifests.

File contents are shown as text, or as what a table may contain. Links are relative.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import bleach
from markupsafe import Markup

from beam_commands.cost_table import read_costs
from beam_commands.latency_table import latency_table
from beam_page.run_folder import NO_ARMS, RunFolder, StoredArm
from beamlib.data.conversations import SIZES
from beamlib.errors import UserError
from beamlib.evaluate.arms import stated
from beamlib.evaluate.records import left_out_line
from beamlib.files import read_json, read_text
from beamlib.run import PUBLISHED

_TAGS = frozenset(
    ["br", "caption", "details", "figcaption", "figure", "strong", "summary"]  # of table.html.j2, as the next ones
).union(["table", "tbody", "td", "th", "thead", "tr"])
_ATTRIBUTES = {"figure": ["class"], "tr": ["class"], "th": ["scope", "colspan", "rowspan"]}
_ALL = "all"
_OTHERS = {"memorycode": "MemoryCode", "meme": "MEME"}
FIELD = "field"
"""The part of what others published about BEAM: notebooks 12 and 13."""
_ANSWER = "field_answer.json"
"""Who is better on BEAM, and how sure that is: sentences by tier, which notebook 12 computes."""
_RELEASED = "_released"
"""In the name of what shows the released benchmark; it stands together, once."""
_CAPTION = re.compile(r"<caption>(.*?)(?:<br>|</caption>)")
_OF_DATA = re.compile(r"messages_length|questions_length|table3_|table7_")
"""Histograms and tables of the conversations themselves: shown last."""


@dataclass(frozen=True)
class _Section:
    """A section: a tier with its backbone, all sizes, another benchmark, or `published`.

    Attributes:
        notebooks: HTML pages.
        note: What is missing or left out.
        configuration: Preset and differences, empty for published values.
    """

    part: str
    notebooks: Sequence[Path]
    title: str = "Published values"
    note: str = ""
    configuration: str = ""


def sections_of(run: RunFolder, notes: Mapping[str, str]) -> list[_Section]:
    """List the sections of a run: all sizes, tiers, other benchmarks, published values; `notes` by part."""
    folder = run.folder
    there = {path.name for kind in ("tables", "figures", "notebooks") for path in folder.glob(f"{kind}/*")}
    tiers = sorted({arm.part for arm in run.arms} | (there - {_ALL, PUBLISHED, FIELD, *_OTHERS}), key=tier_order)
    names = [_ALL, *tiers, *(name for name in _OTHERS if name in there), PUBLISHED]
    sections = []
    for part in names:
        arms = [arm for arm in run.arms if arm.part == part and arm.manifest]
        missed = {key: why for arm in arms if arm.manifest for key, why in arm.manifest.left_out.items()}
        note = " ".join(filter(None, [notes.get(part, ""), left_out_line(missed) if missed else "", *_origins(arms)]))
        configuration = stated(arm.manifest.configuration for arm in arms if arm.manifest)
        title = {_ALL: "All sizes", PUBLISHED: "Published values", **_OTHERS}.get(part) or part_title(part)
        pages = sorted(folder.glob(f"notebooks/{part}/*.html"))
        if arms or part in there or notes.get(part):
            sections.append(_Section(part, pages, title, note, configuration))
    return sections


def _origins(arms: Sequence[StoredArm]) -> Iterator[str]:
    """Yield the origin of imported results: source, reader, judge, gaps."""
    for arm in arms:
        if arm.manifest and arm.manifest.imported:
            origin = " ".join(arm.manifest.imported.lines())
            yield f"{arm.name}: {origin} Reader: {arm.manifest.reader}; judge: {arm.manifest.judge}."


def tier_order(part: str) -> tuple[int, str]:
    """Return what parts of a run are sorted by: their size, then their name."""
    size = part.partition("-")[0].upper()
    return (SIZES.index(size) if size in SIZES else len(SIZES), part)


def part_title(part: str) -> str:
    """Write the name of a part for readers: "500K · gpt"."""
    size, _, backbone = part.partition("-")
    return " · ".join(filter(None, [size.upper(), backbone])) if size.upper() in SIZES else part


def _costs(costs: Path) -> Iterator[str]:
    """Yield the tables of a part's costs, and of what its memories took, as HTML."""
    yield read_costs(read_json(costs)).to_html()
    with suppress(UserError):  # an arm that cannot be read is named among those that are left out
        if latency := latency_table(costs.parent):
            yield latency.to_html()


def shown_section(folder: Path, section: _Section) -> dict[str, Any]:
    """Return a section for the template. `late` are figures and tables about the data, shown last."""
    part = section.part
    costs = folder / part / "costs.json"
    figures = [(path, _figure(folder, path)) for path in _once(folder, "figures", part, ".json")]
    tables = [(path, _table(folder, path)) for path in _once(folder, "tables", part, ".html")]

    def shown(late: bool) -> dict[str, list[dict[str, Any]]]:
        kinds = {"tables": tables, "figures": figures}
        return {
            kind: [own for path, own in rows if bool(_OF_DATA.match(path.stem)) == late] for kind, rows in kinds.items()
        }

    return {
        "part": part,
        "title": section.title,
        "note": section.note,
        "configuration": section.configuration,
        "costs": Markup("".join(_costs(costs))) if costs.exists() else "",
        "notebooks": [(link(folder, page), page.stem) for page in section.notebooks],
        **shown(late=False),
        "late": shown(late=True),
        "runs": [
            (link(folder, path), path.parent.name)
            for pattern in ("*/manifest.json", "outputs/*/run.json")
            for path in (sorted((folder / part).glob(pattern)) if part not in NO_ARMS or part in _OTHERS else ())
        ],
    }


def _put_together(folder: Path) -> set[str]:
    """Return the parts that the joined tables and figures cover, by their records."""
    records = [read_json(path) for path in sorted((folder / "figures" / _ALL).glob("*.json"))]
    return {arm.partition("/")[0] for record in records for arm in record["inputs"].get("judgements", {})}


def _once(folder: Path, kind: str, part: str, ending: str) -> list[Path]:
    """List a part's tables or figures that no other part shows.

    Joined ones contain a tier's rows and bars, unless it was left out. Published values of all sizes are in one part.
    """
    together = part != _ALL and part in _put_together(folder)
    shared = {path.stem for path in (folder / kind / _ALL).glob(f"*{ending}")} if together else set()
    return [
        path
        for path in sorted((folder / kind / part).glob(f"*{ending}"), key=_number)
        if _RELEASED not in path.stem
        and (part == PUBLISHED or (path.stem not in shared and not path.stem.endswith("_published")))
    ]


def top_figures(folder: Path, *, released: bool) -> list[dict[str, Any]]:
    """List Figures 4, which shows most at a glance, 5 and 3: of the released benchmark, or of the run's tiers."""
    place = folder / "figures" / (PUBLISHED if released else _ALL)
    paths = (sorted(place.glob(f"figure{number}*{_RELEASED * released}.json")) for number in (4, 5, 3))
    return [_figure(folder, path) for own in paths for path in own[:1]]


def released_tables(folder: Path) -> list[dict[str, Any]]:
    """List the tables of the released benchmark, by their number in the paper."""
    paths = (folder / "tables" / PUBLISHED).glob(f"*{_RELEASED}*.html")
    return [_table(folder, path) for path in sorted(paths, key=_number)]


def field_section(folder: Path) -> dict[str, Any] | None:
    """Build the section on published results about BEAM, if the run has it."""
    pages = sorted(folder.glob(f"notebooks/{FIELD}/*.html"))
    shown = shown_section(folder, _Section(FIELD, pages, "What others published about BEAM"))
    answer = folder / "tables" / FIELD / _ANSWER
    answers = read_json(answer) if answer.exists() else {}
    lead = [figure for figure in shown["figures"] if figure["csv"].endswith("/field_systems.csv")]
    shown |= {"lead": lead, "figures": [figure for figure in shown["figures"] if figure not in lead]}
    shown["answer"] = {tier: answers[tier] for tier in sorted(answers, key=tier_order)}
    return shown if pages or shown["tables"] or shown["figures"] else None


def _number(path: Path) -> tuple[int, bool, str]:
    """Sort key: number in the paper; this run's before the published one."""
    return int("".join(re.findall(r"\d+", path.stem)[:1]) or 0), "published" in path.stem, path.stem


def link(folder: Path, path: Path) -> str:
    """Return a relative link to a file of the run; its name may contain any of # ? % :"""
    return quote(os.fsencode(path.relative_to(folder).as_posix()))


def _table(folder: Path, path: Path) -> dict[str, Any]:
    others = [path.with_suffix(suffix) for suffix in (".csv", ".md")]
    # Whoever wrote the file: what is not of a table is shown as text.
    text = bleach.clean(read_text(path), tags=_TAGS, attributes=_ATTRIBUTES)
    caption = _CAPTION.search(text)
    return {
        "title": Markup(caption[1]).striptags() if caption else path.stem.replace("_", " "),
        "html": Markup(text),
        "links": [(link(folder, other), other.suffix[1:]) for other in others if other.exists()],
    }


_FIGURE_FILES = ("pdf", "csv", "json")


def _figure(folder: Path, path: Path) -> dict[str, Any]:
    record = read_json(path)
    files = {suffix: link(folder, path.with_suffix(f".{suffix}")) for suffix in _FIGURE_FILES}
    width, height = _pixels(path.with_suffix(".png"))
    return {
        **files,
        "image": link(folder, path.with_suffix(".svg")),
        "caption": record["caption"],
        "alt": record["alt_text"],
        "wide": width > 2 * height,
        "width": width,
        "height": height,
    }


def _pixels(image: Path) -> tuple[int, int]:
    """Read the width and height of a PNG."""
    width, height = struct.unpack(">II", image.read_bytes()[16:24])
    return int(width), int(height)
