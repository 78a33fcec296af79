"""What the audit of the paper's claims counts, as facts (`beamlib.report.facts`)."""

from __future__ import annotations

from functools import cache
from typing import cast

from beam_claims.engine import ClaimResult, audit, status_counts, total_line
from beam_claims.gains import outside_range
from beam_claims.values import Tables
from beamlib.data.published import Paper
from beamlib.errors import UserError
from beamlib.report.facts import fact

CLAIMS = "beamlib/data/published/claims.json"


@cache
def _audited(paper: str) -> tuple[ClaimResult, ...]:
    return tuple(audit(paper=cast(Paper, paper)))


@fact("claims.total", unit="claims", source=CLAIMS, command="beamlib claims")
def total(paper: str = "v2") -> int:
    """Claims of a version of the paper."""
    return len(_audited(paper))


@fact("claims.hold", unit="claims", source=CLAIMS, command="beamlib claims")
def hold(paper: str = "v2") -> int:
    """Claims that hold on the paper's own tables, some of them within rounding."""
    counts = status_counts(_audited(paper))
    return counts["holds"] + counts["holds within rounding"]


@fact("claims.status", unit="claims", source=CLAIMS, command="beamlib claims", examples=("differs",))
def with_status(status: str, paper: str = "v2") -> int:
    """Claims of one status: "holds", "holds within rounding", "differs" or "cannot be checked"."""
    counts = status_counts(_audited(paper))
    if status not in counts:
        raise UserError(f"fact: claims have no status {status!r}; choose from {', '.join(counts)}.")
    return counts[status]


@fact("claims.line", unit="line", source=CLAIMS, command="beamlib claims")
def line(paper: str = "v2") -> str:
    """The last line of `beamlib claims`."""
    return total_line(_audited(paper))


@fact("claims.range", unit="cells", source=CLAIMS, command="beamlib claims")
def outside() -> str:
    """Cells of Table 1 in which the gain of LIGHT lies outside the headline range."""
    lying, cells = outside_range(Tables())
    return f"{lying} of {cells}"
