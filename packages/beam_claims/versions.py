"""What the published paper changed in the submission (`beamlib claims --versions`), and its indexes, measured."""

from __future__ import annotations

from importlib.resources import files

import pandas as pd

from beam_claims.engine import BEAM_CLAIMS, ClaimResult, audit
from beamlib.data.published import PAPERS, changed_cells, table
from beamlib.files import read_json
from beamlib.places import ROOT
from beamlib.report.table import markdown_table
from beamlib.text import count

_OPENING = """# The paper's two versions

Made by `.venv/bin/beamlib claims --versions > docs/paper-versions.md` from `beamlib/data/published`. `v1` is the
anonymous submission, `v2` the published paper (ICLR 2026, arXiv 2510.27246v2). Tables, figures and claims show v2; the
setting `paper: v1` shows the other.
"""


def versions_page() -> str:
    """Write the page: the cells that differ, the claims that differ with both verdicts, and what is new."""
    cells = changed_cells()
    rows = [list(map(str, row)) for row in cells.itertuples(index=False)]
    marks = table("bold_marks")
    parts = [
        _OPENING,
        f"## {count(len(cells), 'cell')} of Tables 8, 9 and 10\n",
        "All other cells of Tables 1 to 10 are equal.\n",
        markdown_table(list(cells.columns), rows),
        "\n## Claims of the text\n",
        "What each version prints, and what its own tables give. A dash: the version does not state it.\n",
        markdown_table(["id", "section", "v1 claims", "v1 verdict", "v2 claims", "v2 verdict"], _changed_claims()),
        "\n## New in v2\n",
        f"Tables 11 (two embedding models), 12 (two indexes) and 13 (ReadAgent); {len(marks)} bold marks "
        f"({', '.join(f'{number} of {name}' for name, number in marks['table'].value_counts(sort=False).items())}); "
        "agreement of annotators; appendix G on how LIGHT fails. The listings moved from appendix G to H.",
    ]
    return "\n".join(parts) + "\n"


def _changed_claims() -> list[list[str]]:
    """Return a row for each claim that the versions do not state alike, or that their tables judge otherwise."""
    results = {paper: {result.id: result for result in audit(paper=paper)} for paper in PAPERS}
    packaged = read_json(ROOT / "beamlib/data/published" / BEAM_CLAIMS.file)
    named = [claim["id"] for claim in packaged if set(PAPERS) & claim.keys()]
    rows = []
    for name in named:
        before, after = (results[paper].get(name) for paper in ("v1", "v2"))
        if _said(before) != _said(after):
            section = (after or before).section  # type: ignore[union-attr]
            rows.append([name, section, *_said(before), *_said(after)])
    return rows


def _said(result: ClaimResult | None) -> tuple[str, str]:
    return ("–", "–") if result is None else (f"{result.claim}: {result.printed}", result.status)


def measured_indexes() -> pd.DataFrame:
    """Average by size what a flat and an HNSW index find, and how long they take (`benchmarks/hnsw.py`)."""
    measured = pd.read_csv(str(files("beamlib.data.measured") / "hnsw.csv"))
    sizes = measured.pop("conversation").str.partition("-")[0]
    averages = measured.groupby(sizes, sort=False).mean().round(3).rename_axis("size")
    averages.insert(0, "conversations", sizes.value_counts())
    return averages
