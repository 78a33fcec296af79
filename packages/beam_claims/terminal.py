"""Choose claims, and show them on the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from beam_claims.engine import ClaimResult, claim_cells, total_line
from beam_claims.values import STATUSES, Status
from beamlib.errors import UserError

_COLOURS: Mapping[Status, str] = {
    "holds": "green",
    "holds within rounding": "cyan",
    "differs": "red",
    "cannot be checked": "bright_black",
}


def select(results: Sequence[ClaimResult], table: str = "", section: str = "", status: str = "") -> list[ClaimResult]:
    """Return the claims on a table, of a section and of a status; an empty text chooses all.

    Raises:
        UserError: No claim has the status, or none is left.
    """
    if status and status not in STATUSES:
        raise UserError(f"--status is {status!r}; choose from {', '.join(STATUSES)}.")
    number = re.compile(rf"\bTables? (?:\d+(?:, | and | to |-))*{re.escape(table.strip())}\b")
    sections = re.compile(rf"(?:^|; ?){re.escape(section.strip())}(?![\w])")
    chosen = [
        result
        for result in results
        if (not table or number.search(f"{result.source}; {result.claim}"))
        and (not section or sections.search(result.section))
        and (not status or result.status == status)
    ]
    if not chosen:
        filters = {"--table": table, "--section": section, "--status": status}
        words = " ".join(f"{option} {value!r}" for option, value in filters.items() if value)
        raise UserError(f"no claim fits {words}; leave an option out, or choose another value.")
    return chosen


def render_claims(results: Sequence[ClaimResult], width: int = 80) -> str:
    """Return the audit as text for the terminal, totals last; coloured on a terminal."""
    table = Table(title="Claims of the paper, recomputed from its tables", show_lines=True, expand=True)
    for heading, share in {"id": 0, "claim, section, note": 5, "printed": 2, "recomputed": 3, "status": 2}.items():
        table.add_column(heading, overflow="fold", no_wrap=not share, ratio=share or None)
    for result in results:
        identity, section, claim, printed, recomputed, status, note = claim_cells(result)
        text = Text(claim).append(f" ({section})", "dim").append(f"\n{note}" if note else "", "dim")
        table.add_row(identity, text, Text(printed), Text(recomputed), Text(status, _COLOURS[result.status]))
    buffer = StringIO()
    console = Console(file=buffer, width=width, force_terminal=sys.stdout.isatty())
    console.print(table)
    return f"{buffer.getvalue()}{total_line(results)}"
