"""The engine of claims: what a paper's text says, recomputed from its tables and from other evidence.

A file in `beamlib/data/published` declares the claims of a paper and the formula of each. `PaperClaims` joins it with
the modules of those formulas; `BEAM_CLAIMS` is that of the BEAM paper: `gains` (Table 1), `studies` (Tables 8, 9, 10
and single cells), `shape` (sizes, counts, ratings). The four statuses:

holds                  the printed inputs give the printed figure by ordinary rounding, or the comparison is true
holds within rounding  the figure is cut instead of rounded, or lies in the range that three-decimal inputs allow
differs                neither, or the comparison fails for some cells
cannot be checked      a setting, an outside fact or a figure that was lost; the note gives the reason
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict
from rich.console import Console
from rich.table import Table
from rich.text import Text

from beam_claims import gains, shape, studies
from beam_claims.values import STATUSES, Status, Tables, unchecked
from beamlib.files import read_json
from beamlib.report.table import markdown_table


class ClaimResult(BaseModel):
    """One claim after the audit.

    `source` is what its formula looked at; `recomputed` consists of JSON types, in the unit of the printed figure.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    section: str
    claim: str
    source: str
    printed: str
    recomputed: Any
    status: Status
    note: str


@dataclass(frozen=True)
class PaperClaims:
    """The claims of a paper.

    `file` declares them, `source` is the field with what a claim's formula looks at, and `modules` are the modules of
    formulas by their name in the file.
    """

    file: str
    source: str
    modules: Mapping[str, ModuleType]

    def declared(self) -> list[dict[str, Any]]:
        """Return the claims as packaged: id, section, claim, printed, formula, parameters, status and source."""
        claims: list[dict[str, Any]] = read_json(Path(str(files("beamlib.data.published") / self.file)))
        return claims

    def audit(
        self, evidence: Any, missing: Callable[[Mapping[str, Any]], str] = lambda claim: "", about: str = ""
    ) -> list[ClaimResult]:
        """Recompute every claim from `evidence`, in order; the stored status is not read.

        Args:
            evidence: What the formulas of this paper take.
            missing: Returns why a claim cannot be checked with this evidence, "" if it can.
            about: Recompute only the claims whose source names this.
        """
        results = []
        named = re.compile(rf"{re.escape(about)}\b")  # "Table 1" is not "Table 10"
        for claim in (claim for claim in self.declared() if named.search(claim[self.source])):
            module, function = claim["formula"].split(".")
            formula = getattr(self.modules[module], function)
            reason = missing(claim)
            outcome = unchecked(reason) if reason else formula(evidence, claim["printed"], **claim["parameters"])
            stated = {name: claim[name] for name in ("id", "section", "claim", "printed")}
            results.append(ClaimResult(**stated, source=claim[self.source], **asdict(outcome)))
        return results


BEAM_CLAIMS = PaperClaims(
    "claims.json", "source", {"gains": gains, "search": gains, "shape": shape, "studies": studies}
)


def audit(replaced: Mapping[str, pd.DataFrame] | None = None, *, about: str = "") -> list[ClaimResult]:
    """Recompute every claim of the BEAM paper from its published tables, or those `about` one of them ("Table 9").

    `replaced` frames take the place of published tables (`beamlib.data.published.FILES`), to show what another value
    would change. Raises `UserError` for a table that does not exist.
    """
    return BEAM_CLAIMS.audit(Tables(replaced), about=about)


def status_counts(results: Sequence[ClaimResult]) -> dict[Status, int]:
    """Count the claims of each status, in the order of `STATUSES`."""
    return {status: sum(result.status == status for result in results) for status in STATUSES}


def compact_value(value: Any) -> str:
    """Write a recomputed value on one line."""
    if value is None:
        return "–"
    if isinstance(value, dict):
        return "; ".join(f"{key}: {compact_value(item)}" for key, item in value.items())
    if isinstance(value, list):
        return f"[{', '.join(map(compact_value, value))}]"
    return str(value)


def _total_line(results: Sequence[ClaimResult]) -> str:
    counts = ", ".join(f"{count} {status}" for status, count in status_counts(results).items())
    return f"{len(results)} claims: {counts}."


_HEADINGS = ("id", "section", "claim", "printed", "recomputed", "status", "note")
_COLOURS: Mapping[Status, str] = {
    "holds": "green",
    "holds within rounding": "cyan",
    "differs": "red",
    "cannot be checked": "bright_black",
}


def _cells(result: ClaimResult) -> list[str]:
    values = (result.id, result.section, result.claim, result.printed, result.recomputed, result.status, result.note)
    return [compact_value(value) for value in values]


def render_claims(results: Sequence[ClaimResult], width: int = 120) -> str:
    """Return the audit as text for the terminal, totals last; coloured on a terminal."""
    table = Table(title="Claims of the paper, recomputed from its tables", show_lines=True, expand=True)
    for heading, share in {"id": 0, "claim, section, note": 5, "printed": 2, "recomputed": 3, "status": 2}.items():
        table.add_column(heading, overflow="fold", no_wrap=not share, ratio=share or None)
    for result in results:
        identity, section, claim, printed, recomputed, status, note = _cells(result)
        text = Text(claim).append(f" ({section})", "dim").append(f"\n{note}" if note else "", "dim")
        table.add_row(identity, text, Text(printed), Text(recomputed), Text(status, _COLOURS[result.status]))
    buffer = StringIO()
    console = Console(file=buffer, width=width, force_terminal=sys.stdout.isatty())
    console.print(table)
    return f"{buffer.getvalue()}{_total_line(results)}"


def markdown(results: Sequence[ClaimResult]) -> str:
    """Return the audit as a Markdown table with its totals."""
    return markdown_table(_HEADINGS, [_cells(result) for result in results], footer=[_total_line(results)])
