"""Build the table of estimated and realised costs, and keep the files that it is built from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from beam_commands.costs import COST_STAGES, Estimate, RealisedRow, pending_line, realised, since
from beam_commands.estimate import estimate_path, read_estimate
from beamlib.evaluate.beam_records import FROM_ARCHIVE
from beamlib.files import read_json, write_json
from beamlib.llm.call_store import stated_costs
from beamlib.llm.exchange import Basis
from beamlib.report.table import Table
from beamlib.report.tables import NOTHING
from beamlib.run import Run
from beamlib.text import count, money

_LABELS = {
    "calls": "calls",
    "input_tokens": "input tokens",
    "cached_tokens": "cached tokens",
    "output_tokens": "output tokens",
    "dollars": "US dollars",
}
"""Fields that an estimate and a run have in common, and their names in the table."""

_ONE_SIDED = {"held": "calls held", "failures": "failures", "seconds": "seconds waited"}
"""Fields of the estimate, or of the run, alone."""

TOTAL = "total"


def cost_table(estimate: Estimate | None, spent: Sequence[RealisedRow], basis: Basis = Basis.REPORTED) -> Table:
    """Build a table of the estimate, of the calls since then, or of both; `spent` are all stored calls.

    `basis` is that of their token counts: the servers' own, or of calls among them that came from an archive.

    One row per stage and role, the total last. Of the reader's calls, those of the estimate's backbone are counted:
    backbones share the stores.
    """
    made = list(spent)
    if estimate is not None:
        readers = {row.model for row in estimate.rows if row.role.startswith("reader")}
        new = since(spent, estimate.before or ())
        made = [row for row in new if not row.role.startswith("reader") or row.model in readers]
    lead = ["stage", "role", "model"]
    sides = {"estimated": estimate.rows if estimate else (), "realised": made}
    shown = [side for side, rows in sides.items() if rows or (side == "estimated" and estimate is not None)]
    # The total has a group of its own, which is sorted behind the stages.
    records = [
        {"side": side, "place": place} | names | {name: getattr(row, name, None) for name in (*_LABELS, *_ONE_SIDED)}
        for side in shown
        for row in sides[side]
        for place, names in (
            (COST_STAGES.index(row.stage), {name: getattr(row, name) for name in lead}),
            (len(COST_STAGES), dict.fromkeys(lead, "") | {"stage": TOTAL}),
        )
    ]
    values = [*_LABELS, *_ONE_SIDED]
    rows = pd.DataFrame(records, columns=["side", "place", *lead, *values])
    rows[values] = rows[values].astype(float)
    groups = rows.groupby(["place", *lead, "side"])[values]
    complete = groups.count().eq(groups.size(), axis=0)  # no sum of dollars where a price is missing
    sums = groups.sum().where(complete).unstack("side")
    columns = {f"{label} {side}": (name, side) for name, label in _LABELS.items() for side in shown}
    columns |= {_ONE_SIDED["held"]: ("held", "estimated")} if "estimated" in shown else {}
    columns |= {_ONE_SIDED[name]: (name, "realised") for name in ("failures", "seconds") if "realised" in shown}
    frame = pd.DataFrame({label: sums.get(column) for label, column in columns.items()}, index=sums.index)
    frame = frame.reset_index().drop(columns="place")
    frame = frame.astype({label: "Int64" for label in columns if not label.startswith(("US dollars", "seconds"))})
    cells = pd.DataFrame({name: [_cell(str(name), value) for value in frame[name]] for name in frame})
    notes = tuple(_notes(estimate, made, spent, basis))
    return Table(_title(estimate, shown), cells, notes, kind="costs", names=len(lead), csv=frame, frame=frame)


def _cell(column: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return NOTHING
    return money(value) if column.startswith("US dollars") else f"{value:,.0f}"


def _title(estimate: Estimate | None, shown: Sequence[str]) -> str:
    where = f"{estimate.size}, {estimate.backbone}: " if estimate is not None and estimate.backbone else ""
    if "realised" not in shown:
        return f"{where}what is left to call"
    return where + ("estimated cost and what was called since" if "estimated" in shown else "what was called")


def _notes(
    estimate: Estimate | None, made: Sequence[RealisedRow], spent: Sequence[RealisedRow], basis: Basis
) -> Iterator[str]:
    if estimate is not None:
        yield f"Estimate: {pending_line(estimate).rstrip('.')}."
        yield from estimate.bases()
        yield from estimate.warnings
        if estimate.pending and made:
            yield from _comparison(estimate, made)
    if spent:
        unpriced = sorted({row.model for row in spent if row.dollars is None})
        dollars, estimated = (sum(getattr(row, name) or 0 for row in spent) for name in ("dollars", "estimated"))
        known = f"at least {money(dollars)}" if dollars else "an unknown sum"
        cost = known if unpriced else f"{money(dollars)}{' (estimated)' if estimated else ''}"
        yield f"The stores of this tier hold {count(sum(row.calls for row in spent), 'call')}, which cost {cost}."
        claimed = basis is Basis.CLAIMED
        yield f"{'Calls of an archive are among them. ' if claimed else ''}{stated_costs(claimed=claimed)}."
        if estimated:
            yield f"The endpoint left tokens out of {count(estimated, 'reply', 'replies')}: estimated by our counter."
        if unpriced:
            yield f"No price is known for {', '.join(unpriced)}: the models file names no price, or not the model."


def _comparison(estimate: Estimate, made: Sequence[RealisedRow]) -> Iterator[str]:
    """Yield sentences on how far the estimate was off; `made` are the calls since then."""
    calls = sum(row.calls for row in made)
    if calls != estimate.pending:
        yield f"{count(calls, 'call')} were made where {estimate.pending:,} were estimated."
    priced = estimate.dollars and not estimate.unpriced and all(row.dollars is not None for row in made)
    if priced and (dollars := sum(row.dollars or 0.0 for row in made)):
        share = estimate.dollars / dollars - 1
        verdict = f"{abs(share):.0%} too {'high' if share > 0 else 'low'}" if abs(share) >= 0.005 else "right"
        counted = " (estimated)" if any(row.estimated for row in made) else ""
        yield f"They cost {money(dollars)}{counted}; the estimate of {money(estimate.dollars)} was {verdict}."
    if any(row.cached_tokens for row in estimate.rows) and not any(row.cached_tokens for row in made):
        yield (
            "The endpoints reported no cached input (vLLM does so only with --enable-prompt-tokens-details), so all of "
            "it is priced as fresh."
        )


def save_costs(run: Run) -> Path | None:
    """Write `costs.json` into the run's part: its estimate and the stored calls.

    Returns None where there is neither, as for the offline stand-in.
    """
    estimate, spent = read_estimate(run), realised(run)
    if estimate is None and not spent:
        return None
    value: dict[str, Any] = {
        "estimate": estimate and estimate.model_dump(mode="json"), "realised": [row.model_dump() for row in spent],
    }  # fmt: skip
    if (run.folder / FROM_ARCHIVE).exists():
        value["basis"] = Basis.CLAIMED
    return write_json(estimate_path(run).with_name("costs.json"), value)


def read_costs(value: Mapping[str, Any]) -> Table:
    """Build the table of a `costs.json`."""
    estimate = value["estimate"] and Estimate.model_validate(value["estimate"])
    basis = Basis(value.get("basis", Basis.REPORTED))
    return cost_table(estimate, [RealisedRow.model_validate(row) for row in value["realised"]], basis)


def costs_in_words(run: Run) -> str:
    """Save the costs and return their table as text; empty where nothing was called or estimated."""
    path = save_costs(run)
    return read_costs(read_json(path)).to_text() if path is not None else ""
