"""Build the table of estimated and realised costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from beam_run.costs import STAGES, Estimate, RealisedRow, Row, pending_line, realised, since
from beam_run.estimate import estimate_path, save, saved
from beamlib.evaluate.calling import run_path
from beamlib.files import read_json, write_json
from beamlib.params import RunParameters
from beamlib.report.table import Table
from beamlib.report.tables import NOTHING
from beamlib.text import count, money

MEASURES = {
    "calls": "calls",
    "input_tokens": "input tokens",
    "cached_tokens": "cached tokens",
    "output_tokens": "output tokens",
    "dollars": "US dollars",
}
"""Fields of the rows that an estimate and a run have in common, and their names in the table."""

TOTAL = "total"
AGREED = "estimate.agreed.json"
"""File of a tier's confirmed estimate, until the tier begins."""


def _cell(column: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None or pd.isna(value):
        return NOTHING
    return money(value) if column.startswith("US dollars") else f"{value:,.0f}"


def cost_table(found: Estimate | None, spent: Sequence[RealisedRow], *, by_step: bool = False) -> Table:
    """Build a table of the estimate, of the calls since then, or of both; `spent` are all stored calls.

    One row per stage and role, with `by_step` per step, the total last. Of the reader's calls, those of the estimate's
    backbone are counted: backbones share the stores.
    """
    realised_rows = list(spent)
    if found is not None:
        pairs = {(role.role, role.model) for role in found.roles}
        new = since(spent, found.before)
        realised_rows = [row for row in new if not row.role.startswith("reader") or (row.role, row.model) in pairs]
    groups: dict[tuple[str, ...], dict[str, list[Row]]] = {}
    sides: dict[str, Sequence[Row]] = {"estimated": found.rows if found else (), "realised": realised_rows}
    lead = ["stage", "role", "step", "model"] if by_step else ["stage", "role", "model"]
    for side, rows in sides.items():
        for row in rows:
            names = tuple(getattr(row, name) for name in lead)
            groups.setdefault(names, {}).setdefault(side, []).append(row)
    shown = [side for side, rows in sides.items() if rows or (side == "estimated" and found is not None)]
    ordered = sorted(groups, key=_order)
    body = [dict(zip(lead, names, strict=True)) | _numbers(groups[names], shown) for names in ordered]
    total = dict.fromkeys(lead, "") | {"stage": TOTAL} | _numbers({side: list(sides[side]) for side in shown}, shown)
    frame = pd.DataFrame([*body, total], columns=list(total))
    cells = pd.DataFrame({name: [_cell(str(name), value) for value in frame[name]] for name in frame})
    notes = tuple(_notes(found, realised_rows, spent))
    return Table(_title(found, shown), cells, notes, kind="costs", names=len(lead), csv=frame, frame=frame)


def _order(names: Sequence[str]) -> tuple[int, Sequence[str]]:
    return [str(stage) for stage in STAGES].index(names[0]), names


def _numbers(sides: Mapping[str, Sequence[Row]], shown: Sequence[str]) -> dict[str, float | None]:
    """Return one row's numbers: each measure estimated and realised, then what only one side has."""
    values: dict[str, float | None] = {}
    for name, label in MEASURES.items():
        for side in shown:
            values[f"{label} {side}"] = _sum(sides.get(side, ()), name)
    if "estimated" in shown:
        values["calls held"] = _sum(sides.get("estimated", ()), "held")
    if "realised" in shown:
        values["failures"] = _sum(sides.get("realised", ()), "failures")
        values["seconds waited"] = _sum(sides.get("realised", ()), "seconds")
    return values


def _sum(rows: Sequence[Row], name: str) -> float | None:
    """Sum over `rows`; None where there is none, or a price is missing."""
    values = [getattr(row, name) for row in rows]
    return None if not values or None in values else sum(values)


def _title(estimate: Estimate | None, shown: Sequence[str]) -> str:
    where = f"{estimate.size}, {estimate.backbone}: " if estimate is not None and estimate.calls_models else ""
    if "realised" not in shown:
        return f"{where}what is left to call"
    return where + ("estimated cost and what was called since" if "estimated" in shown else "what was called")


def _notes(
    estimate: Estimate | None, realised_rows: Sequence[RealisedRow], spent: Sequence[RealisedRow]
) -> Iterator[str]:
    if estimate is not None:
        yield f"Estimate: {pending_line(estimate).rstrip('.')}."
        yield from estimate.bases()
        yield from estimate.warnings
        if estimate.pending and realised_rows:
            yield from comparison(estimate, realised_rows)
    if spent:
        unpriced = sorted({row.model for row in spent if row.dollars is None})
        dollars = sum(row.dollars or 0.0 for row in spent)
        known = f"at least {money(dollars)}" if dollars else "an unknown sum"
        cost = known if unpriced else money(dollars)
        yield f"The stores of this tier hold {count(sum(row.calls for row in spent), 'call')}, which cost {cost}."
        if unpriced:
            yield f"No price is known for {', '.join(unpriced)}: the models file names no price, or not the model."


def comparison(estimate: Estimate, realised_rows: Sequence[RealisedRow]) -> Iterator[str]:
    """Yield sentences on how far the estimate was off; `realised_rows` are the calls since then."""
    calls = sum(row.calls for row in realised_rows)
    if calls != estimate.pending:
        yield f"{count(calls, 'call')} were made where {estimate.pending:,} were estimated."
    dollars = _sum(realised_rows, "dollars")
    if dollars and estimate.dollars and not estimate.unpriced:
        share = estimate.dollars / dollars - 1
        verdict = f"{abs(share):.0%} too {'high' if share > 0 else 'low'}" if abs(share) >= 0.005 else "right"
        yield f"They cost {money(dollars)}; the estimate of {money(estimate.dollars)} was {verdict}."
    if any(row.cached_tokens for row in estimate.rows) and not any(row.cached_tokens for row in realised_rows):
        yield (
            "The endpoints reported no cached input (vLLM does so only with --enable-prompt-tokens-details), so all of "
            "it is priced as fresh."
        )


def save_costs(parameters: RunParameters) -> Path | None:
    """Write `costs.json` into the run's part: its estimate and the stored calls.

    Returns None where there is neither, as for the offline stand-in.
    """
    estimate, spent = saved(parameters), realised(parameters)
    if estimate is None and not spent:
        return None
    value = {"estimate": estimate and estimate.model_dump(mode="json"), "realised": [row.model_dump() for row in spent]}
    return write_json(estimate_path(parameters).with_name("costs.json"), value)


def read_costs(value: Mapping[str, Any]) -> Table:
    """Build the table of a `costs.json`."""
    estimate = value["estimate"] and Estimate.model_validate(value["estimate"])
    return cost_table(estimate, [RealisedRow.model_validate(row) for row in value["realised"]])


def spent(parameters: RunParameters) -> str:
    """Save the costs and return their table as text; empty where nothing was called or estimated."""
    path = save_costs(parameters)
    return read_costs(read_json(path)).to_text() if path is not None else ""


def keep_agreed(estimate: Estimate, parameters: RunParameters) -> None:
    """Store a confirmed estimate until its tier begins."""
    write_json(run_path(parameters, AGREED), estimate.model_dump(mode="json"))


def begin_on_estimate(parameters: RunParameters) -> None:
    """Take the confirmed estimate as that of the beginning tier; calls of earlier backbones are subtracted."""
    path = run_path(parameters, AGREED)
    if path.exists():
        estimate = Estimate.model_validate(read_json(path))
        before = () if parameters.calls == "refresh" else tuple(realised(parameters))
        save(estimate.model_copy(update={"before": before}), parameters)
        path.unlink()
